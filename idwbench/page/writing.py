"""`write_page`: a results database as one HTML file."""

from __future__ import annotations

from collections.abc import Collection
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from idwbench.files import check_output, write_file
from idwbench.machine import require_package

if TYPE_CHECKING:
    from idwbench.results.store import Results

__all__ = ["TOP", "write_page"]

TOP = 500  # rows of a leaderboard
_EXTRA = {"altair": "html", "jinja2": "html", "vl_convert": "html"}


def write_page(
    results: Results,
    path: str | PathLike[str],
    name: str | None = None,
    *,
    methods: Collection[str] = (),
    prototypes: Collection[int] = (),
    metric: str | None = None,
    top: int = TOP,
    data_dir: Path | None = None,
    overwrite: bool = False,
) -> Path:
    """Write one HTML file with the leaderboards, curves, heat maps, prototypes, patches and claims of a database.

    The file needs no network and no other file. What the database has no runs for is left out.

    Args:
        results: The database.
        path: The file to write.
        name: A sweep or data set; all of the database if not given.
        methods: Only runs of these methods, if any are given.
        prototypes: Only runs with these numbers of prototypes, if any are given.
        metric: The metric of leaderboards; that of the task if not given.
        top: The largest number of rows of a leaderboard.
        data_dir: Folder of the image archives, for the training images that are nearest to keys.
        overwrite: Whether the file may be replaced.

    Returns:
        The path of the file.

    Raises:
        ConfigError: unknown name, method or metric, or no run is left.
        OutputError: a package of the extra ``html`` is missing, the file exists and may not be overwritten, or it
            cannot be written.
    """
    for package, extra in _EXTRA.items():
        require_package(package, extra)
    target = Path(path)
    check_output(target, overwrite=overwrite)
    from idwbench.page.content import page_content
    from idwbench.page.rendering import render_page

    content = page_content(
        results, name, methods=methods, prototypes=prototypes, metric=metric, top=top, data_dir=data_dir
    )
    write_file(target, render_page(content).encode(), overwrite=overwrite)
    return target

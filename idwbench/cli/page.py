"""`idwbench report --html`: a results database as one HTML file."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from idwbench.cli.echo import echo

__all__ = ["write_html"]


def write_html(
    db: str,
    path: Path,
    name: str | None,
    methods: Collection[str],
    prototypes: Collection[int],
    metric: str | None,
    top: int | None,
    data_dir: Path | None,
    *,
    force: bool,
) -> None:
    """Write the page and print its name."""
    from idwbench.page.writing import TOP, write_page
    from idwbench.results.store import Results
    from idwbench.training.threads import limited_threads

    with limited_threads(1):
        written = write_page(
            Results(db, read_only=True),
            path,
            name,
            methods=methods,
            prototypes=prototypes,
            metric=metric,
            top=top or TOP,
            data_dir=data_dir,
            overwrite=force,
        )
    echo(str(written))

"""`write_page`: a results database as one HTML file."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from idwbench.files import check_output, write_file
from idwbench.machine import require_package

if TYPE_CHECKING:
    from idwbench.page.groups import RunGroup
    from idwbench.page.parts import Part
    from idwbench.results.store import Results

__all__ = ["TOP", "Claims", "PageContent", "page_content", "write_page"]

TOP = 500  # rows of a leaderboard
_EXTRA = {"altair": "html", "jinja2": "html", "vl_convert": "html"}
_MOST_RUNS_FOR_CLAIMS = 50_000
_BUDGET = 3_600_000  # characters of the sections of all groups, so that a page stays below 5 MB
_HEAD = 20  # rows of the leaderboards beyond it
_LEFT_OUT = "Curves and pictures of this sweep are left out, to keep the page small. A page of it alone has them."
# Kinds of runs with a section of their own, which has few of them.
_OTHERS, _MOST_OTHERS = ("patch_study", "mlp"), 500


@dataclass(frozen=True)
class Claims:
    """The claims, each as texts by column, and notes."""

    rows: tuple[Mapping[str, str], ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class PageContent:
    """All of a page.

    Attributes:
        title: The database, or the sweep or data set.
        groups: Groups of runs with their sections, in the order of the page.
        claims: The claims; None if no run bears on one, or a sweep or data set was selected.
        claims_note: Why there are none, or an empty text.
    """

    title: str
    groups: tuple[tuple[RunGroup, tuple[Part, ...]], ...]
    claims: Claims | None = None
    claims_note: str = ""


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
    from idwbench.page.rendering import render_page

    content = page_content(
        results, name, methods=methods, prototypes=prototypes, metric=metric, top=top, data_dir=data_dir
    )
    write_file(target, render_page(content).encode(), overwrite=overwrite)
    return target


def page_content(
    results: Results,
    name: str | None = None,
    *,
    methods: Collection[str] = (),
    prototypes: Collection[int] = (),
    metric: str | None = None,
    top: int = TOP,
    data_dir: Path | None = None,
) -> PageContent:
    """Return what `write_page` shows; it raises the same errors."""
    from idwbench.page.groups import find_groups

    groups = find_groups(results, name, methods, prototypes)
    shown = tuple(_with_parts(results, groups, metric, top, data_dir))
    if name is not None or methods or prototypes:
        return PageContent(name or "Results", shown)
    if sum(len(group.runs) for group in groups) > _MOST_RUNS_FOR_CLAIMS:
        note = f"Claims are judged here for at most {_MOST_RUNS_FOR_CLAIMS:,} runs."
        return PageContent("Results", shown, claims_note=note)
    return PageContent("Results", shown, _claims(results))


def _with_parts(
    results: Results, groups: Sequence[RunGroup], metric: str | None, top: int, data_dir: Path | None
) -> Iterator[tuple[RunGroup, tuple[Part, ...]]]:
    """Yield the groups; of several, those from the first beyond `_BUDGET` have the head of their leaderboard alone."""
    from idwbench.page.groups import leaderboard_part
    from idwbench.page.parts import Part, size_of

    used = 0
    for group in groups:
        parts = tuple(_parts(results, group, metric, top, data_dir)) if used < _BUDGET else ()
        used += sum(map(size_of, parts))
        if used >= _BUDGET and len(groups) > 1:
            parts = (leaderboard_part(group, metric, min(top, _HEAD)), Part("more", "More", _LEFT_OUT))
        yield group, parts


def _parts(results: Results, group: RunGroup, metric: str | None, top: int, data_dir: Path | None) -> Iterator[Part]:
    from idwbench.page.attention import attention_part
    from idwbench.page.chosen import choose_grid, choose_runs, rank_settings
    from idwbench.page.curves import curves_part, heat_maps_part
    from idwbench.page.groups import leaderboard_part
    from idwbench.page.patches import patches_part
    from idwbench.page.prototypes import prototypes_part

    yield leaderboard_part(group, metric, top)
    ranked = rank_settings(group.runs)
    (chosen, others), (grid, other_grids) = choose_runs(ranked), choose_grid(ranked)
    is_other = [config.model.kind in _OTHERS for config in group.runs.config]
    studies = results.load_runs(group.runs.run_key[is_other].tolist()[:_MOST_OTHERS])
    found = (
        curves_part(results, results.load_runs(chosen), others),
        heat_maps_part(results, results.load_runs(grid), other_grids),
        prototypes_part(results, ranked, data_dir),
        patches_part(results, studies, data_dir),
        attention_part(results, studies, data_dir),
    )
    yield from filter(None, found)


def _claims(results: Results) -> Claims | None:
    """Return the claims of the paper and the open questions; None if no run of the database bears on one."""
    from idwbench.claims.verdicts import claims_table, judge_claims
    from idwbench.page.parts import sentences

    judgements = judge_claims(results)
    if not any(judgement.n and judgement.claim.sweeps for judgement in judgements):
        return None
    table = claims_table(judgements)
    names = [column.name for column in table.columns]
    rows = zip(*([cell.text for cell in column.cells] for column in table.columns), strict=True)
    return Claims(tuple(dict(zip(names, row, strict=True)) for row in rows), sentences(table.notes))

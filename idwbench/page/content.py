"""The content of a page: the sections of each group of runs, and the claims."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from idwbench.page.attention import attention_part
from idwbench.page.chosen import choose_grid, choose_runs, rank_settings
from idwbench.page.claims import Claims, find_claims
from idwbench.page.curves import curves_part, heat_maps_part
from idwbench.page.groups import RunGroup, find_groups, leaderboard_part
from idwbench.page.parts import Part, size_of
from idwbench.page.patches import patches_part
from idwbench.page.prototypes import prototypes_part

if TYPE_CHECKING:
    from idwbench.results.store import Results

__all__ = ["GroupContent", "PageContent", "page_content"]

_MOST_RUNS_FOR_CLAIMS = 50_000
_BUDGET = 3_600_000  # characters of the sections of all groups, so that a page stays below 5 MB
_HEAD = 20  # rows of the leaderboards beyond it
_LEFT_OUT = "Curves and pictures of this sweep are left out, to keep the page small. A page of it alone has them."
# Kinds of runs with a section of their own, which has few of them.
_OTHERS, _MOST_OTHERS = ("patch_study", "mlp"), 500


@dataclass(frozen=True)
class GroupContent:
    """A group of runs with its sections."""

    group: RunGroup
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class PageContent:
    """All of a page.

    Attributes:
        title: The database, or the sweep or data set.
        groups: The groups, in the order of the page.
        claims: The claims; None if no run bears on one, or a sweep or data set was selected.
        claims_note: Why there are none, or an empty text.
    """

    title: str
    groups: tuple[GroupContent, ...]
    claims: Claims | None = None
    claims_note: str = ""


def page_content(
    results: Results,
    name: str | None = None,
    *,
    methods: Collection[str] = (),
    prototypes: Collection[int] = (),
    metric: str | None = None,
    top: int,
    data_dir: Path | None = None,
) -> PageContent:
    """Return what `idwbench.page.writing.write_page` shows; it raises the same errors."""
    groups = find_groups(results, name, methods, prototypes, metric)
    made = tuple(_contents(results, groups, metric, top, data_dir))
    if name is not None or methods or prototypes:
        return PageContent(name or "Results", made)
    if sum(len(group.runs) for group in groups) > _MOST_RUNS_FOR_CLAIMS:
        note = f"Claims are judged here for at most {_MOST_RUNS_FOR_CLAIMS:,} runs."
        return PageContent("Results", made, claims_note=note)
    return PageContent("Results", made, find_claims(results))


def _contents(
    results: Results, groups: Sequence[RunGroup], metric: str | None, top: int, data_dir: Path | None
) -> Iterator[GroupContent]:
    """Yield the groups; of several, those from the first beyond `_BUDGET` have the head of their leaderboard alone."""
    used = 0
    for group in groups:
        parts = tuple(_parts(results, group, metric, top, data_dir)) if used < _BUDGET else ()
        used += sum(map(size_of, parts))
        if used >= _BUDGET and len(groups) > 1:
            parts = (leaderboard_part(group, metric, min(top, _HEAD)), Part("more", "More", _LEFT_OUT))
        yield GroupContent(group, parts)


def _parts(results: Results, group: RunGroup, metric: str | None, top: int, data_dir: Path | None) -> Iterator[Part]:
    yield leaderboard_part(group, metric, top)
    ranked = rank_settings(group.runs)
    chosen, grid = choose_runs(ranked), choose_grid(ranked)
    runs = results.load_runs(chosen.run_keys)
    others = results.load_runs([run.run_key for run in group.runs if run.setting.model.kind in _OTHERS][:_MOST_OTHERS])
    for part in (
        curves_part(results, runs, chosen.left_out),
        heat_maps_part(results.load_runs(grid.run_keys), grid.left_out),
        prototypes_part(results, ranked, data_dir),
        patches_part(results, others, data_dir),
        attention_part(results, others, data_dir),
    ):
        if part is not None:
            yield part

"""The limits in docs/reports.md are those of the page."""

from __future__ import annotations

from pathlib import Path

from idwbench.page import charts, chosen, content, patches, prototypes, writing

PAGE = (Path(__file__).parents[2] / "docs/reports.md").read_text(encoding="utf-8")


def test_the_limits_are_those_of_the_page() -> None:
    for limit in (
        f"{writing.TOP}, or `--top`",
        f"{chosen._OF_A_METHOD}; {chosen._OF_ONE_METHOD} if it is the only method",
        f"numbers of prototypes with curves | {chosen._COUNTS} |",
        f"{charts._POINTS}, evenly spaced",
        f"{prototypes._NETWORKS}, the best setting of each method; {prototypes._KEYS} keys of each",
        f"cases of patches | {patches._MOST} |",
        f"at most {content._MOST_RUNS_FOR_CLAIMS:,} runs",
        f"{content._BUDGET / 1e6:.1f} MB; later sweeps have the first {content._HEAD} rows",
    ):
        assert limit in PAGE

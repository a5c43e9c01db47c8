"""`write_paper`: the figures, tables and claims in one folder, with a page that shows them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from idwbench.errors import ConfigError, IdwbenchError
from idwbench.files import check_output, make_folder, write_file
from idwbench.paper.items import ITEMS, PaperItem
from idwbench.paper.runs import RUN_SETS, finished_runs
from idwbench.report.labels import count_label
from idwbench.results.records import StoredRun
from idwbench.results.store import Results

__all__ = ["Gap", "Paper", "write_paper"]


@dataclass(frozen=True)
class Gap:
    """What is missing or incomplete: a figure or table, the reason, and the sweep that trains the runs, if any."""

    name: str
    problem: str
    sweep: str | None


@dataclass(frozen=True)
class Paper:
    """The files written, and the gaps."""

    files: tuple[Path, ...]
    gaps: tuple[Gap, ...]


def write_paper(
    results: Results,
    folder: str | PathLike[str],
    *,
    figure_format: str = "png",
    data_dir: Path | None = None,
    overwrite: bool = False,
    on_item: Callable[[str], None] = lambda name: None,
    runs: Sequence[StoredRun] | None = None,
) -> Paper:
    """Write all figures, tables and claims of the paper that a database has runs for, and a page that shows them.

    A figure or table with fewer runs than its sweep is written and listed as a gap; one without runs is left out.

    Args:
        results: The database.
        folder: The folder to write to; it is created.
        figure_format: ``png``, ``svg`` or ``pdf``.
        data_dir: Folder of the image archives.
        overwrite: Whether files of an earlier call may be replaced.
        on_item: Called with the name of each figure or table before it is made.
        runs: The `finished_runs` of the database if they are read already.

    Raises:
        ConfigError: unknown format.
        OutputError: a file exists and may not be overwritten, or cannot be written.
    """
    if figure_format not in ("png", "svg", "pdf"):
        raise ConfigError(f"expected png, svg or pdf, got '{figure_format}'", location=("format",))
    target = Path(folder)
    make_folder(target)
    others = [target / name for name in ("claims.md", "claims.json", "README.md")]
    for path in [*(path for item in ITEMS for path in item.paths(target, figure_format)), *others]:
        check_output(path, overwrite=overwrite)
    finished = finished_runs(results) if runs is None else runs
    stored = {name: run_set.select(finished) for name, run_set in RUN_SETS.items()}
    files: list[Path] = []
    gaps = [
        Gap(name, f"{count_label(missing, 'run')} of {len(run_set.runs)} missing", name)
        for name, run_set in RUN_SETS.items()
        if (missing := run_set.n_missing(stored[name]))
    ]
    made: list[tuple[PaperItem, Path]] = []
    for item in ITEMS:
        on_item(item.name)
        try:
            written = _write_item(item, results, stored, item.paths(target, figure_format), data_dir)
        except IdwbenchError as error:
            gaps.append(Gap(item.name, error.problem, item.sweep))
        else:
            files += written
            made.append((item, written[0]))
    on_item("claims")
    files += _write_claims(results, finished, target)
    files.append(target / "README.md")
    write_file(files[-1], _page(made, gaps).encode(), overwrite=True)
    return Paper(tuple(files), tuple(gaps))


def _write_item(
    item: PaperItem,
    results: Results,
    stored: Mapping[str, list[StoredRun]],
    paths: list[Path],
    data_dir: Path | None,
) -> list[Path]:
    """Write the files of an item and return their paths."""
    runs = stored[item.sweep] if item.sweep is not None else []
    if item.sweep is not None and not runs:
        raise ConfigError("no runs")
    if item.figure is not None:
        from idwbench.figures.drawing import save_figure
        from idwbench.figures.stored import stored_drawing

        save_figure(stored_drawing(item.figure, results, runs, data_dir).figure, paths[0], overwrite=True)
        return paths
    from idwbench.report.formats import render
    from idwbench.report.layout import Printable
    from idwbench.report.leaderboard import leaderboard
    from idwbench.report.summaries import summarise

    report: Printable
    if item.ranked is not None:
        report = leaderboard(runs, split=item.ranked, intervals=True)
    else:
        report = summarise(runs, item.metric, intervals=item.metric is None)
    for path, text in zip(paths, (render(report, "markdown"), render(report, "csv")), strict=True):
        write_file(path, text.encode(), overwrite=True)
    return paths


def _write_claims(results: Results, runs: Sequence[StoredRun], target: Path) -> list[Path]:
    from idwbench.claims.formats import render_claims
    from idwbench.claims.verdicts import judge_claims

    judgements = judge_claims(results, runs)
    paths = [target / "claims.md", target / "claims.json"]
    for path, table_format in zip(paths, ("markdown", "json"), strict=True):
        write_file(path, render_claims(judgements, table_format).encode(), overwrite=True)
    return paths


def _page(made: Sequence[tuple[PaperItem, Path]], gaps: Sequence[Gap]) -> str:
    lines = [
        "# Inverse distance weighting attention: figures, tables and claims",
        "",
        "Made by idwbench from the runs of its database, which these sweeps train:",
        "",
        "| sweep | runs | seeds |",
        "|---|--:|--:|",
        *(f"| `sweeps/paper/{name}.yaml` | {len(runs.runs)} | {runs.seeds} |" for name, runs in RUN_SETS.items()),
        "",
        "The verdicts on the paper's claims: [claims](claims.md).",
        "",
        *(f"- [{item.caption}]({path.name})" for item, path in made if item.figure is None),
        "",
    ]
    for item, path in made:
        if item.figure is not None:
            shown = f"[{path.name}]({path.name})" if path.suffix == ".pdf" else f"![{item.caption}]({path.name})"
            lines += [f"## {item.caption}", "", shown, ""]
    if gaps:
        lines += ["## Missing", "", *(f"- {gap.name}: {gap.problem}" for gap in gaps), ""]
    return "\n".join(lines)

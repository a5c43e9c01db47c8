"""`write_publication`: figures, tables and claims in one folder, with a page that shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from idwbench.errors import ConfigError, IdwbenchError, did_you_mean
from idwbench.files import check_output, make_folder, write_file
from idwbench.publications.publication import Item, Publication, SweepRuns, publications
from idwbench.results.records import StoredRun
from idwbench.results.store import Results

if TYPE_CHECKING:
    from idwbench.report.tables import Table

__all__ = ["Gap", "Published", "write_publication"]


@dataclass(frozen=True)
class Gap:
    """What is missing or incomplete: a figure or table, the reason, and the sweep file that trains the runs, if any."""

    name: str
    problem: str
    sweep_file: str | None


@dataclass(frozen=True)
class Published:
    """The files written, and the gaps."""

    files: tuple[Path, ...]
    gaps: tuple[Gap, ...]


def write_publication(
    name: str,
    results: Results,
    folder: str | PathLike[str],
    *,
    figure_format: str = "png",
    data_dir: Path | None = None,
    overwrite: bool = False,
    on_item: Callable[[str], None] = lambda name: None,
    runs: Sequence[StoredRun] | None = None,
) -> Published:
    """Write all figures, tables and claims that a database has runs for, and a page that shows them.

    A figure or table with fewer runs than its sweep is written and listed as a gap; one without runs is left out.

    Args:
        name: ``paper``: those of the IDW attention paper; ``family``: those of kernel regression, hash tables, networks
            and language models with the same scores; ``dual``: those of the dual form of gradient descent;
            ``baselines``: tables of methods of scikit-learn; ``repairs``: patches and what else mends a prediction.
        results: The database.
        folder: The folder to write to; it is created.
        figure_format: ``png``, ``svg`` or ``pdf``.
        data_dir: Folder of the image archives.
        overwrite: Whether files of an earlier call may be replaced.
        on_item: Called with the name of each figure or table before it is made.
        runs: The finished runs of the paper's data sets if they are read already.

    Raises:
        ConfigError: unknown name or format.
        OutputError: a file exists and may not be overwritten, or cannot be written.
    """
    if figure_format not in ("png", "svg", "pdf"):
        raise ConfigError(f"expected png, svg or pdf, got '{figure_format}'", location=("format",))
    if name not in publications():
        raise ConfigError(f"unknown publication '{name}'", location=("name",), hint=did_you_mean(name, publications()))
    publication, target = publications()[name], Path(folder)
    make_folder(target)
    others = [target / other for other in (*(("claims.md", "claims.json") if publication.claims else ()), "README.md")]
    for path in [*(path for item in publication.items for path in item.paths(target, figure_format)), *others]:
        check_output(path, overwrite=overwrite)
    sweeps = publication.find(results, runs)
    gaps = [Gap(name, sweep.problem, sweep.file) for name, sweep in sweeps.items() if sweep.problem is not None]
    files: list[Path] = []
    made: list[tuple[Item, Path]] = []
    for item in publication.items:
        on_item(item.name)
        sweep = sweeps[item.sweep] if item.sweep is not None else None
        try:
            written = _write_item(item, results, sweep, item.paths(target, figure_format), data_dir)
        except IdwbenchError as error:
            gaps.append(Gap(item.name, error.problem, sweep.file if sweep else None))
        else:
            files += written
            made.append((item, written[0]))
    if publication.claims:
        on_item("claims")
        files += _write_claims(publication, results, runs, target)
    files.append(target / "README.md")
    write_file(files[-1], _page(publication, sweeps.values(), made, gaps).encode(), overwrite=True)
    return Published(tuple(files), tuple(gaps))


def _write_item(
    item: Item, results: Results, sweep: SweepRuns | None, paths: list[Path], data_dir: Path | None
) -> list[Path]:
    """Write the files of an item and return their paths."""
    runs = sweep.stored if sweep is not None else ()
    if sweep is not None and not runs:
        raise ConfigError("no runs")
    if item.figure is not None:
        from idwbench.figures.stored import stored_drawing
        from idwbench.figures.style import save_figure

        save_figure(stored_drawing(item.figure, results, runs, data_dir).figure, paths[0], overwrite=True)
        return paths
    from idwbench.report.leaderboard import leaderboard
    from idwbench.report.selection import report_tables, tables_of

    if item.capacity:
        from idwbench.report.capacity_slopes import capacity_tables

        return _write_tables(capacity_tables(runs), paths)
    if item.ranked is not None:
        board = leaderboard(runs, item.metric, split=item.ranked, best_over=item.best_over, intervals=True)
        return _write_tables([board], paths)
    intervals = item.metric is None and not item.by_dataset and tables_of(runs) != "dual_form"
    tables = report_tables(runs, item.metric, by_dataset=item.by_dataset, intervals=intervals)
    return _write_tables(tables, paths)


def _write_claims(
    publication: Publication, results: Results, runs: Sequence[StoredRun] | None, target: Path
) -> list[Path]:
    from idwbench.claims.verdicts import claims_table, judge_claims

    judgements = [one for one in judge_claims(results, runs) if one.claim.publication == publication.name]
    return _write_tables([claims_table(judgements)], [target / "claims.md", target / "claims.json"])


def _write_tables(tables: Sequence[Table], paths: list[Path]) -> list[Path]:
    """Write tables in the formats of the files, and return these."""
    from idwbench.report.render import format_of, render

    for path in paths:
        write_file(path, render(tables, format_of(path)).encode(), overwrite=True)
    return paths


def _page(
    publication: Publication, sweeps: Iterable[SweepRuns], made: Sequence[tuple[Item, Path]], gaps: Sequence[Gap]
) -> str:
    lines = [
        f"# {publication.title}",
        "",
        "Made by idwbench from the runs of its database, which these sweeps train:",
        "",
        "| sweep | runs | seeds |",
        "|---|--:|--:|",
        *(f"| `{sweep.file}` | {len(sweep.run_keys) or ''} | {sweep.seeds} |" for sweep in sweeps),
        "",
        *(("The verdicts: [claims](claims.md).", "") if publication.claims else ()),
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

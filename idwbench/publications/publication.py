"""Publications: figures, tables and claims of the stored runs of shipped sweeps, written to a folder.

They are in ``publications.yaml``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import as_file, files
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from idwbench.errors import ConfigError, IdwbenchError, did_you_mean
from idwbench.files import check_output, make_folder, write_file
from idwbench.report.labels import count_label
from idwbench.results.records import RESULT_STATES, StoredRun
from idwbench.results.store import Results
from idwbench.sweep.spec import plan, read_sweep, shipped_sweeps
from idwbench.sweep.yaml_source import read_yaml

if TYPE_CHECKING:
    from idwbench.report.tables import Table

__all__ = ["Gap", "Item", "Publication", "Published", "SweepRuns", "publications", "write_publication"]


class Item(BaseModel, frozen=True, extra="allow"):
    """One figure or table.

    Attributes:
        name: Its file, without suffix.
        caption: Its caption.
        sweep: The name of the sweep that trains its runs; None for a figure of formulas.
        also: The names of other sweeps whose runs are in it.
        figure: The name of the figure; None for a table.
    """

    name: str
    caption: str
    sweep: str | None = None
    also: tuple[str, ...] = ()
    figure: str | None = None

    @property
    def options(self) -> dict[str, Any]:
        """What else it has: arguments of `leaderboard` if they have a split, otherwise of `table`.

        Of a figure ``where``, an expression that holds for its runs (see `idwbench.results.filters.matching`).
        """
        return self.model_extra or {}

    def paths(self, folder: Path, figure_format: str) -> list[Path]:
        """Return the files of the figure or table."""
        return [folder / f"{self.name}.{suffix}" for suffix in ([figure_format] if self.figure else ["md", "csv"])]


@dataclass(frozen=True)
class SweepRuns:
    """The runs of one sweep in a database.

    Attributes:
        name: The sweep.
        stored: Complete and diverged runs.
        run_keys: Those of all its runs; empty if they are not known.
    """

    name: str
    stored: Sequence[StoredRun]
    run_keys: frozenset[str]

    @property
    def file(self) -> str:
        """The sweep file, such as ``sweeps/paper/paper_mnist.yaml``."""
        return f"sweeps/{shipped_sweeps()[self.name].as_posix().rpartition('/sweeps/')[2]}"

    @property
    def seeds(self) -> int:
        """Number of different seeds, those of the data included."""
        return len({(run.config.dataset.seed, run.config.seed) for run in self.stored})

    @property
    def problem(self) -> str | None:
        """How many runs have no result, if any."""
        if not self.run_keys:
            return "not in the database"
        missing = len(self.run_keys - {run.run_key for run in self.stored})
        return f"{count_label(missing, 'run')} of {len(self.run_keys)} missing" if missing else None


class Publication(BaseModel, frozen=True):
    """Figures, tables and claims, written together by `write_publication`.

    Attributes:
        name: Its name.
        title: The title of its page.
        items: Figures and tables, in the order of the page.
        sweeps: The names of the shipped sweeps that train its runs, in the order of the page.
        claims: Whether it has claims.
        by_content: Whether a run belongs to a sweep by its settings, and not by the name of the sweep that trained it.
    """

    name: str
    title: str
    items: tuple[Item, ...]
    sweeps: tuple[str, ...]
    claims: bool = False
    by_content: bool = False

    def find(self, results: Results, name: str) -> SweepRuns:
        """Return the complete and diverged runs of one of its sweeps, with any seed."""
        if self.by_content:
            planned = plan(read_sweep(shipped_sweeps()[name]))  # of one data set
            keys, settings = {run.run_key for run in planned}, {run.setting_key for run in planned}
            runs = results.find_runs(dataset=planned[0].dataset_label)
            runs = [run for run in runs if run.config.setting_key in settings]
        else:
            runs = results.find_runs(sweep=name) if name in results.names()[0] else []
            keys = {run.run_key for run in runs}
        return SweepRuns(name, [run for run in runs if run.state in RESULT_STATES], frozenset(keys))


@cache
def publications() -> dict[str, Publication]:
    """Return the publications by name."""
    with as_file(files("idwbench.publications").joinpath("publications.yaml")) as path:
        return {name: Publication(name=name, **parts) for name, parts in read_yaml(path).content.items()}


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
    sweeps = {name: publication.find(results, name) for name in publication.sweeps}
    gaps = [Gap(name, sweep.problem, sweep.file) for name, sweep in sweeps.items() if sweep.problem is not None]
    files: list[Path] = []
    made: list[tuple[Item, Path]] = []
    for item in publication.items:
        on_item(item.name)
        own = [sweeps[name] for name in (item.sweep, *item.also) if name is not None]
        try:
            written = _write_item(item, results, own, item.paths(target, figure_format), data_dir)
        except IdwbenchError as error:
            gaps.append(Gap(item.name, error.problem, own[0].file if own else None))
        else:
            files += written
            made.append((item, written[0]))
    if publication.claims:
        on_item("claims")
        files += _write_claims(publication, results, target)
    files.append(target / "README.md")
    write_file(files[-1], _page(publication, sweeps.values(), made, gaps).encode(), overwrite=True)
    return Published(tuple(files), tuple(gaps))


def _write_item(
    item: Item, results: Results, sweeps: Sequence[SweepRuns], paths: list[Path], data_dir: Path | None
) -> list[Path]:
    """Write the files of an item and return their paths."""
    runs = [run for sweep in sweeps for run in sweep.stored]
    if sweeps and not runs:
        raise ConfigError("no runs")
    if item.figure is not None:
        from idwbench.figures.stored import stored_drawing
        from idwbench.figures.style import save_figure
        from idwbench.results.filters import matching
        from idwbench.results.frame import runs_frame, with_settings

        if where := item.options.get("where"):
            kept = {*matching(with_settings(runs_frame(runs)), where).run_key}
            runs = [run for run in runs if run.run_key in kept]
        save_figure(stored_drawing(item.figure, results, runs, data_dir).figure, paths[0], overwrite=True)
        return paths
    from idwbench.report.leaderboard import leaderboard
    from idwbench.report.reports import table

    if "split" in item.options:
        return _write_tables([leaderboard(runs, intervals=True, **item.options)], paths)
    intervals = not item.options and any(run.config.model.kind != "mlp" for run in runs)
    return _write_tables(table(runs, intervals=intervals, **item.options).tables, paths)


def _write_claims(publication: Publication, results: Results, target: Path) -> list[Path]:
    from idwbench.claims.verdicts import claims_table, judge_claims

    judgements = [one for one in judge_claims(results) if one.claim.publication == publication.name]
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

"""From stored runs to the numbers of a table: sections by data set and protocol, rows by setting, over seeds."""

from __future__ import annotations

import json
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from idwbench.config import DATASET_NAMES, DatasetConfig, Protocol, dataset_identity, default_protocol
from idwbench.methods import METHODS, ParameterValue
from idwbench.report.labels import count_label, protocol_label
from idwbench.report.references import ReferenceSource, find_reference, reference_notes
from idwbench.results.records import StoredRun

__all__ = ["Report", "Row", "Section", "Statistic", "summarise"]

# Means nearer than this are a tie: accuracies are ratios of counts, so only rounding is smaller.
_TIE = 1e-12


@dataclass(frozen=True)
class Statistic:
    """Mean and sample standard deviation (n − 1) of n accuracies, as fractions; no deviation for n = 1."""

    mean: float
    std: float | None
    n: int


@dataclass(frozen=True)
class Row:
    """One method with one setting of its parameters and one number of prototypes, over seeds.

    Attributes:
        parameters: Names and values in the method's own order.
        plugin_sha256: Checksum of the plugin that brought the method; None if built in.
        n: Runs that ended well; what the statistics are taken over.
        n_diverged: Runs that became non-finite; they are in no statistic.
        n_learned: Learned parameters, prototypes · (features + classes); None if no run of the section tells.
        best_test: The highest mean test accuracy of its number of prototypes; ties share it.
        best_holdout: The same on the holdout split.
        paper: Test accuracy the paper prints for this setting.
        authors: Test accuracy of the authors' code for this setting.
    """

    method: str
    parameters: tuple[tuple[str, ParameterValue], ...]
    prototypes: int
    plugin_sha256: str | None
    n: int
    n_diverged: int
    test: Statistic | None
    holdout: Statistic | None
    train: Statistic | None
    n_learned: int | None
    best_test: bool = False
    best_holdout: bool = False
    paper: float | None = None
    authors: float | None = None


@dataclass(frozen=True)
class Section:
    """One data set under one protocol.

    Attributes:
        title: Data set, those of its parameters worth naming, and protocol, in one line.
        dataset: The name that tables use: the data set's, or the file's for the user's own data.
        rows: By prototypes, then method in the order of the registry, then parameters.
        notes: Lines to stand under the table.
    """

    title: str
    dataset: str
    dataset_config: DatasetConfig
    protocol: Protocol
    rows: tuple[Row, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Report:
    """All sections, in the order of data sets, a data set's own protocol first."""

    sections: tuple[Section, ...]


def summarise(runs: Sequence[StoredRun]) -> Report:
    """Return the numbers of all tables that `runs` fill; a run that is given twice counts once."""
    groups: dict[str, list[StoredRun]] = defaultdict(list)
    for run in {run.run_key: run for run in runs}.values():
        groups[f"{_dataset_key(run)}{run.config.protocol.model_dump_json()}"].append(run)
    ordered = sorted(groups.values(), key=lambda group: _section_order(group[0]))
    titles = _section_titles([group[0] for group in ordered])
    return Report(tuple(_section(title, group) for title, group in zip(titles, ordered, strict=True)))


def _section(title: str, runs: list[StoredRun]) -> Section:
    config = runs[0].config
    learned = next((r.n_features + r.n_classes for r in runs if r.n_features and r.n_classes), None)
    groups: dict[str, list[StoredRun]] = defaultdict(list)
    for run in runs:
        if run.state in ("complete", "diverged"):
            groups[_row_key(run)].append(run)
    rows = _flag_best([_row(group, learned) for group in groups.values()])
    rows.sort(key=_row_order)
    sources: set[ReferenceSource] = set()
    if any(row.paper is not None for row in rows):
        sources.add("paper")
    if any(row.authors is not None for row in rows):
        sources.add("authors")
    notes = (*_count_notes(rows, runs), *reference_notes(config.dataset.name, config.protocol, sources))
    return Section(title, runs[0].dataset, config.dataset, config.protocol, tuple(rows), notes)


def _row(runs: list[StoredRun], learned: int | None) -> Row:
    config = runs[0].config
    complete = [run for run in runs if run.state == "complete"]
    parameters = _ordered_parameters(config.method, config.parameters)
    setting = (config.dataset, config.method, config.prototypes, parameters)
    return Row(
        method=config.method,
        parameters=parameters,
        prototypes=config.prototypes,
        plugin_sha256=config.plugin_sha256,
        n=len(complete),
        n_diverged=len(runs) - len(complete),
        test=_statistic(run.test_accuracy for run in complete),
        holdout=_statistic(run.holdout_accuracy for run in complete),
        train=_statistic(run.train_accuracy for run in complete),
        n_learned=None if learned is None else config.prototypes * learned,
        paper=find_reference("paper", *setting),
        authors=find_reference("authors", *setting),
    )


def _statistic(accuracies: Iterable[float | None]) -> Statistic | None:
    present = [value for value in accuracies if value is not None and math.isfinite(value)]
    if not present:
        return None
    # `statistics` sums exactly, so the order of the seeds cannot make or break a tie.
    std = statistics.stdev(present) if len(present) > 1 else None
    return Statistic(statistics.fmean(present), std, len(present))


def _flag_best(rows: list[Row]) -> list[Row]:
    tests: dict[int, float] = {}
    holdouts: dict[int, float] = {}
    for row in rows:
        for best, statistic in ((tests, row.test), (holdouts, row.holdout)):
            if statistic is not None:
                best[row.prototypes] = max(best.get(row.prototypes, 0.0), statistic.mean)

    def is_best(statistic: Statistic | None, best: float | None) -> bool:
        return statistic is not None and best is not None and statistic.mean >= best - _TIE

    return [
        replace(
            row,
            best_test=is_best(row.test, tests.get(row.prototypes)),
            best_holdout=is_best(row.holdout, holdouts.get(row.prototypes)),
        )
        for row in rows
    ]


def _count_notes(rows: list[Row], runs: list[StoredRun]) -> list[str]:
    notes = []
    if any(row.n == 1 for row in rows):
        notes.append("n = 1: no spread.")
    diverged = sum(row.n_diverged for row in rows)
    if diverged:
        notes.append(f"{count_label(diverged, 'run')} diverged; no mean counts them.")
    failed = sum(run.state == "failed" for run in runs)
    if failed:
        notes.append(f"{count_label(failed, 'run')} failed; not shown.")
    pending = sum(run.state in ("planned", "running") for run in runs)
    if pending:
        notes.append(f"{count_label(pending, 'run')} not done yet; not shown.")
    return notes


def _ordered_parameters(method: str, parameters: dict[str, ParameterValue]) -> tuple[tuple[str, ParameterValue], ...]:
    known = [parameter.name for parameter in METHODS[method].parameters] if method in METHODS else []
    order = {name: place for place, name in enumerate(known)}
    return tuple(sorted(parameters.items(), key=lambda item: (order.get(item[0], len(order)), item[0])))


def _row_key(run: StoredRun) -> str:
    config = run.config
    return json.dumps([config.method, config.parameters, config.prototypes, config.plugin_sha256], sort_keys=True)


def _row_order(row: Row) -> tuple[object, ...]:
    methods = list(METHODS)
    place = methods.index(row.method) if row.method in METHODS else len(methods)
    values = tuple((isinstance(value, str), value) for _, value in row.parameters)
    return (row.prototypes, place, row.method, values, row.plugin_sha256 or "")


def _dataset_key(run: StoredRun) -> str:
    # As in the run key, a file is known by its content: neither its place nor its name makes a new section.
    return dataset_identity(run.config.dataset)


def _section_order(run: StoredRun) -> tuple[object, ...]:
    dataset, protocol = run.config.dataset, run.config.protocol
    own = protocol == default_protocol(dataset.name)
    place = DATASET_NAMES.index(dataset.name)
    protocol_order = (protocol.epochs, protocol.batch_size, protocol.learning_rate, protocol.schedule)
    return (place, run.dataset, _dataset_order(dataset), not own, protocol_order)


def _dataset_order(dataset: DatasetConfig) -> tuple[tuple[bool, str | float], ...]:
    values = dataset.model_dump(exclude={"path"}).values()
    return tuple((isinstance(value, str), value) for value in values if value is not None)


def _section_titles(first_runs: list[StoredRun]) -> list[str]:
    """Name what tells sections apart: parameters that are not the default, or not the same in all of them."""
    seen: dict[tuple[str, str], set[object]] = defaultdict(set)
    for run in first_runs:
        for name, value in run.config.dataset.model_dump().items():
            seen[run.dataset, name].add(value)
    titles = []
    for run in first_runs:
        dataset = run.config.dataset
        words = [run.dataset]
        for name, field in type(dataset).model_fields.items():
            value = getattr(dataset, name)
            varies = len(seen[run.dataset, name]) > 1
            if name == "sha256":  # never the default: worth a word only where two files share a name
                words += [f"sha256 {value[:8]}"] if varies and value else []
            elif name not in ("name", "path") and (varies or value != field.default):
                words.append(f"{name.replace('_', ' ')} {value}")
        titles.append(" · ".join([*words, protocol_label(run.config.protocol)]))
    return titles

"""Table 1 of arXiv 2202.05798: is the class that a layer attends to most the target, or the answer?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from idwbench.report.frame import Row, ended, replication_notes, rows, run_table, statistics
from idwbench.report.notes import count_notes, seed_notes
from idwbench.report.references import DUAL_FORM_NOTE, SHARES, published_accuracies, published_shares
from idwbench.report.settings import constants_title, setting_names, varying_settings
from idwbench.report.statistics import Statistic
from idwbench.report.tables import (
    MISSING,
    ROW_COLUMNS,
    Column,
    Table,
    nonempty,
    setting_column,
    statistic_column,
    text_column,
)
from idwbench.results.records import StoredRun
from idwbench.runs.config import RunConfig
from idwbench.runs.datasets import DATASETS, PartsConfig
from idwbench.runs.kinds.mlp import MlpConfig

__all__ = ["dual_form", "has_only_perceptrons"]

_Measured = Callable[[Row, str], Statistic | None]  # a metric of a row on the test data

_SPREAD = "mean ± sample standard deviation over n seeds"
_HEADERS = dict(zip(SHARES, ("target if wrong", "output if wrong", "both if right"), strict=True))
_ABOUT_SHARES = (
    "target if wrong, output if wrong: of the test inputs with a wrong answer, whose number is under wrong; both if "
    "right: of the other test inputs."
)


def has_only_perceptrons(runs: Iterable[StoredRun]) -> bool:
    """Return whether all runs are of kind ``mlp``."""
    return all(run.setting.model.kind == "mlp" for run in runs)


def dual_form(runs: Sequence[StoredRun]) -> tuple[Table, ...]:
    """Return a table of accuracies and one of attention of stored runs of kind ``mlp``, without other runs.

    A run that is given twice counts once. The first table has the records of both, one for each setting and layer.
    """
    table = run_table(run for run in runs if run.setting.model.kind == "mlp")
    by_metric = {name: statistics(table, name) for name in {c[1] for c in table.columns if isinstance(c, tuple)}}

    def measured(row: Row, metric: str) -> Statistic | None:
        return by_metric.get(metric, {}).get(row.setting, {}).get("test")

    found = rows(table, "accuracy")
    found.sort(key=lambda row: list(DATASETS).index(row.config.dataset.name))
    varying = [name for name in varying_settings([row.settings for row in found]) if name != "dataset"]
    title = constants_title([row.runs[0] for row in found] or [*table.run[:1]], ("dataset_seed", *varying))
    notes = (*replication_notes(ended(table)), *seed_notes(found), *count_notes(found, table))
    if not found:
        return (Table(title, (), (), notes=notes),)
    accuracies = _accuracies(found, ("dataset", *varying), f"Accuracy · {title}", measured)
    shares = _shares(found, ("dataset", *varying), measured)
    if any(column.name.startswith("paper") for table in (accuracies, shares) for column in table.columns):
        notes = (DUAL_FORM_NOTE, *notes)
    names = _fields(setting_names([row.settings for row in found]))

    def records(nested: bool) -> list[dict[str, Any]]:
        full = (record for row in found for record in _records(row, measured))
        return [{name: record.get(name) for name in names} for record in full]

    return replace(accuracies, fields=names, records=records), replace(shares, notes=(_ABOUT_SHARES, *notes))


def _accuracies(found: Sequence[Row], settings: Sequence[str], title: str, measured: _Measured) -> Table:
    lines = [
        (row, *task) for row in found for task in zip(_tasks(row.config), published_accuracies(row.config), strict=True)
    ]
    before = [measured(row, f"{metric}_before") for row, (_, metric), _ in lines]
    n, diverged = _counts([row for row, *_ in lines])
    columns = [
        *_setting_columns(settings, [row for row, *_ in lines]),
        text_column("task", "task", (task for _, (task, _), _ in lines)),
        n,
        _column("accuracy", "test accuracy", "accuracy", (measured(row, metric) for row, (_, metric), _ in lines)),
        _paper_column("paper", ".0f", (after for *_, (after, _) in lines)),
        _column("before", "before the second", "accuracy", before),
        _paper_column("paper before", ".0f", (earlier for *_, (_, earlier) in lines)),
        diverged,
    ]
    metric = f"Metric: accuracy in %, {_SPREAD}"
    if any(before):
        metric += "; before the second: that on the first part before the second began"
    return Table(title, nonempty(columns), tuple(row.setting for row, *_ in lines), metric)


def _shares(found: Sequence[Row], settings: Sequence[str], measured: _Measured) -> Table:
    lines = [(row, *layer) for row in found for layer in enumerate(_layer_names(row))]
    wrong = (measured(row, "wrong_inputs") for row, *_ in lines)
    columns = [
        *_setting_columns(settings, [row for row, *_ in lines]),
        text_column("layer", "layer", (name for *_, name in lines)),
        _counts([row for row, *_ in lines])[0],
        text_column("wrong", "wrong", map(_count, wrong), numeric=True),
    ]
    for share, header in _HEADERS.items():
        found_shares = (measured(row, f"{share}_{layer}") for row, layer, _ in lines)
        published = (published_shares(row.config).get(layer, {}).get(share) for row, layer, _ in lines)
        columns.append(_column(share, header, f"{share}_0", found_shares))
        columns.append(_paper_column(f"paper {share}", ".1f", published))
    metric = (
        f"Share in %, {_SPREAD}: the class with the largest total attention of the layer is the target or the output"
    )
    groups = tuple(row.setting for row, *_ in lines)
    return Table("Class of the largest total attention of each layer", nonempty(columns), groups, metric)


def _tasks(config: RunConfig) -> list[tuple[str, str]]:
    """Return the name of each part of the data, and that of its metric."""
    dataset = config.dataset
    if isinstance(dataset, PartsConfig):
        return [(part, f"accuracy_{number}") for number, part in enumerate(dataset.of, 1)]
    return [(config.dataset_label, "accuracy")]


def _layer_names(row: Row) -> Sequence[str]:
    assert isinstance(row.model, MlpConfig)
    return row.model.layer_names


def _counts(found: Sequence[Row]) -> tuple[Column, Column]:
    """Return the columns n and diverged."""
    return ROW_COLUMNS[0].column(found), ROW_COLUMNS[1].column(found)


def _setting_columns(settings: Sequence[str], found: Sequence[Row]) -> list[Column]:
    return [setting_column(name, [row.settings.get(name, MISSING) for row in found]) for name in settings]


def _column(name: str, header: str, metric: str, found: Iterable[Statistic | None]) -> Column:
    return statistic_column(name, header, metric, found, narrow=header.replace(" ", "\n", 1))


def _paper_column(name: str, form: str, values: Iterable[float | None]) -> Column:
    texts = ("" if value is None else f"{100 * value:{form}}" for value in values)
    return text_column(name, "paper", texts, numeric=True)


def _count(found: Statistic | None) -> str:
    if found is None:
        return MISSING
    return f"{found.mean:,.0f}" + ("" if found.std is None else f" ± {found.std:,.0f}")


def _fields(settings: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of CSV: what belongs to a setting is repeated for each of its layers."""
    tasks = []
    for number in (1, 2):
        metrics = (f"accuracy_{number}", f"accuracy_{number}_before")
        tasks += [f"task_{number}", *(name for one in metrics for name in (*_spread(one), f"paper_{one}"))]
    shares = (*(name for share in SHARES for name in _spread(share)), *(f"paper_{share}" for share in SHARES))
    return (*settings, "n", "diverged", *_spread("accuracy"), *_spread("wrong_inputs"), *tasks, "layer", *shares)


def _spread(name: str) -> tuple[str, str]:
    return f"{name}_mean", f"{name}_std"


def _records(row: Row, measured: _Measured) -> Iterator[dict[str, Any]]:
    def values(name: str, metric: str, published: float | None = None) -> dict[str, Any]:
        one = measured(row, metric)
        return {f"{name}_mean": one and one.mean, f"{name}_std": one and one.std, f"paper_{name}": published}

    record: dict[str, Any] = {**row.settings, "n": row.n, "diverged": row.n_diverged}
    record |= values("accuracy", "accuracy") | values("wrong_inputs", "wrong_inputs")
    tasks = zip(_tasks(row.config), published_accuracies(row.config), strict=True)
    for number, ((task, metric), (after, before)) in enumerate(tasks, 1):
        record |= {f"task_{number}": task, **values(f"accuracy_{number}", metric, after)}
        record |= values(f"accuracy_{number}_before", f"{metric}_before", before)
    for layer, name in enumerate(_layer_names(row)):
        published = published_shares(row.config).get(layer, {})
        shares = (values(share, f"{share}_{layer}", published.get(share)) for share in SHARES)
        yield {**record, "layer": name, **{key: value for one in shares for key, value in one.items()}}

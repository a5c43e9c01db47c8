"""Table 1 of arXiv 2202.05798: is the class that a layer attends to most the target, or the answer?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from idwbench.report.frame import Row, Runs, metric_names, replication_notes, rows, run_notes, run_table, with_metric
from idwbench.report.labels import constants_title, varying_settings
from idwbench.report.references import DUAL_FORM_NOTE, SHARES, published_accuracies, published_shares
from idwbench.report.statistics import Statistic
from idwbench.report.tables import (
    MISSING,
    Column,
    Table,
    nonempty,
    row_columns,
    setting_column,
    statistic_column,
    text_column,
)
from idwbench.results.records import RESULT_STATES
from idwbench.runs.config import RunConfig
from idwbench.runs.datasets import DATASETS, PartsConfig
from idwbench.runs.kinds.mlp import MlpConfig

__all__ = ["dual_form"]

_Measured = Callable[[Row, str], Statistic | None]  # a metric of a row on the test data

_SPREAD = "mean ± sample standard deviation over n seeds"
_HEADERS = dict(zip(SHARES, ("target if wrong", "output if wrong", "both if right"), strict=True))
_ABOUT_SHARES = (
    "target if wrong, output if wrong: of the test inputs with a wrong answer, whose number is under wrong; both if "
    "right: of the other test inputs."
)


def dual_form(runs: Runs) -> tuple[Table, ...]:
    """Return a table of accuracies and one of attention of stored runs of kind ``mlp``, without other runs.

    A run that is given twice counts once. The first table has the records of both, one for each setting and layer.
    """
    table = run_table(runs)
    table = with_metric(table[table.kind == "mlp"], "accuracy").assign(kind_lacks_metric=False)
    by_metric = {name: {row.number: row.statistics for row in rows(table, name)} for name in metric_names(table)}

    def measured(row: Row, metric: str) -> Statistic | None:
        return by_metric.get(metric, {}).get(row.number, {}).get("test")

    found = rows(table, "accuracy")
    found.sort(key=lambda row: [*DATASETS].index(row.config.dataset.name))
    varying = [name for name in varying_settings([row.settings for row in found]) if name != "dataset"]
    title = constants_title([row.config for row in found] or [*table.config[:1]], ("dataset_seed", *varying))
    ended = table[table.state.isin(RESULT_STATES)]
    notes = (*replication_notes(ended), *run_notes(found, table, "accuracy"))
    if not found:
        return (Table(title, (), (), notes=notes),)
    accuracies = _accuracies(found, ("dataset", *varying), f"Accuracy · {title}", measured)
    shares = _shares(found, ("dataset", *varying), measured)
    if any(column.name.startswith("paper") for table in (accuracies, shares) for column in table.columns):
        notes = (DUAL_FORM_NOTE, *notes)
    return (
        replace(accuracies, records=lambda: [record for row in found for record in _records(row, measured)]),
        replace(shares, notes=(_ABOUT_SHARES, *notes)),
    )


def _accuracies(found: Sequence[Row], settings: Sequence[str], title: str, measured: _Measured) -> Table:
    published = [zip(_tasks(row.config), published_accuracies(row.config), strict=True) for row in found]
    tasks = [(row, *task) for row, parts in zip(found, published, strict=True) for task in parts]
    lines = [row for row, *_ in tasks]
    before = [measured(row, f"{metric}_before") for row, (_, metric), _ in tasks]
    n, diverged, *_ = row_columns(lines)
    columns = [
        *_setting_columns(settings, lines),
        text_column("task", "task", (task for _, (task, _), _ in tasks)),
        n,
        _column("accuracy", "test accuracy", "accuracy", [measured(row, metric) for row, (_, metric), _ in tasks]),
        _paper_column("paper", ".0f", [after for *_, (after, _) in tasks]),
        _column("before", "before the second", "accuracy", before),
        _paper_column("paper before", ".0f", [earlier for *_, (_, earlier) in tasks]),
        diverged,
    ]
    metric = f"Metric: accuracy in %, {_SPREAD}"
    if any(before):
        metric += "; before the second: that on the first part before the second began"
    return Table(title, nonempty(columns), tuple(row.number for row in lines), metric)


def _shares(found: Sequence[Row], settings: Sequence[str], measured: _Measured) -> Table:
    layers = [(row, *layer) for row in found for layer in enumerate(_layer_names(row))]
    lines = [row for row, *_ in layers]
    columns = [
        *_setting_columns(settings, lines),
        text_column("layer", "layer", (name for *_, name in layers)),
        row_columns(lines)[0],
        text_column("wrong", "wrong", (_count(measured(row, "wrong_inputs")) for row in lines), numeric=True),
    ]
    for share, header in _HEADERS.items():
        published = [published_shares(row.config).get(layer, {}).get(share) for row, layer, _ in layers]
        found_shares = [measured(row, f"{share}_{layer}") for row, layer, _ in layers]
        columns.append(_column(share, header, f"{share}_0", found_shares))
        columns.append(_paper_column(f"paper {share}", ".1f", published))
    metric = (
        f"Share in %, {_SPREAD}: the class with the largest total attention of the layer is the target or the output"
    )
    groups = tuple(row.number for row in lines)
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


def _setting_columns(settings: Sequence[str], found: Sequence[Row]) -> list[Column]:
    return [setting_column(name, [row.settings.get(name, MISSING) for row in found]) for name in settings]


def _column(name: str, header: str, metric: str, found: Sequence[Statistic | None]) -> Column:
    return statistic_column(name, header, metric, found, narrow=header.replace(" ", "\n", 1))


def _paper_column(name: str, form: str, values: Sequence[float | None]) -> Column:
    texts = ("" if value is None else f"{100 * value:{form}}" for value in values)
    return text_column(name, "paper", texts, numeric=True)


def _count(found: Statistic | None) -> str:
    if found is None:
        return MISSING
    return f"{found.mean:,.0f}" + ("" if found.std is None else f" ± {found.std:,.0f}")


def _records(row: Row, measured: _Measured) -> Iterator[dict[str, Any]]:
    """Yield a record for each layer; what belongs to a setting is repeated."""

    def values(name: str, metric: str) -> dict[str, Any]:
        one = measured(row, metric)
        return {f"{name}_mean": one and one.mean, f"{name}_std": one and one.std}

    record: dict[str, Any] = {**row.settings, "n": row.n, "diverged": row.n_diverged}
    record |= values("accuracy", "accuracy") | values("wrong_inputs", "wrong_inputs")
    tasks = [*zip(_tasks(row.config), published_accuracies(row.config), strict=True)]
    for number in (1, 2):
        (task, metric), published = tasks[number - 1] if number <= len(tasks) else ((None, ""), (None, None))
        record[f"task_{number}"] = task
        for part, paper in zip(("", "_before"), published, strict=True):
            name = f"accuracy_{number}{part}"
            record |= values(name, f"{metric}{part}") | {f"paper_{name}": paper}
    for layer, name in enumerate(_layer_names(row)):
        published_here = published_shares(row.config).get(layer, {})
        record["layer"] = name
        for share in SHARES:
            record |= values(share, f"{share}_{layer}")
        yield record | {f"paper_{share}": published_here.get(share) for share in SHARES}

"""`DualForm` as two tables, and as records for CSV and JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from idwbench.report.columns import count_column, diverged_column, setting_column, text_column
from idwbench.report.dual_form import DualForm, DualFormRow, LayerShares
from idwbench.report.dual_form_references import REFERENCE_NOTE, SHARES
from idwbench.report.labels import value_label
from idwbench.report.settings import setting_names
from idwbench.report.statistics import Statistic
from idwbench.report.tables import MISSING, Column, Table

__all__ = ["dual_form_fields", "dual_form_records", "dual_form_tables"]

_SPREAD = "mean ± sample standard deviation over n seeds"
_HEADERS = {
    "target_if_wrong": "target if wrong",
    "output_if_wrong": "output if wrong",
    "output_if_right": "both if right",
}
_MEASURED = ("accuracy", "wrong_inputs")
_OF_TASKS = ("task_{}", "accuracy_{}", "accuracy_{}_before")


def dual_form_tables(report: DualForm) -> tuple[Table, ...]:
    """Return the table of accuracies and that of attention, without empty columns."""
    accuracies, shares = _accuracies(report), _shares(report)
    has_references = any(column.name.startswith("paper") for table in (accuracies, shares) for column in table.columns)
    notes = (*shares.notes, *([REFERENCE_NOTE] if has_references else []), *report.notes)
    return accuracies, Table(shares.title, shares.columns, shares.groups, shares.metric, "", notes)


def _accuracies(report: DualForm) -> Table:
    lines = [(number, row, task) for number, row in enumerate(report.rows) for task in row.tasks]
    rows = [row for _, row, _ in lines]
    columns = [
        *_setting_columns(report, rows),
        text_column("task", "task", (task.task for *_, task in lines)),
        count_column(row.n for row in rows),
        _statistic_column("accuracy", "test accuracy", "accuracy", (task.accuracy for *_, task in lines)),
        _paper_column("paper", ".0f", (task.published[0] for *_, task in lines)),
        _statistic_column("before", "before the second", "accuracy", (task.before for *_, task in lines)),
        _paper_column("paper before", ".0f", (task.published[1] for *_, task in lines)),
        diverged_column(row.n_diverged for row in rows),
    ]
    metric = f"Metric: accuracy in %, {_SPREAD}"
    if any(task.before is not None for *_, task in lines):
        metric += "; before the second: that on the first part before the second began"
    groups = tuple(number for number, *_ in lines)
    return Table(f"Accuracy · {report.title}", _present(columns), groups, metric, "", ())


def _shares(report: DualForm) -> Table:
    lines = [(number, row, layer) for number, row in enumerate(report.rows) for layer in row.layers]
    rows, layers = [row for _, row, _ in lines], [layer for *_, layer in lines]
    columns = [
        *_setting_columns(report, rows),
        text_column("layer", "layer", (layer.layer for layer in layers)),
        count_column(row.n for row in rows),
        text_column("wrong", "wrong", (_count(row.wrong_inputs) for row in rows), numeric=True),
    ]
    for share in SHARES:
        columns += [
            _statistic_column(share, _HEADERS[share], f"{share}_0", (layer.shares[share] for layer in layers)),
            _paper_column(f"paper {share}", ".1f", (layer.published.get(share) for layer in layers)),
        ]
    metric = (
        f"Share in %, {_SPREAD}: the class with the largest total attention of the layer is the target or the output"
    )
    notes = (
        "target if wrong, output if wrong: of the test inputs with a wrong answer, whose number is under wrong; "
        "both if right: of the other test inputs.",
    )
    groups = tuple(number for number, *_ in lines)
    return Table("Class of the largest total attention of each layer", _present(columns), groups, metric, "", notes)


def _present(columns: Iterable[Column]) -> tuple[Column, ...]:
    return tuple(column for column in columns if not column.is_empty)


def _setting_columns(report: DualForm, rows: Sequence[DualFormRow]) -> list[Column]:
    return [setting_column(name, [row.settings.get(name, MISSING) for row in rows]) for name in _settings(report)]


def _settings(report: DualForm) -> tuple[str, ...]:
    return ("dataset", *report.settings)


def _statistic_column(name: str, header: str, metric: str, found: Iterable[Statistic | None]) -> Column:
    texts = (MISSING if one is None else value_label(metric, one.mean, one.std) for one in found)
    return text_column(name, header, texts, numeric=True, narrow=header.replace(" ", "\n", 1))


def _paper_column(name: str, form: str, values: Iterable[float | None]) -> Column:
    texts = ("" if value is None else f"{100 * value:{form}}" for value in values)
    return text_column(name, "paper", texts, numeric=True)


def _count(found: Statistic | None) -> str:
    if found is None:
        return MISSING
    return f"{found.mean:,.0f}" + ("" if found.std is None else f" ± {found.std:,.0f}")


def dual_form_fields(report: DualForm) -> tuple[str, ...]:
    """Return the keys of `dual_form_records`."""
    settings = setting_names([row.settings for row in report.rows])
    measured = [f"{name}_{field}" for name in _MEASURED for field in ("mean", "std")]
    tasks = [*_task_fields(1), *_task_fields(2)]
    shares = [f"{name}_{field}" for name in SHARES for field in ("mean", "std")]
    return (*settings, "n", "diverged", *measured, *tasks, "layer", *shares, *(f"paper_{name}" for name in SHARES))


def dual_form_records(report: DualForm) -> list[dict[str, Any]]:
    """Return one mapping for each setting and layer; what belongs to a setting is repeated."""
    fields = dual_form_fields(report)
    records = ({**_row_record(row), **_layer_record(layer)} for row in report.rows for layer in row.layers)
    return [{name: record.get(name) for name in fields} for record in records]


def _task_fields(number: int) -> list[str]:
    names = [name for pattern in _OF_TASKS[1:] for name in _fields(pattern.format(number))]
    return [f"task_{number}", *names]


def _fields(name: str) -> list[str]:
    return [f"{name}_mean", f"{name}_std", f"paper_{name}"]


def _row_record(row: DualFormRow) -> dict[str, Any]:
    record = {**row.settings, "n": row.n, "diverged": row.n_diverged}
    record |= _values("accuracy", row.accuracy) | _values("wrong_inputs", row.wrong_inputs)
    for number, task in enumerate(row.tasks, 1):
        after, before = f"accuracy_{number}", f"accuracy_{number}_before"
        record |= {f"task_{number}": task.task, **_values(after, task.accuracy), **_values(before, task.before)}
        record |= {f"paper_{after}": task.published[0], f"paper_{before}": task.published[1]}
    return record


def _layer_record(layer: LayerShares) -> dict[str, Any]:
    record: dict[str, Any] = {"layer": layer.layer}
    for name, found in layer.shares.items():
        record |= {**_values(name, found), f"paper_{name}": layer.published.get(name)}
    return record


def _values(name: str, found: Statistic | None) -> dict[str, float | None]:
    return {} if found is None else {f"{name}_mean": found.mean, f"{name}_std": found.std}

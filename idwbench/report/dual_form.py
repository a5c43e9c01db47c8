"""Table 1 of arXiv 2202.05798: is the class that a layer attends to most the target, or the answer?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from idwbench.report.frame import Row, Runs, metric_names, replication_notes, rows, run_notes, run_table, with_metric
from idwbench.report.labels import constants_title, varying_settings
from idwbench.report.references import DUAL_FORM_NOTE, SHARES, published_values
from idwbench.report.statistics import Statistic
from idwbench.report.tables import (
    DIVERGED,
    MISSING,
    N_RUNS,
    Column,
    Table,
    nonempty,
    row_columns,
    setting_column,
    statistic_columns,
)
from idwbench.results.records import RESULT_STATES
from idwbench.runs.datasets import DATASETS, PartsConfig
from idwbench.runs.kinds.mlp import MlpConfig
from idwbench.runs.metrics import ANSWERED_SPLITS, ATTENDED_PLACES

__all__ = ["dual_form"]

_SPREAD = "mean ± sample standard deviation over n seeds"
_MEANING = "the class with the largest total attention of the layer is the target or the output"
_HEADERS = dict(zip(SHARES, ("target if wrong", "output if wrong", "both if right"), strict=True))
_HEADERS |= {"accuracy": "test accuracy", "before": "before the second"}
_HEADERS |= zip(
    ATTENDED_PLACES, ("target", "answer", "another", "target there", "answer there", "another there"), strict=True
)
_ABOUT_SHARES = (
    "target if wrong, output if wrong: of the test inputs with a wrong answer, whose number is under wrong; both if "
    "right: of the other test inputs."
)
_ABOUT_PLACES = (
    "Here each class of each part is apart. target, answer, another: classes of the part that the inputs are of, where "
    "answer is the class that is answered if it is not the target; there: the same classes of the other part."
)


def dual_form(runs: Runs) -> tuple[Table, ...]:
    """Return tables of accuracies and of attention of stored runs of kind ``mlp``, without other runs.

    A run that is given twice counts once. The first table has the records of the second, one for each setting and
    layer. The third has where the layers attend in data of several parts, right and wrong answers apart; it is left out
    if no run has it.
    """
    table = run_table(runs)
    table = with_metric(table[table.kind == "mlp"], "accuracy").assign(kind_lacks_metric=False)
    found = rows(table, "accuracy")
    found.sort(key=lambda row: [*DATASETS].index(row.config.dataset.name))
    measured: dict[int, dict[str, Mapping[str, Statistic]]] = defaultdict(dict)
    for name in metric_names(table):
        for row in rows(table, name):
            measured[row.number][name] = row.statistics
    lines = [_Line(row, measured[row.number]) for row in found]
    varying = ["dataset", *(name for name in varying_settings([row.settings for row in found]) if name != "dataset")]
    title = constants_title([row.config for row in found] or [*table.config[:1]], ("dataset_seed", *varying[1:]))
    notes = (*replication_notes(table[table.state.isin(RESULT_STATES)]), *run_notes(found, table, "accuracy"))
    if not found:
        return (Table(title, (), (), notes=notes),)
    accuracies, shares = _accuracies(lines, varying, f"Accuracy · {title}"), _shares(lines, varying)
    if any(column.name.startswith("paper") for table in (accuracies, shares) for column in table.columns):
        notes = (DUAL_FORM_NOTE, *notes)
    accuracies = replace(accuracies, records=lambda: [record for line in lines for record in _records(line)])
    cells = [cell for line in lines for cell in line.cells]
    if not cells:
        return accuracies, replace(shares, notes=(_ABOUT_SHARES, *notes))
    return (
        accuracies,
        replace(shares, notes=(_ABOUT_SHARES,)),
        replace(_places(cells, varying), notes=(_ABOUT_PLACES, *notes)),
    )


@dataclass(frozen=True)
class _Line:
    """A row with its metrics by split, and the published values."""

    row: Row
    splits: Mapping[str, Mapping[str, Statistic]]

    @property
    def metrics(self) -> Mapping[str, Statistic | None]:
        """The metrics on the test data."""
        return {name: statistics.get("test") for name, statistics in self.splits.items()}

    @property
    def tasks(self) -> list[tuple[str, str, float | None, float | None]]:
        """For each part of the data its name, its metric, and the published accuracies."""
        dataset = self.row.config.dataset
        names = [(self.row.config.dataset_label, "accuracy")]
        if isinstance(dataset, PartsConfig):
            names = [(part, f"accuracy_{number}") for number, part in enumerate(dataset.of, 1)]
        published = published_values(self.row.config)[1]
        return [(*name, after, before) for name, (after, before) in zip(names, published, strict=True)]

    @property
    def layers(self) -> list[tuple[int, str, Mapping[str, float]]]:
        """For each layer its number, its name and the published shares."""
        assert isinstance(self.row.model, MlpConfig)
        published = published_values(self.row.config)[0]
        return [(number, name, published.get(number, {})) for number, name in enumerate(self.row.model.layer_names)]

    @property
    def cells(self) -> list[_Cell]:
        """Where each layer attends, for each part of the test data and for right and wrong answers."""
        counts = self.splits.get("answered_inputs", {})
        layers = [(number, name) for number, name, _ in self.layers]
        return [self._cell(*layer, split) for layer in layers for split in ANSWERED_SPLITS if split in counts]

    def _cell(self, number: int, name: str, split: str) -> _Cell:
        answers, _, part = split.partition("_")
        dataset = self.row.config.dataset
        assert isinstance(dataset, PartsConfig)
        places: list[Statistic | None] = []
        for place in ATTENDED_PLACES:
            is_target = answers == "right" and place.endswith("answer")  # the answer has no place of its own
            places.append(None if is_target else self.splits.get(f"{place}_{number}", {}).get(split))
        inputs = self.splits["answered_inputs"][split]
        return _Cell(self.row, name, dataset.of[int(part) - 1], answers, inputs, tuple(places))


class _Cell(NamedTuple):
    """Where a layer attends for the test inputs of one part with right or with wrong answers."""

    row: Row
    layer: str
    part: str
    answers: str
    inputs: Statistic
    places: tuple[Statistic | None, ...]

    def record(self) -> dict[str, Any]:
        """Return its numbers with full precision."""
        places = dict(zip(ATTENDED_PLACES, self.places, strict=True))
        return {
            **self.row.settings,
            "n": self.row.n,
            "layer": self.layer,
            "part": self.part,
            "answers": self.answers,
            **_values("answered_inputs", self.inputs),
            **{key: value for name, one in places.items() for key, value in _values(name, one).items()},
        }


def _accuracies(lines: Sequence[_Line], settings: Sequence[str], title: str) -> Table:
    tasks = [(line, *task) for line in lines for task in line.tasks]
    shown = [line.row for line, *_ in tasks]
    after = [line.metrics.get(metric) for line, _, metric, *_ in tasks]
    before = [line.metrics.get(f"{metric}_before") for line, _, metric, *_ in tasks]
    columns = [
        *_setting_columns(settings, shown),
        Column("task", "task", [task for _, task, *_ in tasks]),
        *row_columns(shown, N_RUNS),
        *statistic_columns("accuracy", {"accuracy": after}, headers=_HEADERS),
        _paper_column("paper", ".0f", [published for *_, published, _ in tasks]),
        *statistic_columns("accuracy", {"before": before}, headers=_HEADERS),
        _paper_column("paper before", ".0f", [earlier for *_, earlier in tasks]),
        *row_columns(shown, DIVERGED),
    ]
    second = "; before the second: that on the first part before the second began" if any(before) else ""
    caption = f"Metric: accuracy in %, {_SPREAD}{second}."
    return Table(title, nonempty(columns), tuple(row.number for row in shown), caption)


def _shares(lines: Sequence[_Line], settings: Sequence[str]) -> Table:
    layers = [(line, *layer) for line in lines for layer in line.layers]
    shown = [line.row for line, *_ in layers]
    counts = [_count(line.metrics.get("wrong_inputs")) for line, *_ in layers]
    columns = [
        *_setting_columns(settings, shown),
        Column("layer", "layer", [name for _, _, name, _ in layers]),
        *row_columns(shown, N_RUNS),
        Column("wrong", "wrong", counts, numeric=True),
    ]
    for share in SHARES:
        own = [line.metrics.get(f"{share}_{number}") for line, number, *_ in layers]
        columns += statistic_columns(f"{share}_0", {share: own}, headers=_HEADERS)
        columns.append(_paper_column(f"paper {share}", ".1f", [published.get(share) for *_, published in layers]))
    title, groups = "Class of the largest total attention of each layer", tuple(row.number for row in shown)
    return Table(title, nonempty(columns), groups, f"Share in %, {_SPREAD}: {_MEANING}.")


def _places(cells: Sequence[_Cell], settings: Sequence[str]) -> Table:
    shown = [cell.row for cell in cells]
    columns = [
        *_setting_columns(settings, shown),
        Column("layer", "layer", [cell.layer for cell in cells]),
        Column("part", "test inputs", [cell.part for cell in cells]),
        Column("answers", "answers", [cell.answers for cell in cells]),
        *row_columns(shown, N_RUNS),
        Column("inputs", "number", [_count(cell.inputs) for cell in cells], numeric=True),
    ]
    for place, name in enumerate(ATTENDED_PLACES):
        columns += statistic_columns(f"{name}_0", {name: [cell.places[place] for cell in cells]}, headers=_HEADERS)
    title, groups = (
        "Class and part of the largest total attention of each layer",
        tuple((cell.row.number, cell.layer) for cell in cells),
    )
    caption = (
        f"Share in %, {_SPREAD}: the class with the largest total attention of the layer is the one of the column."
    )
    return Table(title, nonempty(columns), groups, caption, records=lambda: [cell.record() for cell in cells])


def _count(one: Statistic | None) -> str:
    """Return ``339 ± 7``."""
    return MISSING if one is None else f"{one.mean:,.0f}" + ("" if one.std is None else f" ± {one.std:,.0f}")


def _values(name: str, one: Statistic | None) -> dict[str, Any]:
    return {f"{name}_mean": one and one.mean, f"{name}_std": one and one.std}


def _setting_columns(settings: Sequence[str], rows: Sequence[Row]) -> list[Column]:
    return [setting_column(name, [row.settings.get(name, MISSING) for row in rows]) for name in settings]


def _paper_column(name: str, form: str, values: Sequence[float | None]) -> Column:
    return Column(name, "paper", ["" if value is None else f"{100 * value:{form}}" for value in values], numeric=True)


def _records(line: _Line) -> Iterator[dict[str, Any]]:
    """Yield a record for each layer; what belongs to a setting is repeated."""
    metrics = line.metrics

    def values(name: str, metric: str) -> dict[str, Any]:
        return _values(name, metrics.get(metric))

    record: dict[str, Any] = {**line.row.settings, "n": line.row.n, "diverged": line.row.n_diverged}
    record |= values("accuracy", "accuracy") | values("wrong_inputs", "wrong_inputs")
    for number, (task, metric, after, before) in enumerate([*line.tasks, (None, "", None, None)][:2], 1):
        record |= {f"task_{number}": task, **values(f"accuracy_{number}", metric), f"paper_accuracy_{number}": after}
        record |= values(f"accuracy_{number}_before", f"{metric}_before")
        record[f"paper_accuracy_{number}_before"] = before
    for number, name, published in line.layers:
        record["layer"] = name
        for share in SHARES:
            record |= values(share, f"{share}_{number}")
        yield record | {f"paper_{share}": published.get(share) for share in SHARES}

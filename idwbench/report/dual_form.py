"""Table 1 of arXiv 2202.05798: is the class that a layer attends to most the target, or the answer?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from idwbench.report.frame import Row, Runs, metric_names, rows, run_notes, run_table, with_metric
from idwbench.report.labels import constants_title, varying_settings
from idwbench.report.references import DUAL_FORM_NOTE, SHARES, published_values
from idwbench.report.statistics import Statistic
from idwbench.report.tables import (
    DIVERGED,
    MISSING,
    N_RUNS,
    Column,
    Line,
    Table,
    line_records,
    nonempty,
    row_columns,
    setting_columns,
    statistic_columns,
    statistic_values,
)
from idwbench.runs.datasets import DATASETS, PartsConfig
from idwbench.runs.kinds.mlp import MlpConfig
from idwbench.runs.metrics import ANSWERED_SPLITS, ATTENDED_PLACES

__all__ = ["dual_form"]

_SPREAD = "mean ± sample standard deviation over n seeds"
_MEANING = "the class with the largest total attention of the layer is the target or the output"
_MEANING_OF_PLACES = "the class with the largest total attention of the layer is the one of the column"
_HEADERS = dict(zip(SHARES, ("target if wrong", "output if wrong", "both if right"), strict=True))
_HEADERS |= {"accuracy": "test accuracy", "before": "before the second"}
_HEADERS |= zip(
    ATTENDED_PLACES, ("target", "answer", "another", "target there", "answer there", "another there"), strict=True
)
_FACTS = {"layer": "layer", "part": "test inputs", "answers": "answers"}
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
    lines = [_Network(row, measured[row.number], *published_values(row.config)) for row in found]
    varying = ["dataset", *(name for name in varying_settings([row.settings for row in found]) if name != "dataset")]
    title = constants_title([row.config for row in found] or [*table.config[:1]], ("dataset_seed", *varying[1:]))
    notes = tuple(run_notes(found, table, "accuracy"))
    if not found:
        return (Table(title, (), (), notes=notes),)
    tables = [_accuracies(lines, varying, f"Accuracy · {title}"), _shares(lines, varying)]
    if any(column.name.startswith("paper") for one in tables for column in one.columns):
        notes = (DUAL_FORM_NOTE, *notes)
    if cells := [cell for line in lines for cell in _cells(line)]:
        tables.append(_places(cells, varying))
    tables[-1] = replace(tables[-1], notes=(*tables[-1].notes, *notes))
    return tuple(tables)


class _Network(NamedTuple):
    """A row with its metrics by name and split, the published shares by layer, and the accuracies for each part."""

    row: Row
    splits: Mapping[str, Mapping[str, Statistic]]
    published: Mapping[int, Mapping[str, float]]
    accuracies: Sequence[tuple[float | None, float | None]]

    def test(self, metric: str) -> Statistic | None:
        """Return a metric on the test data."""
        return self.splits.get(metric, {}).get("test")

    @property
    def tasks(self) -> list[tuple[str, str, float | None, float | None]]:
        """For each part of the data its name, its metric, and the published accuracies."""
        dataset = self.row.config.dataset
        names = [(self.row.config.dataset_label, "accuracy")]
        if isinstance(dataset, PartsConfig):
            names = [(part, f"accuracy_{number}") for number, part in enumerate(dataset.of, 1)]
        return [(*name, after, before) for name, (after, before) in zip(names, self.accuracies, strict=True)]

    @property
    def layers(self) -> list[str]:
        """The names of the layers."""
        assert isinstance(self.row.model, MlpConfig)
        return [*self.row.model.layer_names]


def _cells(line: _Network) -> Iterator[Line]:
    """Yield where each layer attends, for each part of the test data and for right and wrong answers."""
    counts, dataset = line.splits.get("answered_inputs", {}), line.row.config.dataset
    for number, layer in enumerate(line.layers):
        for split in (split for split in ANSWERED_SPLITS if split in counts):
            assert isinstance(dataset, PartsConfig)
            answers, _, part = split.partition("_")
            places: dict[str, Statistic | None] = {"answered_inputs": counts[split]}
            for place in ATTENDED_PLACES:
                is_target = answers == "right" and place.endswith("answer")  # the answer has no place of its own
                places[place] = None if is_target else line.splits.get(f"{place}_{number}", {}).get(split)
            yield Line(line.row, {"layer": layer, "part": dataset.of[int(part) - 1], "answers": answers}, places)


def _accuracies(lines: Sequence[_Network], settings: Sequence[str], title: str) -> Table:
    tasks = [(line, *task) for line in lines for task in line.tasks]
    shown = [line.row for line, *_ in tasks]
    after = [line.test(metric) for line, _, metric, *_ in tasks]
    before = [line.test(f"{metric}_before") for line, _, metric, *_ in tasks]
    columns = [
        *setting_columns(settings, shown),
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
    groups, records = tuple(row.number for row in shown), partial(_records, lines)
    return Table(title, nonempty(columns), groups, caption, records=records)


def _shares(lines: Sequence[_Network], settings: Sequence[str]) -> Table:
    layers = [(line, number, name) for line in lines for number, name in enumerate(line.layers)]
    shown = [line.row for line, *_ in layers]
    columns = [
        *setting_columns(settings, shown),
        Column("layer", "layer", [name for *_, name in layers]),
        *row_columns(shown, N_RUNS),
        Column("wrong", "wrong", [_count(line.test("wrong_inputs")) for line, *_ in layers], numeric=True),
    ]
    for share in SHARES:
        own = [line.test(f"{share}_{number}") for line, number, _ in layers]
        columns += statistic_columns(f"{share}_0", {share: own}, headers=_HEADERS)
        published = [line.published.get(number, {}).get(share) for line, number, _ in layers]
        columns.append(_paper_column(f"paper {share}", ".1f", published))
    title, groups = "Class of the largest total attention of each layer", tuple(row.number for row in shown)
    caption = f"Share in %, {_SPREAD}: {_MEANING}."
    return Table(title, nonempty(columns), groups, caption, notes=(_ABOUT_SHARES,))


def _places(cells: Sequence[Line], settings: Sequence[str]) -> Table:
    shown = [cell.row for cell in cells]
    columns = [
        *setting_columns(settings, shown),
        *(Column(name, header, [cell.facts[name] for cell in cells]) for name, header in _FACTS.items()),
        *row_columns(shown, N_RUNS),
        Column("inputs", "number", [_count(cell.statistics["answered_inputs"]) for cell in cells], numeric=True),
    ]
    places = {name: [cell.statistics[name] for cell in cells] for name in ATTENDED_PLACES}
    columns += statistic_columns(f"{ATTENDED_PLACES[0]}_0", places, headers=_HEADERS)
    title = "Class and part of the largest total attention of each layer"
    groups = tuple((cell.row.number, cell.facts["layer"]) for cell in cells)
    caption = f"Share in %, {_SPREAD}: {_MEANING_OF_PLACES}."
    records = partial(line_records, cells)
    return Table(title, nonempty(columns), groups, caption, notes=(_ABOUT_PLACES,), records=records)


def _count(one: Statistic | None) -> str:
    """Return ``339 ± 7``."""
    return MISSING if one is None else f"{one.mean:,.0f}" + ("" if one.std is None else f" ± {one.std:,.0f}")


def _paper_column(name: str, form: str, values: Sequence[float | None]) -> Column:
    return Column(name, "paper", ["" if value is None else f"{100 * value:{form}}" for value in values], numeric=True)


def _records(lines: Iterable[_Network]) -> list[dict[str, Any]]:
    """Return a record for each layer; what belongs to a setting is repeated."""
    records = []
    for line in lines:
        record: dict[str, Any] = {**line.row.settings, "n": line.row.n, "diverged": line.row.n_diverged}
        record |= statistic_values({name: line.test(name) for name in ("accuracy", "wrong_inputs")})
        for number, (task, metric, after, before) in enumerate([*line.tasks, (None, "", None, None)][:2], 1):
            name = f"accuracy_{number}"
            record |= {f"task_{number}": task, **statistic_values({name: line.test(metric)}), f"paper_{name}": after}
            record |= statistic_values({f"{name}_before": line.test(f"{metric}_before")})
            record[f"paper_{name}_before"] = before
        for number, layer in enumerate(line.layers):
            shares = statistic_values({share: line.test(f"{share}_{number}") for share in SHARES})
            published = {f"paper_{share}": line.published.get(number, {}).get(share) for share in SHARES}
            records.append({**record, "layer": layer, **shares, **published})
    return records

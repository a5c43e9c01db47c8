"""Tables of studies: what networks attend to in the history of their training, and ways to mend predictions.

Table 1 of arXiv 2202.05798 asks of recorded perceptrons whether the class that a layer attends to most is the target,
or the answer. Studies of their memories say what masks leave, and what a limited memory answers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import pandas

from idwbench.report import tables
from idwbench.report.frame import Row, Runs, metric_names, rows, run_notes, run_table, with_metric
from idwbench.report.labels import constants_title, count_label, varying_settings
from idwbench.report.references import DUAL_FORM_NOTE, SHARES, published_values
from idwbench.report.statistics import Statistic
from idwbench.report.tables import Column, Line, Table, line_columns, line_records, statistic_values
from idwbench.runs import metrics
from idwbench.runs.datasets import DATASETS, PartsConfig
from idwbench.runs.kinds.memory_study import MemoryStudyConfig
from idwbench.runs.kinds.mlp import MlpConfig

__all__ = ["TOGETHER", "WAY_LABELS", "Compared", "compared_models", "dual_form", "memory_tables", "repair_tables"]

# Repairs

WAY_LABELS = {
    "unpatched": "unpatched",
    "exact": "exact",
    "margin_1": "margin 1",
    "confidence_50": "confidence 0.5",
    "confidence_90": "confidence 0.9",
    "authors": "authors' η",
    "local": "local",
    "local_half": "local, half of r",
    "local_s8": "local, s = 8",
    "local_s2": "local, s = 2",
    "override": "override within r",
    "fine_tuning": "fine-tuning",
    "retraining": "retraining",
}
_REPAIR_HEADERS = {
    "success": "right (%)",
    "probability": "probability (%)",
    "noise_kept": "noise (%)",
    "shift_kept": "shift (%)",
    "neighbours_right": "neighbours (%)",
    "calibration_error": "calibration",
    "logit_change": "logit",
    "relative_radius": "r / nearest",
}
# The suffix of measures of all inputs in one network, see `idwbench.models.patch_comparison`.
TOGETHER = "_together"
_REPAIR_NOTES = (
    "Mean ± sample standard deviation over seeds of means over wrong test inputs.",
    "probability: of the right label. noise, shift: copies that get it, with noise and moved by a pixel. neighbours: "
    "right answers among the ten nearest test inputs of the class. better, worse: other test predictions that become "
    "right and wrong. calibration: expected error. logit: largest change at other test inputs. r / nearest: radius by "
    "the distance of the nearest training row.",
)

# A model and its statistics by measure, with its suffix, and way.
Compared = tuple[Row, Mapping[str, Mapping[str, Statistic]]]


def compared_models(runs: Runs) -> list[Compared]:
    """Return each model of the complete runs that compare ways to mend predictions, in the order of its first run."""
    table = run_table(runs)
    is_compared = table.config.map(lambda config: getattr(config.model, "compare", False)).astype(bool)
    table = table[is_compared & (table.state == "complete")]
    together = (f"{name}{TOGETHER}" for name in metrics.PATCH_MEASURES)
    known = _measured(table, (*metrics.PATCH_MEASURES, "relative_radius", *together, "patched"))
    return [(row, known[row.number]) for row in rows(table, "patched")]


def repair_tables(runs: Runs) -> tuple[Table, ...]:
    """Return two tables for each model that was compared: its wrong inputs mended one at a time, and in one network."""
    return tuple(_repair_table(model, suffix) for model in compared_models(runs) for suffix in ("", TOGETHER))


def _repair_table(model: Compared, suffix: str) -> Table:
    row, statistics = model
    words = "in one network" if suffix else "one at a time"
    measures = metrics.PATCH_MEASURES if suffix else (*metrics.PATCH_MEASURES, "relative_radius")
    lines = [
        Line(row, {"mended": words, "way": way}, {name: statistics[f"{name}{suffix}"].get(way) for name in measures})
        for way in metrics.PATCH_WAYS
        if way in statistics[f"success{suffix}"]
    ]
    columns = [Column("way", "way", [WAY_LABELS[line.facts["way"]] for line in lines])]
    for name in measures:
        texts = _texts(name, [line.statistics[name] for line in lines])
        columns.append(Column(name, _REPAIR_HEADERS.get(name, name), texts, numeric=True))
    cases = statistics["patched"]["cases"].mean
    title = f"{row.config.dataset_label} · {row.model.label} · {cases:g} wrong inputs {words}"
    notes = (f"{count_label(row.n, 'seed')}. {_REPAIR_NOTES[0]}", *_REPAIR_NOTES[1:])
    groups, records = (0,) * len(lines), partial(line_records, lines)
    return Table(title, tables.nonempty(columns), groups, notes=notes, records=records)


def _texts(measure: str, known: list[Statistic | None]) -> list[str]:
    """Return means with their spread, in few digits: nine columns stand side by side."""
    form, factor = (".1f", 100) if metrics.METRICS[measure].percent else (".3g", 1)
    numbers = [[] if one is None else [one.mean, *([] if one.std is None else [one.std])] for one in known]
    return [" ± ".join(f"{factor * number:{form}}" for number in own) or tables.MISSING for own in numbers]


# Studies of memories

_WORDS = ("accuracy on it", "on the rest", "other answers", "total variation")
_MEMORY_LABELS = {
    **dict(zip(metrics.FORGETTING_MEASURES, _WORDS, strict=True)),
    "whole": "as trained",
    "masked_last": "masked in the last layer",
    "ascended": "an epoch of ascent on it",
    "fine_tuned": "another epoch without it",
    "retrained": "trained again without it",
    "other_seed": "the same, another seed",
}
_KEEP_LABELS = {
    "top": "largest attention",
    "recent": "most recent",
    "random": "random",
    "rescaled": "random, rescaled",
    "merged": "merged",
}
_LIMITED_TITLES = {
    "accuracy": "Accuracy with a part of the slots",
    "same_answers": "Answers as with all slots",
    "attention_to_answer": "Attention to the class of the answer with a part of the slots",
}
_CAPTION = "In %, mean ± sample standard deviation over n seeds."
_FORGETTING_NOTE = (
    "it: the test inputs of the class or part that is masked, or the masked training rows themselves; the rest: the "
    "other test inputs. other answers, total variation: the share of the test inputs that are answered otherwise than "
    "by the network that is trained again without it, and the mean distance of the probabilities; another seed shows "
    "what chance alone makes of them."
)
_LIMITED_NOTE = (
    "On 250 test inputs at equal distances; each layer keeps so many slots. merged: new slots in place of all, the "
    "singular vectors of their sum. Attention to the class of the answer: it has the largest total attention of the "
    "slots that the last layer keeps."
)


def memory_tables(runs: Runs) -> tuple[Table, ...]:
    """Return the tables of stored runs of kind ``memory_study``, without other runs: of masks, then of limits."""
    table = run_table(runs)
    table = table[table.kind == "memory_study"]
    masks = [row for row in rows(table, "masked_accuracy") if _study(row).mask is not None]
    found = [_forgetting_table(masks, table)] if masks else []
    limits = (_limited_table(rows(table, metric), metric) for metric in _LIMITED_TITLES)
    return (*found, *(limit for limit in limits if limit.groups))


def _forgetting_table(studies: Sequence[Row], table: pandas.DataFrame) -> Table:
    """Return a table with a row for each mask and way to forget what it names."""
    known = _measured(table, metrics.FORGETTING_MEASURES)
    lines = [
        Line(row, {"network": way}, {name: by_way.get(way) for name, by_way in known[row.number].items()})
        for row in studies
        for way in metrics.FORGETTING_WAYS
        if way in row.statistics
    ]
    columns = line_columns(lines, ("dataset", "mask"), _MEMORY_LABELS)
    masks = table[table.config.map(lambda config: config.model.mask is not None).astype(bool)]
    notes = (_FORGETTING_NOTE, *run_notes(studies, with_metric(masks, "masked_accuracy"), "masked_accuracy"))
    title = f"Networks without a part of their training · {_constants(studies)}"
    groups = tuple(line.row.number for line in lines)
    return Table(title, columns, groups, _CAPTION, notes=notes, records=partial(line_records, lines))


def _limited_table(studies: Sequence[Row], metric: str) -> Table:
    """Return a table with a row for each network and number of slots, and a column for each rule."""
    networks: dict[Any, dict[int, dict[str, Row]]] = defaultdict(lambda: defaultdict(dict))
    for row in studies:
        study = _study(row)
        if study.slots is not None and study.keep is not None and "test" in row.statistics:
            networks[row.data, study.network.identity(), row.config.protocol.identity()][study.slots][study.keep] = row
    memories = [(slots, by_rule) for memory in networks.values() for slots, by_rule in sorted(memory.items())]
    shown, records = [], []
    for slots, by_rule in memories:
        known = {rule: by_rule[rule].statistics["test"] if rule in by_rule else None for rule in _KEEP_LABELS}
        shown.append(Line(next(iter(by_rule.values())), {"slots": slots}, known))
        records += [Line(row, {"metric": metric}, {"test": row.statistics["test"]}) for row in by_rule.values()]
    rows = [line.row for line in shown]
    return Table(
        f"{_LIMITED_TITLES[metric]} · {_constants(rows)}",
        line_columns(shown, ("dataset",), _KEEP_LABELS, metric) if shown else (),
        tuple(row.data for row in rows),
        _CAPTION,
        notes=(_LIMITED_NOTE,),
        records=partial(line_records, records),
    )


def _constants(studies: Sequence[Row]) -> str:
    return constants_title([row.config for row in studies], ("dataset_seed", "mask", "keep", "slots"))


def _study(row: Row) -> MemoryStudyConfig:
    assert isinstance(row.model, MemoryStudyConfig)
    return row.model


def _measured(table: pandas.DataFrame, names: Iterable[str]) -> dict[int, dict[str, Mapping[str, Statistic]]]:
    """Return metrics by the number of the row and by name, each by split."""
    found: dict[int, dict[str, Mapping[str, Statistic]]] = defaultdict(dict)
    for name in names:
        for row in rows(table, name):
            found[row.number][name] = row.statistics
    return found


# The dual form

_SPREAD = "mean ± sample standard deviation over n seeds"
_PLACES_TITLE = "Class and part of the largest total attention of each layer"
_PLACES = ("target", "answer", "another")
_MEANING = "the class with the largest total attention of the layer is the"
_LABELS = {
    **dict(zip(SHARES, ("target if wrong", "output if wrong", "both if right"), strict=True)),
    **{"accuracy": "test accuracy", "accuracy_before": "before the second"},
    **{"part": "test inputs", "wrong_inputs": "wrong", "answered_inputs": "number"},
    **dict(zip(metrics.ATTENDED_PLACES, [f"{one}{there}" for there in ("", " there") for one in _PLACES], strict=True)),
}
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
    measured = _measured(table, metric_names(table))
    lines = [_Network(row, measured[row.number], *published_values(row.config)) for row in found]
    varying = ["dataset", *(name for name in varying_settings([row.settings for row in found]) if name != "dataset")]
    title = constants_title([row.config for row in found] or [*table.config[:1]], ("dataset_seed", *varying[1:]))
    notes = tuple(run_notes(found, table, "accuracy"))
    if not found:
        return (Table(title, (), (), notes=notes),)
    made = [_accuracies(lines, varying, f"Accuracy · {title}"), _shares(lines, varying)]
    if any(column.name.startswith("paper") for one in made for column in one.columns):
        notes = (DUAL_FORM_NOTE, *notes)
    if places := [place for line in lines for place in _places(line)]:
        about = f"Share in %, {_SPREAD}: {_MEANING} one of the column."
        columns = line_columns(places, varying, _LABELS)
        groups = tuple((place.row.number, place.facts["layer"]) for place in places)
        records = partial(line_records, places)
        made.append(Table(_PLACES_TITLE, columns, groups, about, notes=(_ABOUT_PLACES,), records=records))
    made[-1] = replace(made[-1], notes=(*made[-1].notes, *notes))
    return tuple(made)


class _Network(NamedTuple):
    """A row with its metrics by name and split, the published shares by layer, and the accuracies for each part."""

    row: Row
    splits: Mapping[str, Mapping[str, Statistic]]
    published: Mapping[int, Mapping[str, float]]
    accuracies: Sequence[tuple[float | None, float | None]]

    def test(self, metric: str) -> Statistic | None:
        """Return a metric on the test data."""
        return self.splits.get(metric, {}).get("test")

    def shares(self, layer: int) -> dict[str, Statistic | None]:
        """Return the shares of a layer by name."""
        return {share: self.test(f"{share}_{layer}") for share in SHARES}

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


def _places(line: _Network) -> Iterator[Line]:
    """Yield where each layer attends, for each part of the test data and for right and wrong answers."""
    counts, dataset = line.splits.get("answered_inputs", {}), line.row.config.dataset
    for number, layer in enumerate(line.layers):
        for split in (split for split in metrics.ANSWERED_SPLITS if split in counts):
            assert isinstance(dataset, PartsConfig)
            answers, _, part = split.partition("_")
            places: dict[str, Statistic | None] = {"answered_inputs": counts[split]}
            for place in metrics.ATTENDED_PLACES:
                is_target = answers == "right" and place.endswith("answer")  # the answer has no place of its own
                places[place] = None if is_target else line.splits.get(f"{place}_{number}", {}).get(split)
            yield Line(line.row, {"layer": layer, "part": dataset.of[int(part) - 1], "answers": answers}, places)


def _accuracies(lines: Sequence[_Network], settings: Sequence[str], title: str) -> Table:
    tasks = []
    for line in lines:
        for task, metric, *published in line.tasks:
            known = {"accuracy": line.test(metric), "accuracy_before": line.test(f"{metric}_before")}
            tasks.append(Line(line.row, {"task": task}, known, _percent(dict(zip(known, published, strict=True)), 0)))
    shown = [task.row for task in tasks]
    columns = (*line_columns(tasks, settings, _LABELS), *tables.row_columns(shown, tables.DIVERGED))
    has_before = any(task.statistics["accuracy_before"] for task in tasks)
    second = "; before the second: that on the first part before the second began" if has_before else ""
    about = f"Metric: accuracy in %, {_SPREAD}{second}."
    return Table(title, columns, tuple(row.number for row in shown), about, records=partial(_records, lines))


def _shares(lines: Sequence[_Network], settings: Sequence[str]) -> Table:
    layers = []
    for line in lines:
        for number, layer in enumerate(line.layers):
            known = {"wrong_inputs": line.test("wrong_inputs")} | line.shares(number)
            layers.append(Line(line.row, {"layer": layer}, known, _percent(line.published.get(number, {}), 1)))
    groups = tuple(layer.row.number for layer in layers)
    about = f"Share in %, {_SPREAD}: {_MEANING} target or the output."
    columns = line_columns(layers, settings, _LABELS)
    return Table("Class of the largest total attention of each layer", columns, groups, about, notes=(_ABOUT_SHARES,))


def _percent(published: Mapping[str, float | None], digits: int) -> dict[str, str]:
    return {name: f"{100 * value:.{digits}f}" for name, value in published.items() if value is not None}


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
            published = {f"paper_{share}": line.published.get(number, {}).get(share) for share in SHARES}
            records.append({**record, "layer": layer, **statistic_values(line.shares(number)), **published})
    return records

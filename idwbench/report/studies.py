"""Tables of studies: what networks attend to in the history of their training, and ways to mend predictions.

Table 1 of arXiv 2202.05798 asks of recorded perceptrons whether the class that a layer attends to most is the target,
or the answer. Studies of their memories say what masks leave, and what a limited memory answers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pandas

from idwbench.report import tables
from idwbench.report.frame import Row, Runs, metric_names, rows, run_notes, run_table, with_metric
from idwbench.report.labels import constants_title, count_label, varying_settings
from idwbench.report.references import DUAL_FORM_NOTE, SHARES, published_values
from idwbench.report.statistics import Statistic
from idwbench.report.tables import Column, Line, Table, line_records, line_table, statistic_values
from idwbench.runs import metrics
from idwbench.runs.datasets import DATASETS, PartsConfig
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
    masks = table[table.config.map(lambda config: config.model.mask is not None).astype(bool)]
    studies = rows(masks, "masked_accuracy")
    found = [_forgetting_table(studies, masks)] if studies else []
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
    notes = (_FORGETTING_NOTE, *run_notes(studies, with_metric(table, "masked_accuracy"), "masked_accuracy"))
    title = f"Networks without a part of their training · {_constants(studies)}"
    return line_table(title, lines, ("dataset", "mask"), _MEMORY_LABELS, caption=_CAPTION, notes=notes)


def _limited_table(studies: Sequence[Row], metric: str) -> Table:
    """Return a table with a row for each network and number of slots, and a column for each rule."""
    networks: dict[Any, dict[int, dict[str, Row]]] = defaultdict(lambda: defaultdict(dict))
    for row in studies:
        study: Any = row.model
        if study.slots is not None and study.keep is not None and "test" in row.statistics:
            networks[row.data, study.network.identity(), row.config.protocol.identity()][study.slots][study.keep] = row
    memories = [(slots, by_rule) for memory in networks.values() for slots, by_rule in sorted(memory.items())]
    shown, records = [], []
    for slots, by_rule in memories:
        known = {rule: by_rule[rule].statistics["test"] if rule in by_rule else None for rule in _KEEP_LABELS}
        shown.append(Line(next(iter(by_rule.values())), {"slots": slots}, known))
        records += [Line(row, {"metric": metric}, {"test": row.statistics["test"]}) for row in by_rule.values()]
    rows = [line.row for line in shown]
    return line_table(
        f"{_LIMITED_TITLES[metric]} · {_constants(rows)}",
        shown,
        ("dataset",),
        _KEEP_LABELS,
        metric=metric,
        groups=tuple(row.data for row in rows),
        caption=_CAPTION,
        notes=(_LIMITED_NOTE,),
        records=partial(line_records, records),
    )


def _constants(studies: Sequence[Row]) -> str:
    return constants_title([row.config for row in studies], ("dataset_seed", "mask", "keep", "slots"))


def _measured(table: pandas.DataFrame, names: Iterable[str]) -> dict[int, dict[str, Mapping[str, Statistic]]]:
    """Return metrics by the number of the row and by name, each by split."""
    found: dict[int, dict[str, Mapping[str, Statistic]]] = defaultdict(dict)
    for name in names:
        for row in rows(table, name):
            found[row.number][name] = row.statistics
    return found


# The dual form

_SPREAD = "mean ± sample standard deviation over n seeds"
_ACCURACIES = ("accuracy", "accuracy_before")
_SHARES = ("wrong_inputs", *SHARES)
_SHARES_TITLE = "Class of the largest total attention of each layer"
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
    networks = [_network(row, measured[row.number]) for row in found]
    varying = ["dataset", *(name for name in varying_settings([row.settings for row in found]) if name != "dataset")]
    title = constants_title([row.config for row in found] or [*table.config[:1]], ("dataset_seed", *varying[1:]))
    notes = tuple(run_notes(found, table, "accuracy"))
    if not found:
        return (Table(title, (), (), notes=notes),)
    tasks, layers, places = ([line for network in networks for line in network[part]] for part in range(3))
    has_before = any(task.statistics["accuracy_before"] for task in tasks)
    second = "; before the second: that on the first part before the second began" if has_before else ""
    about = f"Metric: accuracy in %, {_SPREAD}{second}."
    options: dict[str, Any] = {"facts": [tables.DIVERGED], "caption": about, "records": partial(_records, networks)}
    made = [line_table(f"Accuracy · {title}", tasks, varying, _LABELS, **options)]
    about = f"Share in %, {_SPREAD}: {_MEANING} target or the output."
    options = {"caption": about, "notes": (_ABOUT_SHARES,), "records": tuple}
    made.append(line_table(_SHARES_TITLE, layers, varying, _LABELS, **options))
    if any(column.name.startswith("paper") for one in made for column in one.columns):
        notes = (DUAL_FORM_NOTE, *notes)
    if places:
        about = f"Share in %, {_SPREAD}: {_MEANING} one of the column."
        groups = tuple((place.row.number, place.facts["layer"]) for place in places)
        options = {"groups": groups, "caption": about, "notes": (_ABOUT_PLACES,)}
        made.append(line_table(_PLACES_TITLE, places, varying, _LABELS, **options))
    made[-1] = replace(made[-1], notes=(*made[-1].notes, *notes))
    return tuple(made)


def _network(row: Row, splits: Mapping[str, Mapping[str, Statistic]]) -> tuple[list[Line], list[Line], list[Line]]:
    """Return lines on a network: of the parts of its data, of its layers, and of where these attend.

    The last are for each part of the test data, with right and wrong answers apart.
    """
    dataset, model = row.config.dataset, row.model
    assert isinstance(model, MlpConfig)
    parts = dataset.of if isinstance(dataset, PartsConfig) else ()
    names = [(part, f"accuracy_{number}") for number, part in enumerate(parts, 1)]
    test = {name: by_split.get("test") for name, by_split in splits.items()}
    shares, accuracies = published_values(row.config)
    tasks, layers, places = [], [], []
    for (task, metric), published in zip(names or [(row.config.dataset_label, "accuracy")], accuracies, strict=True):
        known = {"accuracy": test.get(metric), "accuracy_before": test.get(f"{metric}_before")}
        tasks.append(Line(row, {"task": task}, known, _percent(dict(zip(known, published, strict=True)), 0)))
    counts = splits.get("answered_inputs", {})
    for number, layer in enumerate(model.layer_names):
        known = {name: test.get(name if name == "wrong_inputs" else f"{name}_{number}") for name in _SHARES}
        layers.append(Line(row, {"layer": layer}, known, _percent(shares.get(number, {}), 1)))
        for split in (split for split in metrics.ANSWERED_SPLITS if split in counts):
            answers, _, part = split.partition("_")
            known = {"answered_inputs": counts[split]}
            for place in metrics.ATTENDED_PLACES:
                is_target = answers == "right" and place.endswith("answer")  # the answer has no place of its own
                known[place] = None if is_target else splits.get(f"{place}_{number}", {}).get(split)
            places.append(Line(row, {"layer": layer, "part": parts[int(part) - 1], "answers": answers}, known))
    return tasks, layers, places


def _percent(published: Mapping[str, float | None], digits: int) -> dict[str, str]:
    return {name: f"{100 * value:.{digits}f}" for name, value in published.items() if value is not None}


def _records(networks: Iterable[Sequence[Sequence[Line]]]) -> list[dict[str, Any]]:
    """Return a record for each layer; what belongs to a setting is repeated."""
    records = []
    for tasks, layers, _ in networks:
        row = layers[0].row
        shares, accuracies = published_values(row.config)
        record: dict[str, Any] = {**row.settings, "n": row.n, "diverged": row.n_diverged}
        wrong = layers[0].statistics["wrong_inputs"]
        record |= statistic_values({"accuracy": row.statistics.get("test"), "wrong_inputs": wrong})
        for number in (1, 2):
            task = tasks[number - 1] if number <= len(tasks) else Line(row, {"task": None}, dict.fromkeys(_ACCURACIES))
            after, before = accuracies[number - 1] if number <= len(tasks) else (None, None)
            name = f"accuracy_{number}"
            record |= {f"task_{number}": task.facts["task"]}
            record |= statistic_values({name: task.statistics["accuracy"]}) | {f"paper_{name}": after}
            record |= statistic_values({f"{name}_before": task.statistics["accuracy_before"]})
            record[f"paper_{name}_before"] = before
        for number, layer in enumerate(layers):
            known = {share: layer.statistics[share] for share in SHARES}
            published = {f"paper_{share}": shares.get(number, {}).get(share) for share in SHARES}
            records.append({**record, **layer.facts, **statistic_values(known), **published})
    return records

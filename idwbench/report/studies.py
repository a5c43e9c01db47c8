"""Tables of studies: patches beside what else mends a wrong prediction, and the memory of recorded perceptrons.

Studies of memories say what masks leave, and what a limited memory answers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pandas

from idwbench.report.frame import Row, Runs, rows, run_notes, run_table, with_metric
from idwbench.report.labels import constants_title, count_label
from idwbench.report.statistics import Statistic
from idwbench.report.tables import (
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
)
from idwbench.runs.kinds.memory_study import MemoryStudyConfig
from idwbench.runs.metrics import FORGETTING_MEASURES, FORGETTING_WAYS, METRICS, PATCH_MEASURES, PATCH_WAYS

__all__ = ["TOGETHER", "WAY_LABELS", "Compared", "compared_models", "memory_tables", "repair_tables"]

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
    measures = [*PATCH_MEASURES, "relative_radius", *(f"{name}{TOGETHER}" for name in PATCH_MEASURES)]
    by_measure = {name: {row.number: row.statistics for row in rows(table, name)} for name in [*measures, "patched"]}
    return [(row, {name: by_measure[name][row.number] for name in by_measure}) for row in rows(table, "patched")]


def repair_tables(runs: Runs) -> tuple[Table, ...]:
    """Return two tables for each model that was compared: its wrong inputs mended one at a time, and in one network."""
    return tuple(_repair_table(model, suffix) for model in compared_models(runs) for suffix in ("", TOGETHER))


def _repair_table(model: Compared, suffix: str) -> Table:
    row, statistics = model
    words = "in one network" if suffix else "one at a time"
    measures = PATCH_MEASURES if suffix else (*PATCH_MEASURES, "relative_radius")
    ways = [way for way in PATCH_WAYS if way in statistics[f"success{suffix}"]]
    known = {measure: [statistics[f"{measure}{suffix}"].get(way) for way in ways] for measure in measures}
    columns = [Column("way", "way", [WAY_LABELS[way] for way in ways])]
    columns += [
        Column(name, _REPAIR_HEADERS.get(name, name), _texts(name, own), numeric=True) for name, own in known.items()
    ]
    cases = statistics["patched"]["cases"].mean
    title = f"{row.config.dataset_label} · {row.model.label} · {cases:g} wrong inputs {words}"
    notes = (f"{count_label(row.n, 'seed')}. {_REPAIR_NOTES[0]}", *_REPAIR_NOTES[1:])
    lines = [
        Line(row, {"mended": words, "way": way}, {name: own[place] for name, own in known.items()})
        for place, way in enumerate(ways)
    ]
    return Table(title, nonempty(columns), (0,) * len(ways), notes=notes, records=partial(line_records, lines))


def _texts(measure: str, known: list[Statistic | None]) -> list[str]:
    """Return means with their spread, in few digits: nine columns stand side by side."""
    form, factor = (".1f", 100) if METRICS[measure].percent else (".3g", 1)
    numbers = [[] if one is None else [one.mean, *([] if one.std is None else [one.std])] for one in known]
    return [" ± ".join(f"{factor * number:{form}}" for number in own) or MISSING for own in numbers]


# Studies of memories

_FORGETTING_LABELS = {
    "whole": "as trained",
    "masked": "masked",
    "masked_last": "masked in the last layer",
    "ascended": "an epoch of ascent on it",
    "fine_tuned": "another epoch without it",
    "retrained": "trained again without it",
    "other_seed": "the same, another seed",
}
_WORDS = ("accuracy on it", "on the rest", "other answers", "total variation")
_FORGETTING_HEADERS = dict(zip(FORGETTING_MEASURES, _WORDS, strict=True))
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
    tables = [_forgetting_table(masks, table)] if masks else []
    limits = (_limited_table(rows(table, metric), metric) for metric in _LIMITED_TITLES)
    return (*tables, *(limit for limit in limits if limit.groups))


def _forgetting_table(studies: Sequence[Row], table: pandas.DataFrame) -> Table:
    """Return a table with a row for each mask and way to forget what it names."""
    known = {name: {row.number: row.statistics for row in rows(table, name)} for name in FORGETTING_MEASURES}
    lines = [
        Line(row, {"network": way}, {name: of[row.number].get(way) for name, of in known.items()})
        for row in studies
        for way in FORGETTING_WAYS
        if way in row.statistics
    ]
    measured = {name: [line.statistics[name] for line in lines] for name in FORGETTING_MEASURES}
    columns = (
        *setting_columns(("dataset", "mask"), [line.row for line in lines]),
        Column("network", "network", [_FORGETTING_LABELS[line.facts["network"]] for line in lines]),
        *row_columns([line.row for line in lines], N_RUNS),
        *statistic_columns(None, measured, headers=_FORGETTING_HEADERS),
    )
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
    shown = [next(iter(by_rule.values())) for _, by_rule in memories]
    rules = {
        rule: [by_rule[rule].statistics["test"] if rule in by_rule else None for _, by_rule in memories]
        for rule in _KEEP_LABELS
    }
    columns = (
        *setting_columns(("dataset",), shown),
        Column("slots", "slots", [f"{slots:,}" for slots, _ in memories], numeric=True),
        *row_columns(shown, N_RUNS),
        *statistic_columns(metric, rules, headers=_KEEP_LABELS),
    )
    lines = [
        Line(row, {"metric": metric}, {"test": row.statistics["test"]})
        for _, by_rule in memories
        for row in by_rule.values()
    ]
    title, groups = f"{_LIMITED_TITLES[metric]} · {_constants(shown)}", tuple(row.data for row in shown)
    records = partial(line_records, lines)
    return Table(title, nonempty(columns), groups, _CAPTION, notes=(_LIMITED_NOTE,), records=records)


def _constants(studies: Sequence[Row]) -> str:
    return constants_title([row.config for row in studies], ("dataset_seed", "mask", "keep", "slots"))


def _study(row: Row) -> MemoryStudyConfig:
    assert isinstance(row.model, MemoryStudyConfig)
    return row.model

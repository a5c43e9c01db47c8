"""Tables of studies of recorded perceptrons: what masks leave, and what a limited memory answers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Any

import pandas

from idwbench.report.frame import Row, Runs, rows, run_notes, run_table, with_metric
from idwbench.report.labels import constants_title
from idwbench.report.tables import (
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
from idwbench.runs.metrics import FORGETTING_MEASURES, FORGETTING_WAYS

__all__ = ["memory_tables"]

_WAY_LABELS = {
    "whole": "as trained",
    "masked": "masked",
    "masked_last": "masked in the last layer",
    "ascended": "an epoch of ascent on it",
    "fine_tuned": "another epoch without it",
    "retrained": "trained again without it",
    "other_seed": "the same, another seed",
}
_WORDS = ("accuracy on it", "on the rest", "other answers", "total variation")
_HEADERS = dict(zip(FORGETTING_MEASURES, _WORDS, strict=True))
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
        Column("network", "network", [_WAY_LABELS[line.facts["network"]] for line in lines]),
        *row_columns([line.row for line in lines], N_RUNS),
        *statistic_columns(None, measured, headers=_HEADERS),
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

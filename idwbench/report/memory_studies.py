"""Tables of studies of recorded perceptrons: what masks leave, and what a limited memory answers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pandas

from idwbench.report.frame import Row, Runs, rows, run_notes, run_table, with_metric
from idwbench.report.labels import constants_title
from idwbench.report.statistics import Statistic
from idwbench.report.tables import Column, Table, nonempty, statistic_columns
from idwbench.runs.kinds.memory_study import MemoryStudyConfig
from idwbench.runs.metrics import FORGETTING_MEASURES, FORGETTING_WAYS

__all__ = ["KEEP_LABELS", "LIMITED_TITLES", "LimitedMemory", "limited_memories", "memory_tables"]

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
KEEP_LABELS = {
    "top": "largest attention",
    "recent": "most recent",
    "random": "random",
    "rescaled": "random, rescaled",
    "merged": "merged",
}
LIMITED_TITLES = {
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


class LimitedMemory(NamedTuple):
    """Studies of one network whose layers keep as many slots by each rule.

    Attributes:
        row: The row of any of them.
        slots: The number of slots of each layer.
        statistics: For each metric and rule the value on the test data.
    """

    row: Row
    slots: int
    statistics: Mapping[str, Mapping[str, Statistic]]


def memory_tables(runs: Runs) -> tuple[Table, ...]:
    """Return the tables of stored runs of kind ``memory_study``, without other runs: of masks, then of limits."""
    table = run_table(runs)
    table = table[table.kind == "memory_study"]
    masks = [row for row in rows(table, "masked_accuracy") if _study(row).mask is not None]
    limits = limited_memories(table)
    tables = [_forgetting_table(masks, table)] if masks else []
    tables += [_limited_table(limits, metric) for metric in LIMITED_TITLES if limits]
    return tuple(tables)


def _forgetting_table(studies: Sequence[Row], table: pandas.DataFrame) -> Table:
    """Return a table with a row for each mask and way to forget what it names."""
    by_name = {name: {row.number: row.statistics for row in rows(table, name)} for name in FORGETTING_MEASURES}
    lines = [(row, way) for row in studies for way in FORGETTING_WAYS if way in row.statistics]
    known = {name: [by_name[name][row.number].get(way) for row, way in lines] for name in FORGETTING_MEASURES}
    columns = [
        Column("dataset", "dataset", [row.config.dataset_label for row, _ in lines]),
        Column("mask", "mask", [_study(row).mask or "" for row, _ in lines]),
        Column("network", "network", [_WAY_LABELS[way] for _, way in lines]),
        Column("n", "n", [str(row.n) for row, _ in lines], numeric=True),
    ]
    for name in FORGETTING_MEASURES:
        columns += statistic_columns(name, {name: known[name]}, headers=_HEADERS)

    def records() -> list[dict[str, Any]]:
        return [
            {**row.settings, "n": row.n, "network": way}
            | _values({name: statistics[place] for name, statistics in known.items()})
            for place, (row, way) in enumerate(lines)
        ]

    masks = table[table.config.map(lambda config: config.model.mask is not None).astype(bool)]
    notes = (_FORGETTING_NOTE, *run_notes(studies, with_metric(masks, "masked_accuracy"), "masked_accuracy"))
    title = f"Networks without a part of their training · {_constants(studies)}"
    groups = tuple(row.number for row, _ in lines)
    return Table(title, tuple(columns), groups, _CAPTION, notes=notes, records=records)


def limited_memories(table: pandas.DataFrame) -> list[LimitedMemory]:
    """Return the complete studies of networks with limited memory in a `run_table`, by network and number of slots."""
    memories: dict[tuple[str, int], LimitedMemory] = {}
    for metric in LIMITED_TITLES:
        for row in rows(table, metric):
            study = _study(row)
            if study.keep is None or study.slots is None or "test" not in row.statistics:
                continue
            place = f"{row.data} {study.network} {row.config.protocol}", study.slots
            memory = memories.setdefault(place, LimitedMemory(row, study.slots, defaultdict(dict)))
            memory.statistics[metric][study.keep] = row.statistics["test"]  # type: ignore[index]
    networks = list(dict.fromkeys(network for network, _ in memories))
    return [memories[place] for place in sorted(memories, key=lambda place: (networks.index(place[0]), place[1]))]


def _limited_table(memories: Sequence[LimitedMemory], metric: str) -> Table:
    """Return a table with a row for each number of slots and a column for each rule."""
    memories = [one for one in memories if one.statistics.get(metric)]
    columns = [
        Column("dataset", "dataset", [one.row.config.dataset_label for one in memories]),
        Column("slots", "slots", [f"{one.slots:,}" for one in memories], numeric=True),
        Column("n", "n", [str(one.row.n) for one in memories], numeric=True),
    ]
    rules = {rule: [one.statistics[metric].get(rule) for one in memories] for rule in KEEP_LABELS}
    columns += statistic_columns(metric, rules, headers=KEEP_LABELS)

    def records() -> list[dict[str, Any]]:
        return [
            {**one.row.settings, "keep": rule, "n": one.row.n, "metric": metric} | _values({"test": statistic})
            for one in memories
            for rule, statistic in one.statistics[metric].items()
        ]

    title = f"{LIMITED_TITLES[metric]} · {_constants([one.row for one in memories])}"
    groups, notes = tuple(one.row.data for one in memories), (_LIMITED_NOTE,)
    return Table(title, nonempty(columns), groups, _CAPTION, notes=notes, records=records)


def _values(statistics: Mapping[str, Statistic | None]) -> dict[str, float | None]:
    """Return mean and standard deviation by name."""
    values: dict[str, float | None] = {}
    for name, one in statistics.items():
        values |= {f"{name}_mean": None if one is None else one.mean, f"{name}_std": None if one is None else one.std}
    return values


def _constants(studies: Sequence[Row]) -> str:
    return constants_title([row.config for row in studies], ("dataset_seed", "mask", "keep", "slots"))


def _study(row: Row) -> MemoryStudyConfig:
    assert isinstance(row.model, MemoryStudyConfig)
    return row.model

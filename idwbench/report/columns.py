"""Columns of tables: metrics with their spread, intervals, counts and references."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from idwbench.report.comparisons import compared_splits
from idwbench.report.labels import interval_label, plain_value, value_label
from idwbench.report.references import Reference, ReferenceSource
from idwbench.report.statistics import Statistic
from idwbench.report.tables import MISSING, Cell, Column

__all__ = [
    "TWO_LINES",
    "count_column",
    "diverged_column",
    "learned_column",
    "reference_column",
    "setting_column",
    "split_columns",
    "text_column",
]

TWO_LINES = {"prototypes": "proto-\ntypes", "initialisation": "initial-\nisation"}
_HEADERS = {"model": "kind", "plugin_sha256": "plugin", "dataset_seed": "data seed", "dataset_sha256": "sha256"}
_DIGEST = 8

Statistics = Sequence[Mapping[str, Statistic]]


def text_column(name: str, header: str, texts: Iterable[str], *, numeric: bool = False, narrow: str = "") -> Column:
    """Return a column of texts."""
    return Column(name, header, numeric, tuple(map(Cell, texts)), narrow_header=narrow)


def setting_column(name: str, values: Sequence[object]) -> Column:
    """Return the values of a setting, named as in `Results.to_frame`."""
    header = _HEADERS.get(name, name.removeprefix("dataset_").replace("_", " "))
    numeric = all(value in (None, MISSING) or _is_number(value) for value in values)
    texts = [plain_value(value) for value in values]
    if name.endswith("sha256"):
        texts = [text[:_DIGEST] for text in texts]
    return text_column(name, header, texts, numeric=numeric, narrow=TWO_LINES.get(name, header.replace(" ", "\n", 1)))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def count_column(counts: Iterable[int]) -> Column:
    """Return the numbers of complete runs."""
    return text_column("n", "n", map(str, counts), numeric=True)


def diverged_column(counts: Iterable[int]) -> Column:
    """Return the numbers of diverged runs, without zeros."""
    texts = (str(count) if count else "" for count in counts)
    return text_column("diverged", "diverged", texts, numeric=True, narrow="di-\nverged")


def learned_column(counts: Iterable[int | None]) -> Column:
    """Return the numbers of learned parameters."""
    texts = (MISSING if count is None else f"{count:,}" for count in counts)
    return text_column("learned", "learned parameters", texts, numeric=True, narrow="learned\nparams")


def reference_column(
    source: ReferenceSource, header: str, metric: str, rows: Iterable[Reference | None], narrow: str = ""
) -> Column:
    """Return published values of the metric."""
    texts = (
        value_label(metric, found.test_accuracy) + (f" (n={found.n})" if found.n else "") if found else ""
        for found in rows
    )
    return text_column(source, header, texts, numeric=True, narrow=narrow)


def split_columns(splits: Iterable[str], metric: str, rows: Statistics) -> list[Column]:
    """Return the metric on each split, followed by its interval if it has any."""
    splits = tuple(splits)
    columns = []
    for split in splits:
        column = [row.get(split) for row in rows]
        columns.append(_split_column(split, metric, column, split in compared_splits(splits)))
        if any(found is not None and found.interval is not None for found in column):
            columns.append(_interval_column(split, metric, column))
    return columns


def _split_column(split: str, metric: str, column: Sequence[Statistic | None], compared: bool) -> Column:
    def cells(spread: bool) -> tuple[Cell, ...]:
        return tuple(
            Cell(value_label(metric, found.mean, found.std if spread else None), found.best)
            if found is not None
            else Cell(MISSING)
            for found in column
        )

    return Column(split, split, True, cells(True), compared, short_cells=cells(False) if split == "train" else ())


def _interval_column(split: str, metric: str, column: Sequence[Statistic | None]) -> Column:
    found = (statistic and statistic.interval for statistic in column)
    texts = (interval_label(metric, one.low, one.high) if one else MISSING for one in found)
    header = f"{split} 95 % interval"
    return text_column(f"{split} interval", header, texts, numeric=True, narrow=f"{split}\n95 % interval")

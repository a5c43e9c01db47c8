"""The grid of a sweep: blocks of axes; each cell is a run for each seed."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from typing import Any

from idwbench.errors import ConfigError, UnknownSettingError, did_you_mean
from idwbench.runs.datasets import DatasetConfig
from idwbench.runs.kinds.models import model_setting_names, parse_model
from idwbench.runs.protocol import Protocol, parse_protocol

__all__ = [
    "MAX_RUNS",
    "Block",
    "Cell",
    "DataProtocol",
    "cells",
    "check_block",
    "check_distinct",
    "read_axes",
    "read_grid",
    "within",
]

MAX_RUNS = 1_000_000

Block = Mapping[str, tuple[Any, ...]]
Cell = dict[str, Any]
# A data set of a sweep and the protocol of its runs.
DataProtocol = tuple[DatasetConfig, Protocol]


@contextmanager
def within(*location: str | int) -> Iterator[None]:
    """Prepend `location` to that of a `ConfigError`."""
    try:
        yield
    except ConfigError as error:
        raise error.at(*location) from None


def cells(block: Block) -> Iterator[Cell]:
    """Yield the cells in the order of scikit-learn's ``ParameterGrid``: sorted axes, the last varies fastest."""
    names = sorted(block)
    for values in product(*(block[name] for name in names)):
        yield dict(zip(names, values, strict=True))


def check_distinct(values: Iterable[Any], problem: str) -> None:
    """Raise a `ConfigError` at the first repeated value; `problem` is formatted with the value."""
    first: dict[Any, int] = {}
    for index, value in enumerate(values):
        if first.setdefault(value, index) < index:
            raise ConfigError(f"{problem.format(value)}, at [{first[value]}]", location=(index,))


def read_grid(content: Any, datasets: Sequence[DataProtocol], n_seeds: int) -> tuple[Block, ...]:
    """Return the blocks of a list of mappings, or of one mapping; a single value is an axis of length one.

    An axis is a setting of the model or of the protocol. Every combination is checked with every data set.

    Raises:
        ConfigError: an unknown setting, an empty axis, a value that is not valid or occurs twice, a model that does not
            support a data set, or more than `MAX_RUNS` runs; `location` is the index of the block, the axis and the
            index of the value.
    """
    grid = []
    for index, block in enumerate(content if isinstance(content, list) and content else [content]):
        with within(index):
            grid.append(read_axes(block))
    n_runs = n_seeds * len(datasets) * sum(math.prod(map(len, block.values())) for block in grid)
    if n_runs > MAX_RUNS:
        raise ConfigError(f"expected at most {MAX_RUNS:,} runs, got {n_runs:,}")
    for index, block in enumerate(grid):
        with within(index):
            check_block(block, datasets)
    return tuple(grid)


def read_axes(content: Any, *, ranges: bool = False) -> Block:
    """Return the axes of one block; a range stays a mapping, and is refused unless `ranges`.

    Raises:
        ConfigError: an unknown setting, an empty axis, or a range.
    """
    if not isinstance(content, dict) or not content:
        raise ConfigError("expected a mapping of axes, such as {method: [idw], prototypes: [16]}")
    known = {*model_setting_names(), *Protocol.model_fields}
    for name, values in content.items():
        if name not in known:
            raise UnknownSettingError("unknown key", location=(name,), hint=did_you_mean(name, known))
        if values is None or values == []:
            raise ConfigError("the axis is empty, expected at least one value", location=(name,))
        if isinstance(values, dict) and not ranges:
            hint = "list the values, or add a sampler"
            raise ConfigError("a range needs a sampler", location=(name,), hint=hint)
    return {name: tuple(values) if isinstance(values, list) else (values,) for name, values in content.items()}


def check_block(block: Block, datasets: Sequence[DataProtocol]) -> None:
    """Raise `ConfigError` if a cell is not valid for a data set; `location` is the axis and the index of the value."""
    of_model = {name: values for name, values in block.items() if name not in Protocol.model_fields}
    of_protocol = {name: values for name, values in block.items() if name not in of_model}
    protocols = dict.fromkeys(protocol for _, protocol in datasets)

    def check_model(cell: Cell) -> None:
        model = parse_model(cell)
        for dataset, _ in datasets:
            model.check_dataset(dataset)

    def check_protocol(cell: Cell) -> None:
        for protocol in protocols:
            parse_protocol(cell, protocol)

    checks: list[tuple[Block, Callable[[Cell], None]]] = [(of_model, check_model), (of_protocol, check_protocol)]
    for axes, parse in checks:
        for cell in cells(axes):
            try:
                parse(cell)
            except ConfigError as error:
                if not error.location:
                    raise
                name = _axis_at_fault(str(error.location[0]), cell, parse)
                index = next(i for i, value in enumerate(block[name]) if value is cell[name])
                raise ConfigError(error.problem, location=(name, index), hint=error.hint) from None
    for name, values in block.items():
        with within(name):
            check_distinct(values, "{!r} is already in the axis")


def _axis_at_fault(name: str, cell: Cell, parse: Callable[[Cell], None]) -> str:
    """Return the axis `name`, or the one that contradicts the setting `name` of the protocol."""
    for axis, value in cell.items() if name not in cell else ():
        try:
            parse({axis: value})
        except ConfigError:
            return axis
    return name if name in cell else max(cell)

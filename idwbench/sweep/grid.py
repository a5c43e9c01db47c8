"""The grid of a sweep: blocks of axes; each cell is a run for each seed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import product
from typing import Any

from idwbench.errors import ConfigError, UnknownSettingError, did_you_mean
from idwbench.runs.models import model_setting_names, parse_model
from idwbench.runs.protocol import Protocol, parse_protocol

__all__ = ["MAX_RUNS", "Block", "cells", "read_grid", "within"]

MAX_RUNS = 1_000_000

Block = Mapping[str, tuple[Any, ...]]
Cell = dict[str, Any]


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


def read_grid(content: Any, protocol: Protocol, n_seeds: int) -> tuple[Block, ...]:
    """Return the blocks of a list of mappings, or of one mapping; a single value is an axis of length one.

    An axis is a setting of the model or of the protocol. Every combination is checked.

    Raises:
        ConfigError: an unknown setting, an empty axis, a value that is not valid or occurs twice, or more than
            `MAX_RUNS` runs; `location` is the block, the axis and, in a list, the index.
    """
    blocks = dict(enumerate(content)) if isinstance(content, list) and content else {None: content}
    grid = []
    for index, block in blocks.items():
        with within(*() if index is None else (index,)):
            grid.append(_read_axes(block))
    n_runs = n_seeds * sum(math.prod(map(len, block.values())) for block in grid)
    if n_runs > MAX_RUNS:
        raise ConfigError(f"expected at most {MAX_RUNS:,} runs, got {n_runs:,}")
    for (index, block), axes in zip(blocks.items(), grid, strict=True):
        with within(*() if index is None else (index,)):
            _check_block(block, axes, protocol)
    return tuple(grid)


def _read_axes(content: Any) -> Block:
    if not isinstance(content, dict) or not content:
        raise ConfigError("expected a mapping of axes, such as {method: [idw], prototypes: [16]}")
    known = {*model_setting_names(), *Protocol.model_fields}
    for name, values in content.items():
        if name not in known:
            raise UnknownSettingError("unknown key", location=(name,), hint=did_you_mean(name, known))
        if values is None or values == []:
            raise ConfigError("the axis is empty, expected at least one value", location=(name,))
    return {name: tuple(values) if isinstance(values, list) else (values,) for name, values in content.items()}


def _check_block(content: Mapping[str, Any], block: Block, protocol: Protocol) -> None:
    of_protocol = {name: values for name, values in block.items() if name in Protocol.model_fields}
    of_model = {name: values for name, values in block.items() if name not in of_protocol}
    for axes, parse in ((of_model, parse_model), (of_protocol, lambda cell: parse_protocol(cell, protocol))):
        for cell in cells(axes):
            try:
                parse(cell)
            except ConfigError as error:
                raise _at_axis(error, cell, parse, content) from None
    for name, values in block.items():
        first: dict[Any, int] = {}
        for index, value in enumerate(values):
            if first.setdefault(value, index) < index:
                raise ConfigError(f"{value!r} is already in the axis, at [{first[value]}]", location=(name, index))


def _at_axis(
    error: ConfigError, cell: Cell, parse: Callable[[Cell], object], content: Mapping[str, Any]
) -> ConfigError:
    """Return an error of a cell with the location of the value that caused it."""
    if not error.location:
        return error
    name = error.location[0]
    if name not in cell:  # a setting of the protocol that contradicts an axis
        name = next((axis for axis in cell if _fails(parse, {axis: cell[axis]})), max(cell))
    values = content[name]
    index = [i for i, value in enumerate(values) if value is cell[name]][:1] if isinstance(values, list) else []
    return ConfigError(error.problem, location=(name, *index), hint=error.hint)


def _fails(parse: Callable[[Cell], object], cell: Cell) -> bool:
    try:
        parse(cell)
    except ConfigError:
        return True
    return False

"""The grid of a sweep: blocks of axes, each value checked where it stands in the file."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from idwbench.config import DatasetConfig, Protocol, parse_protocol, parse_run
from idwbench.errors import ConfigError, did_you_mean
from idwbench.methods import Method, get_method, parameter_names, resolve_parameters
from idwbench.sweep.yaml_source import Location, YamlSource

__all__ = ["AxisValue", "Block", "count_cells", "read_grid"]

AxisValue = str | int | float
Block = Mapping[str, tuple[AxisValue, ...]]
_Check = Callable[[Any], AxisValue]

_REQUIRED = ("method", "prototypes")


def count_cells(grid: Sequence[Block]) -> int:
    """Return how many cells all blocks have together: Σ over blocks of Π over axes."""
    return sum(math.prod(len(values) for values in block.values()) for block in grid)


def read_grid(source: YamlSource, dataset: DatasetConfig, protocol: Protocol) -> tuple[Block, ...]:
    """Return the blocks under ``grid``: a mapping, or a list of mappings.

    Raises:
        SpecError: an unknown key, an empty axis, a value that is not valid or stands twice.
    """
    content = source.content["grid"]
    if isinstance(content, list) and content:
        blocks = enumerate(content)
        return tuple(_read_block(source, ("grid", index), block, dataset, protocol) for index, block in blocks)
    return (_read_block(source, ("grid",), content, dataset, protocol),)


def _read_block(
    source: YamlSource, location: Location, content: Any, dataset: DatasetConfig, protocol: Protocol
) -> Block:
    if not isinstance(content, dict) or not content:
        raise source.error(location, "expected a mapping of axes, such as {method: [idw], prototypes: [16]}")
    _check_keys(source, location, content)
    methods = [get_method(str(name)) for name in _read_axis(source, location, "method", content, _check_method)]
    axes: dict[str, tuple[AxisValue, ...]] = {}
    for name in content:
        _check_taken(source, location, name, methods)
        check = _check_for(name, methods, dataset, protocol)
        axes[name] = _read_axis(source, location, name, content, check)
    return axes


def _check_keys(source: YamlSource, location: Location, content: Mapping[str, Any]) -> None:
    valid = {*_REQUIRED, *parameter_names(), *Protocol.model_fields}
    for name in content:
        if name not in valid:
            raise source.error((*location, name), "unknown key" + did_you_mean(name, valid), at_key=True)
    for name in _REQUIRED:
        if name not in content:
            raise source.error(location, f"'{name}' is missing")


def _check_taken(source: YamlSource, location: Location, name: str, methods: Sequence[Method]) -> None:
    """Refuse a parameter that one of the block's methods does not take."""
    if name in _REQUIRED or name in Protocol.model_fields:
        return
    for method in methods:
        if name not in {parameter.name for parameter in method.parameters}:
            try:
                resolve_parameters(method, {name: None})
            except ConfigError as error:
                raise source.error((*location, name), str(error), at_key=True) from None


def _read_axis(
    source: YamlSource, location: Location, name: str, content: Mapping[str, Any], check: _Check
) -> tuple[AxisValue, ...]:
    here = (*location, name)
    raw = content[name]
    if raw is None or raw == []:
        raise source.error(here, "the axis is empty, expected at least one value", at_key=True)
    if not isinstance(raw, list):
        return (_checked(source, here, name, check, raw),)
    seen: dict[AxisValue, int] = {}
    for index, item in enumerate(raw):
        value = _checked(source, (*here, index), name, check, item)
        if value in seen:
            raise source.error((*here, index), f"{item!r} is already in the axis, at [{seen[value]}]")
        seen[value] = index
    return tuple(seen)


def _checked(source: YamlSource, location: Location, name: str, check: _Check, raw: Any) -> AxisValue:
    if raw is None:
        raise source.error(location, "a value is missing")
    try:
        return check(raw)
    except ConfigError as error:
        raise source.error(location, str(error).removeprefix(f"{name}: ")) from None


def _check_for(name: str, methods: Sequence[Method], dataset: DatasetConfig, protocol: Protocol) -> _Check:
    """Return the function that checks one value of the axis `name` and gives it as a run holds it."""
    if name == "method":
        return _check_method
    if name == "prototypes":
        return lambda raw: parse_run(dataset, methods[0].name, raw, protocol, 0).prototypes
    if name in Protocol.model_fields:
        return lambda raw: _axis_value(getattr(parse_protocol({name: raw}, protocol), name))
    return lambda raw: _check_parameter(methods, name, raw)


def _check_method(raw: Any) -> str:
    if not isinstance(raw, str):
        raise ConfigError(f"expected the name of a method, got {raw!r}")
    return get_method(raw).name


def _check_parameter(methods: Sequence[Method], name: str, raw: Any) -> AxisValue:
    values = [resolve_parameters(method, {name: raw})[name] for method in methods]
    return values[0]


def _axis_value(value: Any) -> AxisValue:
    assert isinstance(value, str | int | float), value  # every protocol setting is one of these
    return value

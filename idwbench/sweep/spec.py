"""`SweepSpec`: a sweep file as frozen values, all of it checked before anything runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from idwbench.config import DatasetConfig, Protocol, default_protocol, parse_dataset, parse_protocol
from idwbench.data.files import resolve_files
from idwbench.errors import ConfigError, DatasetError, did_you_mean
from idwbench.sweep.grid import Block, count_cells, read_grid
from idwbench.sweep.yaml_source import Location, YamlSource, read_yaml

__all__ = ["MAX_RUNS", "SweepSpec", "read_sweep"]

MAX_RUNS = 1_000_000

_KEYS = ("name", "description", "dataset", "protocol", "seeds", "grid")
_REQUIRED = ("name", "dataset", "seeds", "grid")
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class SweepSpec:
    """What a sweep file says.

    Attributes:
        protocol: The data set's default with the file's settings in place of its own.
        seeds: In the order of the file; a count n stands for 0 … n − 1.
        grid: Blocks of axes; a block stands for the product of its axes.
        source: The text of the file, for the record.
    """

    name: str
    description: str
    dataset: DatasetConfig
    protocol: Protocol
    seeds: tuple[int, ...]
    grid: tuple[Block, ...]
    source: str = ""


def read_sweep(path: Path) -> SweepSpec:
    """Read a sweep file and check all of it.

    Paths of the user's own data count from the folder of the sweep file.

    Raises:
        SpecError: anything is wrong; its text is ``file:line:column: key: what was expected``.
    """
    source = read_yaml(path)
    _check_keys(source)
    content = source.content
    name = _read_text(source, "name")
    if not name:
        raise source.error(("name",), "expected a name, got empty text")
    dataset = _read_dataset(source)
    base = default_protocol(dataset.name)
    protocol = base
    if "protocol" in content:
        protocol = _located(source, "protocol", lambda: parse_protocol(content["protocol"], base))
    seeds = _read_seeds(source)
    grid = read_grid(source, dataset, protocol)
    n_runs = count_cells(grid) * len(seeds)
    if n_runs > MAX_RUNS:
        raise source.error(("grid",), f"plans {n_runs:,} runs, at most {MAX_RUNS:,} are taken", at_key=True)
    description = _read_text(source, "description") if "description" in content else ""
    return SweepSpec(name, description, dataset, protocol, seeds, grid, source.text)


def _check_keys(source: YamlSource) -> None:
    if not isinstance(source.content, dict):
        raise source.error((), f"expected a mapping with the keys {', '.join(_REQUIRED)}")
    for key in source.content:
        if key not in _KEYS:
            raise source.error((key,), "unknown key" + did_you_mean(key, _KEYS), at_key=True)
    for key in _REQUIRED:
        if key not in source.content:
            raise source.error((), f"'{key}' is missing")


def _read_text(source: YamlSource, key: str) -> str:
    value = source.content[key]
    if not isinstance(value, str):
        raise source.error((key,), f"expected text, got {value!r}")
    if key == "name" and len(value.splitlines()) > 1:
        raise source.error((key,), "expected one line")
    return value.strip()


def _read_dataset(source: YamlSource) -> DatasetConfig:
    content = source.content["dataset"]
    if isinstance(content, dict) and "name" in content and not isinstance(content["name"], str):
        raise source.error(("dataset", "name"), f"expected the name of a data set, got {content['name']!r}")
    dataset = _located(source, "dataset", lambda: parse_dataset(content))
    try:
        return resolve_files(dataset, source.file.parent)
    except DatasetError as error:
        raise source.error(("dataset", "path"), str(error)) from None


def _located(source: YamlSource, key: str, parse: Callable[[], _Result]) -> _Result:
    """Return what `parse` gives; its `ConfigError` becomes one that knows its place in the file."""
    try:
        return parse()
    except ConfigError as error:
        message = str(error)
        location: Location = (key, *error.location)
        raise source.error(location, message, at_key=message.startswith("unknown key")) from None


def _read_seeds(source: YamlSource) -> tuple[int, ...]:
    content = source.content["seeds"]
    if isinstance(content, list):
        return _read_seed_list(source, content)
    if isinstance(content, bool) or not isinstance(content, int):
        raise source.error(("seeds",), f"expected a count or a list of whole numbers, got {content!r}")
    if not 1 <= content <= MAX_RUNS:
        raise source.error(("seeds",), f"expected a count from 1 to {MAX_RUNS:,}, got {content}")
    return tuple(range(content))


def _read_seed_list(source: YamlSource, content: list[Any]) -> tuple[int, ...]:
    if not content:
        raise source.error(("seeds",), "the list is empty, expected at least one seed")
    seen: dict[int, int] = {}
    for index, seed in enumerate(content):
        here = ("seeds", index)
        if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**32:
            raise source.error(here, f"expected a whole number from 0 to 2^32 - 1, got {seed!r}")
        if seed in seen:
            raise source.error(here, f"seed {seed} is already in the list, at [{seen[seed]}]")
        seen[seed] = index
    return tuple(seen)

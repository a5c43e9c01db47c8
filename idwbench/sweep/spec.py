"""`SweepSpec`: a validated sweep file."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from idwbench.errors import ConfigError
from idwbench.runs.datasets import DatasetConfig
from idwbench.runs.protocol import Protocol, default_protocol, parse_protocol
from idwbench.runs.settings import Seed, Settings, is_storable, validated
from idwbench.sweep.data_axes import read_datasets
from idwbench.sweep.grid import (
    MAX_RUNS,
    Block,
    DataProtocol,
    Setting,
    block_settings,
    check_distinct,
    read_grid,
    within,
)
from idwbench.sweep.sampler import SamplerSettings, SearchBlock, read_sampler, read_space
from idwbench.sweep.yaml_source import read_yaml

__all__ = ["SweepSpec", "read_sweep"]


@dataclass(frozen=True)
class SweepSpec:
    """The content of a sweep file.

    Attributes:
        dataset: The first data set.
        protocol: The default of that data set, with the settings of the file.
        seeds: In the order of the file; a count n stands for 0 … n − 1.
        grid: Blocks of axes; each stands for the product of its axes.
        source: The text of the file.
        further_datasets: The other data sets, each with its protocol.
        sampler: The search in place of a grid, which is then empty; or None.
        space: The blocks of axes and ranges of the search.
        parsed: The settings of the grid if they were parsed when it was checked, see `settings`.
    """

    name: str
    description: str
    dataset: DatasetConfig
    protocol: Protocol
    seeds: tuple[int, ...]
    grid: tuple[Block, ...]
    source: str = ""
    further_datasets: tuple[DataProtocol, ...] = ()
    sampler: SamplerSettings | None = None
    space: tuple[SearchBlock, ...] = ()
    parsed: tuple[Setting, ...] | None = field(default=None, repr=False, compare=False)

    @property
    def settings(self) -> tuple[Setting, ...]:
        """The model of each cell of the grid, and its protocol on each data set; raises `ConfigError`."""
        if self.parsed is not None:
            return self.parsed
        return tuple(setting for block in self.grid for setting in block_settings(block, self.datasets))

    @property
    def datasets(self) -> tuple[DataProtocol, ...]:
        """All data sets in the order of the plan, each with its protocol."""
        return ((self.dataset, self.protocol), *self.further_datasets)


def _check_name(name: str) -> str:
    if len(name.splitlines()) != 1 or not name.strip():
        raise PydanticCustomError("name", "expected one line of text")
    return name.strip()


def _check_storable(text: str) -> str:
    if not is_storable(text):
        raise PydanticCustomError("text", "expected text without NUL and lone surrogates")
    return text


def _expand_count(seeds: object) -> object:
    if isinstance(seeds, int) and not isinstance(seeds, bool) and 1 <= seeds <= MAX_RUNS:
        return list(range(seeds))
    if not isinstance(seeds, list) or not seeds:
        raise PydanticCustomError("seeds", f"expected a count from 1 to {MAX_RUNS:,}, or a list of seeds")
    return seeds


class _SweepFile(Settings):
    """The keys of a sweep file."""

    name: Annotated[str, AfterValidator(_check_storable), AfterValidator(_check_name)]
    description: Annotated[str, AfterValidator(_check_storable)] = ""
    dataset: Any
    protocol: Any = Field(default_factory=dict)
    seeds: Annotated[list[Seed], BeforeValidator(_expand_count)]
    grid: Any
    sampler: Any = None


def read_sweep(path: Path) -> SweepSpec:
    """Read and validate a sweep file; relative paths of data files start at its folder.

    Raises:
        SpecError: the file is not valid; the message has file, line, column and key.
    """
    source = read_yaml(path)
    try:
        file = validated(_SweepFile, source.content)
        with within("dataset"):
            found = read_datasets(file.dataset, path.parent)
        with within("protocol"):
            protocols = {one.name: parse_protocol(file.protocol, default_protocol(one.name)) for one in found}
        with within("seeds"):
            check_distinct(file.seeds, "seed {} is already in the list")
        datasets = tuple((dataset, protocols[dataset.name]) for dataset in found)
        sampler: SamplerSettings | None = None
        grid: tuple[Block, ...] = ()
        parsed: tuple[Setting, ...] = ()
        space: tuple[SearchBlock, ...] = ()
        if file.sampler is None:
            with within("grid"):
                grid, parsed = read_grid(file.grid, datasets, len(file.seeds))
        else:
            with within("sampler"):
                sampler = read_sampler(file.sampler, datasets, len(file.seeds))
            with within("grid"):
                space = read_space(file.grid, datasets, sampler)
    except ConfigError as error:
        raise source.error(error) from None
    (dataset, protocol), *others = datasets
    seeds, description = tuple(file.seeds), file.description.strip()
    further = tuple(others)
    return SweepSpec(
        file.name, description, dataset, protocol, seeds, grid, source.text, further, sampler, space, parsed
    )

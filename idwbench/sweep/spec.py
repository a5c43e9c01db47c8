"""`SweepSpec`: a validated sweep file, and the plan of its runs; neither has side effects."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from idwbench.errors import ConfigError, dotted
from idwbench.runs.config import RunConfig
from idwbench.runs.protocol import DEFAULT_PROTOCOLS, Protocol, parse_protocol
from idwbench.runs.settings import Seed, Settings, is_storable, validated
from idwbench.sweep.changes import changed_source
from idwbench.sweep.grid import (
    MAX_RUNS,
    Block,
    DataProtocol,
    Setting,
    check_distinct,
    read_datasets,
    read_grid,
    within,
)
from idwbench.sweep.sampler import SamplerSettings, SearchBlock, read_sampler, read_space
from idwbench.sweep.yaml_source import YamlSource, read_yaml

__all__ = ["SweepSpec", "plan", "read_sweep"]


@dataclass(frozen=True)
class SweepSpec:
    """The content of a sweep file.

    Attributes:
        datasets: In the order of the plan, each with its protocol: its default, with the settings of the file.
        seeds: In the order of the file; a count n stands for 0 … n − 1.
        grid: Blocks of axes; each stands for the product of its axes.
        settings: The model of each cell of the grid, and its protocol on each data set.
        source: The text of the file.
        sampler: The search in place of a grid, which is then empty; or None.
        space: The blocks of axes and ranges of the search.
    """

    name: str
    description: str
    datasets: tuple[DataProtocol, ...]
    seeds: tuple[int, ...]
    grid: tuple[Block, ...] = ()
    settings: tuple[Setting, ...] = field(default=(), repr=False)
    source: str = ""
    sampler: SamplerSettings | None = None
    space: tuple[SearchBlock, ...] = ()

    @property
    def searched_protocol(self) -> list[str]:
        """The settings of the protocol that differ between the runs of a search."""
        named = {name for block in self.space for name in block}
        return [name for name in Protocol.model_fields if name in named]


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


def read_sweep(path: Path, changes: Mapping[str, Any] | None = None) -> SweepSpec:
    """Read and validate a sweep file; relative paths of data files start at its folder.

    Args:
        path: The file.
        changes: Other values of its keys, of axes of its grid, of settings of its protocol, or of its mappings as
            ``dataset.noise``: ``{"seeds": 2, "epochs": 5}``. The source is then the text of the changed file.

    Raises:
        SpecError: the file is not valid; the message has file, line, column and key.
        ConfigError: a change is not valid, or nothing has its name; `location` is ``changes``.
    """
    spec = _read(read_yaml(path), path)
    if not changes:
        return spec
    try:
        text = changed_source(read_yaml(path).content, changes, _SweepFile.model_fields)
        return _read(read_yaml(path, text.encode()), path)
    except ConfigError as error:
        problem = ": ".join(filter(None, (dotted(error.location), error.problem)))
        raise ConfigError(problem, location=("changes",), hint=error.hint) from None


def _read(source: YamlSource, path: Path) -> SweepSpec:
    try:
        file = validated(_SweepFile, source.content)
        with within("dataset"):
            datasets = read_datasets(file.dataset, path.parent)
        with within("protocol"):
            protocols = {one.name: parse_protocol(file.protocol, DEFAULT_PROTOCOLS[one.name]) for one in datasets}
        with within("seeds"):
            check_distinct(file.seeds, "seed {} is already in the list")
        pairs = tuple((dataset, protocols[dataset.name]) for dataset in datasets)
        spec = SweepSpec(file.name, file.description.strip(), pairs, tuple(file.seeds), source=source.text)
        if file.sampler is None:
            with within("grid"):
                grid, settings = read_grid(file.grid, pairs, len(spec.seeds))
            return replace(spec, grid=grid, settings=settings)
        with within("sampler"):
            sampler = read_sampler(file.sampler, pairs, len(spec.seeds))
        with within("grid"):
            return replace(spec, sampler=sampler, space=read_space(file.grid, pairs))
    except ConfigError as error:
        raise source.error(error) from None


def plan(spec: SweepSpec) -> tuple[RunConfig, ...]:
    """Return the runs of a sweep, each once, in the order of data sets, blocks, `cells` and seeds (innermost).

    A run whose result does not depend on the seed, such as kernel regression, is planned for the first seed only.
    """
    runs: dict[str, list[RunConfig]] = {}
    for place, (dataset, _) in enumerate(spec.datasets):
        for model, protocols in spec.settings:
            # All settings were parsed when the file was read.
            first = RunConfig.model_construct(
                dataset=dataset, model=model, protocol=protocols[place], seed=spec.seeds[0]
            )
            # All blocks have the same seeds, so two cells that share one run share all.
            if first.run_key not in runs:
                seeds = () if model.is_deterministic else spec.seeds[1:]
                runs[first.run_key] = [first, *map(first.with_seed, seeds)]
    return tuple(run for group in runs.values() for run in group)

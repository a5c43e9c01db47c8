"""`SweepSpec`: a validated sweep file, changed or shipped, and the plan of its runs; none has side effects."""

import io
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import as_file, files
from os import PathLike
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError
from ruamel.yaml import YAML

from idwbench.errors import ConfigError, SpecError, did_you_mean, dotted
from idwbench.runs.config import RunConfig
from idwbench.runs.protocol import DEFAULT_PROTOCOLS, Protocol, parse_protocol
from idwbench.runs.settings import Seed, Settings, is_storable, validated
from idwbench.sweep.grid import MAX_RUNS, DataProtocol, Setting, check_distinct, read_datasets, read_grid, within
from idwbench.sweep.sampler import SamplerSettings, SearchBlock, read_sampler, read_space
from idwbench.sweep.yaml_source import YamlSource, read_yaml

__all__ = ["SweepSpec", "plan", "read_sweep", "shipped_descriptions", "shipped_sweeps", "sweep_path"]


@dataclass(frozen=True)
class SweepSpec:
    """The content of a sweep file.

    Attributes:
        datasets: In the order of the plan, each with its protocol: its default, with the settings of the file.
        seeds: In the order of the file; a count n stands for 0 … n − 1.
        settings: The model of each cell of the grid, and its protocol on each data set.
        source: The text of the file.
        sampler: The search in place of a grid, which then has no cells; or None.
        space: The blocks of axes and ranges of the search.
    """

    name: str
    description: str
    datasets: tuple[DataProtocol, ...]
    seeds: tuple[int, ...]
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
    source = read_yaml(path)
    spec = _read(source, path)
    if not changes:
        return spec
    try:
        text = _changed_source(source.content, changes)
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
                return replace(spec, settings=read_grid(file.grid, pairs, len(spec.seeds)))
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
            first = RunConfig(dataset=dataset, model=model, protocol=protocols[place], seed=spec.seeds[0])
            # All blocks have the same seeds, so two cells that share one run share all.
            if first.run_key not in runs:
                seeds = () if model.is_deterministic else spec.seeds[1:]
                runs[first.run_key] = [first, *map(first.with_seed, seeds)]
    return tuple(run for group in runs.values() for run in group)


def _changed_source(content: dict[str, Any], changes: Mapping[str, Any]) -> str:
    """Change the content of a valid sweep file, and return its text: what the stored sweep has as its source.

    A change is named by a key of the file, by an axis of the grid, which is changed in the blocks that
    have it, by another setting of the protocol, or by a setting of a mapping in the file, as ``dataset.noise``.

    Raises:
        ConfigError: nothing in the file has that name, or a setting is named of what is no mapping.
    """
    keys, grid = _SweepFile.model_fields, content["grid"]
    blocks = grid if isinstance(grid, list) else [grid]
    for name, value in changes.items():
        having = [block for block in blocks if name in block]
        part, _, setting = name.partition(".")
        if name in keys:
            content[name] = value
        elif having:
            for block in having:
                block[name] = value
        elif name in Protocol.model_fields:
            content["protocol"] = {**(content.get("protocol") or {}), name: value}
        elif part in keys and setting:
            content[part] = _mapping(part, content.get(part)) | {setting: value}
        else:
            known = {*keys, *Protocol.model_fields, *(axis for block in blocks for axis in block)}
            raise ConfigError(f"nothing in the sweep is called '{name}'", hint=did_you_mean(name, known))
    stream = io.StringIO()
    YAML(typ="safe", pure=True).dump(content, stream)
    return stream.getvalue()


def _mapping(key: str, content: Any) -> dict[str, Any]:
    if key == "dataset" and isinstance(content, str):
        return {"name": content}
    if not isinstance(content, dict | None):
        raise ConfigError(f"'{key}' is no mapping", hint=f"give all of it, as {key}=…")
    return content or {}


@cache
def shipped_sweeps() -> dict[str, Path]:
    """Return the files of the shipped sweeps by name, sorted.

    A package that was built has them inside; in a checkout they are in the folder beside the package.
    """
    with as_file(files("idwbench")) as package:
        inside = package / "sweeps"
        folder = inside if inside.is_dir() else package.parent / "sweeps"
    return {file.stem: file for file in sorted(folder.rglob("*.yaml"), key=lambda file: file.stem)}


def shipped_descriptions() -> dict[str, str]:
    """Return the description of each shipped sweep by its name."""
    return {name: str(read_yaml(file).content["description"]) for name, file in shipped_sweeps().items()}


def sweep_path(sweep: str | PathLike[str]) -> Path:
    """Return the path of a sweep file, given as a path or by the name of a shipped sweep.

    Text without a folder and without a suffix, such as ``two_moons``, is the name of a shipped sweep, also if the
    working directory has a file of that name; it is a path if no shipped sweep has this name. Everything else is a
    path: ``two_moons.yaml``, ``./two_moons`` and `pathlib.Path` objects.

    Raises:
        SpecError: neither a shipped sweep nor a file has this name.
    """
    path = Path(sweep)
    if not isinstance(sweep, str) or not sweep or path.name != sweep or path.suffix:
        return path
    shipped = shipped_sweeps()
    if sweep in shipped:
        return shipped[sweep]
    if "\0" in sweep or os.path.exists(path):
        return path
    hint = did_you_mean(sweep, shipped)
    raise SpecError("no such file, and no shipped sweep of this name", hint=hint, file=path)

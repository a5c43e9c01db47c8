"""`SamplerSettings` and `read_space`: a search among ranges and choices in place of a grid."""

# No postponed annotations: pydantic would compile each of them again.
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, get_args

from pydantic import Field

from idwbench.attention.kernels import KERNELS
from idwbench.attention.scores import METHODS
from idwbench.errors import ConfigError, did_you_mean
from idwbench.runs.kinds.models import MODELS
from idwbench.runs.kinds.scikit_learn import SCIKIT_LEARN_METHODS
from idwbench.runs.metrics import METRICS, SPLITS
from idwbench.runs.protocol import Protocol
from idwbench.runs.settings import Count, Seed, Settings, validated
from idwbench.sweep.grid import MAX_RUNS, Block, DataProtocol, block_settings, read_blocks, within

__all__ = ["Range", "SamplerSettings", "SearchBlock", "read_sampler", "read_space"]

_SPLIT = "validation"
_Number = Annotated[int | float, Field(allow_inf_nan=False)]


class SamplerSettings(Settings):
    """The settings of a search: an Optuna sampler, the number of trials, and what they are judged by.

    A trial is one setting with all seeds of the sweep. `batch` trials are chosen at a time, from the results of all
    earlier batches, so that a search does not depend on the number of processes.
    """

    optuna: Literal["tpe", "random", "gp"]
    trials: Count
    objective: str
    seed: Seed = 0
    batch: Count = 8

    @property
    def metric(self) -> str:
        """The name of the metric, of the validation rows."""
        return self.objective.removeprefix(f"{_SPLIT}_")


class _RangeSettings(Settings):
    """A range in a sweep file."""

    low: _Number
    high: _Number
    log: bool = False
    step: Annotated[int | float, Field(gt=0, allow_inf_nan=False)] | None = None


class Range(_RangeSettings):
    """Numbers from `low` to `high`, drawn evenly or in their logarithm; `whole` for integers."""

    whole: bool


# Axes of a search by name: values to choose from, or a range.
SearchBlock = Mapping[str, tuple[Any, ...] | Range]


def read_sampler(content: Any, datasets: Sequence[DataProtocol], n_seeds: int) -> SamplerSettings:
    """Return the settings of a search on one data set.

    Raises:
        ConfigError: an unknown key or value, several data sets, or an objective that the data set does not have;
            `location` is the key.
    """
    sampler = validated(SamplerSettings, content)
    split, _, name = sampler.objective.partition("_")
    if split in SPLITS and split != _SPLIT and name in METRICS:
        problem = f"a search chooses by validation rows, not by {split} rows"
        raise ConfigError(problem, location=("objective",), hint=f"did you mean '{_SPLIT}_{name}'?")
    if split != _SPLIT or name not in METRICS:
        usual = [f"{_SPLIT}_{metric}" for metric, known in METRICS.items() if known.task is not None]
        meant = f"{_SPLIT}_{sampler.objective}"
        hint = f"did you mean '{meant}'?" if sampler.objective in METRICS else did_you_mean(sampler.objective, usual)
        raise ConfigError(f"unknown objective '{sampler.objective}'", location=("objective",), hint=hint)
    if len(datasets) > 1:
        raise ConfigError(f"a search needs one data set, got {len(datasets)}")
    if sampler.trials * n_seeds > MAX_RUNS:
        raise ConfigError(f"expected at most {MAX_RUNS:,} runs, got {sampler.trials * n_seeds:,}", location=("trials",))
    dataset, _ = datasets[0]
    metric = METRICS[sampler.metric]
    if metric.task not in (None, dataset.task):
        names = [f"{_SPLIT}_{other}" for other, known in METRICS.items() if known.task == dataset.task]
        problem = f"{metric.name} is a metric of {metric.task}, and {dataset.name} is {dataset.task}"
        raise ConfigError(problem, location=("objective",), hint=did_you_mean(sampler.objective, names))
    if not dataset.validation:
        hint = f"set validation, as in dataset: {{name: {dataset.name}, validation: 0.2}}"
        raise ConfigError("the data set has no validation rows", location=("objective",), hint=hint)
    return sampler


def read_space(content: Any, datasets: Sequence[DataProtocol]) -> tuple[SearchBlock, ...]:
    """Return the blocks of a grid in which an axis may also be a range ``{low: 0.5, high: 16, log: true}``.

    A range has whole numbers if its setting is a whole number. Both ends are checked with all choices.

    Raises:
        ConfigError: as `idwbench.sweep.grid.read_grid`, and for a range that is empty, or a step with a logarithm.
    """
    space: list[SearchBlock] = []
    for index, axes in enumerate(read_blocks(content, ranges=True)):
        with within(index):
            space.append(_block(axes, datasets))
    return tuple(space)


def _block(axes: Block, datasets: Sequence[DataProtocol]) -> SearchBlock:
    ranges: dict[str, _RangeSettings] = {}
    for name, (first, *_) in axes.items():
        if isinstance(first, dict):
            with within(name):
                ranges[name] = _range(first)
    ends = {name: (ranges[name].low, ranges[name].high) if name in ranges else values for name, values in axes.items()}
    try:
        block_settings(ends, datasets)
    except ConfigError as error:
        name, *rest = map(str, error.location or ("",))
        if name not in ranges or not rest:
            raise
        location = (name, ("low", "high")[int(rest[0])])
        raise ConfigError(error.problem, location=location, hint=error.hint) from None
    return {**axes, **{name: Range(**dict(one), whole=_is_whole(name, axes)) for name, one in ranges.items()}}


def _is_whole(name: str, axes: Block) -> bool:
    """Return whether a setting of the protocol, of the kind or of what is named in a block takes whole numbers only."""
    for kind in axes.get("kind", ("prototypes",)):
        fields = {**Protocol.model_fields, **MODELS[kind].model_fields}
        if name in fields:
            return int in (fields[name].annotation, *get_args(fields[name].annotation))
    named = {value for values in axes.values() for value in values if isinstance(value, str)}
    records = [record for table in (METHODS, KERNELS, SCIKIT_LEARN_METHODS) for record in table.values()]
    return any(p.whole for record in records if record.name in named for p in record.parameters if p.name == name)


def _range(content: Any) -> _RangeSettings:
    one = validated(_RangeSettings, content)
    if not one.low < one.high:
        raise ConfigError(f"expected more than low ({one.low}), got {one.high}", location=("high",))
    if one.log and one.low <= 0:
        raise ConfigError(f"a logarithm needs numbers above 0, got {one.low}", location=("low",))
    if one.log and one.step is not None:
        raise ConfigError("has no meaning with log", location=("step",))
    return one

"""`plan`: from the specification of a sweep to its ordered runs, without side effects."""

from collections.abc import Iterator

from idwbench.results.garbage import paused_collection
from idwbench.runs.config import RunConfig
from idwbench.sweep.spec import SweepSpec

__all__ = ["plan", "planned_runs"]


def plan(spec: SweepSpec) -> tuple[RunConfig, ...]:
    """Return the runs of a sweep, see `planned_runs`."""
    with paused_collection():
        return tuple(planned_runs(spec))


def planned_runs(spec: SweepSpec) -> Iterator[RunConfig]:
    """Yield the runs of a sweep, each once, in the order of data sets, blocks, `cells` and seeds (innermost).

    A run whose result does not depend on the seed, such as kernel regression, is planned for the first seed only.

    Raises:
        ConfigError: a cell is not valid, in a specification that was not read from a file.
    """
    seen: set[str] = set()
    settings = spec.settings
    for place, (dataset, _) in enumerate(spec.datasets):
        for model, protocols in settings:
            first = RunConfig(dataset=dataset, model=model, protocol=protocols[place], seed=spec.seeds[0])
            # All blocks have the same seeds, so two cells that share one run share all.
            if first.run_key in seen:
                continue
            seen.add(first.run_key)
            yield first
            if not model.is_deterministic:
                yield from map(first.with_seed, spec.seeds[1:])

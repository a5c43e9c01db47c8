"""`plan`: from the specification of a sweep to its ordered runs, without side effects."""

from idwbench.results.garbage import paused_collection
from idwbench.runs.config import RunConfig
from idwbench.sweep.spec import SweepSpec

__all__ = ["plan"]


def plan(spec: SweepSpec) -> tuple[RunConfig, ...]:
    """Return the runs of a sweep, each once, in the order of data sets, blocks, `cells` and seeds (innermost).

    A run whose result does not depend on the seed, such as kernel regression, is planned for the first seed only.
    """
    runs: dict[str, list[RunConfig]] = {}
    with paused_collection():
        for place, (dataset, _) in enumerate(spec.datasets):
            for model, protocols in spec.settings:
                first = RunConfig(dataset=dataset, model=model, protocol=protocols[place], seed=spec.seeds[0])
                # All blocks have the same seeds, so two cells that share one run share all.
                if first.run_key not in runs:
                    seeds = () if model.is_deterministic else spec.seeds[1:]
                    runs[first.run_key] = [first, *map(first.with_seed, seeds)]
        return tuple(run for group in runs.values() for run in group)

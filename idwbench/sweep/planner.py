"""`plan`: from the specification of a sweep to its ordered runs, without side effects."""

from idwbench.runs.config import RunConfig
from idwbench.runs.models import parse_model
from idwbench.runs.protocol import Protocol, parse_protocol
from idwbench.sweep.grid import cells
from idwbench.sweep.spec import SweepSpec

__all__ = ["plan"]


def plan(spec: SweepSpec) -> tuple[RunConfig, ...]:
    """Return the runs of a sweep, each once, in the order of blocks, `cells` and seeds (innermost).

    Raises:
        ConfigError: a cell is not valid, in a specification that was not read from a file.
    """
    runs: list[RunConfig] = []
    seen: set[str] = set()
    for cell in (cell for block in spec.grid for cell in cells(block)):
        settings = {name: cell.pop(name) for name in Protocol.model_fields if name in cell}
        protocol = parse_protocol(settings, spec.protocol) if settings else spec.protocol
        first = RunConfig(dataset=spec.dataset, model=parse_model(cell), protocol=protocol, seed=spec.seeds[0])
        # All blocks have the same seeds, so two cells that share one run share all.
        if first.run_key in seen:
            continue
        seen.add(first.run_key)
        # Copies are not validated: the seeds have been checked.
        runs.extend(first.model_copy(update={"seed": seed}) for seed in spec.seeds)
    return tuple(runs)

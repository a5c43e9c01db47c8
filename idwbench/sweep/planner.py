"""`plan`: a sweep's specification in, the ordered list of its runs out; no clock, no disk, no torch."""

from __future__ import annotations

from idwbench.runs.config import RunConfig
from idwbench.runs.models import parse_model
from idwbench.runs.protocol import Protocol, parse_protocol
from idwbench.sweep.grid import cells
from idwbench.sweep.spec import SweepSpec

__all__ = ["plan"]


def plan(spec: SweepSpec) -> tuple[RunConfig, ...]:
    """Return the runs of a sweep, each once, in a stable order.

    Blocks come in the order of the file, the cells of a block in that of scikit-learn's ``ParameterGrid`` (axes
    sorted by name, the last varies fastest), seeds innermost. A run that two blocks share stays at its first place.

    Raises:
        ConfigError: the specification was made by hand and a cell of it is not valid.
    """
    runs: list[RunConfig] = []
    seen: set[str] = set()
    for cell in (cell for block in spec.grid for cell in cells(block)):
        settings = {name: cell.pop(name) for name in Protocol.model_fields if name in cell}
        protocol = parse_protocol(settings, spec.protocol) if settings else spec.protocol
        first = RunConfig(dataset=spec.dataset, model=parse_model(cell), protocol=protocol, seed=spec.seeds[0])
        # Blocks share the list of seeds, so two cells that share one run share them all.
        if first.run_key in seen:
            continue
        seen.add(first.run_key)
        # Copies skip validation: the seeds are checked already.
        runs.extend(first.model_copy(update={"seed": seed}) for seed in spec.seeds)
    return tuple(runs)

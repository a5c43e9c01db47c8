"""`plan`: a sweep's specification in, the ordered list of its runs out; no clock, no disk, no torch."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from idwbench.config import Protocol, RunConfig, parse_protocol, parse_run
from idwbench.sweep.grid import AxisValue, Block
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
    for block in spec.grid:
        for cell in _cells(block):
            first = _parse_cell(spec, cell)
            # Blocks share the list of seeds, so two cells that share one run share them all.
            if first.run_key in seen:
                continue
            seen.add(first.run_key)
            # Copies skip validation: a seed was checked with the file, and 100,000 runs are planned in a second.
            runs.extend(first.model_copy(update={"seed": seed}) for seed in spec.seeds)
    return tuple(runs)


def _cells(block: Block) -> Iterator[dict[str, AxisValue]]:
    names = sorted(block)
    for values in product(*(block[name] for name in names)):
        yield dict(zip(names, values, strict=True))


def _parse_cell(spec: SweepSpec, cell: dict[str, AxisValue]) -> RunConfig:
    """Return the cell's run with the first seed."""
    settings = {name: value for name, value in cell.items() if name in Protocol.model_fields}
    parameters = {
        name: value for name, value in cell.items() if name not in settings and name not in ("method", "prototypes")
    }
    return parse_run(
        spec.dataset,
        str(cell["method"]),
        int(cell["prototypes"]),
        parse_protocol(settings, spec.protocol) if settings else spec.protocol,
        spec.seeds[0],
        parameters,
    )

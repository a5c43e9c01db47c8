"""Claim 33, on the recall of hash tables, which reviewers of the paper ask about."""

from __future__ import annotations

from typing import Any

from idwbench.claims.definitions import Series, difference
from idwbench.claims.evidence import Evidence
from idwbench.claims.findings import Comparison, mean_label
from idwbench.report.lookups import lookup_capacities
from idwbench.runs.config import RunConfig

__all__ = ["recalls_more"]

_DIMENSIONS = (16, 64)
_TABLES: dict[str, dict[str, Any]] = {
    "idw": {"similarity": "idw", "scaling": "none", "power": 2.0, "epsilon": 1e-3},
    "scaled dot": {"similarity": "inner_product", "scaling": "sqrt_dimensions"},
}


def recalls_more(evidence: Evidence) -> list[Comparison | str]:
    """Compare capacities."""
    compared: list[Comparison | str] = []
    by_name = {name: _capacities(evidence, **model) for name, model in _TABLES.items()}
    for d in sorted({*_DIMENSIONS, *(d for capacities in by_name.values() for d in capacities)}):
        series = {name: Series(f"{name}, d = {d}", capacities.get(d, {})) for name, capacities in by_name.items()}
        if d in _DIMENSIONS:
            more = difference(f"capacity, idw − scaled dot, d = {d}", *series.values())
            compared.append(Comparison(more, above=0.0, unit="items"))
        if all(one.values for one in series.values()):
            words = (f"{name} {mean_label(one)}" for name, one in series.items())
            compared.append(f"d = {d}: {', '.join(words)} items.")
    return compared


def _capacities(evidence: Evidence, **model: Any) -> dict[int, dict[int, float]]:
    """Return the number of items at 99 % recall by dimensions and seed; bounds count as such."""
    settings = {"kind": "hash_table", "weighting": "softmax", "projections": "none", **model}

    def has_data(config: RunConfig) -> bool:
        dataset = config.dataset
        return (getattr(dataset, "noise", None), getattr(dataset, "mean", None)) == (0.2, 0.0)

    keys = [key for rows in evidence.complete("lookup", has_data, **settings) for key in rows.run_key]
    found = lookup_capacities(evidence.results.load_runs(keys)) if keys else []
    if not found:
        return {}
    # Of tables with other numbers of queries those with the most runs count.
    largest = max(found, key=lambda one: sum(map(len, one.by_dimensions.values()))).by_dimensions
    return {d: {seed: capacity.items for seed, capacity in seeds.items()} for d, seeds in largest.items()}

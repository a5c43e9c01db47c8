"""The linear programme behind patches that hold together."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["LARGEST_ETA", "smallest_etas", "unmet_rows"]

# No η may exceed this many times the largest η of a patch alone: beyond it two patches of different labels are so near
# that their values only cancel each other.
LARGEST_ETA = 1e3
# What a row may lack, as a fraction of its largest term; the second if the solver fails with the first.
TOLERANCES = (1e-10, 1e-7)


def smallest_etas(
    coefficients: NDArray[np.float64], required: NDArray[np.float64], units: NDArray[np.float64]
) -> NDArray[np.float64] | None:
    """Return the η ≥ 0 with the smallest sum for which coefficients · η ≥ required, or None if there are none.

    No η exceeds 1,000 times the largest unit.

    Args:
        coefficients: (constraints, patches).
        required: (constraints,).
        units: (patches,), the expected size of each η, positive.
    """
    from scipy.sparse import csr_array

    matrix, bound = _scaled(coefficients, required, units)
    solution = _minimum(units / units.max(), csr_array(matrix), bound, _largest(units))
    return None if solution is None else solution * units


def unmet_rows(
    coefficients: NDArray[np.float64], required: NDArray[np.float64], units: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Return the constraints that fail where the sum of what they lack is smallest; arguments as `smallest_etas`."""
    from scipy.sparse import csr_array, eye_array, hstack

    matrix, bound = _scaled(coefficients, required, units)
    n_rows, n_units = matrix.shape
    costs = np.concatenate([np.zeros(n_units), np.ones(n_rows)])
    largest = np.concatenate([_largest(units), np.full(n_rows, np.inf)])
    solution = _minimum(costs, hstack([csr_array(matrix), eye_array(n_rows)], format="csr"), bound, largest)
    return np.ones(n_rows, np.bool_) if solution is None else np.asarray(solution[n_units:] > 1e-9)


def _scaled(
    coefficients: NDArray[np.float64], required: NDArray[np.float64], units: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the constraints with η in `units` and each row divided by its largest term.

    The tolerances of the solver are absolute, and the terms of different rows can differ by any factor.
    """
    scaled = coefficients * units
    largest = np.maximum(np.abs(scaled).max(axis=1), np.abs(required))
    largest[largest == 0] = 1.0
    return scaled / largest[:, None], required / largest


def _largest(units: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(LARGEST_ETA * units.max() / units)


def _minimum(
    costs: NDArray[np.float64], matrix: Any, bound: NDArray[np.float64], largest: NDArray[np.float64]
) -> NDArray[np.float64] | None:
    """Return the x with the smallest costs · x for which matrix · x ≥ bound and 0 ≤ x ≤ largest, or None."""
    from scipy.optimize import linprog

    bounds = np.stack([np.zeros(len(costs)), largest], axis=1)
    for tolerance in TOLERANCES:
        options = {"primal_feasibility_tolerance": tolerance, "dual_feasibility_tolerance": tolerance}
        solution = linprog(costs, A_ub=-matrix, b_ub=-bound, bounds=bounds, method="highs", options=options)
        if solution.status in (0, 2):  # optimal or infeasible
            break
    return np.asarray(solution.x, np.float64) if solution.status == 0 else None

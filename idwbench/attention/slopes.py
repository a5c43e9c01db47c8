"""Values with a slope: the value of prototype j at x is v_j + A_j (x − k_j), as in Shepard's method of 1968.

A_j = U_jᵀ W_j has a low rank R. The term Σ_j a_j A_j (x − k_j) of an answer takes two products of matrices: W_j x of
all prototypes at once, and what they give, times the weights a_j, with U. No array has the size of all differences
x − k_j.

The functions take NumPy arrays and tensors alike, as those of `idwbench.attention.scores`; what is said there holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from idwbench.attention.scores import array_namespace, matrix_product, new_axis

__all__ = ["SLOPE_ARRAYS", "FlatSlopes", "slope_terms"]

# W (rank, prototypes, features) and U (rank, prototypes, outputs), as arrays of runs, tensors of files and parameters.
SLOPE_ARRAYS = ("slope_inputs", "slope_outputs")

Array = Any


class FlatSlopes(NamedTuple):
    """The slopes of all prototypes as matrices, whose rows are in the order of ranks and then of prototypes.

    Attributes:
        inputs: W (…, rank · prototypes, features).
        at_keys: W k (…, rank · prototypes).
        outputs: U (…, rank · prototypes, outputs).
        rank: R.
    """

    inputs: Array
    at_keys: Array
    outputs: Array
    rank: int

    @classmethod
    def of(cls, arrays: Mapping[str, Array], keys: Array) -> FlatSlopes | None:
        """Return the slopes among `arrays` by name, for keys (…, prototypes, features); None without any."""
        if SLOPE_ARRAYS[0] not in arrays:
            return None
        inputs, outputs = (arrays[name] for name in SLOPE_ARRAYS)
        leading = tuple(inputs.shape[:-3])
        at_keys = array_namespace(inputs).sum(inputs * new_axis(keys, -3), axis=-1)
        return cls(
            inputs.reshape(*leading, -1, inputs.shape[-1]),
            at_keys.reshape(*leading, -1),
            outputs.reshape(*leading, -1, outputs.shape[-1]),
            inputs.shape[-3],
        )


def slope_terms(
    weights: Array, inputs: Array, slope_inputs: Array, at_keys: Array, slope_outputs: Array, rank: int
) -> Array:
    """Return Σ_j a_j A_j (x − k_j), (…, batch, outputs), for weights a (…, batch, prototypes) at inputs x.

    The last arguments are those of `FlatSlopes`.
    """
    xp = array_namespace(weights)
    heights = matrix_product(inputs, slope_inputs.swapaxes(-1, -2)) - new_axis(at_keys, -2)
    return matrix_product(xp.concatenate([weights] * rank, axis=-1) * heights, slope_outputs)

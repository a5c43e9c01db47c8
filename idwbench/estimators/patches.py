"""Patches of a classifier by the closed form, without torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from idwbench.errors import PatchError
from idwbench.models.array_weights import array_weighting, array_weights, scores_on_arrays
from idwbench.models.criteria import Criterion, missing_lead
from idwbench.models.patch_solution import Answer, Patch, smallest_patch, weight_ratio

__all__ = ["added_prototype", "solve_patch"]

Prototypes = tuple[NDArray[np.float32], NDArray[np.float32]]


def solve_patch(
    query: NDArray[np.float32],
    label: int,
    prototypes: Prototypes,
    parameters: Mapping[str, Any],
    criterion: Criterion,
    *,
    keep_logits: bool = False,
) -> Patch | None:
    """Return the smallest patch of an ``idw`` classifier at `query` (features,); None if it meets the criterion.

    Raises:
        PatchError: the criterion cannot be met.
    """
    keys, values = prototypes
    epsilon = float(parameters["epsilon"])
    scores = scores_on_arrays("idw", parameters, query[None], keys)
    logits = (array_weighting("idw", parameters)(scores) @ values.astype(np.float64))[0]
    n_hits = int(np.isposinf(scores).sum())
    ratio = weight_ratio(n_hits, float(np.logaddexp.reduce(scores[0])), epsilon)

    def check(patch: Patch) -> None:
        patched_keys, patched_values = added_prototype(prototypes, patch)
        weights = array_weights("idw", parameters, query[None], patched_keys)
        if missing_lead(weights @ patched_values.astype(np.float64), patch) > 0:
            problem = f"float32 cannot hold a patch that meets {criterion.amount:g}"
            raise PatchError(problem, location=(criterion.kind,), hint="try a larger amount")

    answer = Answer(query, ratio, logits, int(logits.argmax()))
    return smallest_patch(answer, label, criterion, check, keep_logits=keep_logits)


def added_prototype(prototypes: Prototypes, patch: Patch) -> Prototypes:
    """Return keys and values with the prototype of a patch at the end."""
    keys, values = prototypes
    value = np.zeros(values.shape[1], np.float32) if patch.logits is None else patch.logits.copy()
    value[patch.label] += np.float32(patch.eta)
    return np.concatenate([keys, patch.key[None]]), np.concatenate([values, value[None]])

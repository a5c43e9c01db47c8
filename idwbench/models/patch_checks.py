"""Checks of a float32 model against what its patches must achieve."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from idwbench.models.criteria import Requirement, missing_lead
from idwbench.models.modules import PrototypeNetwork

__all__ = ["missing_leads"]

# Rows of the batch in which a query must hold too.
SMALLEST_BATCH = 64


@torch.no_grad()
def missing_leads(network: PrototypeNetwork, required: Sequence[Requirement]) -> NDArray[np.float64]:
    """Return how much each requirement lacks of its lead, (n,), positive where the float32 model does not meet it.

    Each query is evaluated alone and in a batch with the others; tolerance as in `check_patch`.
    """
    if not required:
        return np.zeros(0)
    queries = np.stack([one.key for one in required])
    copies = -(-SMALLEST_BATCH // len(queries))
    batches = [batch.view(copies, len(queries), -1) for batch in _evaluations(network, np.tile(queries, (copies, 1)))]
    missing = np.zeros(len(queries))
    for place, one in enumerate(required):
        evaluations = [*_evaluations(network, one.key[None]), *(batch[:, place] for batch in batches)]
        missing[place] = missing_lead(torch.cat(evaluations).double().numpy(), one)
    return missing


def _evaluations(network: PrototypeNetwork, queries: NDArray[np.float32]) -> list[Tensor]:
    """Return the outputs of predictions and those of the forward pass, which round differently."""
    return [torch.from_numpy(network.outputs(queries)), network(torch.from_numpy(queries))]

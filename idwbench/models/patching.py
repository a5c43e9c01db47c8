"""Patches of `idw` models: one added prototype that changes the answer to one input.

At a query q, prototype j weighs w_j = 1/(ε + d_j^p). With S = Σ w_j, logits z, the target class c and
Δ = max_{k≠c} z_k − z_c, a new key k' = q weighs w' = 1/ε there. With r = S/w' = ε·S and the new value η e_c,

    z'_k = (r z_k + η [k = c]) / (1 + r),

so η = rΔ ties, η = rΔ + m(1 + r) wins by a logit margin m, and any confidence has an η in closed form. With ε = 0 and
h keys that equal q already, the weights there are equal: r = h.

The value z(q) + η e_c keeps the logits at q and adds to one of them:

    z'_k = (r z_k + z_k + η [k = c]) / (1 + r) = z_k + η [k = c] / (1 + r),

so η = (1 + r)Δ ties and η = (1 + r)(Δ + m) wins by m. The probabilities at q hardly change then, but the larger value
changes more predictions of other inputs if there are more than two classes.

The paper's Eq. 7 (arXiv 2310.18805) equals this; the authors' code normalises over the old keys alone and
overshoots by a factor of 1 + 1/(εS).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from idwbench.attention.scores import idw
from idwbench.errors import PatchError
from idwbench.models.criteria import Criterion, Requirement
from idwbench.models.modules import PrototypeNetwork
from idwbench.models.patch_checks import missing_leads
from idwbench.models.patch_solution import Answer, Patch, rounded_eta, smallest_patch, weight_ratio

__all__ = [
    "Criterion",
    "Patch",
    "apply_patch",
    "apply_patches",
    "check_patch",
    "check_query",
    "logits_at",
    "make_patch",
    "rounded_eta",
]


def make_patch(
    network: PrototypeNetwork,
    query: NDArray[np.float32],
    label: int,
    criterion: Criterion | None = None,
    *,
    keep_logits: bool = False,
) -> Patch | None:
    """Return the smallest patch after which the float32 model meets the criterion at `query` (features,), or None.

    None means that the model already meets the criterion. η is computed in float64; if a relative margin is lost in
    rounding to float32, it is multiplied by ten until the model meets it. With `keep_logits` the new value is
    z(q) + η e_c instead of η e_c.

    Raises:
        PatchError: not an `idw` model, an invalid query or label, a confidence too low for the label to win, or a
            criterion that float32 cannot meet.
    """
    criterion = criterion or Criterion()
    check_query(network, query, label)
    ratio, logits = logits_at(network, query)
    answer = Answer(query, ratio, logits.numpy(), int(network.predict(query[None])[0]))

    def check(patch: Patch) -> None:
        check_patch(apply_patch(network, patch), patch)

    return smallest_patch(answer, label, criterion, check, keep_logits=keep_logits)


def check_patch(network: PrototypeNetwork, patch: Requirement) -> None:
    """Check that a patched float32 model meets the criterion, for the query alone and in a batch.

    The tolerance is 1e-4 of the required lead plus 1e-5 of the largest logit.

    Raises:
        PatchError: it does not.
    """
    if missing_leads(network, [patch])[0] > 0:
        raise PatchError(
            f"float32 cannot hold a patch that meets {patch.criterion.amount:g}",
            location=(patch.criterion.kind,),
            hint="try a larger amount",
        )


def apply_patch(network: PrototypeNetwork, patch: Patch) -> PrototypeNetwork:
    """Return a network with the prototype of `patch` appended."""
    return apply_patches(network, [patch])


def apply_patches(network: PrototypeNetwork, patches: Sequence[Patch]) -> PrototypeNetwork:
    """Return a network with the prototypes of `patches` appended in order."""
    added = torch.zeros(len(patches), network.values.shape[1])
    for value, patch in zip(added, patches, strict=True):
        if patch.logits is not None:
            value += torch.from_numpy(patch.logits)
        value[patch.label] += patch.eta
    keys = torch.cat([network.keys.detach().cpu(), *(torch.from_numpy(patch.key)[None] for patch in patches)])
    values = torch.cat([network.values.detach().cpu(), added])
    return PrototypeNetwork(network.method, network.parameters_of_method, keys, values)


def check_query(network: PrototypeNetwork, query: NDArray[np.float32], label: int) -> None:
    """Check that the answer of a network to a query can be patched.

    Raises:
        PatchError: not an `idw` model, or an invalid query or label.
    """
    if network.method.name != "idw":
        raise PatchError(f"only 'idw' models can be patched, this one is '{network.method.name}'")
    n_features, n_classes = network.keys.shape[1], network.values.shape[1]
    if query.shape != (n_features,):
        raise PatchError(f"expected {n_features} numbers, got {query.size}", location=("x",))
    if not np.isfinite(query).all():
        raise PatchError("expected finite numbers", location=("x",))
    if not 0 <= label < n_classes:
        raise PatchError(f"expected 0 to {n_classes - 1}, got {label}", location=("label",))
    if n_classes == 1:
        raise PatchError("this model has one class only: there is nothing to patch")


@torch.no_grad()
def logits_at(network: PrototypeNetwork, query: NDArray[np.float32]) -> tuple[float, Float[Tensor, " classes"]]:
    """Return r = S/w' and the logits of an `idw` network at the query (features,), in float64."""
    power, epsilon = (float(network.parameters_of_method[name]) for name in ("power", "epsilon"))
    inputs = torch.from_numpy(query).double()[None]
    scores = idw(inputs, network.keys.detach().cpu().double(), power=power, epsilon=epsilon)[0]
    hits = torch.isposinf(scores)
    n_hits = int(hits.sum())
    weights = hits.double() / n_hits if n_hits else scores.softmax(0)
    ratio = weight_ratio(n_hits, float(scores.logsumexp(0)), epsilon)
    return ratio, weights @ network.values.detach().cpu().double()

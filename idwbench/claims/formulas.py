"""The claims on formulas: 6 to 10, 12 and 20, computed in float64 from the package's scores and plain NumPy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from idwbench.claims.evidence import Evidence
from idwbench.claims.findings import Finding, bounded, claim

__all__: list[str] = []

Float = NDArray[np.float64]

# Largest relative or absolute difference of an identity in float64.
TOLERANCE = 1e-12
# A weight that counts as 1: with the paper's ε = 0.001 the weight at d = 0 is 0.999.
NEAR_ONE = 0.99
# A distance that stands for d → 0, and the far end of Figure 1.
ZERO, FAR = 1e-9, 5.0
# An absolute gradient below this counts as vanished.
VANISHED = 0.1
# A value η counts as the smallest that works up to this factor.
SMALLEST = 1.002
EPSILON = 1e-3
_POWERS = (0.5, 1.0, 2.0, 3.0, 8.0)
_EPSILONS = (1e-6, 1e-3, 0.1, 1.0)
_WITH_POWER = ("inv_dist", "idw")
_DISTANCE_METHODS = ("neg_dist", "gaussian", *_WITH_POWER)


@claim(6, "Eq. 3 and 4")
def shepard_identity(evidence: Evidence) -> list[Finding]:
    """Softmax of −log(ε + d^p) equals Shepard's weights.

    Largest relative deviation of the weights over p from 0.5 to 8 and ε from 1e-6 to 1 at most {TOLERANCE:g}.
    """
    inputs, keys = _points()
    distances = _distances(inputs, keys)

    def deviations() -> Iterator[float]:
        for power, epsilon in product(_POWERS, _EPSILONS):
            similarities = 1 / (epsilon + distances**power)
            expected = similarities / similarities.sum(1, keepdims=True)
            found = _weights("idw", inputs, keys, power=power, epsilon=epsilon)
            yield from np.abs(found / expected - 1).ravel()

    return [bounded("relative deviation of the weights", deviations(), "≤", TOLERANCE)]


@claim(7, "text")
def nearest_key_limit(evidence: Evidence) -> list[Finding | str]:
    """For ε → 0 and p → ∞ the answer is that of the nearest key.

    The largest weight is that of the nearest key for every p and ε, and is 1 at ε = 0, p = 1e5; at ε = 0.001 only if
    all d > 1.
    """
    inputs, keys = _points()
    nearest = _distances(inputs, keys).argmin(1)
    rows = np.arange(len(inputs))
    limits = [
        _weights("idw", inputs, keys, power=power, epsilon=epsilon).argmax(1) == nearest
        for power, epsilon in product((1.0, 2.0, 8.0), _EPSILONS)
    ]
    without_epsilon = _weights("idw", inputs, keys, power=1e5, epsilon=0.0)[rows, nearest]
    # All distances of the first are above 1, all of the second below.
    scale = _distances(inputs, keys)
    far, near = 2 / scale.min(), 0.5 / scale.max()
    beyond = _weights("idw", far * inputs, far * keys, power=1e5, epsilon=1e-3)[rows, nearest]
    equal = np.abs(_weights("idw", near * inputs, near * keys, power=1e5, epsilon=1e-3) - 1 / len(keys))
    return [
        bounded("the largest weight is that of the nearest key", np.concatenate(limits), "≥", 1),
        bounded("its weight at ε = 0, p = 1e5", without_epsilon, "≥", 1 - 1e-6),
        bounded("its weight at ε = 0.001, p = 1e5 and all d > 1", beyond, "≥", 1 - 1e-6),
        bounded("weights less 1/prototypes at ε = 0.001, p = 1e5 and all d < 1", equal.ravel(), "≤", TOLERANCE),
        "Only in this order: ε → 0, then p → ∞. At a fixed ε all keys with d < 1 get equal weights as p → ∞, and the "
        "nearest key has weight 1 only if all d > 1.",
    ]


@claim(8, "text")
def student_t_kernel(evidence: Evidence) -> list[Finding]:
    """With p = 2 and ε = 1 the kernel is that of Student's t.

    exp(score) is π times the density of Student's t with one degree of freedom, for d from 0 to 1000 (relative
    deviation at most {TOLERANCE:g}).
    """
    from scipy.stats import t

    distances = np.concatenate([[0.0], np.geomspace(1e-6, 1e3, 200)])
    kernel, _ = _scores("idw", distances, power=2.0, epsilon=1.0)
    deviations = np.abs(np.exp(kernel) / (np.pi * t.pdf(distances, 1)) - 1)
    return [bounded("relative deviation of the kernel", deviations, "≤", TOLERANCE)]


@claim(9, "Figure 1")
def weights_of_two_keys(evidence: Evidence) -> list[Finding]:
    """Only inverse distance and IDW reach weight 1 as d → 0; all scores have 0.5 at d = 1.

    Weight of a key at distance d beside one at distance 1, with ε = 0.001: above {NEAR_ONE:g} as d → 0 for these two
    with p = 1 and 2, below for neg_dist and gaussian.
    """
    checks = []
    for method in reversed(_DISTANCE_METHODS):
        powers = (1.0, 2.0) if method in _WITH_POWER else (2.0,)
        at_one, at_zero = ([_beside_one(method, distance, power) for power in powers] for distance in (1.0, ZERO))
        reached = "≥" if method in _WITH_POWER else "≤"
        checks.append(bounded(f"{method}: weight as d → 0", at_zero, reached, NEAR_ONE))
        checks.append(bounded(f"{method}: |weight − 0.5| at d = 1", np.abs(np.array(at_one) - 0.5), "≤", TOLERANCE))
    return checks


@claim(10, "text")
def gradients(evidence: Evidence) -> list[Finding | str]:
    """Only IDW keeps its gradient near and far.

    |∂score/∂d| with p = 2 and ε = 0.001 at d = √ε, where ε and d^p have equal parts in the weight, and at d = {FAR:g}:
    at least {VANISHED:g} for idw at both, and below for each other score of distances at one of them.
    """
    near = EPSILON**0.5
    slopes = {method: _slopes(method, [near, FAR]) for method in _DISTANCE_METHODS}
    checks: list[Finding | str] = [
        bounded(f"idw, p = 2: gradient at d = {distance:.2g}", [slope], "≥", VANISHED)
        for distance, slope in zip((near, FAR), slopes["idw"], strict=True)
    ]
    for method in _DISTANCE_METHODS[:-1]:
        name = f"{method}, p = 2: smaller gradient of d = {near:.2g} and d = {FAR:g}"
        checks.append(bounded(name, [slopes[method].min()], "≤", VANISHED))
    distances = np.geomspace(ZERO, 1.0, 2000)
    others = [np.minimum(_slopes(method, distances), slopes[method][1]) for method in _DISTANCE_METHODS[:-1]]
    suitable = distances[(_slopes("idw", distances) >= VANISHED) & (np.max(others, axis=0) <= VANISHED)]
    where = f"from d = {suitable.min():.1g} to {suitable.max():.1g}" if len(suitable) else "at no d"
    return [
        *checks,
        f"It depends on what near is, and holds {where}. Nearer, idw's gradient 2d/(ε + d²) vanishes too, as that of "
        "any smooth radial score with p = 2; farther, that of neg_dist does not.",
    ]


@claim(12, "Eq. 7")
def eta_is_smallest(evidence: Evidence) -> list[Finding | str]:
    """η is the smallest value with which a patch works.

    η by Eq. 7 as printed, with ε + ε^p for the weight of the new key, beside the smallest η with which the label ties
    in the patched network: not smaller, and at most {SMALLEST:g} times as large, for p from 1 to 8 and ε from 0.001
    to 1.
    """
    cells = [*product((1.0, 2.0, 8.0), (1e-3, 1e-2, 1e-1, 1.0))]
    exact, printed = (np.array([_relative_eta(*cell, is_printed=one) for cell in cells]) for one in (False, True))
    usual = printed[cells.index((2.0, EPSILON))].max()
    return [
        bounded("η of Eq. 7 / smallest η", printed.ravel(), "≥", 1 - TOLERANCE),
        bounded("η of Eq. 7 / smallest η", printed.ravel(), "≤", SMALLEST),
        f"Eq. 7 is too large by 1 + ε^(p − 1): by {100 * (usual - 1):.1f} % at p = 2 and ε = 0.001, and twice as large "
        f"at p = 1. With ε in place of ε + ε^p it is the smallest, to {np.abs(exact - 1).max():.0e}. `idwbench patch` "
        "offers both.",
    ]


def _relative_eta(power: float, epsilon: float, *, is_printed: bool) -> Float:
    """Return η = (ε or ε + ε^p)·S·Δ of random patches, in units of that which ties in the patched network."""
    inputs, keys = _points()
    values = np.random.default_rng(1).normal(size=(len(keys), 3))
    parameters = {"power": power, "epsilon": epsilon}
    gaps, ties = np.empty(len(inputs)), np.empty(len(inputs))
    for row, query in enumerate(inputs):
        logits = _weights("idw", query[None], keys, **parameters)[0] @ values
        label = logits.argmin()
        # The patched network without the value of its new key, whose weight multiplies η.
        *old, new = _weights("idw", query[None], np.vstack([keys, query]), **parameters)[0]
        patched = old @ values
        gaps[row] = logits.max() - logits[label]
        ties[row] = (patched.max() - patched[label]) / new
    similarities = (1 / (epsilon + _distances(inputs, keys) ** power)).sum(1)
    return np.asarray((epsilon + is_printed * epsilon**power) * similarities * gaps / ties)


@claim(20, "text")
def squared_distance_expansion(evidence: Evidence) -> list[Finding | str]:
    """‖q − k‖² = ‖q‖² + ‖k‖² − qᵀk.

    Largest deviation of the printed formula at most {TOLERANCE:g}.
    """
    inputs, keys = _points()
    exact = _distances(inputs, keys) ** 2
    norms = (inputs**2).sum(1)[:, None] + (keys**2).sum(1)
    products = inputs @ keys.T
    largest = np.abs(norms - 2 * products - exact).max()
    return [
        bounded("deviation of the printed formula", np.abs(norms - products - exact).ravel(), "≤", TOLERANCE),
        f"A misprint: with −2qᵀk the largest deviation is {largest:.1e}.",
    ]


def _points() -> tuple[Float, Float]:
    """Return 40 inputs and 6 keys in three dimensions; no input is equally far from its two nearest keys."""
    generator = np.random.default_rng(0)
    inputs, keys = generator.normal(size=(200, 3)), generator.normal(size=(6, 3))
    nearest = np.sort(_distances(inputs, keys), axis=1)
    return inputs[nearest[:, 1] > 1.01 * nearest[:, 0]][:40], keys


def _distances(inputs: Float, keys: Float) -> Float:
    return np.asarray(np.sqrt(((inputs[:, None] - keys) ** 2).sum(-1)))


def _weights(method: str, inputs: Float, keys: Float, **parameters: Any) -> Float:
    """Return the package's weights (batch, prototypes) in float64."""
    import torch

    from idwbench.attention.forward import attend

    each = torch.eye(len(keys), dtype=torch.float64)
    return np.asarray(attend(torch.from_numpy(inputs), torch.from_numpy(keys), each, method, **parameters).numpy())


def _scores(method: str, distances: Float, power: float, epsilon: float = EPSILON) -> tuple[Float, Float]:
    """Return the package's scores of keys at these distances, and their derivatives by autograd."""
    import torch

    from idwbench.attention.forward import scores

    keys = torch.from_numpy(distances[:, None]).requires_grad_()
    found = scores(torch.zeros(1, 1, dtype=torch.float64), keys, method, **_parameters(method, power, epsilon))[0]
    (slopes,) = torch.autograd.grad(found.sum(), keys)
    return found.detach().numpy(), slopes[:, 0].numpy()


def _slopes(method: str, distances: Sequence[float] | Float) -> Float:
    """Return the absolute derivatives of a score with p = 2 at distances."""
    return np.abs(_scores(method, np.asarray(distances), 2.0)[1])


def _beside_one(method: str, distance: float, power: float) -> float:
    """Return the weight of a key at a distance beside one at distance 1."""
    keys = np.array([[distance], [-1.0]])
    return float(_weights(method, np.zeros((1, 1)), keys, **_parameters(method, power))[0, 0])


def _parameters(method: str, power: float, epsilon: float = EPSILON) -> dict[str, float]:
    return {"power": power, "epsilon": epsilon} if method in _WITH_POWER else {}

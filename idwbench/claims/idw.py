"""The claims 21 and 24 on power and epsilon of IDW, on Two Moons with 16 prototypes, and what patch studies measured.

Arrays of a study have a row for each size η: the exact one, one with a logit margin of 1, and the authors'.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from statistics import fmean, median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from idwbench.claims.definitions import Series, combine, difference
from idwbench.claims.evidence import MNIST, TWO_MOONS, Arrays, Evidence
from idwbench.claims.findings import Comparison, other_verdict, remark

__all__ = [
    "EPSILONS",
    "POWERS",
    "accuracy_after",
    "changed_predictions",
    "far_influence_ratio",
    "interpretability_costs_accuracy",
    "rank_correlation",
    "reach",
    "small_epsilon_is_unstable",
]

# The cells of Figure 5, and its settings without a claim: those of the paper's other figures.
POWERS = (1.0, 2.0, 4.0, 8.0, 16.0)
EPSILONS = (1e-3, 1e-2, 1e-1, 1.0)
_POWER, _EPSILON = 2.0, 1e-3
_SMALL_EPSILONS = (0.0, 1e-6)
# The accuracy of guessing one of two classes, that of a diverged run.
_GUESSING = 50.0
# The largest power on MNIST.
_MNIST_POWER = 64.0
# A smaller difference of spreads counts as none, in points of a percent.
_SPREAD = 0.5
# Numbers of points of the splits of Two Moons and MNIST of which changed predictions are counted.
_N_POINTS = {"holdout": 4000, "test": 10_000}
# Far from a patch: one standard deviation of a feature.
_FAR = 1.0


def small_epsilon_is_unstable(evidence: Evidence) -> list[Comparison | str]:
    """Compare spreads over seeds."""
    spreads = {epsilon: _spread(evidence, epsilon) for epsilon in (*_SMALL_EPSILONS, *EPSILONS)}
    shown: list[Comparison | str] = []
    for epsilon in _SMALL_EPSILONS:
        more = difference(f"spread: ε={epsilon:g} − ε={_EPSILON:g}", spreads[epsilon], spreads[_EPSILON])
        shown.append(Comparison(more, above=_SPREAD, unit="points"))
    counts = {}
    for epsilon, spread in spreads.items():
        states = evidence.finished(TWO_MOONS, **_cell(_POWER, epsilon)).state
        counts[f"{epsilon:g} ({(states == 'diverged').sum()} of {len(states)})"] = spread
    title = "Mean |accuracy − median| over seeds in points, and diverged runs, at p = 2"
    return shown + remark(title, "{mean} at ε = {name}", counts)


def interpretability_costs_accuracy(evidence: Evidence) -> list[Comparison | str]:
    """Compare ranks within each ε, and a large power with a small one on MNIST."""
    within = {epsilon: _correlation(evidence, f"ε={epsilon:g}", (epsilon,)) for epsilon in EPSILONS}
    mean = combine("rank correlation within ε", lambda *values: fmean(values), *within.values())
    usual, large = (_cell(power, _EPSILON, 20) for power in (_POWER, _MNIST_POWER))
    changes = {}
    for name in ("accuracy", "coverage", "key_agreement"):
        pair = (evidence.metric(MNIST, name, **model) for model in (large, usual))
        changes[name] = difference(f"{name.replace('_', ' ')}: p={_MNIST_POWER:g} − p=2, MNIST", *pair)
    nearest = {
        f"{model['power']:g}": evidence.metric(MNIST, "nearest_key_accuracy", **model) for model in (usual, large)
    }
    together = [Comparison(_correlation(evidence, "all p and ε", EPSILONS), above=0.0)]
    return [
        Comparison(mean, above=0.0),
        Comparison(changes["accuracy"], above=0.0, unit="points"),
        Comparison(changes["coverage"], above=0.0),
        Comparison(changes["key_agreement"], below=0.0),
        *remark("Within ε on Two Moons", "ρ = {mean} at ε = {name}", {f"{one:g}": ρ for one, ρ in within.items()}),
        *remark("Accuracy of the nearest key alone on MNIST", "{mean} at p = {name}", nearest),
        *other_verdict("Over all p and ε together, which mixes the effects of both", together),
    ]


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Return Spearman's ρ (`scipy.stats.spearmanr`); 0 if one of the two is constant."""
    if min(len(set(first)), len(set(second))) < 2:
        return 0.0
    from scipy.stats import spearmanr

    return float(spearmanr(first, second).statistic)


def _cell(power: float, epsilon: float, prototypes: int = 16) -> dict[str, Any]:
    return {"method": "idw", "prototypes": prototypes, "power": power, "epsilon": epsilon}


def _spread(evidence: Evidence, epsilon: float) -> Series:
    """Return |accuracy − median over seeds|; a diverged run counts with the accuracy of guessing."""
    cell = _cell(_POWER, epsilon)
    complete, rows = evidence.metric(TWO_MOONS, "accuracy", **cell), evidence.finished(TWO_MOONS, **cell)
    values = {**complete.values, **dict.fromkeys(rows.seed[rows.state == "diverged"].tolist(), _GUESSING)}
    middle = median(values.values()) if values else 0.0
    return Series(complete.name, {seed: abs(value - middle) for seed, value in values.items()}, complete.lack)


def _correlation(evidence: Evidence, label: str, epsilons: Sequence[float]) -> Series:
    cells = [_cell(power, epsilon) for power, epsilon in product(POWERS, epsilons)]
    parts = [evidence.metric(TWO_MOONS, name, **cell) for name in ("coverage", "accuracy") for cell in cells]
    return combine(
        f"rank correlation of coverage and accuracy, {label}",
        lambda *values: rank_correlation(values[: len(cells)], values[len(cells) :]),
        *parts,
    )


def reach(arrays: Arrays, size: int) -> float | None:
    """Return the distance up to which a patch has half of its largest influence: the end of the last such bin."""
    edges, influence = _influence(arrays, size)
    if not len(influence):
        return None
    return float(edges[1:][influence >= 0.5 * influence.max()].max())


def far_influence_ratio(arrays: Arrays, size: int) -> float | None:
    """Return the largest influence in the bins from distance 1 on, as a part of the largest influence."""
    edges, influence = _influence(arrays, size)
    far = influence[edges[:-1] >= _FAR]
    return float(far.max() / influence.max()) if len(far) and influence.max() > 0 else None


def _influence(arrays: Arrays, size: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the edges (n + 1,) and the influence (n,) of a size, with empty bins as 0; nothing without data."""
    if "influence" not in arrays or not np.isfinite(np.asarray(arrays["influence"], np.float64)[size]).any():
        return np.zeros(1), np.zeros(0)
    influence = np.asarray(arrays["influence"], np.float64)[size]
    return np.asarray(arrays["influence_edges"], np.float64), np.nan_to_num(influence)


def changed_predictions(arrays: Arrays, size: int, split: str) -> float | None:
    """Return the other predictions of a split that the worst case changes, in percent."""
    changed = arrays.get(f"changed_{split}")
    patched = np.zeros(0) if changed is None else changed[size]
    patched = patched[patched >= 0]
    return 100 * float(patched.max()) / _N_POINTS[split] if len(patched) else None


def accuracy_after(arrays: Arrays, size: int, split: str) -> float | None:
    """Return the mean accuracy over patched cases, in percent."""
    accuracy, eta = arrays.get(f"accuracy_{split}"), arrays.get("eta")
    if accuracy is None or eta is None:
        return None
    patched = np.isfinite(np.asarray(eta, np.float64)[size])
    return 100 * float(accuracy[size][patched].mean()) if patched.any() else None

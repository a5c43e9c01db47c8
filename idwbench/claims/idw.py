"""The claims on IDW alone: 17, 18, 21 and 24 on its power and epsilon, 11, 13 and 19 on patches.

Those on power and epsilon are on Two Moons with 16 prototypes; those on patches use the arrays of ``patch_study`` runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from statistics import fmean, median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from idwbench.claims.evidence import MNIST, SPLIT, TWO_MOONS, Arrays, Evidence
from idwbench.claims.findings import Comparison, Series, claim, combine, difference, other_verdict, remark

__all__ = ["AUTHORS", "EPSILONS", "KEPT", "POWERS", "far_influence_ratio", "other_sizes", "rank_correlation", "reach"]

# The cells of Figure 5, and its settings without a claim: those of the paper's other figures.
POWERS = (1.0, 2.0, 4.0, 8.0, 16.0)
EPSILONS = (1e-3, 1e-2, 1e-1, 1.0)
_POWER, _EPSILON = 2.0, 1e-3
_LARGE_POWERS = (8.0, 16.0)
_SMALL_EPSILONS = (0.0, 1e-6)
# A smaller loss of accuracy counts as none, in points of a percent.
KEPT = 1.0
# The accuracy of guessing one of two classes, that of a diverged run.
_GUESSING = 50.0
# The largest power on MNIST.
_MNIST_POWER = 64.0
# A smaller difference of spreads counts as none, in points of a percent.
_SPREAD = 0.5
# The sizes η of the studies in their order; the figures of the paper have that of the authors' code.
AUTHORS = "authors"
_SIZES = ("exact", "logit_margin", AUTHORS)
_OTHER_SIZES = {"exact": "With the exact η", "logit_margin": "With a logit margin of 1"}
# Sizes of the splits of which changed predictions are counted.
_N_POINTS = {TWO_MOONS: 4000, MNIST: 10_000}
# Largest part of the other predictions that counts as hardly any, in percent.
_BARELY = 1.0
# A smaller loss of accuracy counts as no damage, in points of a percent.
_NO_DAMAGE = 0.5
# Far from a patch: one standard deviation of a feature, and the percentage of the largest influence that is left there.
_FAR = 1.0
_LEFT = 10.0
_TWO_MOONS_STUDIES, _MNIST_STUDIES = "paper_patches_two_moons", "paper_patches_mnist"


@claim(17, "Figure 5", "paper_power_epsilon")
def power_one_damages_accuracy(evidence: Evidence) -> list[Comparison | str]:
    """p = 1 damages accuracy.

    Accuracy on 4,000 new points with 16 prototypes and ε = 0.001: p = 1 below p = 2.
    """  # noqa: D403
    at_usual = Comparison(_change(evidence, "accuracy", 1.0), below=0.0, unit="points")
    return [at_usual, *_at_other_epsilons(evidence, "accuracy", 1.0)]


@claim(18, "Figure 5", "paper_power_epsilon")
def large_powers_damage_prototypes(evidence: Evidence) -> list[Comparison | str]:
    """p ≫ 2 keeps accuracy and damages prototypes.

    16 prototypes and ε = 0.001, for p = 8 and p = 16 against p = 2: accuracy on 4,000 new points less than {KEPT:g}
    point lower, and coverage (a distance: lower is better) higher.
    """  # noqa: D403
    shown: list[Comparison | str] = []
    for power in _LARGE_POWERS:
        shown.append(Comparison(_change(evidence, "accuracy", power), above=-KEPT, unit="points"))
        shown.append(Comparison(_change(evidence, "coverage", power), above=0.0))
    measured = product(_LARGE_POWERS, ("accuracy", "coverage"))
    return shown + [text for power, name in measured for text in _at_other_epsilons(evidence, name, power)]


@claim(21, "review: instability", "paper_power_epsilon")
def small_epsilon_is_unstable(evidence: Evidence) -> list[Comparison | str]:
    """Too small an ε makes training unstable.

    |accuracy − median over seeds| on 4,000 new points, with 16 prototypes and p = 2: at ε = 0 and ε = 1e-6 more than
    {_SPREAD:g} points above that at 0.001; a diverged run counts with the accuracy of guessing.
    """
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


@claim(24, "review: cost of some accuracy", "paper_power_epsilon", "paper_power_mnist")
def interpretability_costs_accuracy(evidence: Evidence) -> list[Comparison | str]:
    """Interpretability costs accuracy.

    Two Moons with 16 prototypes: Spearman's rank correlation of coverage (lower: more interpretable) and accuracy on
    4,000 new points over p = 1 to 16, within each ε from 0.001 to 1: its mean over ε is above 0. MNIST with 20
    prototypes and ε = 0.001, from p = 2 to p = {_MNIST_POWER:g}: test accuracy and coverage rise, and fewer keys have
    the class of their nearest image.
    """
    within = {epsilon: _correlation(evidence, f"ε={epsilon:g}", (epsilon,)) for epsilon in EPSILONS}
    mean = combine("rank correlation within ε", lambda *values: fmean(values), *within.values())
    usual, large = (_cell(power, _EPSILON, 20) for power in (_POWER, _MNIST_POWER))
    changes = {
        name: evidence.less(f"{name.replace('_', ' ')}: p={_MNIST_POWER:g} − p=2, MNIST", MNIST, name, large, usual)
        for name in ("accuracy", "coverage", "key_agreement")
    }
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


def _change(evidence: Evidence, name: str, power: float, epsilon: float = _EPSILON) -> Series:
    """Return the difference of accuracy or coverage from that at p = 2."""
    label = f"{name}: p={power:g} − p={_POWER:g}, ε={epsilon:g}"
    return evidence.less(label, TWO_MOONS, name, _cell(power, epsilon), _cell(_POWER, epsilon))


def _at_other_epsilons(evidence: Evidence, name: str, power: float) -> list[str]:
    changes = {f"{other:g}": _change(evidence, name, power, other) for other in EPSILONS[1:]}
    return remark(f"{name.capitalize()}: p={power:g} − p={_POWER:g}", "{mean} at ε = {name}", changes, sign=True)


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


@claim(11, "text", _TWO_MOONS_STUDIES)
def influence_decays(evidence: Evidence) -> list[Comparison | str]:
    """A patch's influence decays sharply for small ε.

    16 prototypes and the η of the authors' code, influence: the largest change of a class probability at a distance.
    Its reach, the distance up to which it is half of its maximum, grows with ε: the rank correlation over ε = 0.001 to
    1 is above 0. At ε = 0.001 and distances from {_FAR:g} (in standard deviations): below {_LEFT:g} % of its maximum.
    """

    def influence(what: Callable[[Arrays, int], float], size: str, n: int, epsilon: float = _EPSILON) -> Series:
        model = {**_model(TWO_MOONS, n), "epsilon": epsilon}
        return evidence.from_arrays(TWO_MOONS, "influence", lambda arrays: what(arrays, _SIZES.index(size)), **model)

    def compared(size: str) -> list[Comparison]:
        reaches = [influence(reach, size, 16, epsilon) for epsilon in EPSILONS]
        growth = combine("rank correlation of ε and reach", lambda *r: rank_correlation(EPSILONS, r), *reaches)
        far = combine("far influence / largest, ε=0.001", float, influence(far_influence_ratio, size, 16))
        return [Comparison(growth, above=0.0), Comparison(far, below=_LEFT / 100)]

    reaches = {f"{epsilon:g}": influence(reach, AUTHORS, 16, epsilon) for epsilon in EPSILONS}
    others = {f"{n}": influence(far_influence_ratio, AUTHORS, n) for n in (2, 128)}
    return [
        *compared(AUTHORS),
        *remark("Reach", "{mean} at ε = {name}", reaches),
        *remark("Far influence / largest", "{mean} with {name} prototypes", others),
        *other_sizes(compared),
    ]


@claim(13, "Figures 3 and 6", _TWO_MOONS_STUDIES, _MNIST_STUDIES)
def patches_change_little(evidence: Evidence) -> list[Comparison | str]:
    """A patch barely changes the other predictions, whatever the label.

    Part of the 4,000 new points (10,000 test images) that the worst patched case changes, with the η of the authors'
    code: below {_BARELY:g} %, with 2, 16 and 128 prototypes on Two Moons and 20 on MNIST.
    """

    def compared(size: str) -> list[Comparison]:
        cells = ((TWO_MOONS, 2), (TWO_MOONS, 16), (TWO_MOONS, 128), (MNIST, 20))
        where = (f"{n} prototypes{', MNIST' if dataset == MNIST else ''}" for dataset, n in cells)
        changed = (_changed(evidence, *cell, size) for cell in cells)
        series = (
            combine(f"changed predictions, {place}", float, one) for place, one in zip(where, changed, strict=True)
        )
        return [Comparison(one, below=_BARELY, unit="%") for one in series]

    return [*compared(AUTHORS), *other_sizes(compared)]


@claim(19, "Figures 3 and 6", _TWO_MOONS_STUDIES)
def patches_do_no_damage(evidence: Evidence) -> list[Comparison | str]:
    """With 16 or more prototypes patches do no damage.

    Mean loss of accuracy on 4,000 new points by a patch with the η of the authors' code: below {_NO_DAMAGE:g} points,
    with 16 and 128 prototypes.
    """

    def compared(size: str) -> list[Comparison]:
        losses = (combine(f"loss of accuracy, {n} prototypes", float, _loss(evidence, n, size)) for n in (16, 128))
        return [Comparison(series, below=_NO_DAMAGE, unit="points") for series in losses]

    return [*compared(AUTHORS), *other_sizes(compared)]


def other_sizes(compared: Callable[[str], Sequence[Comparison]]) -> list[str]:
    """Return the verdicts on a claim with the other sizes of patches than that of the authors' code."""
    return [text for size, title in _OTHER_SIZES.items() for text in other_verdict(title, compared(size))]


def reach(arrays: Arrays, size: int) -> float:
    """Return the distance up to which a patch has half of its largest influence: the end of the last such bin.

    It is not finite without data.
    """
    edges, shares = _influence(arrays, size)
    return float(edges[1:][shares >= 0.5].max(initial=-np.inf))


def far_influence_ratio(arrays: Arrays, size: int) -> float:
    """Return the largest influence from distance 1 on, as a part of the largest; not finite without data."""
    edges, shares = _influence(arrays, size)
    return float(shares[edges[:-1] >= _FAR].max(initial=-np.inf))


def _influence(arrays: Arrays, size: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the edges (n + 1,) and the influence (n,) as a part of the largest, 0 in empty bins; NaN without data."""
    influence = np.nan_to_num(np.asarray(arrays["influence"], np.float64)[size])
    return np.asarray(arrays["influence_edges"], np.float64), influence / (influence.max() or np.nan)


def _model(dataset: str, prototypes: int) -> dict[str, Any]:
    cases = "wrong" if dataset == MNIST else "special"
    return {"kind": "patch_study", "method": "idw", "prototypes": prototypes, "cases": cases}


def _changed(evidence: Evidence, dataset: str, prototypes: int, size: str) -> Series:
    """Return the other predictions that the worst case changes, in percent."""

    def worst(arrays: Arrays) -> float:
        changed = float(arrays[f"changed_{SPLIT[dataset]}"][_SIZES.index(size)].max(initial=-1))  # −1 without a patch
        return 100 * changed / _N_POINTS[dataset] if changed >= 0 else np.nan

    return evidence.from_arrays(dataset, "changed predictions", worst, **_model(dataset, prototypes))


def _loss(evidence: Evidence, prototypes: int, size: str) -> Series:
    """Return the mean loss of accuracy over patched cases, in points."""
    split, place = SPLIT[TWO_MOONS], _SIZES.index(size)
    before = evidence.metric(TWO_MOONS, "accuracy_before", split, **_model(TWO_MOONS, prototypes))

    def after(arrays: Arrays) -> float:
        patched = np.isfinite(np.asarray(arrays["eta"], np.float64)[place])
        return float(arrays[f"accuracy_{split}"][place][patched].mean()) if patched.any() else np.nan

    afterwards = evidence.from_arrays(TWO_MOONS, "accuracy", after, **_model(TWO_MOONS, prototypes))
    return combine(before.name, lambda first, second: 100 * (first - second), before, afterwards)

"""The claims on IDW alone: 17, 18, 21 and 24 on its power and epsilon, 11, 12, 13 and 19 on patches.

Those on power and epsilon are on Two Moons with 16 prototypes; those on patches use the arrays of ``patch_study`` runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from idwbench.claims.definitions import Series, claim, combine, difference
from idwbench.claims.evidence import MNIST, SPLIT, TWO_MOONS, Arrays, Evidence
from idwbench.claims.findings import Finding, compare, computed, remark

__all__ = ["EPSILONS", "KEPT", "POWERS", "far_influence_ratio", "rank_correlation", "reach"]

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
# Places of the criteria in the arrays.
_EXACT, _AUTHORS = 0, 2
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
def power_one_damages_accuracy(evidence: Evidence) -> list[Finding | str]:
    """p = 1 damages accuracy.

    Accuracy on 4,000 new points with 16 prototypes and ε = 0.001: p = 1 below p = 2.
    """  # noqa: D403
    at_usual = compare(_change(evidence, "accuracy", 1.0), below=0.0, unit="points")
    return [at_usual, *_at_other_epsilons(evidence, "accuracy", 1.0)]


@claim(18, "Figure 5", "paper_power_epsilon")
def large_powers_damage_prototypes(evidence: Evidence) -> list[Finding | str]:
    """p ≫ 2 keeps accuracy and damages prototypes.

    16 prototypes and ε = 0.001, for p = 8 and p = 16 against p = 2: accuracy on 4,000 new points less than {KEPT:g}
    point lower, and coverage (a distance: lower is better) higher.
    """  # noqa: D403
    findings: list[Finding | str] = []
    for power in _LARGE_POWERS:
        findings.append(compare(_change(evidence, "accuracy", power), above=-KEPT, unit="points"))
        findings.append(compare(_change(evidence, "coverage", power), above=0.0))
    measured = product(_LARGE_POWERS, ("accuracy", "coverage"))
    return findings + [text for power, name in measured for text in _at_other_epsilons(evidence, name, power)]


@claim(21, "text", "paper_power_epsilon")
def small_epsilon_is_unstable(evidence: Evidence) -> list[Finding | str]:
    """Too small an ε makes training unstable.

    |accuracy − median over seeds| on 4,000 new points, with 16 prototypes and p = 2: at ε = 0 and ε = 1e-6 above that
    at 0.001; a diverged run counts with the accuracy of guessing.
    """
    spreads = {epsilon: _spread(evidence, epsilon) for epsilon in (*_SMALL_EPSILONS, *EPSILONS)}
    findings: list[Finding | str] = []
    for epsilon in _SMALL_EPSILONS:
        more = difference(f"spread: ε={epsilon:g} − ε={_EPSILON:g}", spreads[epsilon], spreads[_EPSILON])
        findings.append(compare(more, above=0.0, unit="points"))
    counts = {}
    for epsilon, spread in spreads.items():
        states = evidence.finished(TWO_MOONS, **_cell(_POWER, epsilon)).state
        counts[f"{epsilon:g} ({(states == 'diverged').sum()} of {len(states)})"] = spread
    title = "Mean |accuracy − median| over seeds in points, and diverged runs, at p = 2"
    return findings + remark(title, "{mean} at ε = {name}", counts)


@claim(24, "text", "paper_power_epsilon")
def interpretability_costs_accuracy(evidence: Evidence) -> list[Finding | str]:
    """Interpretability costs accuracy.

    Spearman's rank correlation of coverage (lower: more interpretable) and accuracy on 4,000 new points over p = 1 to
    16 and ε = 0.001 to 1, for each seed: above 0.
    """
    found: list[Finding | str] = [compare(_correlation(evidence, "all p and ε", EPSILONS), above=0.0)]
    for epsilon in EPSILONS:
        series = _correlation(evidence, f"ε={epsilon:g}", (epsilon,))
        found += remark(f"Over p at ε = {epsilon:g}", "ρ = {mean}", {"": series})
    return found


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Return Spearman's ρ, NaN if one of the two is constant (`scipy.stats.spearmanr`)."""
    if min(len(set(first)), len(set(second))) < 2:
        return float("nan")
    from scipy.stats import spearmanr

    return float(spearmanr(first, second).statistic)


def _cell(power: float, epsilon: float) -> dict[str, Any]:
    return {"method": "idw", "prototypes": 16, "power": power, "epsilon": epsilon}


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
def influence_decays(evidence: Evidence) -> list[Finding | str]:
    """A patch's influence decays sharply for small ε.

    16 prototypes and the exact η, influence: the largest change of a class probability at a distance. Reach, the
    distance up to which it is half of its maximum: smaller at ε = 0.001 than at 0.01, 0.1 and 1. At ε = 0.001 and
    distances from {_FAR:g} (in standard deviations): below {_LEFT:g} % of its maximum.
    """
    findings: list[Finding | str] = []
    small = evidence.from_arrays(TWO_MOONS, "influence", reach, **_model(TWO_MOONS, 16))
    for epsilon in (1e-2, 1e-1, 1.0):
        large = evidence.from_arrays(TWO_MOONS, "influence", reach, **_model(TWO_MOONS, 16), epsilon=epsilon)
        findings.append(compare(difference(f"reach: ε=0.001 − ε={epsilon:g}", small, large), below=0.0))
    models = {f"{n}": _model(TWO_MOONS, n) for n in (16, 2, 128)}
    far = {n: evidence.from_arrays(TWO_MOONS, "influence", far_influence_ratio, **models[n]) for n in models}
    usual = combine("far influence / largest, ε=0.001", float, far.pop("16"))
    findings.append(compare(usual, below=_LEFT / 100))
    return findings + remark("Far influence / largest", "{mean} with {name} prototypes", far)


@claim(12, "Eq. 7", _TWO_MOONS_STUDIES, _MNIST_STUDIES)
def eta_is_smallest(evidence: Evidence) -> list[Finding]:
    """η is the smallest value with which a patch works.

    Every patched case: the label wins with 1.001 of the η that ties, and does not win with 0.99 of it; Two Moons with
    2, 16 and 128 prototypes, and 200 wrong MNIST images.
    """
    findings = []
    for dataset, prototypes in ((TWO_MOONS, 2), (TWO_MOONS, 16), (TWO_MOONS, 128), (MNIST, 20)):
        model = _model(dataset, prototypes)
        right = evidence.metric(dataset, "smallest_eta", "cases", **model)
        cases = evidence.metric(dataset, "patched", "cases", **model).values
        counts = {seed: cases.get(seed, 1.0) for seed in right.values}
        passed = round(sum(share * counts[seed] for seed, share in right.values.items()))
        smallest = min(right.values.values(), default=0.0)
        label = f"part of cases in which only η wins, {right.name}"
        findings.append(computed(label, smallest, "≥ 1", passed, round(sum(counts.values())), right.missing(5)))
    return findings


@claim(13, "Figures 3 and 6", _TWO_MOONS_STUDIES, _MNIST_STUDIES)
def patches_change_little(evidence: Evidence) -> list[Finding | str]:
    """A patch barely changes the other predictions, whatever the label.

    Part of the 4,000 new points (10,000 test images) that the worst patched case changes, with the exact η: below
    {_BARELY:g} %, with 2, 16 and 128 prototypes (MNIST: in every seed).
    """
    findings: list[Finding | str] = []
    theirs = {}
    for dataset, n in ((TWO_MOONS, 2), (TWO_MOONS, 16), (TWO_MOONS, 128), (MNIST, 20)):
        where = f"{n} prototypes{', MNIST' if dataset == MNIST else ''}"
        series = combine(f"changed predictions, {where}", float, _changed(evidence, dataset, n, _EXACT))
        findings.append(compare(series, None, _BARELY, "%", "every seed" if dataset == MNIST else "wilcoxon"))
        theirs[where] = _changed(evidence, dataset, n, _AUTHORS)
    return findings + remark("With the η of the authors' code", "{mean} % with {name}", theirs, "; ")


@claim(19, "Figures 3 and 6", _TWO_MOONS_STUDIES)
def patches_do_no_damage(evidence: Evidence) -> list[Finding | str]:
    """With 16 or more prototypes patches do no damage.

    Mean loss of accuracy on 4,000 new points by a patch with the exact η: below {_NO_DAMAGE:g} points, with 16 and
    128 prototypes.
    """
    ours = [combine(f"loss of accuracy, {n} prototypes", float, _loss(evidence, n, _EXACT)) for n in (16, 128)]
    findings = [compare(series, below=_NO_DAMAGE, unit="points") for series in ours]
    theirs = {f"{n}": _loss(evidence, n, _AUTHORS) for n in (16, 128)}
    return [*findings, *remark("Loss with the η of the authors' code", "{mean} points with {name} prototypes", theirs)]


def reach(arrays: Arrays) -> float | None:
    """Return the distance up to which a patch has half of its largest influence: the end of the last such bin."""
    edges, influence = _influence(arrays)
    if not len(influence):
        return None
    return float(edges[1:][influence >= 0.5 * influence.max()].max())


def far_influence_ratio(arrays: Arrays) -> float | None:
    """Return the largest influence in the bins from distance 1 on, as a part of the largest influence."""
    edges, influence = _influence(arrays)
    far = influence[edges[:-1] >= _FAR]
    return float(far.max() / influence.max()) if len(far) and influence.max() > 0 else None


def _influence(arrays: Arrays) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the edges (n + 1,) and the influence (n,) of the exact η, with empty bins as 0; nothing without data."""
    if "influence" not in arrays or not np.isfinite(np.asarray(arrays["influence"], np.float64)[_EXACT]).any():
        return np.zeros(1), np.zeros(0)
    influence = np.asarray(arrays["influence"], np.float64)[_EXACT]
    return np.asarray(arrays["influence_edges"], np.float64), np.nan_to_num(influence)


def _model(dataset: str, prototypes: int) -> dict[str, Any]:
    cases = "wrong" if dataset == MNIST else "special"
    return {"kind": "patch_study", "method": "idw", "prototypes": prototypes, "cases": cases}


def _changed(evidence: Evidence, dataset: str, prototypes: int, criterion: int) -> Series:
    """Return the other predictions that the worst case changes, in percent."""

    def worst(arrays: Arrays) -> float | None:
        changed = arrays.get(f"changed_{SPLIT[dataset]}")
        patched = np.zeros(0) if changed is None else changed[criterion][changed[criterion] >= 0]
        return 100 * float(patched.max()) / _N_POINTS[dataset] if len(patched) else None

    return evidence.from_arrays(dataset, "changed predictions", worst, **_model(dataset, prototypes))


def _loss(evidence: Evidence, prototypes: int, criterion: int) -> Series:
    """Return the mean loss of accuracy over patched cases, in points."""
    split = SPLIT[TWO_MOONS]
    before = evidence.metric(TWO_MOONS, "accuracy_before", split, **_model(TWO_MOONS, prototypes))

    def after(arrays: Arrays) -> float | None:
        accuracy, eta = arrays.get(f"accuracy_{split}"), arrays.get("eta")
        if accuracy is None or eta is None:
            return None
        patched = np.isfinite(np.asarray(eta, np.float64)[criterion])
        return float(accuracy[criterion][patched].mean()) if patched.any() else None

    afterwards = evidence.from_arrays(TWO_MOONS, "accuracy", after, **_model(TWO_MOONS, prototypes))
    return combine(before.name, lambda first, second: 100 * (first - second), before, afterwards)

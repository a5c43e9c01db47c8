"""The claims on power and epsilon: 17, 18, 21 and 24, for IDW on Two Moons with 16 prototypes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from statistics import median
from typing import Any

from idwbench.claims.definitions import Series, claim, combine, difference
from idwbench.claims.evidence import TWO_MOONS, Evidence
from idwbench.claims.findings import Finding, compare, remark

__all__ = ["EPSILONS", "KEPT", "POWERS", "rank_correlation"]

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

"""The claims on power and epsilon: 17, 18, 21 and 24, for IDW on Two Moons with 16 prototypes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from statistics import median
from typing import Any

from idwbench.claims.definitions import Claim, Remark, SeedComparison
from idwbench.claims.evidence import TWO_MOONS, Evidence
from idwbench.claims.labels import mean_label
from idwbench.claims.series import Series, combine, difference

__all__ = [
    "EPSILONS",
    "GRID_CLAIMS",
    "KEPT",
    "POWERS",
    "interpretability_costs_accuracy",
    "large_powers_damage_prototypes",
    "power_one_damages_accuracy",
    "rank_correlation",
    "small_epsilon_is_unstable",
]

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


def power_one_damages_accuracy(evidence: Evidence) -> Sequence[SeedComparison | Remark]:
    """Compare p = 1 with p = 2."""
    compared = _accuracy_difference(evidence, 1.0, _EPSILON)
    return [
        SeedComparison(compared, below=0.0, unit="points"),
        *_at_other_epsilons(evidence, 1.0, _accuracy_difference),
    ]


def large_powers_damage_prototypes(evidence: Evidence) -> Sequence[SeedComparison | Remark]:
    """Compare accuracy and coverage at p = 8 and p = 16 with p = 2."""
    found: list[SeedComparison | Remark] = []
    for power in _LARGE_POWERS:
        kept = _accuracy_difference(evidence, power, _EPSILON)
        found.append(SeedComparison(kept, above=-KEPT, unit="points"))
        found.append(SeedComparison(_coverage_difference(evidence, power, _EPSILON), above=0.0))
    for power in _LARGE_POWERS:
        found += _at_other_epsilons(evidence, power, _accuracy_difference)
        found += _at_other_epsilons(evidence, power, _coverage_difference)
    return found


def small_epsilon_is_unstable(evidence: Evidence) -> Sequence[SeedComparison | Remark]:
    """Compare the spread of accuracy over seeds at ε = 0 and 1e-6 with that at 0.001."""
    usual = _spread(evidence, _EPSILON)
    found: list[SeedComparison | Remark] = []
    for epsilon in _SMALL_EPSILONS:
        compared = difference(f"spread: ε={epsilon:g} − ε={_EPSILON:g}", _spread(evidence, epsilon), usual)
        found.append(SeedComparison(compared, above=0.0, unit="points"))
    counts = []
    for epsilon in (*_SMALL_EPSILONS, *EPSILONS):
        runs = evidence.finished(TWO_MOONS, **_cell(_POWER, epsilon))
        diverged = sum(run.state == "diverged" for run in runs)
        if runs:
            spread = mean_label(_spread(evidence, epsilon).values.values())
            counts.append(f"{spread} at ε = {epsilon:g} ({diverged} of {len(runs)})")
    text = "Mean |accuracy − median| over seeds in points, and diverged runs, at p = 2"
    return [*found, Remark(f"{text}: {', '.join(counts)}.")] if counts else found


def interpretability_costs_accuracy(evidence: Evidence) -> Sequence[SeedComparison | Remark]:
    """Correlate coverage with accuracy over the cells of Figure 5, for each seed."""
    over_all = _correlation(evidence, "all p and ε", POWERS, EPSILONS)
    found: list[SeedComparison | Remark] = [SeedComparison(over_all, above=0.0)]
    for epsilon in EPSILONS:
        series = _correlation(evidence, f"ε={epsilon:g}", POWERS, (epsilon,))
        if series.values:
            found.append(Remark(f"Over p at ε = {epsilon:g}: ρ = {mean_label(series.values.values())}."))
    return found


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Return Spearman's ρ, NaN if one of the two is constant (`scipy.stats.spearmanr`)."""
    if min(len(set(first)), len(set(second))) < 2:
        return float("nan")
    from scipy.stats import spearmanr

    return float(spearmanr(first, second).statistic)


def _cell(power: float, epsilon: float) -> dict[str, Any]:
    return {"method": "idw", "prototypes": 16, "power": power, "epsilon": epsilon}


def _accuracy_difference(evidence: Evidence, power: float, epsilon: float) -> Series:
    pair = (evidence.accuracy(TWO_MOONS, **_cell(p, epsilon)) for p in (power, _POWER))
    return difference(f"accuracy: p={power:g} − p={_POWER:g}, ε={epsilon:g}", *pair)


def _coverage_difference(evidence: Evidence, power: float, epsilon: float) -> Series:
    pair = (evidence.metric(TWO_MOONS, "coverage", **_cell(p, epsilon)) for p in (power, _POWER))
    return difference(f"coverage: p={power:g} − p={_POWER:g}, ε={epsilon:g}", *pair)


def _at_other_epsilons(
    evidence: Evidence, power: float, compared: Callable[[Evidence, float, float], Series]
) -> list[Remark]:
    """Return the differences from p = 2 at the other values of ε."""
    found = [compared(evidence, power, epsilon) for epsilon in EPSILONS[1:]]
    shown = [
        f"{mean_label(series.values.values(), sign=True)} at ε = {epsilon:g}"
        for series, epsilon in zip(found, EPSILONS[1:], strict=True)
        if series.values
    ]
    title = found[0].name.rsplit(",", 1)[0]
    return [Remark(f"{title[:1].upper()}{title[1:]}: {', '.join(shown)}.")] if shown else []


def _spread(evidence: Evidence, epsilon: float) -> Series:
    """Return |accuracy − median over seeds|; a diverged run counts with the accuracy of guessing."""
    cell = _cell(_POWER, epsilon)
    complete = evidence.accuracy(TWO_MOONS, **cell)
    diverged = {run.config.seed: _GUESSING for run in evidence.finished(TWO_MOONS, **cell) if run.state == "diverged"}
    values = {**complete.values, **diverged}
    middle = median(values.values()) if values else 0.0
    return Series(complete.name, {seed: abs(value - middle) for seed, value in values.items()}, complete.lack)


def _correlation(evidence: Evidence, label: str, powers: Sequence[float], epsilons: Sequence[float]) -> Series:
    cells = [_cell(power, epsilon) for power, epsilon in product(powers, epsilons)]
    parts = [evidence.metric(TWO_MOONS, "coverage", **cell) for cell in cells]
    parts += [evidence.accuracy(TWO_MOONS, **cell) for cell in cells]
    return combine(
        f"rank correlation of coverage and accuracy, {label}",
        lambda *values: rank_correlation(values[: len(cells)], values[len(cells) :]),
        *parts,
    )


GRID_CLAIMS = (
    Claim(
        17,
        "p = 1 damages accuracy.",
        "Figure 5",
        "Accuracy on 4,000 new points with 16 prototypes and ε = 0.001: p = 1 below p = 2.",
        power_one_damages_accuracy,
        ("paper_power_epsilon",),
    ),
    Claim(
        18,
        "p ≫ 2 keeps accuracy and damages prototypes.",
        "Figure 5",
        f"16 prototypes and ε = 0.001, for p = 8 and p = 16 against p = 2: accuracy on 4,000 new points less than "
        f"{KEPT:g} point lower, and coverage (a distance: lower is better) higher.",
        large_powers_damage_prototypes,
        ("paper_power_epsilon",),
    ),
    Claim(
        21,
        "Too small an ε makes training unstable.",
        "text",
        "|accuracy − median over seeds| on 4,000 new points, with 16 prototypes and p = 2: at ε = 0 and ε = 1e-6 above "
        "that at 0.001; a diverged run counts with the accuracy of guessing.",
        small_epsilon_is_unstable,
        ("paper_power_epsilon",),
    ),
    Claim(
        24,
        "Interpretability costs accuracy.",
        "text",
        "Spearman's rank correlation of coverage (lower: more interpretable) and accuracy on 4,000 new points over "
        "p = 1 to 16 and ε = 0.001 to 1, for each seed: above 0.",
        interpretability_costs_accuracy,
        ("paper_power_epsilon",),
    ),
)

"""The claims on patches: 11, 12, 13 and 19, from the arrays of the runs of kind ``patch_study``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from idwbench.claims.definitions import Claim, PointCheck, Remark, SeedComparison, SeedTest
from idwbench.claims.evidence import MNIST, TWO_MOONS, Arrays, Evidence
from idwbench.claims.labels import mean_label
from idwbench.claims.series import Series, combine, difference, renamed

__all__ = [
    "FAR_DISTANCE",
    "NO_DAMAGE",
    "PATCH_CLAIMS",
    "eta_is_smallest",
    "far_influence_ratio",
    "influence_decays",
    "patches_change_little",
    "patches_do_no_damage",
    "reach",
]

# Places of the criteria in the arrays.
_EXACT, _AUTHORS = 0, 2
# Sizes of the splits of which changed predictions are counted.
_N_POINTS = {TWO_MOONS: 4000, MNIST: 10_000}
_SPLIT = {TWO_MOONS: "holdout", MNIST: "test"}
# Largest part of the other predictions that counts as hardly any, in percent.
_BARELY = 1.0
# A smaller loss of accuracy counts as no damage, in points of a percent.
NO_DAMAGE = 0.5
# Far from a patch: one standard deviation of a feature, and the part of the largest influence that is left there.
FAR_DISTANCE = 1.0
_LEFT = 0.1
_EPSILONS = (1e-2, 1e-1, 1.0)


def influence_decays(evidence: Evidence) -> Sequence[SeedComparison | Remark]:
    """Compare the reach of a patch at ε = 0.001 with that at larger ε, and its influence far away with that nearby."""
    small = _study(evidence, TWO_MOONS, "influence", reach, 16)
    found: list[SeedComparison | Remark] = [
        SeedComparison(
            difference(
                f"reach: ε=0.001 − ε={epsilon:g}",
                small,
                _study(evidence, TWO_MOONS, "influence", reach, 16, epsilon=epsilon),
            ),
            below=0.0,
        )
        for epsilon in _EPSILONS
    ]
    far = _study(evidence, TWO_MOONS, "influence", far_influence_ratio, 16)
    found.append(SeedComparison(renamed("far influence / largest, ε=0.001", far), below=_LEFT))
    others = [(n, _study(evidence, TWO_MOONS, "influence", far_influence_ratio, n)) for n in (2, 128)]
    shown = [f"{mean_label(series.values.values())} with {n} prototypes" for n, series in others if series.values]
    return [*found, Remark(f"Far influence / largest: {', '.join(shown)}.")] if shown else found


def eta_is_smallest(evidence: Evidence) -> Sequence[PointCheck]:
    """Check for each patched case that η wins and 0.99 η does not."""
    special = [_eta_check(evidence, TWO_MOONS, prototypes) for prototypes in (2, 16, 128)]
    return [*special, _eta_check(evidence, MNIST, 20)]


def patches_change_little(evidence: Evidence) -> Sequence[SeedComparison | Remark]:
    """Compare the part of the other predictions that the worst patched case changes with 1 %."""
    found: list[SeedComparison | Remark] = []
    remarks = []
    for dataset, prototypes in ((TWO_MOONS, 2), (TWO_MOONS, 16), (TWO_MOONS, 128), (MNIST, 20)):
        test: SeedTest = "every seed" if dataset == MNIST else "wilcoxon"
        where = f"{prototypes} prototypes{', MNIST' if dataset == MNIST else ''}"
        series = _changed(evidence, dataset, prototypes, _EXACT)
        found.append(
            SeedComparison(renamed(f"changed predictions, {where}", series), below=_BARELY, unit="%", test=test)
        )
        theirs = _changed(evidence, dataset, prototypes, _AUTHORS)
        if theirs.values:
            remarks.append(f"{mean_label(theirs.values.values())} % with {where}")
    return [*found, Remark(f"With the η of the authors' code: {'; '.join(remarks)}.")] if remarks else found


def patches_do_no_damage(evidence: Evidence) -> Sequence[SeedComparison | Remark]:
    """Compare the loss of accuracy by the mean patched case with half a point."""
    found: list[SeedComparison | Remark] = []
    remarks = []
    for prototypes in (16, 128):
        series = _loss(evidence, prototypes, _EXACT)
        name = f"loss of accuracy, {prototypes} prototypes"
        found.append(SeedComparison(renamed(name, series), below=NO_DAMAGE, unit="points"))
        theirs = _loss(evidence, prototypes, _AUTHORS)
        if theirs.values:
            remarks.append(f"{mean_label(theirs.values.values())} points with {prototypes} prototypes")
    return [*found, Remark(f"Loss with the η of the authors' code: {', '.join(remarks)}.")] if remarks else found


def reach(arrays: Arrays) -> float | None:
    """Return the distance up to which a patch has half of its largest influence: the end of the last such bin."""
    edges, influence = _influence(arrays)
    if not len(influence):
        return None
    return float(edges[1:][influence >= 0.5 * influence.max()].max())


def far_influence_ratio(arrays: Arrays) -> float | None:
    """Return the largest influence in the bins from distance 1 on, as a part of the largest influence."""
    edges, influence = _influence(arrays)
    far = influence[edges[:-1] >= FAR_DISTANCE]
    return float(far.max() / influence.max()) if len(far) and influence.max() > 0 else None


def _influence(arrays: Arrays) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the edges (n + 1,) and the influence (n,) of the exact η, with empty bins as 0; nothing without data."""
    if "influence" not in arrays or not np.isfinite(np.asarray(arrays["influence"], np.float64)[_EXACT]).any():
        return np.zeros(1), np.zeros(0)
    influence = np.asarray(arrays["influence"], np.float64)[_EXACT]
    return np.asarray(arrays["influence_edges"], np.float64), np.nan_to_num(influence)


def _study(
    evidence: Evidence,
    dataset: str,
    what: str,
    function: Callable[[Arrays], float | None],
    prototypes: int,
    **parameters: float,
) -> Series:
    return evidence.from_arrays(dataset, what, function, **_model(dataset, prototypes), **parameters)


def _model(dataset: str, prototypes: int) -> dict[str, Any]:
    cases = "wrong" if dataset == MNIST else "special"
    return {"kind": "patch_study", "method": "idw", "prototypes": prototypes, "cases": cases}


def _eta_check(evidence: Evidence, dataset: str, prototypes: int) -> PointCheck:
    model = _model(dataset, prototypes)
    right = evidence.metric(dataset, "smallest_eta", "cases", **model)
    cases = evidence.metric(dataset, "patched", "cases", **model)
    label = f"part of cases in which only η wins, {right.name}"
    bound = "≥ 1"
    missing = right.missing(5)
    if missing:
        return PointCheck(label, 0.0, bound, 0, 0, missing)
    n = round(sum(cases.values.get(seed, 1.0) for seed in right.values))
    passed = round(sum(value * cases.values.get(seed, 1.0) for seed, value in right.values.items()))
    return PointCheck(label, min(right.values.values()), bound, passed, n)


def _changed(evidence: Evidence, dataset: str, prototypes: int, criterion: int) -> Series:
    """Return the other predictions that the worst case changes, in percent."""

    def worst(arrays: Arrays) -> float | None:
        changed = arrays.get(f"changed_{_SPLIT[dataset]}")
        patched = np.zeros(0) if changed is None else changed[criterion][changed[criterion] >= 0]
        return 100 * float(patched.max()) / _N_POINTS[dataset] if len(patched) else None

    return _study(evidence, dataset, "changed predictions", worst, prototypes)


def _loss(evidence: Evidence, prototypes: int, criterion: int) -> Series:
    """Return the mean loss of accuracy over patched cases, in points."""
    model = _model(TWO_MOONS, prototypes)
    before = evidence.metric(TWO_MOONS, "accuracy_before", _SPLIT[TWO_MOONS], **model)

    def after(arrays: Arrays) -> float | None:
        accuracy, eta = arrays.get(f"accuracy_{_SPLIT[TWO_MOONS]}"), arrays.get("eta")
        if accuracy is None or eta is None:
            return None
        patched = np.isfinite(np.asarray(eta, np.float64)[criterion])
        return float(accuracy[criterion][patched].mean()) if patched.any() else None

    afterwards = _study(evidence, TWO_MOONS, "accuracy", after, prototypes)
    return combine(before.name, lambda first, second: 100 * (first - second), before, afterwards)


PATCH_CLAIMS = (
    Claim(
        11,
        "A patch's influence decays sharply for small ε.",
        "text",
        "16 prototypes and the exact η, influence: the largest change of a class probability at a distance. Reach, the "
        "distance up to which it is half of its maximum: smaller at ε = 0.001 than at 0.01, 0.1 and 1. At ε = 0.001 "
        f"and distances from {FAR_DISTANCE:g} (in standard deviations): below {100 * _LEFT:g} % of its maximum.",
        influence_decays,
        ("paper_patches_two_moons",),
    ),
    Claim(
        12,
        "η is the smallest value with which a patch works.",
        "Eq. 7",
        "Every patched case: the label wins with 1.001 of the η that ties, and does not win with 0.99 of it; Two Moons "
        "with 2, 16 and 128 prototypes, and 200 wrong MNIST images.",
        eta_is_smallest,
        ("paper_patches_two_moons", "paper_patches_mnist"),
    ),
    Claim(
        13,
        "A patch barely changes the other predictions, whatever the label.",
        "Figures 3 and 6",
        "Part of the 4,000 new points (10,000 test images) that the worst patched case changes, with the exact η: "
        f"below {_BARELY:g} %, with 2, 16 and 128 prototypes (MNIST: in every seed).",
        patches_change_little,
        ("paper_patches_two_moons", "paper_patches_mnist"),
    ),
    Claim(
        19,
        "With 16 or more prototypes patches do no damage.",
        "Figures 3 and 6",
        f"Mean loss of accuracy on 4,000 new points by a patch with the exact η: below {NO_DAMAGE:g} points, with 16 "
        "and 128 prototypes.",
        patches_do_no_damage,
        ("paper_patches_two_moons",),
    ),
)

"""The claims on accuracy: 1 to 3 on Two Moons, 14 and 15 on MNIST."""

from __future__ import annotations

from idwbench.claims.definitions import Series, claim, difference
from idwbench.claims.evidence import MNIST, RIVALS, TWO_MOONS, Evidence
from idwbench.claims.findings import Finding, compare

__all__ = ["SUBSTANTIAL"]

# The smallest difference of accuracies that counts as substantial, in points of a percent.
SUBSTANTIAL = 1.0
_DISTANCE_SCORES = tuple(method for method in RIVALS if method not in ("fc_relu", "scaled_dot"))
_NAMES = ", ".join(_DISTANCE_SCORES)


@claim(1, "Figure 2", "paper_two_moons")
def idw_is_best_with_16(evidence: Evidence) -> list[Finding]:
    """IDW has the best accuracy on Two Moons with 16 prototypes.

    Accuracy on 4,000 new points: idw above each of the other five methods with 16 prototypes.
    """
    return [_more_accurate(evidence, "idw", rival, 16) for rival in RIVALS]


@claim(2, "Figure 2", "paper_two_moons")
def idw_is_best_with_128(evidence: Evidence) -> list[Finding]:
    """IDW has the best accuracy on Two Moons with 128 prototypes.

    Accuracy on 4,000 new points: idw above each of the other five methods with 128 prototypes.
    """
    return [_more_accurate(evidence, "idw", rival, 128) for rival in RIVALS]


@claim(3, "Figure 2", "paper_two_moons")
def inverse_distance_is_second(evidence: Evidence) -> list[Finding]:
    """Inverse distance beats the other scores but IDW, for each number of prototypes.

    Accuracy on 4,000 new points: inv_dist above each of the four other methods, with 2, 16 and 128 prototypes.
    """
    rivals = [method for method in RIVALS if method != "inv_dist"]
    return [_more_accurate(evidence, "inv_dist", rival, n) for n in (2, 16, 128) for rival in rivals]


@claim(14, "Table 1", "paper_mnist")
def idw_on_mnist(evidence: Evidence) -> list[Finding]:
    """IDW reaches 88 % on MNIST, below FC ReLU and scaled dot.

    Test accuracy with 20 prototypes, in every seed: idw between 87 and 89 %, below fc_relu and scaled_dot
    (1/√prototypes).
    """
    idw = evidence.accuracy(MNIST, method="idw", prototypes=20)
    below = [_over_rival(evidence, rival) for rival in ("fc_relu", "scaled_dot")]
    return [
        compare(idw, above=87.0, below=89.0, unit="%", test="every seed"),
        *(compare(series, below=0.0, unit="points", test="every seed") for series in below),
    ]


@claim(15, "Table 1", "paper_mnist")
def idw_and_distances_on_mnist(evidence: Evidence) -> list[Finding]:
    """IDW is substantially better on MNIST than the other scores of distances.

    Test accuracy with 20 prototypes, in every seed: idw more than {SUBSTANTIAL:g} point above each of {_NAMES}.
    """
    compared = [_over_rival(evidence, rival) for rival in _DISTANCE_SCORES]
    return [compare(series, above=SUBSTANTIAL, unit="points", test="every seed") for series in compared]


def _more_accurate(evidence: Evidence, method: str, rival: str, prototypes: int) -> Finding:
    pair = [evidence.accuracy(TWO_MOONS, method=name, prototypes=prototypes) for name in (method, rival)]
    return compare(difference(f"{method} − {rival}, {prototypes} prototypes", *pair), above=0.0, unit="points")


def _over_rival(evidence: Evidence, rival: str) -> Series:
    """Return the accuracy of idw on MNIST less that of another method."""
    pair = [evidence.accuracy(MNIST, method=name, prototypes=20) for name in ("idw", rival)]
    return difference(f"idw − {rival}, MNIST", *pair)

"""The claims on accuracy: 1 to 3 on Two Moons, 14 and 15 on MNIST."""

from __future__ import annotations

from collections.abc import Sequence

from idwbench.claims.definitions import Claim, Rule, SeedComparison
from idwbench.claims.evidence import MNIST, RIVALS, TWO_MOONS, Evidence
from idwbench.claims.series import difference

__all__ = [
    "ACCURACY_CLAIMS",
    "SUBSTANTIAL",
    "idw_and_distances_on_mnist",
    "idw_is_best",
    "idw_on_mnist",
    "inverse_distance_is_second",
]

# The smallest difference of accuracies that counts as substantial, in points of a percent.
SUBSTANTIAL = 1.0
_MNIST_PROTOTYPES = 20
_DISTANCE_SCORES = tuple(method for method in RIVALS if method not in ("fc_relu", "scaled_dot"))


def idw_is_best(prototypes: int) -> Rule:
    """Return the rule that IDW is more accurate than each other method."""

    def rule(evidence: Evidence) -> Sequence[SeedComparison]:
        return [_more_accurate(evidence, "idw", rival, prototypes) for rival in RIVALS]

    return rule


def inverse_distance_is_second(evidence: Evidence) -> Sequence[SeedComparison]:
    """Compare inverse distance with the four methods but IDW, for each number of prototypes."""
    rivals = [method for method in RIVALS if method != "inv_dist"]
    return [_more_accurate(evidence, "inv_dist", rival, n) for n in (2, 16, 128) for rival in rivals]


def idw_on_mnist(evidence: Evidence) -> Sequence[SeedComparison]:
    """Compare IDW's accuracy on MNIST with 88 ± 1 %, FC ReLU and scaled dot."""
    idw = evidence.accuracy(MNIST, method="idw", prototypes=_MNIST_PROTOTYPES)
    below = [_on_mnist(evidence, rival, below=0.0) for rival in ("fc_relu", "scaled_dot")]
    return [SeedComparison(idw, above=87.0, below=89.0, unit="%", test="every seed"), *below]


def idw_and_distances_on_mnist(evidence: Evidence) -> Sequence[SeedComparison]:
    """Compare IDW's accuracy on MNIST with those of the other scores of distances."""
    return [_on_mnist(evidence, rival, above=SUBSTANTIAL) for rival in _DISTANCE_SCORES]


def _more_accurate(evidence: Evidence, method: str, rival: str, prototypes: int) -> SeedComparison:
    pair = [evidence.accuracy(TWO_MOONS, method=name, prototypes=prototypes) for name in (method, rival)]
    return SeedComparison(difference(f"{method} − {rival}, {prototypes} prototypes", *pair), above=0.0, unit="points")


def _on_mnist(
    evidence: Evidence, rival: str, *, above: float | None = None, below: float | None = None
) -> SeedComparison:
    pair = [evidence.accuracy(MNIST, method=name, prototypes=_MNIST_PROTOTYPES) for name in ("idw", rival)]
    return SeedComparison(difference(f"idw − {rival}, MNIST", *pair), above, below, "points", "every seed")


_BEST = "Accuracy on 4,000 new points: idw above each of the other five methods with {} prototypes."
ACCURACY_CLAIMS = (
    Claim(
        1,
        "IDW has the best accuracy on Two Moons with 16 prototypes.",
        "Figure 2",
        _BEST.format(16),
        idw_is_best(16),
        ("paper_two_moons",),
    ),
    Claim(
        2,
        "IDW has the best accuracy on Two Moons with 128 prototypes.",
        "Figure 2",
        _BEST.format(128),
        idw_is_best(128),
        ("paper_two_moons",),
    ),
    Claim(
        3,
        "Inverse distance beats the other scores but IDW, for each number of prototypes.",
        "Figure 2",
        "Accuracy on 4,000 new points: inv_dist above each of the four other methods, with 2, 16 and 128 prototypes.",
        inverse_distance_is_second,
        ("paper_two_moons",),
    ),
    Claim(
        14,
        "IDW reaches 88 % on MNIST, below FC ReLU and scaled dot.",
        "Table 1",
        "Test accuracy with 20 prototypes, in every seed: idw between 87 and 89 %, below fc_relu and scaled_dot "
        "(1/√prototypes).",
        idw_on_mnist,
        ("paper_mnist",),
    ),
    Claim(
        15,
        "IDW is substantially better on MNIST than the other scores of distances.",
        "Table 1",
        f"Test accuracy with 20 prototypes, in every seed: idw more than {SUBSTANTIAL:g} point above each of "
        f"{', '.join(_DISTANCE_SCORES)}.",
        idw_and_distances_on_mnist,
        ("paper_mnist",),
    ),
)

"""When prototypes form, which a review of the paper asks: claims 34 to 40, on the runs of the sweep formation_digits.

Twenty prototypes on ten splits of digits; one setting at a time differs from `idw` with p = 2 and ε = 0.001, 50 epochs
of Adam at the learning rate 0.01, in batches of 16, from keys about the mean of the data and values of zero.
"""

from __future__ import annotations

from typing import Any

from idwbench.claims.definitions import Publication, Series, claim, combine, difference
from idwbench.claims.evidence import Evidence
from idwbench.claims.findings import Comparison, remark

__all__: list[str] = []

_AGREEMENT = 90.0  # %
_GAP = 10.0  # points
_START = {"epochs": 50, "batch_size": 16, "learning_rate": 0.01}
_PLACE: Publication = "prototypes"
_SWEEP = "formation_digits"
_INITIALISATIONS: dict[str, dict[str, Any]] = {
    "mean": {},  # the default of idw
    **{name: {"initialisation": name} for name in ("samples", "kmeans", "kaiming")},
}
_TRAININGS: dict[str, dict[str, Any]] = {
    "Adam, rate 0.001": {"learning_rate": 0.001},
    "Adam, rate 0.01": {},
    "Adam, rate 0.1": {"learning_rate": 0.1},
    "SGD, rate 0.1": {"optimizer": "sgd", "momentum": 0.9, "learning_rate": 0.1},
    "SGD, rate 1": {"optimizer": "sgd", "momentum": 0.9, "learning_rate": 1.0},
}
_DISTANCES, _PRODUCTS = ("idw", "inv_dist", "neg_dist"), ("cosine", "scaled_dot", "fc_relu")


@claim(34, "review: initialisation", _SWEEP, publication=_PLACE)
def any_initialisation(evidence: Evidence) -> list[Comparison]:
    """Keys of idw become prototypes from any initialisation.

    Digits with 20 prototypes, keys that start about the mean, at samples, at centres of k-means, and without the data
    (Kaiming): more than {_AGREEMENT:g} % of the keys have the class of their nearest training image.
    """
    return [_formed(evidence, name, **settings) for name, settings in _INITIALISATIONS.items()]


@claim(35, "review: values", _SWEEP, publication=_PLACE)
def any_values(evidence: Evidence) -> list[Comparison]:
    """Keys of idw become prototypes from values of zero and from random values.

    Digits with 20 prototypes, both: more than {_AGREEMENT:g} % of the keys have the class of their nearest training
    image.
    """
    return [_formed(evidence, "values zero"), _formed(evidence, "values random", initial_values="random")]


@claim(36, "review: optimizer", _SWEEP, publication=_PLACE)
def any_optimizer(evidence: Evidence) -> list[Comparison]:
    """Keys of idw become prototypes with Adam and with SGD, at any learning rate.

    Digits with 20 prototypes, Adam at the rates 0.001, 0.01 and 0.1, SGD with momentum 0.9 at 0.1 and 1: more than
    {_AGREEMENT:g} % of the keys have the class of their nearest training image.
    """
    return [_formed(evidence, name, **settings) for name, settings in _TRAININGS.items()]


@claim(37, "review: batch", _SWEEP, publication=_PLACE)
def any_batch_size(evidence: Evidence) -> list[Comparison]:
    """Keys of idw become prototypes with any batch size.

    Digits with 20 prototypes, batches of 1, 16 and 256: more than {_AGREEMENT:g} % of the keys have the class of their
    nearest training image.
    """
    return [_formed(evidence, f"batch size {size}", batch_size=size) for size in (1, 16, 256)]


@claim(38, "review: score", _SWEEP, publication=_PLACE)
def scores_of_distances(evidence: Evidence) -> list[Comparison | str]:
    """Scores of distances make prototypes, and dot products do not.

    Digits with 20 prototypes, each from its own initialisation: more than {_AGREEMENT:g} % of the keys of idw,
    inv_dist and neg_dist have the class of their nearest training image, and fewer of cosine, scaled_dot and fc_relu.
    """
    compared: list[Comparison | str] = [_formed(evidence, method, method=method) for method in _DISTANCES]
    compared += [
        Comparison(
            _percent(evidence, f"agreement, {method}", "key_agreement", method=method), below=_AGREEMENT, unit="%"
        )
        for method in _PRODUCTS
    ]
    every = {name: _percent(evidence, name, "accuracy", "test", method=name) for name in (*_DISTANCES, *_PRODUCTS)}
    return [*compared, *remark("Test accuracy in %", "{name} {mean}", every)]


@claim(39, "review: score", _SWEEP, publication=_PLACE)
def score_not_start(evidence: Evidence) -> list[Comparison]:
    """The score decides whether the nearest key alone gives the answer, not the initialisation.

    Digits with 20 prototypes, from keys about the mean and at samples, for both scores: test accuracy is less than
    {_GAP:g} points above that of the nearest key alone for idw, and more for scaled_dot.
    """
    compared = []
    for initialisation in ("mean", "samples"):
        for method, bounds in (("idw", {"below": _GAP}), ("scaled_dot", {"above": _GAP})):
            settings = {"method": method, "initialisation": initialisation}
            if method == "idw":
                settings = {"method": method, **_INITIALISATIONS[initialisation]}
            metrics = ("accuracy", "nearest_key_accuracy")
            pair = (_percent(evidence, f"{method}, {name}", name, "test", **settings) for name in metrics)
            less = difference(f"accuracy − that of the nearest key, {method} from {initialisation}", *pair)
            compared.append(Comparison(less, unit="points", **bounds))
    return compared


@claim(40, "review: training", _SWEEP, publication=_PLACE)
def in_the_first_epochs(evidence: Evidence) -> list[Comparison | str]:
    """Prototypes form in the first epochs.

    Digits with 20 prototypes, idw after 1 and 5 epochs in place of 50: more than {_AGREEMENT:g} % of the keys have the
    class of their nearest training image.
    """
    epochs = {f"{n} epoch{'s' if n > 1 else ''}": n for n in (1, 5, 50)}
    accuracy = {name: _percent(evidence, name, "accuracy", "test", epochs=n) for name, n in epochs.items()}
    compared = [_formed(evidence, name, epochs=n) for name, n in epochs.items() if n < 50]
    return [*compared, *remark("Test accuracy in %", "{mean} after {name}", accuracy)]


def _formed(evidence: Evidence, name: str, **settings: Any) -> Comparison:
    """Return whether enough keys have the class of their nearest training image."""
    agreement = _percent(evidence, f"agreement, {name}", "key_agreement", **settings)
    return Comparison(agreement, above=_AGREEMENT, unit="%")


def _percent(evidence: Evidence, name: str, metric: str, split: str = "train", **settings: Any) -> Series:
    """Return a metric in percent over splits of the data."""
    given = {"method": "idw", "prototypes": 20, **_START, **settings}
    return combine(name, lambda value: 100 * value, evidence.over_splits(name, "digits", metric, split, **given))

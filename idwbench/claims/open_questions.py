"""Questions that the paper or its reviewers leave open, stated as claims: 25 to 40.

Attention in depth, prototypes and patches on learned features, cost, and recall, 25 to 33: other learning rates than
the best one by validation do not count. When prototypes form, 34 to 40, on the runs of the sweep formation_digits:
twenty prototypes on ten splits of digits; one setting at a time differs from `idw` with p = 2 and ε = 0.001, 50 epochs
of Adam at the learning rate 0.01, in batches of 16, from keys about the mean of the data and values of zero.
"""

from __future__ import annotations

from typing import Any

import pandas

from idwbench.attention.records import LEARNED_NUMBERS
from idwbench.claims.evidence import Evidence
from idwbench.claims.findings import Comparison, Publication, Series, claim, combine, difference, mean_label, remark
from idwbench.claims.idw import AUTHORS, other_sizes
from idwbench.report.lookups import lookup_capacities
from idwbench.runs.config import RunConfig
from idwbench.runs.kinds.network import ATTENTION_PREFIX

__all__: list[str] = []

# Differences that count: accuracy in points, bits per character, factors of time and memory.
_POINTS, _BITS, _FACTOR = 1.0, 0.05, 2.0
_AGREEMENT, _CHANGED = 90.0, 0.1
_CHOSEN = "each at its best learning rate by validation"
_FIXED = {f"{prefix}{name}": value for prefix in ("", ATTENTION_PREFIX) for name, value in LEARNED_NUMBERS.items()}
_VIT: dict[str, Any] = {"kind": "network", "encoder": "vit_tiny", "depth": 2, "head": "linear", **_FIXED}
_VITS: dict[str, dict[str, Any]] = {
    "idw": {**_VIT, "attention": "idw", "attention_power": 2.0, "attention_epsilon": 1e-3},
    "scaled_dot": {**_VIT, "attention": "scaled_dot"},
}
_LANGUAGE_MODELS: dict[str, dict[str, Any]] = {
    "idw": {"kind": "transformer_lm", "method": "idw", "power": 2.0, "epsilon": 1e-3, **LEARNED_NUMBERS},
    "scaled_dot": {"kind": "transformer_lm", "method": "scaled_dot", **LEARNED_NUMBERS},
}
_DEPTHS = {"mlp": 2, "conv": 3}
_DIMENSIONS = (16, 64)
# Those of the sweeps network_digits and language_model.
_VIT_EPOCHS, _LM_EPOCHS = 12, 3
_TABLES: dict[str, dict[str, Any]] = {
    "idw": {"similarity": "idw", "scaling": "none", "power": 2.0, "epsilon": 1e-3},
    "scaled dot": {"similarity": "inner_product", "scaling": "sqrt_dimensions"},
}


@claim(25, "open: depth", "network_digits")
def attention_keeps_accuracy(evidence: Evidence) -> list[Comparison]:
    """In a vision transformer, IDW attention is as accurate as scaled dot.

    Test accuracy on digits with equal parameters, {_CHOSEN}: idw less than {_POINTS:g} point below scaled_dot.
    """
    pair = (evidence.best_metric(name, "digits", "accuracy", **model) for name, model in _VITS.items())
    return [_keeps_accuracy("idw − scaled_dot, ViT on digits", *pair)]


@claim(26, "open: depth", "language_model")
def language_model_keeps_bits(evidence: Evidence) -> list[Comparison]:
    """In a language model, IDW attention predicts as well as scaled dot.

    Bits per character of Aesop's fables, equal parameters, {_CHOSEN}: idw less than {_BITS:g} above
    scaled_dot.
    """
    models = _LANGUAGE_MODELS.items()
    idw, dot = (evidence.best_metric(name, "aesop", "bits_per_character", depth=2, **model) for name, model in models)
    return [Comparison(difference("idw − scaled_dot, Aesop", idw, dot), below=_BITS, unit="bits")]


@claim(27, "open: depth", "network_heads")
def prototype_head_keeps_accuracy(evidence: Evidence) -> list[Comparison]:
    """An IDW head on learned features is as accurate as a linear head.

    Test accuracy on digits with mlp and conv, {_CHOSEN}: idw less than {_POINTS:g} point below linear.
    """
    compared = []
    for encoder, depth in _DEPTHS.items():
        pair = (_head(evidence, encoder, "accuracy", "test", head, depth=depth) for head in ("idw", "linear"))
        compared.append(_keeps_accuracy(f"idw − linear head, {encoder}", *pair))
    return compared


@claim(28, "open: depth", "network_heads")
def head_keys_look_like_data(evidence: Evidence) -> list[Comparison]:
    """The keys of an IDW head look like the features of data.

    Digits with mlp and conv: the mean distance of a key to the nearest training point is below that between
    neighbouring training points, and more than {_AGREEMENT:g} % of the keys have the class of that point.
    """
    compared = []
    for encoder in _DEPTHS:
        parts = [_head(evidence, encoder, metric) for metric in ("key_distance", "coverage", "relative_coverage")]
        # The mean distance of a training point to its nearest neighbour is coverage / relative coverage.
        name = f"distance of keys to the data / between data, {encoder}"
        relative = combine(name, lambda key, coverage, ratio: key * ratio / coverage, *parts)
        compared.append(Comparison(relative, below=1.0))
        name = f"keys with the class of their nearest image, {encoder}"
        agreement = combine(name, float, _head(evidence, encoder, "key_agreement"))
        compared.append(Comparison(agreement, above=_AGREEMENT, unit="%"))
    return compared


@claim(29, "open: depth", "network_heads")
def head_keys_cover_features(evidence: Evidence) -> list[Comparison]:
    """The keys of an IDW head cover the features better than those of a scaled dot head.

    Digits with mlp and conv: relative coverage of idw below that of scaled_dot.
    """
    compared = []
    for encoder in _DEPTHS:
        pair = (_head(evidence, encoder, "relative_coverage", head=head) for head in ("idw", "scaled_dot"))
        less = difference(f"relative coverage, idw − scaled_dot head, {encoder}", *pair)
        compared.append(Comparison(less, below=0.0))
    return compared


@claim(30, "open: depth", "network_heads")
def head_patches_are_low_impact(evidence: Evidence) -> list[Comparison | str]:
    """A patch at the head barely changes the other predictions.

    Digits with mlp and conv: a patch with the η of the authors' code changes less than {_CHANGED:g} % of the other test
    predictions.
    """

    def compared(size: str) -> list[Comparison]:
        shares = []
        for encoder in _DEPTHS:
            name = f"other test predictions changed by a patch, {encoder}"
            pairs = ((f"changed_{size}", "test"), ("accuracy", "test"), ("patched", "cases"))
            shares.append(combine(name, _changed_share, *(_head(evidence, encoder, *pair) for pair in pairs)))
        return [Comparison(share, below=_CHANGED, unit="%") for share in shares]

    return [*compared(AUTHORS), *other_sizes(compared)]


@claim(31, "open: depth", "network_depth")
def power_does_not_matter_in_depth(evidence: Evidence) -> list[Comparison]:
    """In depth a larger power does not cost accuracy.

    Test accuracy of the ViT on digits, ε = 0.001: p = 4 and p = 8 less than {_POINTS:g} point below p = 2.
    """
    models = {f"p = {power:g}": {**_VITS["idw"], "attention_power": power} for power in (2.0, 4.0, 8.0)}
    two, *others = (evidence.best_metric(name, "digits", "accuracy", **model) for name, model in models.items())
    return [_keeps_accuracy(f"{other.name} − p = 2, ViT on digits", other, two) for other in others]


@claim(32, "open: cost", "network_digits", "language_model")
def attention_costs(evidence: Evidence) -> list[Comparison]:
    """IDW attention takes less than {_FACTOR:g} times the time and memory of scaled dot.

    Median seconds and activation memory of a training step, ViT on digits and language model: idw /
    scaled_dot below {_FACTOR:g}.
    """
    compared = []
    # Times are compared within one sweep: longer trainings of the same networks may have run on another machine.
    for what, dataset, epochs, models in (
        ("ViT", "digits", _VIT_EPOCHS, _VITS),
        ("language model", "aesop", _LM_EPOCHS, _LANGUAGE_MODELS),
    ):
        for metric, name in (("seconds_per_step", "time"), ("activation_memory", "memory")):
            both = (
                evidence.best_metric(f"{label}, {what}", dataset, metric, "train", epochs=epochs, **model)
                for label, model in models.items()
            )
            title = f"{name} of a step, idw / scaled_dot, {what}"
            ratio = combine(title, lambda one, other: one / other, *both)
            compared.append(Comparison(ratio, below=_FACTOR))
    return compared


@claim(33, "open: memory", "hash_table_capacity")
def recalls_more(evidence: Evidence) -> list[Comparison | str]:
    """IDW attention recalls more items than scaled dot attention.

    Number of random pairs that are recalled in 99 % of the queries, noise 0.2, softmax, 16 and 64 dimensions: idw
    (p = 2) above scaled dot.
    """
    compared: list[Comparison | str] = []
    by_name = {name: _capacities(evidence, **model) for name, model in _TABLES.items()}
    for d in sorted({*_DIMENSIONS, *(d for capacities in by_name.values() for d in capacities)}):
        series = {name: Series(f"{name}, d = {d}", capacities.get(d, {})) for name, capacities in by_name.items()}
        if d in _DIMENSIONS:
            more = difference(f"capacity, idw − scaled dot, d = {d}", *series.values())
            compared.append(Comparison(more, above=0.0, unit="items"))
        if all(one.values for one in series.values()):
            words = (f"{name} {mean_label(one)}" for name, one in series.items())
            compared.append(f"d = {d}: {', '.join(words)} items.")
    return compared


def _head(
    evidence: Evidence, encoder: str, metric: str, split: str = "train", head: str = "idw", **settings: Any
) -> Series:
    """Return a metric of networks with a head on the learned features of digits."""
    name = f"{head} head, {encoder}: {metric.replace('_', ' ')}"
    model = {"kind": "network", "encoder": encoder, "head": head, **_FIXED, **settings}
    return evidence.best_metric(name, "digits", metric, split, **model)


def _keeps_accuracy(name: str, first: Series, second: Series) -> Comparison:
    """Return whether the first accuracy is less than `_POINTS` below the second."""
    return Comparison(difference(name, first, second), above=-_POINTS, unit="points")


def _changed_share(changed: float, accuracy: float, patched: float) -> float:
    """Return the mean percentage of the test inputs whose prediction a patch changes; a patched input is wrong.

    All wrong test inputs are patched, up to 100: their number gives that of the test inputs.
    """
    return changed * (100 - accuracy) / patched if patched else float("nan")


def _capacities(evidence: Evidence, **model: Any) -> dict[int, dict[int, float]]:
    """Return the number of items at 99 % recall by dimensions and seed; bounds count as such."""
    settings = {"kind": "hash_table", "weighting": "softmax", "projections": "none", **model}

    def has_data(config: RunConfig) -> bool:
        dataset = config.dataset
        return (getattr(dataset, "noise", None), getattr(dataset, "mean", None)) == (0.2, 0.0)

    tables = evidence.complete("lookup", has_data, **settings)
    if not tables:
        return {}
    # Of tables with other numbers of queries those with the most runs count.
    found = lookup_capacities(pandas.concat(tables))
    largest = max(found, key=lambda one: sum(map(len, one.by_dimensions.values()))).by_dimensions
    return {d: {seed: capacity.items for seed, capacity in seeds.items()} for d, seeds in largest.items()}


# When prototypes form

_GAP = 10.0  # points
# As in a sweep file: runs from Python on digits have other defaults.
_START = {"initialisation": "default", "key_bounds": "none", "epochs": 50, "batch_size": 16, "learning_rate": 0.01}
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
    methods = (*_DISTANCES, *_PRODUCTS)
    compared = [_formed(evidence, name, forms=name in _DISTANCES, method=name) for name in methods]
    accuracy = {name: _split_metric(evidence, name, "accuracy", "test", method=name) for name in methods}
    return [*compared, *remark("Test accuracy in %", "{name} {mean}", accuracy)]


@claim(39, "review: score", _SWEEP, publication=_PLACE)
def score_not_start(evidence: Evidence) -> list[Comparison]:
    """The score decides whether the nearest key alone gives the answer, not the initialisation.

    Digits with 20 prototypes, from keys about the mean and at samples, for both scores: test accuracy is less than
    {_GAP:g} points above that of the nearest key alone for idw, and more for scaled_dot.
    """
    compared = []
    for initialisation in ("mean", "samples"):
        for method, bounds in (("idw", {"below": _GAP}), ("scaled_dot", {"above": _GAP})):
            start = _INITIALISATIONS[initialisation] if method == "idw" else {"initialisation": initialisation}
            settings = {"method": method, **start}
            metrics = ("accuracy", "nearest_key_accuracy")
            pair = (_split_metric(evidence, f"{method}, {name}", name, "test", **settings) for name in metrics)
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
    accuracy = {name: _split_metric(evidence, name, "accuracy", "test", epochs=n) for name, n in epochs.items()}
    compared = [_formed(evidence, name, epochs=n) for name, n in epochs.items() if n < 50]
    return [*compared, *remark("Test accuracy in %", "{mean} after {name}", accuracy)]


def _formed(evidence: Evidence, name: str, *, forms: bool = True, **settings: Any) -> Comparison:
    """Return whether enough keys have the class of their nearest training image; or fewer, where none should form."""
    agreement = _split_metric(evidence, f"agreement, {name}", "key_agreement", **settings)
    return Comparison(agreement, **{"above" if forms else "below": _AGREEMENT}, unit="%")


def _split_metric(evidence: Evidence, name: str, metric: str, split: str = "train", **settings: Any) -> Series:
    """Return a metric over splits of the data."""
    given = {"method": "idw", "prototypes": 20, **_START, **settings}
    return evidence.over_splits(name, "digits", metric, split, **given)

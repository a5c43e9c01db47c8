"""Questions that the paper or its reviewers leave open, stated as claims: 25 to 33.

Attention in depth, prototypes and patches on learned features, cost, and recall. Other learning rates than the best one
by validation do not count.
"""

from __future__ import annotations

from typing import Any

from idwbench.claims.definitions import Series, claim, combine, difference
from idwbench.claims.evidence import Evidence
from idwbench.claims.findings import Finding, compare, mean_label
from idwbench.report.lookups import lookup_capacities
from idwbench.runs.config import RunConfig

__all__: list[str] = []

# Differences that count: accuracy in points, bits per character, factors of time and memory.
_POINTS, _BITS, _FACTOR = 1.0, 0.05, 2.0
_AGREEMENT, _CHANGED = 90.0, 0.1
_CHOSEN = "each at its best learning rate by validation"
_IDW: dict[str, Any] = {"attention": "idw", "attention_power": 2.0, "attention_epsilon": 1e-3}
_DOT = {"attention": "scaled_dot"}
_TEXT_IDW, _TEXT_DOT = {"method": "idw", "power": 2.0, "epsilon": 1e-3}, {"method": "scaled_dot"}
_DEPTHS = {"mlp": 2, "conv": 3}
_DIMENSIONS = (16, 64)
# Those of the sweeps network_digits and language_model.
_VIT_EPOCHS, _LM_EPOCHS = 12, 3
_TABLES: dict[str, dict[str, Any]] = {
    "idw": {"similarity": "idw", "scaling": "none", "power": 2.0, "epsilon": 1e-3},
    "scaled dot": {"similarity": "inner_product", "scaling": "sqrt_dimensions"},
}


@claim(25, "open: depth", "network_digits")
def attention_keeps_accuracy(evidence: Evidence) -> list[Finding]:
    """In a vision transformer, IDW attention is as accurate as scaled dot.

    Test accuracy on digits with equal parameters, {_CHOSEN}: idw less than {_POINTS:g} point below scaled_dot.
    """
    idw, dot = (_vit(evidence, name, "accuracy", **model) for name, model in (("idw", _IDW), ("scaled_dot", _DOT)))
    return [compare(_points("idw − scaled_dot, ViT on digits", idw, dot), above=-_POINTS, unit="points")]


@claim(26, "open: depth", "language_model")
def language_model_keeps_bits(evidence: Evidence) -> list[Finding]:
    """In a language model, IDW attention predicts as well as scaled dot.

    Bits per character of Aesop's fables, equal parameters, in every seed, {_CHOSEN}: idw less than {_BITS:g} above
    scaled_dot.
    """
    idw, dot = (
        _language_model(evidence, name, "bits_per_character", depth=2, **model)
        for name, model in (("idw", _TEXT_IDW), ("scaled_dot", _TEXT_DOT))
    )
    return [compare(difference("idw − scaled_dot, Aesop", idw, dot), below=_BITS, unit="bits", test="every seed")]


@claim(27, "open: depth", "network_heads")
def prototype_head_keeps_accuracy(evidence: Evidence) -> list[Finding]:
    """An IDW head on learned features is as accurate as a linear head.

    Test accuracy on digits with mlp and conv, {_CHOSEN}: idw less than {_POINTS:g} point below linear.
    """
    findings = []
    for encoder, depth in _DEPTHS.items():
        idw, linear = (
            _network(evidence, f"{head} head", "accuracy", encoder=encoder, depth=depth, head=head)
            for head in ("idw", "linear")
        )
        findings.append(compare(_points(f"idw − linear head, {encoder}", idw, linear), above=-_POINTS, unit="points"))
    return findings


@claim(28, "open: depth", "network_heads")
def head_keys_look_like_data(evidence: Evidence) -> list[Finding]:
    """The keys of an IDW head look like the features of data.

    Digits with mlp and conv: the mean distance of a key to the nearest training point is below that between
    neighbouring training points, and more than {_AGREEMENT:g} % of the keys have the class of that point.
    """
    findings = []
    for encoder in _DEPTHS:
        parts = [_head(evidence, encoder, metric) for metric in ("key_distance", "coverage", "relative_coverage")]
        # The mean distance of a training point to its nearest neighbour is coverage / relative coverage.
        name = f"distance of keys to the data / between data, {encoder}"
        relative = combine(name, lambda key, coverage, ratio: key * ratio / coverage, *parts)
        findings.append(compare(relative, below=1.0))
        name = f"keys with the class of their nearest image, {encoder}"
        agreement = combine(name, lambda value: 100 * value, _head(evidence, encoder, "key_agreement"))
        findings.append(compare(agreement, above=_AGREEMENT, unit="%"))
    return findings


@claim(29, "open: depth", "network_heads")
def head_keys_cover_features(evidence: Evidence) -> list[Finding]:
    """The keys of an IDW head cover the features better than those of a scaled dot head.

    Digits with mlp and conv: relative coverage of idw below that of scaled_dot.
    """
    findings = []
    for encoder in _DEPTHS:
        idw, dot = (_head(evidence, encoder, "relative_coverage", head) for head in ("idw", "scaled_dot"))
        less = difference(f"relative coverage, idw − scaled_dot head, {encoder}", idw, dot)
        findings.append(compare(less, below=0.0))
    return findings


@claim(30, "open: depth", "network_heads")
def head_patches_are_low_impact(evidence: Evidence) -> list[Finding]:
    """A patch at the head barely changes the other predictions.

    Digits with mlp and conv, exact η: a patch changes less than {_CHANGED:g} % of the other test predictions.
    """
    findings = []
    for encoder in _DEPTHS:
        name, head = f"other test predictions changed by a patch, {encoder}", {"encoder": encoder, "head": "idw"}
        pairs = (("changed_exact", "test"), ("accuracy", "test"), ("patched", "cases"))
        changed = combine(name, _changed_share, *(_network(evidence, name, *pair, **head) for pair in pairs))
        findings.append(compare(changed, below=_CHANGED, unit="%"))
    return findings


@claim(31, "open: depth", "network_depth")
def power_does_not_matter_in_depth(evidence: Evidence) -> list[Finding]:
    """In depth a larger power does not cost accuracy.

    Test accuracy of the ViT on digits, ε = 0.001: p = 4 and p = 8 less than {_POINTS:g} point below p = 2.
    """
    two, *others = (
        _vit(evidence, f"p = {power:g}", "accuracy", **{**_IDW, "attention_power": power}) for power in (2.0, 4.0, 8.0)
    )
    less = [_points(f"{other.name} − p = 2, ViT on digits", other, two) for other in others]
    return [compare(series, above=-_POINTS, unit="points") for series in less]


@claim(32, "open: cost", "network_digits", "language_model")
def attention_costs(evidence: Evidence) -> list[Finding]:
    """IDW attention takes less than {_FACTOR:g} times the time and memory of scaled dot.

    Median seconds and activation memory of a training step, in every seed, ViT on digits and language model: idw /
    scaled_dot below {_FACTOR:g}.
    """
    findings = []
    # Times are compared within one sweep: longer trainings of the same networks may have run on another machine.
    for what, measure, epochs, idw, dot in (
        ("ViT", _vit, _VIT_EPOCHS, _IDW, _DOT),
        ("language model", _language_model, _LM_EPOCHS, _TEXT_IDW, _TEXT_DOT),
    ):
        for metric, name in (("seconds_per_step", "time"), ("activation_memory", "memory")):
            both = [
                measure(evidence, f"{label}, {what}", metric, "train", epochs=epochs, **model)
                for label, model in (("idw", idw), ("scaled_dot", dot))
            ]
            title = f"{name} of a step, idw / scaled_dot, {what}"
            ratio = combine(title, lambda one, other: one / other, *both)
            findings.append(compare(ratio, below=_FACTOR, test="every seed"))
    return findings


@claim(33, "open: memory", "hash_table_capacity")
def recalls_more(evidence: Evidence) -> list[Finding | str]:
    """IDW attention recalls more items than scaled dot attention.

    Number of random pairs that are recalled in 99 % of the queries, noise 0.2, softmax, 16 and 64 dimensions: idw
    (p = 2) above scaled dot.
    """
    findings: list[Finding | str] = []
    by_name = {name: _capacities(evidence, **model) for name, model in _TABLES.items()}
    for d in _DIMENSIONS:
        series = [Series(f"{name}, d = {d}", capacities.get(d, {})) for name, capacities in by_name.items()]
        more = difference(f"capacity, idw − scaled dot, d = {d}", *series)
        findings.append(compare(more, above=0.0, unit="items"))
    for d in sorted(set.intersection(*({d for d in found if found[d]} for found in by_name.values()))):
        words = (f"{name} {mean_label(capacities[d].values())}" for name, capacities in by_name.items())
        findings.append(f"d = {d}: {', '.join(words)} items.")
    return findings


def _network(evidence: Evidence, name: str, metric: str, split: str = "test", **settings: Any) -> Series:
    return evidence.best_metric(name, "digits", metric, split, kind="network", **settings)


def _vit(evidence: Evidence, name: str, metric: str, split: str = "test", **settings: Any) -> Series:
    return _network(evidence, name, metric, split, encoder="vit_tiny", depth=2, head="linear", **settings)


def _language_model(evidence: Evidence, name: str, metric: str, split: str = "test", **settings: Any) -> Series:
    return evidence.best_metric(name, "aesop", metric, split, kind="transformer_lm", **settings)


def _head(evidence: Evidence, encoder: str, metric: str, head: str = "idw") -> Series:
    name = f"{head} head, {encoder}: {metric.replace('_', ' ')}"
    return _network(evidence, name, metric, "train", encoder=encoder, head=head)


def _points(name: str, first: Series, second: Series) -> Series:
    """Return the difference of two accuracies in points of a percent."""
    return combine(name, lambda one, other: 100 * one - 100 * other, first, second)


def _changed_share(changed: float, accuracy: float, patched: float) -> float:
    """Return the mean percentage of the test inputs whose prediction a patch changes; a patched input is wrong.

    All wrong test inputs are patched, up to 100: their number gives that of the test inputs.
    """
    return 100 * changed * (1 - accuracy) / patched if patched else float("nan")


def _capacities(evidence: Evidence, **model: Any) -> dict[int, dict[int, float]]:
    """Return the number of items at 99 % recall by dimensions and seed; bounds count as such."""
    settings = {"kind": "hash_table", "weighting": "softmax", "projections": "none", **model}

    def has_data(config: RunConfig) -> bool:
        dataset = config.dataset
        return (getattr(dataset, "noise", None), getattr(dataset, "mean", None)) == (0.2, 0.0)

    keys = evidence.complete("lookup", has_data, **settings).run_key.tolist()
    found = lookup_capacities(evidence.results.load_runs(keys)) if keys else []
    # Of tables with other numbers of queries those with the most runs count.
    best = max(found, key=lambda one: sum(map(len, one.by_dimensions.values())), default=None)
    by_dimensions = best.by_dimensions if best is not None else {}
    return {d: {seed: each.items for seed, each in seeds.items()} for d, seeds in by_dimensions.items()}

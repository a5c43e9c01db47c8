"""Questions that the paper or its reviewers leave open, stated as claims: 25 to 33.

Attention in depth, prototypes and patches on learned features, cost, and recall. Other learning rates than the best one
by validation do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from idwbench.claims.definitions import Claim, Remark, SeedComparison
from idwbench.claims.evidence import Evidence, OpenEvidence, has_settings
from idwbench.claims.labels import mean_label
from idwbench.claims.series import Series, combine, difference
from idwbench.report.lookups import lookup_capacities
from idwbench.results.records import StoredRun

__all__ = [
    "OPEN_QUESTIONS",
    "attention_costs",
    "attention_keeps_accuracy",
    "head_keys_cover_features",
    "head_keys_look_like_data",
    "head_patches_are_low_impact",
    "language_model_keeps_bits",
    "power_does_not_matter_in_depth",
    "prototype_head_keeps_accuracy",
    "recalls_more",
]

# Differences that count: accuracy in points, bits per character, factors of time and memory.
_POINTS, _BITS, _FACTOR = 1.0, 0.05, 2.0
_AGREEMENT, _CHANGED = 90.0, 0.1
_VIT: dict[str, Any] = {"kind": "network", "encoder": "vit_tiny", "depth": 2, "head": "linear"}
_IDW = {"attention": "idw", "attention_power": 2.0, "attention_epsilon": 1e-3}
_DOT = {"attention": "scaled_dot"}
_ENCODERS = ("mlp", "conv")
_POWERS = (2.0, 4.0, 8.0)
_DIMENSIONS = (16, 64)
# Those of the sweeps network_digits and language_model.
_VIT_EPOCHS, _LM_EPOCHS = 12, 3
_TABLES: dict[str, dict[str, Any]] = {
    "idw": {"similarity": "idw", "scaling": "none", "power": 2.0, "epsilon": 1e-3},
    "scaled dot": {"similarity": "inner_product", "scaling": "sqrt_dimensions"},
}


def _accuracy(evidence: OpenEvidence, name: str, dataset: str = "digits", **model: Any) -> Series:
    return evidence.measure(name, dataset, _percent("accuracy"), **model)


def _percent(metric: str, split: str = "test") -> Callable[[StoredRun], float | None]:
    def function(run: StoredRun) -> float | None:
        value = run.metrics.get((split, metric))
        return None if value is None else 100 * value

    return function


def _ratio(name: str, first: Series, second: Series) -> Series:
    return combine(name, lambda one, other: one / other, first, second)


def attention_keeps_accuracy(evidence: Evidence) -> Sequence[SeedComparison]:
    """Compare the accuracy of a vision transformer with IDW attention with that of one with scaled dot."""
    idw, dot = (_accuracy(evidence.open, name, **_VIT, **a) for name, a in (("idw", _IDW), ("scaled_dot", _DOT)))
    return [SeedComparison(difference("idw − scaled_dot, ViT on digits", idw, dot), above=-_POINTS, unit="points")]


def language_model_keeps_bits(evidence: Evidence) -> Sequence[SeedComparison]:
    """Compare the bits per character of a character model with IDW attention with those of scaled dot."""
    idw, dot = (
        evidence.open.metric(name, "aesop", "bits_per_character", kind="transformer_lm", depth=2, **model)
        for name, model in (
            ("idw", {"method": "idw", "power": 2.0, "epsilon": 1e-3}),
            ("scaled_dot", {"method": "scaled_dot"}),
        )
    )
    return [
        SeedComparison(difference("idw − scaled_dot, Aesop", idw, dot), below=_BITS, unit="bits", test="every seed")
    ]


def prototype_head_keeps_accuracy(evidence: Evidence) -> Sequence[SeedComparison]:
    """Compare the accuracy of networks with an IDW head with that of a linear head."""
    return [
        SeedComparison(
            difference(
                f"idw − linear head, {encoder}",
                _accuracy(evidence.open, "idw head", kind="network", encoder=encoder, depth=depth, head="idw"),
                _accuracy(evidence.open, "linear head", kind="network", encoder=encoder, depth=depth, head="linear"),
            ),
            above=-_POINTS,
            unit="points",
        )
        for encoder, depth in (("mlp", 2), ("conv", 3))
    ]


def _head(evidence: OpenEvidence, encoder: str, metric: str, head: str = "idw", split: str = "train") -> Series:
    name = f"{head} head, {encoder}: {metric.replace('_', ' ')}"
    return evidence.metric(name, "digits", metric, split, kind="network", encoder=encoder, head=head)


def head_keys_look_like_data(evidence: Evidence) -> Sequence[SeedComparison | Remark]:
    """Compare the keys of IDW heads with the features of the training data."""
    found: list[SeedComparison | Remark] = []
    for encoder in _ENCODERS:
        parts = [_head(evidence.open, encoder, metric) for metric in ("key_distance", "coverage", "relative_coverage")]
        # The mean distance of a training point to its nearest neighbour is coverage / relative coverage.
        name = f"distance of keys to the data / between data, {encoder}"
        relative = combine(name, lambda key, coverage, ratio: key * ratio / coverage, *parts)
        found.append(SeedComparison(relative, below=1.0))
        agreement = _head(evidence.open, encoder, "key_agreement")
        percent = combine(
            f"keys with the class of their nearest image, {encoder}", lambda value: 100 * value, agreement
        )
        found.append(SeedComparison(percent, above=_AGREEMENT, unit="%"))
    return found


def head_keys_cover_features(evidence: Evidence) -> Sequence[SeedComparison]:
    """Compare the coverage of the features by the keys of IDW heads with that by scaled dot heads."""
    return [
        SeedComparison(
            difference(
                f"relative coverage, idw − scaled_dot head, {encoder}",
                *(_head(evidence.open, encoder, "relative_coverage", head) for head in ("idw", "scaled_dot")),
            ),
            below=0.0,
        )
        for encoder in _ENCODERS
    ]


def head_patches_are_low_impact(evidence: Evidence) -> Sequence[SeedComparison]:
    """Compare the share of other test predictions that a patch at an IDW head changes with 0.1 %."""
    return [
        SeedComparison(
            evidence.open.measure(
                f"other test predictions changed by a patch, {encoder}",
                "digits",
                _changed_share,
                kind="network",
                encoder=encoder,
                head="idw",
            ),
            below=_CHANGED,
            unit="%",
        )
        for encoder in _ENCODERS
    ]


def _changed_share(run: StoredRun) -> float | None:
    """Return the mean percentage of the test inputs whose prediction a patch changes; a patched input is wrong."""
    changed, accuracy = run.metrics.get(("test", "changed_exact")), run.metrics.get(("test", "accuracy"))
    patched = run.metrics.get(("cases", "patched"))
    if changed is None or accuracy is None or not patched:
        return None
    # All wrong test inputs are patched, up to 100: their number gives that of the test inputs.
    return 100 * changed * (1 - accuracy) / patched


def power_does_not_matter_in_depth(evidence: Evidence) -> Sequence[SeedComparison]:
    """Compare the accuracies of vision transformers with powers p = 4 and 8 with that of p = 2."""
    series = {
        power: _accuracy(evidence.open, f"p = {power:g}", **{**_VIT, **_IDW, "attention_power": power})
        for power in _POWERS
    }
    return [
        SeedComparison(
            difference(f"p = {power:g} − p = 2, ViT on digits", series[power], series[2.0]),
            above=-_POINTS,
            unit="points",
        )
        for power in _POWERS[1:]
    ]


def attention_costs(evidence: Evidence) -> Sequence[SeedComparison | Remark]:
    """Compare the time and memory of a step with IDW attention with those of scaled dot."""
    found: list[SeedComparison | Remark] = []
    # Times are compared within one sweep: longer trainings of the same networks may have run on another machine.
    for dataset, what, epochs, idw, dot in (
        ("digits", "ViT", _VIT_EPOCHS, {**_VIT, **_IDW}, {**_VIT, **_DOT}),
        (
            "aesop",
            "language model",
            _LM_EPOCHS,
            {"kind": "transformer_lm", "method": "idw", "power": 2.0, "epsilon": 1e-3},
            {"kind": "transformer_lm", "method": "scaled_dot"},
        ),
    ):
        for metric, name in (("seconds_per_step", "time"), ("activation_memory", "memory")):
            series = [
                evidence.open.metric(f"{label}, {what}", dataset, metric, "train", epochs=epochs, **model)
                for label, model in (("idw", idw), ("scaled_dot", dot))
            ]
            ratio = _ratio(f"{name} of a step, idw / scaled_dot, {what}", *series)
            found.append(SeedComparison(ratio, below=_FACTOR, test="every seed"))
    return found


def recalls_more(evidence: Evidence) -> Sequence[SeedComparison | Remark]:
    """Compare the capacity of hash tables with IDW with that of scaled dot, both with a softmax."""
    found: list[SeedComparison | Remark] = []
    by_name = {name: _capacities(evidence.open, model) for name, model in _TABLES.items()}
    for d in _DIMENSIONS:
        series = [Series(f"{name}, d = {d}", capacities.get(d, {})) for name, capacities in by_name.items()]
        found.append(
            SeedComparison(difference(f"capacity, idw − scaled dot, d = {d}", *series), above=0.0, unit="items")
        )
    for d in sorted(set.intersection(*(set(capacities) for capacities in by_name.values()))):
        words = (f"{name} {mean_label(capacities[d].values())}" for name, capacities in by_name.items())
        found.append(Remark(f"d = {d}: {', '.join(words)} items."))
    return found


def _capacities(evidence: OpenEvidence, model: dict[str, Any]) -> dict[int, dict[int, float]]:
    """Return the number of items at 99 % recall by dimensions and seed; bounds count as such."""
    wanted = {"kind": "hash_table", "weighting": "softmax", "projections": "none", **model}
    data = {"name": "lookup", "noise": 0.2, "mean": 0.0}
    runs = [
        run
        for run in evidence.runs
        if has_settings(run.config.model, wanted)
        and all(getattr(run.config.dataset, key, None) == value for key, value in data.items())
    ]
    if not any(run.state == "complete" for run in runs):
        return {}
    [found] = lookup_capacities(runs)
    return {d: {seed: each.items for seed, each in seeds.items()} for d, seeds in found.by_dimensions.items()}


def _question(
    number: int, statement: str, source: str, test: str, rule: Callable[[Evidence], Any], *sweeps: str
) -> Claim:
    return Claim(number, statement, source, test, rule, sweeps, "open question")


_CHOSEN = "each at its best learning rate by validation"
OPEN_QUESTIONS = (
    _question(
        25,
        "In a vision transformer, IDW attention is as accurate as scaled dot.",
        "open: depth",
        f"Test accuracy on digits with equal parameters, {_CHOSEN}: idw less than {_POINTS:g} point below scaled_dot.",
        attention_keeps_accuracy,
        "network_digits",
    ),
    _question(
        26,
        "In a language model, IDW attention predicts as well as scaled dot.",
        "open: depth",
        f"Bits per character of Aesop's fables, equal parameters, in every seed, {_CHOSEN}: idw less than {_BITS:g} "
        "above scaled_dot.",
        language_model_keeps_bits,
        "language_model",
    ),
    _question(
        27,
        "An IDW head on learned features is as accurate as a linear head.",
        "open: depth",
        f"Test accuracy on digits with mlp and conv, {_CHOSEN}: idw less than {_POINTS:g} point below linear.",
        prototype_head_keeps_accuracy,
        "network_heads",
    ),
    _question(
        28,
        "The keys of an IDW head look like the features of data.",
        "open: depth",
        "Digits with mlp and conv: the mean distance of a key to the nearest training point is below that between "
        f"neighbouring training points, and more than {_AGREEMENT:g} % of the keys have the class of that point.",
        head_keys_look_like_data,
        "network_heads",
    ),
    _question(
        29,
        "The keys of an IDW head cover the features better than those of a scaled dot head.",
        "open: depth",
        "Digits with mlp and conv: relative coverage of idw below that of scaled_dot.",
        head_keys_cover_features,
        "network_heads",
    ),
    _question(
        30,
        "A patch at the head barely changes the other predictions.",
        "open: depth",
        f"Digits with mlp and conv, exact η: a patch changes less than {_CHANGED:g} % of the other test predictions.",
        head_patches_are_low_impact,
        "network_heads",
    ),
    _question(
        31,
        "In depth a larger power does not cost accuracy.",
        "open: depth",
        f"Test accuracy of the ViT on digits, ε = 0.001: p = 4 and p = 8 less than {_POINTS:g} point below p = 2.",
        power_does_not_matter_in_depth,
        "network_depth",
    ),
    _question(
        32,
        f"IDW attention takes less than {_FACTOR:g} times the time and memory of scaled dot.",
        "open: cost",
        "Median seconds and activation memory of a training step, in every seed, ViT on digits and language model: "
        f"idw / scaled_dot below {_FACTOR:g}.",
        attention_costs,
        "network_digits",
        "language_model",
    ),
    _question(
        33,
        "IDW attention recalls more items than scaled dot attention.",
        "open: memory",
        "Number of random pairs that are recalled in 99 % of the queries, noise 0.2, softmax, 16 and 64 dimensions: "
        "idw (p = 2) above scaled dot.",
        recalls_more,
        "hash_table_capacity",
    ),
)

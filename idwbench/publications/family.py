"""The family of one formula: kernel regression, hash tables, networks and language models with the same scores."""

from __future__ import annotations

from idwbench.publications.publication import Item, Publication

__all__ = ["FAMILY"]

_KERNEL_DATA = (
    ("kernel_regression", "the noisy sine", "holdout"),
    ("kernel_regression_friedman1", "Friedman 1", "holdout"),
    ("kernel_regression_diabetes", "diabetes", "test"),
    ("kernel_regression_digits", "digits", "test"),
)
_HEAD_METRICS = (
    ("relative_coverage", "distance of features to the nearest key", "train"),
    ("key_distance", "distance of keys to the nearest feature", "train"),
    ("key_agreement", "keys with the class of the nearest image", "train"),
    ("changed_exact", "other predictions changed by a patch", "test"),
)
_COSTS = (
    ("seconds_per_step", "seconds of a training step"),
    ("activation_memory", "MiB of activations in a training step"),
)
_FULL = (
    ("network_digits_full", "Attention scores in a vision transformer of four blocks, digits, 40 epochs"),
    ("network_mnist_full", "Heads and attention scores, MNIST, five epochs"),
    ("network_fashion_mnist_full", "Heads and attention scores, Fashion-MNIST, five epochs"),
    ("language_model_aesop", "Bits per character of Aesop's fables, ten epochs"),
    ("language_model_wikitext_2", "Bits per character of WikiText-2"),
)


def _board(sweep: str, caption: str, metric: str | None = None, split: str = "test", *, best_rate: bool = True) -> Item:
    """Return a leaderboard of a sweep, with `best_rate` of the best learning rates."""
    name = "_".join(filter(None, ("table", sweep, metric)))
    return Item(name, caption, sweep, metric=metric, ranked=split, best_over=("learning_rate",) if best_rate else ())


_ITEMS = (
    Item("kernels", "Five kernels", None, "kernels"),
    Item("kernel_regression", "Kernel regression and its attention weights", None, "kernel_regression"),
    *(
        Item(
            f"prototypes_needed_{sweep}",
            f"Learned prototypes beside kernel regression: {title}",
            sweep,
            "prototypes_needed",
        )
        for sweep, title, _ in _KERNEL_DATA
    ),
    *(_board(sweep, f"Kernel regression and prototypes: {title}", split=split) for sweep, title, split in _KERNEL_DATA),
    Item("recall", "Recall of hash tables against load", "hash_table_capacity", "recall"),
    Item("capacity", "Capacity at 99 % recall against dimensions", "hash_table_capacity", "capacity"),
    Item("score_variance", "Variance of scores against dimensions", "hash_table_scores", "score_variance"),
    Item("weight_entropy", "Entropy of softmax weights against dimensions", "hash_table_scores", "weight_entropy"),
    _board("hash_table_learned", "Recall with learned projections"),
    _board("network_digits", "Attention scores in a vision transformer, digits"),
    *(_board("network_digits", f"Vision transformer on digits: {words}", metric, "train") for metric, words in _COSTS),
    _board("network_depth", "Power and ε in depth, digits", best_rate=False),
    _board("network_heads", "Heads on learned features, digits"),
    *(
        _board("network_heads", f"Heads on learned features: {words}", metric, split)
        for metric, words, split in _HEAD_METRICS
    ),
    Item("network_keys", "Keys of heads as their nearest training images, digits", "network_heads", "network_keys"),
    _board("network_mnist", "Heads and attention scores, MNIST"),
    _board("network_fashion_mnist", "Heads and attention scores, Fashion-MNIST"),
    Item(
        "network_keys_mnist", "Keys of heads as their nearest training images, MNIST", "network_mnist", "network_keys"
    ),
    _board("language_model", "Bits per character of Aesop's fables"),
    *(_board("language_model", f"Language model: {words}", metric, "train") for metric, words in _COSTS),
    _board("language_model_power", "Power and ε in a language model", best_rate=False),
    Item("recall_full", "Recall of hash tables at a smaller noise", "hash_table_capacity_full", "recall"),
    Item("capacity_full", "Capacity up to 128 dimensions at a smaller noise", "hash_table_capacity_full", "capacity"),
    *(_board(sweep, caption) for sweep, caption in _FULL),
)
_SWEEPS = (
    *(sweep for sweep, _, _ in _KERNEL_DATA),
    *("hash_table", "hash_table_learned", "hash_table_capacity", "hash_table_scores"),
    *("network_digits", "network_depth", "network_heads", "network_mnist", "network_fashion_mnist"),
    *("language_model", "language_model_power", "hash_table_capacity_full"),
    *(sweep for sweep, _ in _FULL),
)
FAMILY = Publication(
    "family",
    "One formula: kernel regression, hash tables, networks and language models",
    _ITEMS,
    _SWEEPS,
    claims="open question",
)

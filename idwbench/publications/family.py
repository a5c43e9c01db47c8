"""The family of one formula: kernel regression, hash tables, networks and language models with the same scores."""

from __future__ import annotations

from idwbench.publications.items import Item, Publication, find_sweeps

__all__ = ["FAMILY", "FAMILY_SWEEPS"]

# The stem of each file is the name of the sweep.
FAMILY_SWEEPS: tuple[str, ...] = (
    "sweeps/kernel_regression.yaml",
    "sweeps/kernel_regression_friedman1.yaml",
    "sweeps/kernel_regression_diabetes.yaml",
    "sweeps/kernel_regression_digits.yaml",
    "sweeps/hash_table.yaml",
    "sweeps/hash_table_learned.yaml",
    "sweeps/family/hash_table_capacity.yaml",
    "sweeps/family/hash_table_scores.yaml",
    "sweeps/family/network_digits.yaml",
    "sweeps/family/network_depth.yaml",
    "sweeps/family/network_heads.yaml",
    "sweeps/family/network_mnist.yaml",
    "sweeps/family/network_fashion_mnist.yaml",
    "sweeps/family/language_model.yaml",
    "sweeps/family/language_model_power.yaml",
    "sweeps/family/full/hash_table_capacity_full.yaml",
    "sweeps/family/full/network_digits_full.yaml",
    "sweeps/family/full/network_mnist_full.yaml",
    "sweeps/family/full/network_fashion_mnist_full.yaml",
    "sweeps/family/full/language_model_aesop.yaml",
    "sweeps/family/full/language_model_wikitext_2.yaml",
)


_RATE = ("learning_rate",)
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


def _board(name: str, caption: str, sweep: str, metric: str | None = None, split: str = "test") -> Item:
    return Item(name, caption, sweep, metric=metric, ranked=split, best_over=_RATE)


_ITEMS = (
    Item("kernels", "Five kernels", None, "kernels"),
    Item("kernel_regression", "Kernel regression and its attention weights", None, "kernel_regression"),
    *(
        Item(
            f"prototypes_needed_{name}",
            f"Learned prototypes beside kernel regression: {title}",
            name,
            "prototypes_needed",
        )
        for name, title, _ in _KERNEL_DATA
    ),
    *(
        _board(f"table_{name}", f"Kernel regression and prototypes: {title}", name, None, split)
        for name, title, split in _KERNEL_DATA
    ),
    Item("recall", "Recall of hash tables against load", "hash_table_capacity", "recall"),
    Item("capacity", "Capacity at 99 % recall against dimensions", "hash_table_capacity", "capacity"),
    Item("score_variance", "Variance of scores against dimensions", "hash_table_scores", "score_variance"),
    Item("weight_entropy", "Entropy of softmax weights against dimensions", "hash_table_scores", "weight_entropy"),
    _board("table_hash_table_learned", "Recall with learned projections", "hash_table_learned"),
    _board("table_network_digits", "Attention scores in a vision transformer, digits", "network_digits"),
    *(
        _board(
            f"table_network_digits_{metric}",
            f"Vision transformer on digits: {words}",
            "network_digits",
            metric,
            "train",
        )
        for metric, words in _COSTS
    ),
    Item("table_network_depth", "Power and ε in depth, digits", "network_depth", ranked="test"),
    _board("table_network_heads", "Heads on learned features, digits", "network_heads"),
    *(
        _board(f"table_network_heads_{metric}", f"Heads on learned features: {words}", "network_heads", metric, split)
        for metric, words, split in _HEAD_METRICS
    ),
    Item("network_keys", "Keys of heads as their nearest training images, digits", "network_heads", "network_keys"),
    *(
        _board(f"table_network_{name}", f"Heads and attention scores, {title}", f"network_{name}")
        for name, title in (("mnist", "MNIST"), ("fashion_mnist", "Fashion-MNIST"))
    ),
    Item(
        "network_keys_mnist", "Keys of heads as their nearest training images, MNIST", "network_mnist", "network_keys"
    ),
    _board("table_language_model", "Bits per character of Aesop's fables", "language_model"),
    *(
        _board(f"table_language_model_{metric}", f"Language model: {words}", "language_model", metric, "train")
        for metric, words in _COSTS
    ),
    Item("table_language_model_power", "Power and ε in a language model", "language_model_power", ranked="test"),
    Item("recall_full", "Recall of hash tables at a smaller noise", "hash_table_capacity_full", "recall"),
    Item("capacity_full", "Capacity up to 128 dimensions at a smaller noise", "hash_table_capacity_full", "capacity"),
    *(
        _board(f"table_{name}", caption, name)
        for name, caption in (
            ("network_digits_full", "Attention scores in a vision transformer of four blocks, digits, 40 epochs"),
            ("network_mnist_full", "Heads and attention scores, MNIST, five epochs"),
            ("network_fashion_mnist_full", "Heads and attention scores, Fashion-MNIST, five epochs"),
            ("language_model_aesop", "Bits per character of Aesop's fables, ten epochs"),
            ("language_model_wikitext_2", "Bits per character of WikiText-2"),
        )
    ),
)
FAMILY = Publication(
    "family",
    "One formula: kernel regression, hash tables, networks and language models",
    _ITEMS,
    "open question",
    find_sweeps(FAMILY_SWEEPS),
)

"""The IDW attention paper (arXiv 2310.18805): its figures and tables."""

from idwbench.publications.publication import Item, Publication

__all__ = ["PAPER"]

_DATA = (("two_moons", "Two Moons"), ("mnist", "MNIST"))
_CHANGED = (
    ("changed_exact", "other predictions changed by the exact η"),
    ("changed_logit_margin", "other predictions changed with a logit margin of 1"),
    ("changed_authors", "other predictions changed by the η of the authors' code"),
)
_QUALITY = ("relative_coverage", "key_distance", "dead_keys", "nearest_key_accuracy")
_ITEMS = (
    Item("figure1_weights", "Figure 1: weight of one of two keys against its distance, p = 2", None, "weights"),
    Item("figure1_weights_p1", "Figure 1 as the authors' notebook draws it, p = 1", None, "weights_p1"),
    Item(
        "figure2_two_moons", "Figure 2: Two Moons, six methods and 2, 16 or 128 prototypes", "paper_two_moons", "moons"
    ),
    Item("figures3_6_patches", "Figures 3 and 6: special cases, patched", "paper_patches_two_moons", "patches"),
    *(
        Item(
            f"patches_{data}_influence", f"Influence of patches on {title}", f"paper_patches_{data}", "patch_influence"
        )
        for data, title in _DATA
    ),
    Item("figure4_mnist_keys", "Figure 4: keys learned on MNIST, sorted by class", "paper_mnist", "keys"),
    Item("figure4_nearest_images", "Keys beside their nearest training images", "paper_mnist", "keys_nearest"),
    Item("figure5_power_epsilon", "Figure 5: power p and epsilon", "paper_power_epsilon", "power_epsilon"),
    Item("figure5_heat_maps", "Figure 5 over seeds", "paper_power_epsilon", "power_epsilon_heatmap"),
    Item("curves_two_moons", "Learning curves on Two Moons", "paper_two_moons", "curves"),
    Item("curves_mnist", "Learning curves on MNIST", "paper_mnist", "curves"),
    Item("table1_mnist", "Table 1: accuracy on MNIST", "paper_mnist"),
    Item("table_two_moons", "Accuracy on Two Moons", "paper_two_moons"),
    Item("table_power_epsilon", "Settings of p and ε by accuracy", "paper_power_epsilon", ranked="holdout"),
    *(
        Item(
            f"quality_{data}_{metric}",
            f"Prototypes on {title}: {metric.replace('_', ' ')}",
            f"paper_{data}",
            metric=metric,
        )
        for data, title in _DATA
        for metric in _QUALITY
    ),
    *(
        Item(f"patches_{data}_{metric}", f"Patches on {title}: {words}", f"paper_patches_{data}", metric=metric)
        for data, title in _DATA
        for metric, words in _CHANGED
    ),
)
PAPER = Publication(
    "paper",
    "Inverse distance weighting attention: figures, tables and claims",
    _ITEMS,
    ("paper_two_moons", "paper_power_epsilon", "paper_mnist", "paper_patches_two_moons", "paper_patches_mnist"),
    claims="paper",
    by_content=True,
)

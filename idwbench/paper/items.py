"""The figures and tables of the paper."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["ITEMS", "PaperItem"]


@dataclass(frozen=True)
class PaperItem:
    """One figure or table: its file without suffix, its caption, the sweep with its runs, and what it shows of them."""

    name: str
    caption: str
    sweep: str | None
    figure: str | None = None
    metric: str | None = None
    ranked: str | None = None  # the split that a leaderboard is sorted by

    def paths(self, folder: Path, figure_format: str) -> list[Path]:
        """Return the files of the figure or table."""
        return [folder / f"{self.name}.{suffix}" for suffix in ([figure_format] if self.figure else ["md", "csv"])]


ITEMS = (
    PaperItem("figure1_weights", "Figure 1: weight of one of two keys against its distance, p = 2", None, "weights"),
    PaperItem("figure1_weights_p1", "Figure 1 as the authors' notebook draws it, p = 1", None, "weights_p1"),
    PaperItem(
        "figure2_two_moons", "Figure 2: Two Moons, six methods and 2, 16 or 128 prototypes", "paper_two_moons", "moons"
    ),
    PaperItem("figures3_6_patches", "Figures 3 and 6: special cases, patched", "paper_patches_two_moons", "patches"),
    *(
        PaperItem(
            f"patches_{data}_influence", f"Influence of patches on {title}", f"paper_patches_{data}", "patch_influence"
        )
        for data, title in (("two_moons", "Two Moons"), ("mnist", "MNIST"))
    ),
    PaperItem("figure4_mnist_keys", "Figure 4: keys learned on MNIST, sorted by class", "paper_mnist", "keys"),
    PaperItem("figure4_nearest_images", "Keys beside their nearest training images", "paper_mnist", "keys_nearest"),
    PaperItem("figure5_power_epsilon", "Figure 5: power p and epsilon", "paper_power_epsilon", "power_epsilon"),
    PaperItem("figure5_heat_maps", "Figure 5 over seeds", "paper_power_epsilon", "power_epsilon_heatmap"),
    PaperItem("curves_two_moons", "Learning curves on Two Moons", "paper_two_moons", "curves"),
    PaperItem("curves_mnist", "Learning curves on MNIST", "paper_mnist", "curves"),
    PaperItem("table1_mnist", "Table 1: accuracy on MNIST", "paper_mnist"),
    PaperItem("table_two_moons", "Accuracy on Two Moons", "paper_two_moons"),
    PaperItem("table_power_epsilon", "Settings of p and ε by accuracy", "paper_power_epsilon", ranked="holdout"),
    *(
        PaperItem(
            f"quality_{data}_{metric}", f"Prototypes on {title}: {metric.replace('_', ' ')}", sweep, metric=metric
        )
        for data, title, sweep in (("two_moons", "Two Moons", "paper_two_moons"), ("mnist", "MNIST", "paper_mnist"))
        for metric in ("relative_coverage", "key_distance", "dead_keys", "nearest_key_accuracy")
    ),
    *(
        PaperItem(f"patches_{data}_{metric}", f"Patches on {title}: {words}", f"paper_patches_{data}", metric=metric)
        for data, title in (("two_moons", "Two Moons"), ("mnist", "MNIST"))
        for metric, words in (
            ("changed_exact", "other predictions changed by the exact η"),
            ("changed_logit_margin", "other predictions changed with a logit margin of 1"),
            ("changed_authors", "other predictions changed by the η of the authors' code"),
        )
    ),
)

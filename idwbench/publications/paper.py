"""The IDW attention paper (arXiv 2310.18805): its runs, by the sweeps that train them, its figures and tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from idwbench.publications.items import Item, Publication, SweepRuns
from idwbench.results.records import StoredRun
from idwbench.results.store import Results
from idwbench.runs.config import RunConfig
from idwbench.runs.datasets import parse_dataset
from idwbench.runs.kinds.models import parse_model
from idwbench.runs.protocol import default_protocol
from idwbench.sweep.grid import cells

__all__ = ["PAPER", "RUN_SETS", "RunSet", "finished_runs", "paper_runs"]


@dataclass(frozen=True)
class RunSet:
    """The runs that a sweep of the folder ``sweeps/paper`` trains, selected by content and not by the sweep's name.

    Attributes:
        dataset: Its name; the data set and its protocol have their default settings.
        seeds: Number of seeds, from 0.
        grid: Blocks of axes of model settings, as in a sweep file.
    """

    dataset: str
    seeds: int
    grid: tuple[Mapping[str, Sequence[Any]], ...]

    @cached_property
    def runs(self) -> tuple[RunConfig, ...]:
        """All runs of the set."""
        dataset, protocol = parse_dataset(self.dataset), default_protocol(self.dataset)
        models = [parse_model(cell) for block in self.grid for cell in cells({k: tuple(v) for k, v in block.items()})]
        return tuple(
            RunConfig(dataset=dataset, model=model, protocol=protocol, seed=seed)
            for model in models
            for seed in range(self.seeds)
        )

    def select(self, runs: Iterable[StoredRun]) -> list[StoredRun]:
        """Return the runs with the models, data set and protocol of the set, and any seed."""
        models, first = {run.model.label: run.model for run in self.runs}, self.runs[0]
        return [
            run
            for run in runs
            if models.get(run.config.model.label) == run.config.model
            and (run.config.dataset, run.config.protocol) == (first.dataset, first.protocol)
        ]

    def n_missing(self, stored: Sequence[StoredRun]) -> int:
        """Return the number of runs of the set that are not among `stored`."""
        return len({run.run_key for run in self.runs} - {run.run_key for run in stored})


_TWO_MOONS_PROTOTYPES = [2, 16, 128]
# By the name of the sweep, which is the stem of its file; a test compares the two.
RUN_SETS: dict[str, RunSet] = {
    "paper_two_moons": RunSet(
        "two_moons",
        20,
        (
            {"method": ["fc_relu", "neg_dist", "gaussian", "inv_dist", "idw"], "prototypes": _TWO_MOONS_PROTOTYPES},
            {"method": ["scaled_dot"], "scale": ["features", "prototypes"], "prototypes": _TWO_MOONS_PROTOTYPES},
            {"kind": ["baseline"], "method": ["kmeans", "samples"], "prototypes": _TWO_MOONS_PROTOTYPES},
        ),
    ),
    "paper_power_epsilon": RunSet(
        "two_moons",
        10,
        (
            {
                "method": ["idw"],
                "prototypes": [16],
                "power": [1.0, 2.0, 4.0, 8.0, 16.0],
                "epsilon": [0.0, 1e-6, 1e-3, 1e-2, 1e-1, 1.0],
            },
        ),
    ),
    "paper_mnist": RunSet(
        "mnist",
        5,
        (
            {"method": ["fc_relu", "neg_dist", "gaussian", "inv_dist", "idw"], "prototypes": [20]},
            {"method": ["scaled_dot"], "scale": ["prototypes"], "prototypes": [20]},
            {"kind": ["baseline"], "method": ["kmeans", "samples"], "prototypes": [20]},
        ),
    ),
    "paper_patches_two_moons": RunSet(
        "two_moons",
        20,
        (
            {"kind": ["patch_study"], "method": ["idw"], "prototypes": _TWO_MOONS_PROTOTYPES},
            {"kind": ["patch_study"], "method": ["idw"], "prototypes": [16], "epsilon": [1e-2, 1e-1, 1.0]},
        ),
    ),
    "paper_patches_mnist": RunSet(
        "mnist", 5, ({"kind": ["patch_study"], "cases": ["wrong"], "method": ["idw"], "prototypes": [20]},)
    ),
}


def finished_runs(results: Results) -> list[StoredRun]:
    """Return all complete and diverged runs of a database on the data sets of the paper, each read once."""
    labels = dict.fromkeys(runs.runs[0].dataset_label for runs in RUN_SETS.values())
    return [run for label in labels for run in results.find_runs(dataset=label, states=("complete", "diverged"))]


def paper_runs(finished: Sequence[StoredRun]) -> list[StoredRun]:
    """Return those of `finished_runs` that the figures, tables and claims of the paper are made of."""
    return list({run.run_key: run for runs in RUN_SETS.values() for run in runs.select(finished)}.values())


def _find(results: Results, finished: Sequence[StoredRun] | None) -> dict[str, SweepRuns]:
    runs = finished_runs(results) if finished is None else finished
    stored = {name: run_set.select(runs) for name, run_set in RUN_SETS.items()}
    return {
        name: SweepRuns(f"sweeps/paper/{name}.yaml", stored[name], len(run_set.runs), run_set.n_missing(stored[name]))
        for name, run_set in RUN_SETS.items()
    }


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
        for data, title in (("two_moons", "Two Moons"), ("mnist", "MNIST"))
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
        Item(f"quality_{data}_{metric}", f"Prototypes on {title}: {metric.replace('_', ' ')}", sweep, metric=metric)
        for data, title, sweep in (("two_moons", "Two Moons", "paper_two_moons"), ("mnist", "MNIST", "paper_mnist"))
        for metric in ("relative_coverage", "key_distance", "dead_keys", "nearest_key_accuracy")
    ),
    *(
        Item(f"patches_{data}_{metric}", f"Patches on {title}: {words}", f"paper_patches_{data}", metric=metric)
        for data, title in (("two_moons", "Two Moons"), ("mnist", "MNIST"))
        for metric, words in (
            ("changed_exact", "other predictions changed by the exact η"),
            ("changed_logit_margin", "other predictions changed with a logit margin of 1"),
            ("changed_authors", "other predictions changed by the η of the authors' code"),
        )
    ),
)

PAPER = Publication("paper", "Inverse distance weighting attention: figures, tables and claims", _ITEMS, "paper", _find)

"""The comparison: tables of each measure by method."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.attribution.costs import costs
from benchmarks.attribution.experiments import NUMBERS, Asked, detections, halves, removals
from benchmarks.attribution.measures import mean_with_interval
from benchmarks.attribution.methods import methods
from benchmarks.attribution.recorded import record, with_rows
from benchmarks.attribution.sizes import Size
from benchmarks.tables import header, row
from idwbench.data.dataset import Dataset
from idwbench.data.loading import load_dataset
from idwbench.runs.datasets import parse_dataset

__all__ = ["compare", "print_tables"]

SEED = 0


def compare(size: Size) -> None:
    """Compare scores of training rows on a recorded network, and judge them by networks that are trained again."""
    generator = np.random.default_rng(SEED)
    dataset = with_rows(load_dataset(parse_dataset({"name": "mnist", "scaling": "unit"})), size.rows, generator)
    with tempfile.TemporaryDirectory() as name:
        print_tables(dataset, size, Path(name), generator)


def print_tables(dataset: Dataset, size: Size, folder: Path, generator: np.random.Generator) -> None:
    """Print the tables of a comparison on a data set; recordings are written into a folder."""
    recorded = record(dataset, size, folder / "recording", SEED)
    test = dataset.test
    accuracy = (recorded.network.predict(test.inputs) == test.labels).mean()
    print(f"{size}\ntest accuracy {accuracy:.1%}, {len(recorded.recording.rows):,} slots\n", flush=True)
    queries = test.inputs[generator.permutation(len(test))[: max(size.queries, size.timed_queries)]]
    answers = recorded.network.predict(queries)
    few = slice(0, size.queries)
    compared = methods(recorded, size.neighbours, SEED)
    scores = {}
    for method in compared:
        print(f"scores: {method.title}", file=sys.stderr)
        scores[method.title] = method.scores(queries[few], answers[few])
    asked = Asked(queries[few], answers[few], scores)

    header("suspicion", "area under the curve", "lowest", "highest", numbers=3)
    for title, areas in detections(dataset, size, folder, generator).items():
        row(title, f"{areas.mean():.3f}", f"{areas.min():.3f}", f"{areas.max():.3f}")
    print()

    found, ceilings = halves(recorded, asked, size, generator)
    header("method", *(f"datamodeling score, {number}" for number in NUMBERS), numbers=2)
    for title in scores:
        row(title, *(str(mean_with_interval(found[number][title])) for number in NUMBERS))
    row("ceiling", *(f"{ceilings[number].mean():.3f}" for number in NUMBERS))
    print()

    header("method", "ratio", "processor seconds", "products", numbers=3)
    timed = slice(0, size.timed_queries)
    for title, cost in costs(recorded, compared, size, queries[timed], answers[timed]).items():
        row(title, f"{cost.ratio:.2f}", f"{cost.method:.2f}", f"{cost.products:.2f}")
    print()

    header("removed", *(f"change of the {number}" for number in NUMBERS), "labelled as the answer", numbers=3)
    chosen = [method for method in compared if method.removes]
    for title, removal in removals(recorded, asked, chosen, size, SEED):
        changes = (str(mean_with_interval(removal.changes[number])) for number in NUMBERS)
        row(title, *changes, f"{removal.own_label:.0%}")

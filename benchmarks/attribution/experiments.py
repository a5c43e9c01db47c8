"""The three experiments: random halves, flipped labels, and training without the top rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from benchmarks.attribution.measures import (
    ceiling,
    detection,
    linear_datamodeling_scores,
    random_halves,
    top_rows,
)
from benchmarks.attribution.methods import Method, loss_of_rows, methods
from benchmarks.attribution.recorded import Recorded, record, with_flipped_labels
from benchmarks.attribution.retraining import Part, logits_of_retrained
from benchmarks.attribution.sizes import Size
from idwbench.data.dataset import Dataset

__all__ = ["NUMBERS", "Asked", "Removal", "detections", "explained", "halves", "removals"]

Floats = NDArray[np.float64]

# What is measured of an answer: its logit, and the logarithm of its odds.
NUMBERS = ("logit", "log odds")
_RANDOM_SETS = 3


@dataclass(frozen=True)
class Asked:
    """Test images, the answers of the recorded network, and the scores of each method.

    Attributes:
        queries: (queries, features).
        answers: (queries,).
        scores: (queries, rows) by method.
    """

    queries: NDArray[np.float32]
    answers: NDArray[np.int64]
    scores: Mapping[str, NDArray[np.floating]]


@dataclass(frozen=True)
class Removal:
    """What happens to answers without the top rows of a method.

    Attributes:
        changes: The change of each of `NUMBERS`, mean over seeds, for each query.
        own_label: Share of rows labelled as the answer among the removed rows.
    """

    changes: Mapping[str, Floats]
    own_label: float


def explained(logits: NDArray[np.floating], answers: NDArray[np.int64]) -> dict[str, Floats]:
    """Return each of `NUMBERS` (…, queries) for logits (…, queries, classes)."""
    numbers = logits.astype(np.float64)
    chosen = np.arange(logits.shape[-1]) == answers[:, None]
    logit = numbers[..., chosen].reshape(logits.shape[:-1])
    others = logsumexp(np.where(chosen, -np.inf, numbers), axis=-1)
    return {"logit": logit, "log odds": logit - others}


def halves(
    recorded: Recorded, asked: Asked, size: Size, generator: np.random.Generator
) -> tuple[dict[str, dict[str, Floats]], dict[str, Floats]]:
    """Return the linear datamodeling scores (queries,) by number and method, and their ceilings by number."""
    n_rows = len(recorded.dataset.train)
    subsets = random_halves(n_rows, size.halves, generator)
    seeds = range(1, 1 + size.half_seeds)
    parts = [(np.flatnonzero(half), seed) for seed in seeds for half in subsets]
    logits = logits_of_retrained(recorded.config, recorded.dataset, parts, asked.queries, "halves")
    outputs = explained(logits.reshape(len(seeds), size.halves, *logits.shape[1:]), asked.answers)
    scores = {
        number: {
            title: linear_datamodeling_scores(found, subsets, outputs[number].mean(0))
            for title, found in asked.scores.items()
        }
        for number in NUMBERS
    }
    return scores, {number: ceiling(outputs[number]) for number in NUMBERS}


def detections(
    dataset: Dataset, size: Size, folder: Path, generator: np.random.Generator
) -> dict[str, NDArray[np.float64]]:
    """Return the area under the curve of each method, for each choice of flipped labels."""
    found: dict[str, list[float]] = {}
    for seed in range(size.flip_seeds):
        changed, flipped = with_flipped_labels(dataset, size.flipped, generator)
        recorded = record(changed, size, folder / f"flipped_{seed}", seed)
        for method in methods(recorded, size.neighbours, seed):
            if method.suspicion is not None and not method.title.endswith("of the logit"):
                found.setdefault(method.title, []).append(detection(method.suspicion(), flipped))
        found.setdefault("loss of the row", []).append(detection(loss_of_rows(recorded), flipped))
    return {title: np.array(values) for title, values in found.items()}


def removals(
    recorded: Recorded, asked: Asked, chosen: Sequence[Method], size: Size, seed: int
) -> Iterator[tuple[str, Removal]]:
    """Yield what happens without the top rows of each method, and without as many rows at random, as it is measured."""
    n_rows, n_queries = len(recorded.dataset.train), size.removal_queries
    queries, answers = asked.queries[:n_queries], asked.answers[:n_queries]
    labels, seeds = recorded.dataset.train.labels, range(1, 1 + size.removal_seeds)

    def numbers(parts: list[Part], work: str) -> dict[str, Floats]:
        return explained(logits_of_retrained(recorded.config, recorded.dataset, parts, queries, work), answers)

    whole = numbers([(np.arange(n_rows), one) for one in seeds], "all rows")
    for method in chosen:
        removed = [top_rows(scores, size.removed) for scores in asked.scores[method.title][:n_queries]]
        parts = [(_without(n_rows, rows), one) for rows in removed for one in seeds]
        after = numbers(parts, f"without the top rows, {method.title}")
        changes = {}
        for number, values in after.items():  # of a query only the networks without its own top rows count
            own = values.reshape(n_queries, len(seeds), n_queries)[np.arange(n_queries), :, np.arange(n_queries)]
            changes[number] = (own - whole[number].T).mean(1)
        shares = [(labels[rows] == answer).mean() for rows, answer in zip(removed, answers, strict=True)]
        yield method.title, Removal(changes, float(np.mean(shares)))
    generator = np.random.default_rng(seed)
    removed = [generator.permutation(n_rows)[: size.removed] for _ in range(_RANDOM_SETS)]
    after = numbers([(_without(n_rows, rows), one) for rows in removed for one in seeds], "without random rows")
    changes = {
        number: (values.reshape(_RANDOM_SETS, len(seeds), n_queries) - whole[number]).mean((0, 1))
        for number, values in after.items()
    }
    shares = [(labels[rows] == answer).mean() for rows in removed for answer in answers]
    yield "random rows", Removal(changes, float(np.mean(shares)))


def _without(n_rows: int, removed: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.setdiff1d(np.arange(n_rows), removed)

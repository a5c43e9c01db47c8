"""The methods of attribution that are compared.

A method gives each training row a score for each query and its answer: high where the row speaks for the answer. It
also gives each row a suspicion that its label is wrong, by what is natural to it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from benchmarks.attribution.baselines import other_labels_nearby, pixel_similarity
from benchmarks.attribution.dual import DualScores
from benchmarks.attribution.recorded import Recorded
from benchmarks.attribution.tracin import Explained, TracIn

__all__ = ["Method", "loss_of_rows", "methods"]

Scores = NDArray[np.floating]
ScoreRows = Callable[[NDArray[np.float32], NDArray[np.int64]], Scores]

_ROWS_AT_ONCE = 500


@dataclass(frozen=True)
class Method:
    """A method of attribution.

    Attributes:
        title: Its name in tables.
        scores: Returns the score (queries, rows) of each row for queries (queries, features) with answers (queries,).
        suspicion: Returns the suspicion (rows,) that the label of a row is wrong; None if the method has none.
        removes: Whether its top rows are removed.
    """

    title: str
    scores: ScoreRows
    suspicion: Callable[[], Scores] | None = None
    removes: bool = True


def methods(recorded: Recorded, neighbours: int, seed: int = 0) -> list[Method]:
    """Return all methods for a recorded training.

    Args:
        recorded: The training.
        neighbours: Nearest rows whose labels are compared.
        seed: Seed of chance.
    """
    train = recorded.dataset.train

    def pixels(queries: NDArray[np.float32], answers: NDArray[np.int64]) -> Scores:
        return pixel_similarity(queries, train.inputs)

    def chance(queries: NDArray[np.float32], answers: NDArray[np.int64]) -> Scores:
        return np.random.default_rng(seed).normal(size=(len(queries), len(train)))

    return [
        *_dual(recorded, neighbours),
        *_tracin(recorded),
        Method("nearest images", pixels, partial(_other_labels, pixels, recorded, neighbours)),
        Method("chance", chance, lambda: chance(train.inputs[:1], train.labels[:1])[0], removes=False),
    ]


def loss_of_rows(recorded: Recorded) -> Scores:
    """Return the loss of the network on each training row (rows,)."""
    train = recorded.dataset.train
    logits = torch.from_numpy(recorded.network.outputs(train.inputs))
    return functional.cross_entropy(logits, torch.from_numpy(train.labels), reduction="none").numpy()


def _dual(recorded: Recorded, neighbours: int) -> list[Method]:
    dual = DualScores(recorded)
    last = dual.layers[-1]
    found, signed, contributions = [], [], []
    for name in dual.layers:
        words, attention = name.replace("_", " "), partial(dual.attention, name)
        suspicion = partial(_other_labels, attention, recorded, neighbours)
        found.append(Method(f"attention, {words}", attention, suspicion, removes=name == last))
        signed.append(Method(f"attention signed by label, {words}", partial(dual.signed, name), removes=name == last))
        contributions.append(
            Method(
                f"contribution, {words}",
                partial(dual.contributions, [name]),
                partial(dual.own, [name]),
                removes=name == last,
            )
        )
    together = Method(
        "contribution, all layers", partial(dual.contributions, dual.layers), partial(dual.own, dual.layers)
    )
    return [*found, *signed, *contributions, together]


def _tracin(recorded: Recorded) -> list[Method]:
    last = list(recorded.network.layers)[-1]
    settings: list[tuple[str, str | None, Explained]] = [
        ("TracInCPFast, of the loss", last, "loss"),
        ("TracInCPFast, of the logit", last, "logit"),
        ("TracInCP, of the loss", None, "loss"),
        ("TracInCP, of the logit", None, "logit"),
    ]

    def made(layer: str | None, explained: Explained) -> TracIn:
        train, rate = recorded.dataset.train, recorded.config.protocol.learning_rate
        rows = _ROWS_AT_ONCE if layer else _ROWS_AT_ONCE // 5  # a gradient of all parameters for each row
        return TracIn(recorded.network, layer, recorded.checkpoints, rate, train.inputs, train.labels, explained, rows)

    return [
        Method(
            title,
            lambda queries, answers, layer=layer, explained=explained: made(layer, explained).scores(queries, answers),
            lambda layer=layer, explained=explained: made(layer, explained).self_influence(),
            removes=layer is not None and explained == "logit",
        )
        for title, layer, explained in settings
    ]


def _other_labels(scores: ScoreRows, recorded: Recorded, k: int) -> Scores:
    """Return the share of other labels among the k highest scores of each training row for each other row."""
    train = recorded.dataset.train
    found = []
    for start in range(0, len(train), _ROWS_AT_ONCE):
        rows = np.arange(start, min(start + _ROWS_AT_ONCE, len(train)))
        found.append(other_labels_nearby(scores(train.inputs[rows], train.labels[rows]), rows, train.labels, k))
    return np.concatenate(found)

"""How large the comparison is."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FULL", "SMALL", "Size"]


@dataclass(frozen=True)
class Size:
    """The sizes of data, network, training and measures.

    Attributes:
        rows: Training images, the first of a random order.
        width: Units of each hidden layer.
        epochs: Passes over the rows, also over the rows of a part.
        batch_size: Rows of a batch.
        learning_rate: Learning rate of SGD with momentum 0.9, clipped at norm 1.
        depth: Number of hidden layers.
        halves: Random halves of the rows that networks are retrained on.
        half_seeds: Trainings on each half; their mean output counts. An even number.
        queries: Test images whose answers are attributed.
        flipped: Share of the labels that are flipped for the detection.
        flip_seeds: Choices of these labels, each with a training.
        neighbours: Nearest rows whose labels are compared.
        removal_queries: The queries whose top rows are removed: the first ones.
        removed: Number of rows removed.
        removal_seeds: Trainings without them.
        timed_queries: Queries of the timing.
        checkpoints: Number of checkpoints of TracIn, at equal distances up to the end.
    """

    rows: int
    width: int
    epochs: int
    batch_size: int
    learning_rate: float
    depth: int = 2
    halves: int = 50
    half_seeds: int = 10
    queries: int = 200
    flipped: float = 0.05
    flip_seeds: int = 3
    neighbours: int = 10
    removal_queries: int = 20
    removed: int = 500
    removal_seeds: int = 5
    timed_queries: int = 1_000
    checkpoints: int = 5


SMALL = Size(rows=10_000, width=128, epochs=5, batch_size=64, learning_rate=0.1)
FULL = Size(rows=60_000, width=800, epochs=10, batch_size=128, learning_rate=0.003)

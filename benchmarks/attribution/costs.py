"""What scores for many queries cost, beside the bare matrix products that they are made of."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable, Mapping

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.attribution.methods import Method
from benchmarks.attribution.recorded import Recorded
from benchmarks.attribution.sizes import Size

__all__ = ["Cost", "costs"]

Shapes = list[tuple[int, int]]


class Cost:
    """Processor seconds of a method and of its bare products, for some queries."""

    def __init__(self, method: float, products: float) -> None:
        self.method, self.products = method, products

    @property
    def ratio(self) -> float:
        """The time of the method over that of the products."""
        return self.method / self.products


def costs(
    recorded: Recorded, chosen: list[Method], size: Size, queries: NDArray[np.float32], answers: NDArray[np.int64]
) -> Mapping[str, Cost]:
    """Return the cost of each method for queries (queries, features), with the time of a tenth of them times ten."""
    found = {}
    part = slice(0, max(1, len(queries) // 10))
    scale = len(queries) / len(queries[part])
    for method in chosen:
        shapes = _products(method.title, recorded, size)
        if not shapes:
            continue
        tenth = method.title.startswith("TracInCP,")
        asked = part if tenth else slice(None)
        method.scores(queries[:2], answers[:2])
        seconds = _processor(lambda: method.scores(queries[asked], answers[asked]))  # noqa: B023
        bare = _processor(lambda: _multiply(shapes, len(queries[asked])))  # noqa: B023
        found[method.title] = Cost(*(value * (scale if tenth else 1) for value in (seconds, bare)))
        print(f"timed: {method.title}", file=sys.stderr)
    return found


def _products(title: str, recorded: Recorded, size: Size) -> Shapes:
    """Return the shapes (memories, length) of the products of one query that a method consists of."""
    layers, slots, rows = recorded.recording.layers, len(recorded.recording.rows), len(recorded.dataset.train)
    named = [layer for name, layer in layers.items() if name.replace("_", " ") in title] or list(layers.values())
    if title.startswith("attention, "):
        return [(slots, named[0].features)]
    if title.startswith("contribution"):
        return [shape for layer in named for shape in ((slots, layer.features), (slots, layer.outputs))]
    if title == "TracInCPFast, of the logit":
        return [(rows, length) for length in (named[-1].features, named[-1].outputs)] * size.checkpoints
    if title == "TracInCP, of the logit":
        return [(rows, sum(layer.outputs * (layer.features + 1) for layer in named))] * size.checkpoints
    return [(rows, layers["layer_0"].features)] if title == "nearest images" else []


def _multiply(shapes: Shapes, n_queries: int) -> None:
    """Multiply queries with memories of these shapes, in chunks of some 64 MB."""
    for memories, length in shapes:
        chunk = min(memories, max(1, 2**24 // max(length, n_queries)))
        queries, keys = torch.ones(n_queries, length), torch.ones(chunk, length)
        out = torch.empty(n_queries, chunk)
        for _ in range(round(memories / chunk)):
            torch.matmul(queries, keys.T, out=out)


def _processor(work: Callable[[], object]) -> float:
    def now() -> float:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return usage.ru_utime + usage.ru_stime

    started = now()
    work()
    return now() - started

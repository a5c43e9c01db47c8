"""The largest numbers of each row of a matrix that comes in chunks of columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["TopSlots"]

_MIN_WIDTH = 64


class TopSlots:
    """The k largest attentions of each query, largest first; equal ones by slot.

    Candidates, the attentions above the k-th largest of the last merge, wait in a buffer with one row for each query.
    It is merged when a row is full, which happens in the order of log(columns/k) times. A later slot with an attention
    equal to the k-th largest is no candidate.

    Args:
        n_queries: Number of queries.
        k: Number of slots for each, at most the number of all columns to come.
    """

    def __init__(self, n_queries: int, k: int) -> None:
        self.k, self.n_queries, self._empty = k, n_queries, k == 0 or n_queries == 0
        self.values, self.slots = torch.zeros((n_queries, 0)), torch.zeros((n_queries, 0), dtype=torch.int64)
        self.waiting = np.zeros(n_queries, np.int64)  # candidates of each query
        self._threshold: Tensor | None = None
        self._values, self._slots = self._buffer(max(k, _MIN_WIDTH), torch.float32)

    def add(self, values: Tensor, slots: Tensor) -> None:
        """Add attention (queries, columns) to slots (columns,); slots increase from call to call."""
        if self._empty:
            return
        if self._threshold is None and values.shape[1] <= self.k:
            self._merge_columns(values, slots.expand(len(values), -1))
        elif self._threshold is None:
            # The k-th largest is among them, and so are those that equal it.
            least = torch.topk(values, self.k, dim=1, sorted=False).values.amin(1, keepdim=True)
            self._wait(values, values >= least, slots)
            self._merge()
        else:
            self._wait(values, values > self._threshold, slots)

    def result(self) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Return slots and attention (queries, k)."""
        if self._empty:
            return np.zeros((self.n_queries, self.k), np.int64), np.zeros((self.n_queries, self.k), np.float32)
        self._merge()
        return self.slots.numpy(), self.values.numpy()

    def _wait(self, values: Tensor, chosen: Tensor, slots: Tensor) -> None:
        """Put the chosen attentions into the buffer, in the order of slots."""
        # NumPy is several times as fast as torch in finding and moving few elements.
        places = np.flatnonzero(chosen.numpy())
        query = places // values.shape[1]
        counts = np.bincount(query, minlength=self.n_queries)
        if (self.waiting + counts).max() > self._values.shape[1]:
            self._merge()
            if counts.max() > self._values.shape[1]:
                self._values, self._slots = self._buffer(int(counts.max()), values.dtype)
        self._values = self._values.to(values.dtype)
        into = np.arange(len(places)) + (self.waiting - (counts.cumsum() - counts) + self._starts)[query]
        self._values.view(-1).numpy()[into] = values.reshape(-1).numpy()[places]
        self._slots.view(-1).numpy()[into] = slots.numpy()[places - query * values.shape[1]]
        self.waiting += counts

    def _merge(self) -> None:
        width = int(self.waiting.max())
        if width:
            self._merge_columns(self._values[:, :width], self._slots[:, :width])
            self._values.fill_(-torch.inf)
            self.waiting[:] = 0

    def _merge_columns(self, values: Tensor, slots: Tensor) -> None:
        values = torch.cat([self.values.to(values.dtype), values], 1)
        slots = torch.cat([self.slots, slots], 1)
        self.values, order = (part[:, : self.k] for part in torch.sort(values, dim=1, descending=True, stable=True))
        self.slots = slots.gather(1, order)
        if self.values.shape[1] == self.k:
            self._threshold = self.values[:, -1:]

    @property
    def _starts(self) -> NDArray[np.int64]:
        """Return the place of each query's row in the buffer."""
        return np.arange(self.n_queries) * self._values.shape[1]

    def _buffer(self, width: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        shape = (self.n_queries, width)
        return torch.full(shape, -torch.inf, dtype=dtype), torch.zeros(shape, dtype=torch.int64)

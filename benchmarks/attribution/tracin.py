"""TracIn from Captum (Pruthi et al. 2020): products of gradients at checkpoints of a training.

A row's score for a query is Σ_c rate_c ⟨∇ loss of the row, ∇ g of the query⟩ over checkpoints c. Here g is the loss of
the query with its answer as label, as TracIn is usually taken, or −(logit of the answer): a positive score raises the
logit. `TracInCPFast` takes the weight of the last layer only, without its bias; `TracInCP` takes all parameters.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

import numpy as np
import torch
from captum.influence import TracInCP, TracInCPFast
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.data import TensorDataset

__all__ = ["Explained", "TracIn"]

Explained = Literal["loss", "logit"]
Checkpoint = dict[str, Tensor]


class _NegativeLogit(nn.Module):
    """The sum of the negative logits of the labels."""

    reduction = "sum"  # Captum asks for it

    def forward(self, outputs: Tensor, labels: Tensor) -> Tensor:
        return -outputs[torch.arange(len(outputs)), labels].sum()


class TracIn:
    """Scores of training rows from checkpoints.

    Args:
        module: The network; a copy of it is used.
        last_layer: Name of the last linear layer of the network for `TracInCPFast`, or None for all parameters.
        checkpoints: State dictionaries of the network, at equal distances.
        rate: Learning rate, by which the scores are multiplied.
        explained: What a query's gradient is taken of.
        batch_size: Rows and queries that are worked on at a time.
    """

    def __init__(
        self,
        module: nn.Module,
        last_layer: str | None,
        checkpoints: Sequence[Checkpoint],
        rate: float,
        inputs: NDArray[np.float32],
        labels: NDArray[np.int64],
        explained: Explained = "logit",
        batch_size: int = 500,
    ) -> None:
        self.batch_size = batch_size
        copied = copy.deepcopy(module)

        def load(model: nn.Module, checkpoint: Checkpoint) -> float:
            model.load_state_dict(checkpoint)
            return rate

        losses = {
            "loss_fn": nn.CrossEntropyLoss(reduction="sum"),
            "test_loss_fn": _NegativeLogit() if explained == "logit" else None,
        }
        rows = TensorDataset(torch.from_numpy(inputs), torch.from_numpy(labels))
        if last_layer is None:
            self._tracin = TracInCP(
                copied, rows, list(checkpoints), load, batch_size=batch_size, sample_wise_grads_per_batch=True, **losses
            )
        else:
            layer = copied.get_submodule(last_layer)
            self._tracin = TracInCPFast(
                copied, layer, rows, list(checkpoints), load, batch_size=batch_size, vectorize=True, **losses
            )

    def scores(self, queries: NDArray[np.float32], answers: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the score of each training row for each query, (queries, rows)."""
        asked, labels = torch.from_numpy(queries), torch.from_numpy(answers)
        parts = [slice(start, start + self.batch_size) for start in range(0, len(queries), self.batch_size)]
        with _without_remarks():
            return torch.cat([self._tracin.influence((asked[part], labels[part])) for part in parts]).detach().numpy()

    def self_influence(self) -> NDArray[np.float32]:
        """Return Σ_c rate_c ‖∇ loss‖² of each training row, (rows,)."""
        with _without_remarks():
            return self._tracin.self_influence().detach().numpy()


@contextmanager
def _without_remarks() -> Iterator[None]:
    """Without Captum's warning that it makes inputs require gradients."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Input Tensor .* did not already require gradients")
        yield

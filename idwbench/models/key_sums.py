"""The total attention of the layers of a perceptron to each class of its training, and to which class it is largest.

A linear layer that was trained by gradient descent is attention over the inputs x_t that it was shown: its attention to
x_t for an input x is α_t = x_t·x + 1, where 1 is the product of the constant inputs of the bias. The total attention of
a class is linear in x, so it needs the sum of the class's keys x_t and their number, and no recording (Irie, Csordás,
Schmidhuber, *The Dual Form of Neural Networks Revisited*, arXiv 2202.05798). In data of several parts, each class of
each part is a *group*: class c of part p has the number p·classes + c.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from idwbench.data.dataset import Split
from idwbench.models.perceptron import MultilayerPerceptron
from idwbench.runs.metrics import ATTENDED_PLACES

__all__ = ["Attended", "KeySums"]

Metrics = dict[tuple[str, str], float]
Labels = NDArray[np.int64]


class KeySums(nn.Module):
    """Sums of the inputs of each layer over training steps, by group, in float64; they are buffers.

    Args:
        n_features: Features of the inputs of each layer, by its name.
        n_classes: Number of classes.
        n_parts: Number of parts of the data.
    """

    counts: Tensor

    def __init__(self, n_features: Mapping[str, int], n_classes: int, n_parts: int = 1) -> None:
        super().__init__()
        self.names, self.n_classes, self.n_parts = tuple(n_features), n_classes, n_parts
        for name, size in n_features.items():
            self.register_buffer(name, torch.zeros(n_parts * n_classes, size, dtype=torch.float64))
        self.register_buffer("counts", torch.zeros(n_parts * n_classes, dtype=torch.float64))

    def groups(self, split: Split) -> Labels:
        """Return the group of each row (n,) of a split."""
        return split.labels if split.tasks is None else split.tasks * self.n_classes + split.labels

    @torch.no_grad()
    def add(self, layer_inputs: Sequence[Tensor], groups: Tensor) -> None:
        """Add the inputs (batch, features) of each layer in one training step, with their groups (batch,)."""
        # A product, since sums by index have no fixed order on a GPU.
        memberships = functional.one_hot(groups, len(self.counts)).double().T
        for name, keys in zip(self.names, layer_inputs, strict=True):
            self.get_buffer(name).add_(memberships @ keys.detach().double())
        self.counts.add_(memberships.sum(1))

    def totals(self, layer_inputs: Sequence[Tensor]) -> list[Tensor]:
        """Return for each layer the total attention (batch, groups) of its inputs x: Σ_t (x_t·x + 1), in float64."""
        return [
            keys.double() @ self.get_buffer(name).T + self.counts
            for name, keys in zip(self.names, layer_inputs, strict=True)
        ]

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return ``key_sums_<layer>`` (classes, features) of each layer, and ``key_counts`` (classes,).

        Of several parts also ``part_key_sums_<layer>`` (parts, classes, features), and ``part_key_counts``.
        """
        names = {"key_counts": "counts", **{f"key_sums_{name}": name for name in self.names}}
        by_part = {
            key: sums.reshape(self.n_parts, self.n_classes, *sums.shape[1:])
            for key, sums in {key: self.get_buffer(name).cpu().numpy() for key, name in names.items()}.items()
        }
        arrays: dict[str, NDArray[np.generic]] = {key: sums.sum(0) for key, sums in by_part.items()}
        return arrays | ({f"part_{key}": sums for key, sums in by_part.items()} if self.n_parts > 1 else {})


@dataclass(frozen=True)
class Attended:
    """To which class each layer attends most, for each input of a split.

    Attributes:
        split: The inputs.
        answers: The class (n,) that the network answers.
        classes: For each layer the class (layers, n) with the largest total attention, over all parts of the data.
        groups: For each layer the group (layers, n) with the largest total attention.
        own_groups: The group (n,) of each input.
        n_classes: Number of classes.
        n_groups: Number of groups.
    """

    split: Split
    answers: Labels
    classes: Labels
    groups: Labels
    own_groups: Labels
    n_classes: int
    n_groups: int

    @classmethod
    def by(cls, network: MultilayerPerceptron, sums: KeySums, split: Split) -> Attended:
        """Return what the layers of a network attend to most."""

        def largest(inputs: Tensor) -> Tensor:
            """Return the answer to each input, and by layer the class and the group, (batch, 1 + 2 · layers)."""
            layer_inputs, logits = network.layer_inputs(inputs)
            totals = sums.totals(layer_inputs)
            by_class = [total.reshape(-1, sums.n_parts, sums.n_classes).sum(1) for total in totals]
            return torch.stack([scores.argmax(1) for scores in (logits, *by_class, *totals)], dim=1)

        answers, *numbers = network.in_parts(largest, split.inputs).T
        classes, groups = np.split(np.array(numbers, np.int64), 2)
        own = sums.groups(split)
        return cls(split, answers.astype(np.int64), classes, groups, own, sums.n_classes, len(sums.counts))

    @property
    def is_right(self) -> NDArray[np.bool_]:
        """Whether the answer to each input is right, (n,)."""
        return np.asarray(self.answers == self.split.labels)

    def metrics(self, name: str) -> Metrics:
        """Return how often the class with the largest total attention is the target or the answer, on the split `name`.

        ``target_if_wrong_0`` and ``output_if_wrong_0`` are shares of the inputs with a wrong answer in which the class
        with the largest total attention in layer 0 is the target, or the class that was answered;
        ``output_if_right_0`` is the share of the others in which it is both. Shares of nothing are left out.
        ``wrong_inputs`` is the number of wrong answers.
        """
        wrong = ~self.is_right
        metrics: Metrics = {(name, "wrong_inputs"): float(wrong.sum())}
        for number, largest in enumerate(self.classes):
            shares = {
                "target_if_wrong": (largest == self.split.labels)[wrong],
                "output_if_wrong": (largest == self.answers)[wrong],
                "output_if_right": (largest == self.answers)[~wrong],
            }
            metrics |= {(name, f"{share}_{number}"): float(hits.mean()) for share, hits in shares.items() if len(hits)}
        return metrics

    def part_metrics(self) -> Metrics:
        """Return where the group with the largest total attention is, for each part of the data; empty without parts.

        Right and wrong answers to the test inputs of a part are apart, as splits ``right_1``, ``wrong_1`` and so on,
        whose numbers of inputs are ``answered_inputs``. ``attends_target_0`` is the share of them in which the group
        with the largest total attention in layer 0 is the target, of the input's own part; ``attends_answer_0``: the
        class that was answered, if that is another; ``attends_class_0``: any other class of this part.
        ``attends_other_target_0`` and so on are the same classes of the other part. They sum to 1.
        """
        metrics = Metrics()
        if self.split.tasks is None:
            return metrics
        for part in range(self.n_groups // self.n_classes):
            for name, answered in (("right", self.is_right), ("wrong", ~self.is_right)):
                rows = answered & (self.split.tasks == part)
                split = f"{name}_{1 + part}"
                metrics[split, "answered_inputs"] = float(rows.sum())
                for layer, groups in enumerate(self.groups if rows.any() else ()):
                    hits = self._places(groups, part)
                    metrics |= {(split, f"{place}_{layer}"): float(hits[place][rows].mean()) for place in hits}
        return metrics

    def _places(self, groups: Labels, part: int) -> dict[str, NDArray[np.bool_]]:
        """Return by place of `ATTENDED_PLACES` whether the largest group (n,) of each input of a part is there."""
        parts, labels = np.divmod(groups, self.n_classes)
        is_target, is_answer = labels == self.split.labels, labels == self.answers
        kinds = (is_target, is_answer & ~is_target, ~is_target & ~is_answer)
        sides = (parts == part, parts != part)
        return dict(zip(ATTENDED_PLACES, (side & kind for side in sides for kind in kinds), strict=True))

    def counts(self) -> NDArray[np.int64]:
        """Return how many inputs of each group have their largest total attention to each, right and wrong apart.

        Returns:
            The numbers (2, layers, groups of the inputs, groups of the training); those with the right answer first.
        """
        counts = np.zeros((2, len(self.groups), self.n_groups, self.n_groups), np.int64)
        for layer, groups in enumerate(self.groups):
            np.add.at(counts[:, layer], ((~self.is_right).astype(np.int64), self.own_groups, groups), 1)
        return counts

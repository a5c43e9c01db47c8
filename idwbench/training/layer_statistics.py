"""Statistics of layers at a few steps of a training: scores, weights and gradients, by layer and step."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from idwbench.attention.layers import SelfAttention
from idwbench.models.modules import PrototypeNetwork
from idwbench.runs.metrics import LAYER_STATISTICS
from idwbench.training.module_training import Batches, Losses

__all__ = ["LayerStatistics", "WatchedTraining", "layer_names", "measured_steps"]

# The weights whose gradients come through the scores: of queries and keys in attention, all but the values of a head.
_SCORED = re.compile(r"in_proj_weight$|\.pair_score\.|^head\.(?!values$|weight$|bias$)")
_ROUNDING = 1e-3  # of the sum of weights in float32


def measured_steps(n_steps: int) -> list[int]:
    """Return 0, 1, 2, 5, 10, 20, 50, … below the number of steps, and the last step."""
    series = [factor * 10**power for power in range(len(str(n_steps))) for factor in (1, 2, 5)]
    return sorted({0, n_steps - 1, *(step for step in series if step < n_steps)})


def layer_names(module: nn.Module) -> dict[str, str]:
    """Return the layer of each parameter: ``embedding``, ``layer 1``, …, ``block 1``, … and ``head``.

    The last norm belongs to the head, and to the embedding what comes before the blocks.
    """
    names = {}
    for name, _ in module.named_parameters():
        inside = re.search(r"(?:^|\.)(block|layer)s\.(\d+)\.", name)
        if inside:
            names[name] = f"{inside[1]} {int(inside[2]) + 1}"
        else:
            names[name] = "head" if name.startswith("head.") or ".norm." in name else "embedding"
    return names


class LayerStatistics(nn.Module):
    """The statistics `LAYER_STATISTICS` of the layers of a network at some steps, in float64; they are buffers.

    At a step s they are of the batch of this step, after s updates:

    - ``score_variance``: variance of the scores of a query over the keys that it may attend to, mean over queries.
    - ``weight_entropy``: −Σ_j a_j log a_j of these weights in nats, mean over queries.
    - ``gradient_norm``: ‖∂L/∂θ‖ of the mean loss L by all parameters θ of the layer, before clipping.
    - ``score_gradient_norm``: that by the parameters which act through the scores alone: the projections of queries and
      keys, or the keys of a head of prototypes, and learned numbers of the score.

    What a layer does not have is NaN, and so is the entropy of weights that are no probabilities.

    Args:
        network: The network; its parameters and their gradients stay as they are.
        losses: Returns the losses of a batch.
        n_steps: Number of steps of the training.
    """

    table: Tensor

    def __init__(self, network: nn.Module, losses: Losses, n_steps: int) -> None:
        super().__init__()
        # In a tuple the network is no part of this module.
        self._network, self._losses, self.steps = (network,), losses, measured_steps(n_steps)
        self._layer_names = layer_names(network)
        self.layers = sorted(dict.fromkeys(self._layer_names.values()), key=_order)
        shape = len(LAYER_STATISTICS), len(self.steps), len(self.layers)
        self.register_buffer("table", torch.full(shape, math.nan, dtype=torch.float64))

    def observed(self, batches: Batches, n_steps: int) -> Batches:
        """Return batches of epochs of `n_steps` that are measured before they are yielded, each step once."""

        def measured(generator: np.random.Generator, epoch: int) -> Iterator[Any]:
            for number, batch in enumerate(batches(generator, epoch)):
                step = epoch * n_steps + number
                if step in self.steps and bool(self.table[:, self.steps.index(step)].isnan().all()):
                    self.measure(step, batch)
                yield batch

        return measured

    def measure(self, step: int, batch: Any) -> None:
        """Enter the statistics of a batch."""
        (network,) = self._network
        by_layer: dict[str, dict[str, float]] = {layer: {} for layer in self.layers}

        def scored(layer: str) -> Callable[..., None]:
            def hook(module: nn.Module, arguments: tuple[Tensor, ...], options: Mapping[str, Any]) -> None:
                by_layer[layer] |= _statistics_of_scores(module, arguments[0].detach(), options)

            return hook

        hooks = [
            module.register_forward_pre_hook(scored(self._layer_of(name)), with_kwargs=True)
            for name, module in network.named_modules()
            if isinstance(module, SelfAttention | PrototypeNetwork)
        ]
        try:
            loss = self._losses(batch).mean()
        finally:
            for hook in hooks:
                hook.remove()
        parameters = dict(network.named_parameters())
        gradients = torch.autograd.grad(loss, [*parameters.values()], allow_unused=True)
        for layer, own in self._gradient_norms(dict(zip(parameters, gradients, strict=True))).items():
            by_layer[layer] |= own
        for place, layer in enumerate(self.layers):
            for row, name in enumerate(LAYER_STATISTICS):
                self.table[row, self.steps.index(step), place] = by_layer[layer].get(name, math.nan)

    def metrics(self) -> dict[tuple[str, str], float]:
        """Return the finite statistics of the last step by layer and name."""
        last = self.table[:, -1].tolist()
        return {
            (layer, name): value
            for name, values in zip(LAYER_STATISTICS, last, strict=True)
            for layer, value in zip(self.layers, values, strict=True)
            if math.isfinite(value)
        }

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return ``statistics.steps`` (steps,), ``statistics.layers``, and each statistic (steps, layers).

        The names of the layers are UTF-8, joined by line ends.
        """
        names = np.frombuffer("\n".join(self.layers).encode(), np.uint8).copy()
        tables = self.table.cpu().numpy().copy()
        statistics = {f"statistics.{name}": table for name, table in zip(LAYER_STATISTICS, tables, strict=True)}
        return {"statistics.steps": np.array(self.steps), "statistics.layers": names, **statistics}

    def _layer_of(self, module: str) -> str:
        return next(layer for name, layer in self._layer_names.items() if name.startswith(f"{module}."))

    def _gradient_norms(self, gradients: Mapping[str, Tensor | None]) -> dict[str, dict[str, float]]:
        """Return the norms of the gradients of all parameters, and of those of scores, of each layer."""
        squares: dict[str, dict[str, float]] = {layer: {} for layer in self.layers}
        for name, gradient in gradients.items():
            own, scored = squares[self._layer_names[name]], _SCORED.search(name)
            if gradient is None:
                continue
            if name.endswith("in_proj_weight"):
                parts = {"gradient_norm": gradient, "score_gradient_norm": gradient[: 2 * len(gradient) // 3]}
            else:
                parts = {"gradient_norm": gradient} | ({"score_gradient_norm": gradient} if scored else {})
            for statistic, part in parts.items():
                own[statistic] = own.get(statistic, 0.0) + float(part.double().square().sum())
        return {layer: {name: math.sqrt(value) for name, value in own.items()} for layer, own in squares.items()}


@dataclass(frozen=True)
class WatchedTraining:
    """What is trained, and the statistics of its layers if they are asked for.

    Attributes:
        network: The network.
        losses: Returns the losses of a batch.
        batches: Yields the batches of an epoch.
        statistics: The statistics, or None.
    """

    network: nn.Module
    losses: Losses
    batches: Batches
    statistics: LayerStatistics | None = None

    def with_statistics(self, epochs: int, n_steps: int) -> WatchedTraining:
        """Return the same with statistics, for a number of epochs of so many batches each."""
        device = next(self.network.parameters()).device
        statistics = LayerStatistics(self.network, self.losses, epochs * n_steps).to(device)
        return replace(self, batches=statistics.observed(self.batches, n_steps), statistics=statistics)

    @property
    def module(self) -> nn.Module:
        """The network, together with the statistics, so that a checkpoint holds them too."""
        if self.statistics is None:
            return self.network
        return nn.ModuleDict({"network": self.network, "statistics": self.statistics})

    @property
    def metrics(self) -> dict[tuple[str, str], float]:
        """The statistics of the last step by layer and name."""
        return {} if self.statistics is None else self.statistics.metrics()

    @property
    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """The statistics of all steps that were measured."""
        return {} if self.statistics is None else self.statistics.arrays()


@torch.no_grad()
def _statistics_of_scores(module: nn.Module, inputs: Tensor, options: Mapping[str, Any]) -> dict[str, float]:
    """Return the variance of the scores of a layer, and the entropy of its weights if they are probabilities."""
    if isinstance(module, PrototypeNetwork):
        scores, weights = module.scores(inputs), module.weights(inputs)
    else:
        assert isinstance(module, SelfAttention)
        scores, weights = module.scores_and_weights(inputs, is_causal=bool(options.get("is_causal")))
    scores, weights = scores.double(), weights.double()
    allowed = ~torch.isneginf(scores)
    counts = allowed.sum(-1)
    means = scores.where(allowed, 0.0).sum(-1, keepdim=True) / counts[..., None]
    variances = (scores - means).square().where(allowed, 0.0).sum(-1) / counts
    statistics = {"score_variance": float(variances[counts > 1].mean())}
    if bool((weights.sum(-1) - 1).abs().max() < _ROUNDING):
        statistics["weight_entropy"] = float(torch.special.entr(weights).sum(-1).mean())
    return statistics


def _order(layer: str) -> tuple[int, int]:
    kind, _, number = layer.partition(" ")
    return ("embedding", "layer", "block", "head").index(kind), int(number or 0)

"""A training by the optimizers of torch in float64, and the contribution of each sample by superposition."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from idwbench.attention.forward import prototype_logits
from idwbench.attention.scores import get_method
from idwbench.data.dataset import Dataset
from idwbench.runs.config import RunConfig
from idwbench.training.replay import AbstractReplay, Prototypes, Snapshot, Steps


def make_optimizer(parameters: list[torch.Tensor], config: RunConfig) -> torch.optim.Optimizer:
    protocol = config.protocol
    if protocol.optimizer == "sgd":
        return torch.optim.SGD(parameters, lr=1.0, momentum=protocol.momentum, weight_decay=protocol.weight_decay)
    return torch.optim.Adam(
        parameters, lr=1.0, amsgrad=protocol.optimizer == "adam_amsgrad", weight_decay=protocol.weight_decay
    )


class Float64Replay(AbstractReplay):
    """Trains in float64 and adds up, forwards in time, what each sample's gradients do alone.

    The steps of an optimizer are a linear function of the gradients once the divisors of Adam are given. So the keys
    that follow from the gradients of one sample alone, and those that follow from the initial keys alone, sum to the
    trained keys.
    """

    def __init__(self, config: RunConfig, dataset: Dataset, seed: int = 1) -> None:
        generator = np.random.default_rng(seed)
        sizes = (config.model.prototypes, dataset.n_features), (config.model.prototypes, dataset.n_outputs)
        self.parameters = [torch.from_numpy(generator.normal(size=size)).requires_grad_() for size in sizes]
        super().__init__(config, dataset, np.random.default_rng(config.seed))
        self.optimizer = make_optimizer(self.parameters, config)
        self.first = [parameter.detach().numpy().copy() for parameter in self.parameters]
        n_parts = len(dataset.train) + 1  # the last is the initial keys
        self.parts = np.zeros((n_parts, *sizes[0]))
        self.parts[-1] = self.first[0]
        self.velocities = np.zeros_like(self.parts)
        self.is_replayed = False

    def loss(self, rows: NDArray[np.int64]) -> torch.Tensor:
        train, model = self.dataset.train, self.config.network
        inputs = torch.from_numpy(train.inputs[rows]).double()
        outputs = prototype_logits(get_method(model.method), model.parameters, inputs, *self.parameters)
        if self.dataset.task == "regression":
            return torch.nn.functional.mse_loss(outputs, torch.from_numpy(train.targets[rows]).double())
        return torch.nn.functional.cross_entropy(outputs, torch.from_numpy(train.targets[rows]))

    def take(self, steps: Steps) -> None:
        for number, rows in enumerate(steps.rows):
            self.optimizer.zero_grad()
            self.loss(rows).backward()
            clip = 1.0
            if self.protocol.gradient_clip:
                norm = torch.nn.utils.clip_grad_norm_(self.parameters, self.protocol.gradient_clip).item()
                clip = min(1.0, self.protocol.gradient_clip / (norm + 1e-6))
            gradients = np.zeros_like(self.parts)
            for row in [] if self.is_replayed else rows:
                alone = torch.autograd.grad(self.loss(np.array([row])), self.parameters[0])[0].numpy()
                gradients[row] = clip * alone / len(rows)
            gradients += self.protocol.weight_decay * self.parts
            self.optimizer.param_groups[0]["lr"] = steps.rate
            self.optimizer.step()
            self._add(gradients, steps.rate, steps.first + number + 1)

    def _add(self, gradients: NDArray[np.float64], rate: float, taken: int) -> None:
        if self.is_replayed:
            return
        if self.protocol.optimizer == "sgd":
            self.velocities = self.protocol.momentum * self.velocities + gradients
            self.parts -= rate * self.velocities
            return
        self.velocities = 0.9 * self.velocities + 0.1 * gradients
        squares = self.squares()
        assert squares is not None
        divisor = np.sqrt(squares) / np.sqrt(1 - 0.999**taken) + 1e-8
        self.parts -= rate / (1 - 0.9**taken) * self.velocities / divisor

    def squares(self) -> NDArray[np.float64] | None:
        if self.protocol.optimizer == "sgd":
            return None
        state = self.optimizer.state[self.parameters[0]]
        if not state:
            return np.zeros(self.parameters[0].shape)
        found = state["max_exp_avg_sq" if self.protocol.optimizer == "adam_amsgrad" else "exp_avg_sq"]
        return np.asarray(found.numpy().copy())

    def prototypes(self) -> Prototypes:
        keys, values = (parameter.detach().numpy().copy() for parameter in self.parameters)
        return Prototypes(keys, values, self.squares())  # type: ignore[arg-type]

    def snapshot(self) -> Snapshot:
        held = {f"parameter {i}": parameter.detach().clone() for i, parameter in enumerate(self.parameters)}
        for i, parameter in enumerate(self.parameters):
            state = self.optimizer.state.get(parameter, {})
            held |= {f"{i} {name}": value.clone() for name, value in state.items() if torch.is_tensor(value)}
        return held

    def restore(self, snapshot: Snapshot) -> None:
        self.is_replayed = True
        self.optimizer = make_optimizer(self.parameters, self.config)
        state: dict[int, dict[str, torch.Tensor]] = {}
        for label, value in snapshot.items():
            word, _, name = label.partition(" ")
            if word == "parameter":
                with torch.no_grad():
                    self.parameters[int(name)].copy_(value)
            else:
                state.setdefault(int(word), {})[name] = value.clone()
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": state, "param_groups": groups})

    def shares(self) -> NDArray[np.float64]:
        """The shares of each sample, (rows, prototypes), and of the initial keys in the last row."""
        keys = self.parameters[0].detach().numpy()
        moved = keys - self.first[0]
        parts = self.parts.copy()
        parts[-1] -= self.first[0]
        np.testing.assert_allclose(parts.sum(0), moved, rtol=0, atol=1e-12)
        return np.asarray(np.einsum("ipf,pf->ip", parts, moved) / (moved**2).sum(1))

"""The engine of language models: windows of a text, drawn at random, and cross-entropy of the next characters."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from idwbench.data.dataset import Dataset, Split
from idwbench.models.language_model import LanguageModel, bits_per_character
from idwbench.runs.config import RunConfig
from idwbench.runs.language_models import LanguageModelConfig, check_context
from idwbench.runs.results import RunResult
from idwbench.training.module_engine import ModuleEngine
from idwbench.training.module_training import Batches, ModuleTraining

__all__ = ["LanguageModelEngine", "random_windows"]

Values = dict[tuple[str, str], float]
METRIC = "bits_per_character"


class LanguageModelEngine(ModuleEngine):
    """Trains the runs of kind ``transformer_lm``, one after the other.

    An epoch has as many steps as windows of the context fit into the training text, divided by the batch size and
    rounded up; each step draws its windows at random.
    """

    @classmethod
    def check(cls, config: RunConfig, dataset: Dataset) -> None:
        """Raise `ConfigError` if the training text is shorter than the context."""
        assert isinstance(config.model, LanguageModelConfig)
        check_context(config.model, len(dataset.train))

    def train_one(self, config: RunConfig, dataset: Dataset, on_epoch: Callable[[int], None]) -> RunResult:
        """Train one language model."""
        settings, generator = config.model, np.random.default_rng(config.seed)
        assert isinstance(settings, LanguageModelConfig)
        self.check(config, dataset)
        draws = torch.Generator().manual_seed(int(generator.integers(2**63)))
        model = LanguageModel.of(settings, dataset.n_outputs, draws).to(self.device)
        trained = ModuleTraining(
            model,
            config.protocol,
            _losses_of_windows(model, dataset.train, self.device),
            random_windows(len(dataset.train), settings.context, config.protocol.batch_size),
            generator,
            evaluate=lambda: _bits(model, dataset, ("test", "validation")),
            checkpoint=self.checkpoints.file(config, dataset.sha256, str(self.device)),
        ).train(on_epoch)
        if trained.diverged_epoch is not None:
            return self.result(config, model, trained, {}, {})
        metrics = {
            **{key: value for key, value in trained.curve[-1].values.items() if key[1] == METRIC},
            **_bits(model, dataset, ("train",)),
        }
        arrays: dict[str, NDArray[np.generic]] = {
            name: tensor.detach().cpu().numpy().copy() for name, tensor in model.state_dict().items()
        }
        arrays["vocabulary"] = np.array([ord(name) for name in dataset.class_names], np.int64)
        return self.result(config, model, trained, metrics, arrays)


def random_windows(n_train: int, context: int, batch_size: int) -> Batches:
    """Return a function that yields the rows (batch, context) of each batch of one epoch: windows at random places."""
    n_steps = math.ceil(n_train / (context * batch_size))

    def batches(generator: np.random.Generator) -> Iterator[NDArray[np.int64]]:
        for _ in range(n_steps):
            starts = generator.integers(0, n_train - context + 1, size=(batch_size, 1))
            yield starts + np.arange(context)

    return batches


def _losses_of_windows(
    model: LanguageModel, train: Split, device: torch.device
) -> Callable[[NDArray[np.int64]], Tensor]:
    """Return a function from windows (batch, context) of rows to the cross-entropy at each row."""
    inputs = torch.from_numpy(train.inputs[:, 0].astype(np.int64)).to(device)
    labels = torch.from_numpy(train.labels).to(device)

    def losses(rows: NDArray[np.int64]) -> Tensor:
        where = torch.from_numpy(rows).to(device)
        return functional.cross_entropy(model(inputs[where]).flatten(0, 1), labels[where].flatten(), reduction="none")

    return losses


def _bits(model: LanguageModel, dataset: Dataset, names: Sequence[str]) -> Values:
    """Return the bits per character of splits; of the training text only its end, as long as the test text."""
    found: Values = {}
    for name in (name for name in names if name in dataset.splits):
        split = dataset.splits[name]
        first = max(0, len(split) - len(dataset.test)) if name == "train" else 0
        inputs, labels = split.inputs[first:, 0].astype(np.int64), split.labels[first:]
        found[name, METRIC] = bits_per_character(model, inputs, labels)
    return found

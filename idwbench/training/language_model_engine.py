"""The engines of language models: windows of a text, drawn at random, and cross-entropy of the next tokens."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from idwbench.data.dataset import Dataset, Split
from idwbench.data.tokens import tokenizer_of
from idwbench.dual.recorder import Recorder
from idwbench.models.language import LanguageModel, NextTokenModel, text_metrics
from idwbench.models.modules import parameter_arrays
from idwbench.runs.config import RunConfig
from idwbench.runs.datasets import LanguageConfig
from idwbench.runs.kinds.lstm_lm import LstmConfig
from idwbench.runs.kinds.transformer_lm import LanguageModelConfig, check_context
from idwbench.runs.results import RunResult
from idwbench.training.module_engine import ModuleEngine
from idwbench.training.module_training import Batches, ModuleTraining
from idwbench.training.recorded_training import recorded_training

__all__ = ["LanguageModelEngine", "NextTokenEngine", "random_windows", "steps_of_epoch"]

Values = dict[tuple[str, str], float]


class NextTokenEngine(ModuleEngine):
    """Trains language models, one after the other; subclasses say which.

    An epoch has as many steps as windows of the context fit into the training text, divided by the batch size and
    rounded up; each step draws its windows at random.
    """

    @classmethod
    def check(cls, config: RunConfig, dataset: Dataset) -> None:
        """Raise `ConfigError` if the training text is shorter than the context."""
        assert isinstance(config.dataset, LanguageConfig) and isinstance(config.model, LanguageModelConfig | LstmConfig)
        check_context(config.model.context, len(dataset.train), tokenizer_of(config.dataset).unit)

    @abstractmethod
    def initial_model(self, config: RunConfig, vocabulary_size: int, draws: torch.Generator) -> NextTokenModel:
        """Return the model of a run with its initial parameters."""

    def recorder(self, config: RunConfig, dataset: Dataset, model: NextTokenModel) -> Recorder | None:
        """Return the recorder of a run; by default None."""
        return None

    def train_one(self, config: RunConfig, dataset: Dataset, on_epoch: Callable[[int], None]) -> RunResult:
        """Train one language model."""
        generator = np.random.default_rng(config.seed)
        assert isinstance(config.dataset, LanguageConfig)
        self.check(config, dataset)
        draws = torch.Generator().manual_seed(int(generator.integers(2**63)))
        model = self.initial_model(config, dataset.n_outputs, draws).to(self.device)
        training = ModuleTraining(
            model,
            config.protocol,
            _losses_of_windows(model, dataset.train, self.device),
            random_windows(len(dataset.train), model.context, config.protocol.batch_size),
            generator,
            evaluate=lambda: _metrics(model, dataset, ("test", "validation")),
            checkpoint=self.checkpoints.file(config, dataset.sha256, str(self.device)),
            recorder=self.recorder(config, dataset, model),
        )
        trained, recording, residual = recorded_training(training, on_epoch)
        if trained.diverged_epoch is not None:
            return self.result(config, model, trained, {}, {})
        # The last point of the curve has the values of the test and validation text.
        watched = {key: value for key, value in trained.curve[-1].values.items() if key[0] != "train"}
        metrics = {**watched, **_metrics(model, dataset, ("train",)), **residual}
        arrays = parameter_arrays(model)
        arrays["vocabulary"] = tokenizer_of(config.dataset).vocabulary_array(dataset.class_names)
        arrays |= recording
        return self.result(config, model, trained, metrics, arrays)


class LanguageModelEngine(NextTokenEngine):
    """Trains the runs of kind ``transformer_lm``."""

    def initial_model(self, config: RunConfig, vocabulary_size: int, draws: torch.Generator) -> NextTokenModel:
        """Return the transformer of a run with its initial parameters."""
        assert isinstance(config.model, LanguageModelConfig)
        return LanguageModel(config.model, vocabulary_size, draws)


def random_windows(n_train: int, context: int, batch_size: int) -> Batches:
    """Return a function that yields the rows (batch, context) of each batch of one epoch: windows at random places."""
    n_steps = steps_of_epoch(n_train, context, batch_size)

    def batches(generator: np.random.Generator) -> Iterator[NDArray[np.int64]]:
        for _ in range(n_steps):
            starts = generator.integers(0, n_train - context + 1, size=(batch_size, 1))
            yield starts + np.arange(context)

    return batches


def steps_of_epoch(n_train: int, context: int, batch_size: int) -> int:
    """Return the number of batches of windows that fit into the training text, rounded up."""
    return math.ceil(n_train / (context * batch_size))


def _losses_of_windows(
    model: NextTokenModel, train: Split, device: torch.device
) -> Callable[[NDArray[np.int64]], Tensor]:
    """Return a function from windows (batch, context) of rows to the cross-entropy at each row."""
    inputs = torch.from_numpy(train.inputs[:, 0].astype(np.int64)).to(device)
    labels = torch.from_numpy(train.labels).to(device)

    def losses(rows: NDArray[np.int64]) -> Tensor:
        where = torch.from_numpy(rows).to(device)
        return functional.cross_entropy(model(inputs[where]).flatten(0, 1), labels[where].flatten(), reduction="none")

    return losses


def _metrics(model: NextTokenModel, dataset: Dataset, names: Sequence[str]) -> Values:
    """Return the metrics of splits; of the training text only those of its end, as long as the test text."""
    found: Values = {}
    for name in (name for name in names if name in dataset.splits):
        split = dataset.splits[name]
        first = max(0, len(split) - len(dataset.test)) if name == "train" else 0
        found |= {(name, metric): value for metric, value in text_metrics(model, split, first).items()}
    return found

"""The engine of networks that write one sequence for another: cross-entropy of each letter after the right ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from idwbench.data.dataset import Dataset
from idwbench.data.sequences import PADDING
from idwbench.models.modules import parameter_arrays
from idwbench.models.sequence_to_sequence import (
    SequenceToSequence,
    initial_sequence_network,
    letters_of,
    metrics_by_length,
    narrowed,
    sequence_metrics,
)
from idwbench.runs.config import RunConfig
from idwbench.runs.kinds.sequence_to_sequence import SequenceToSequenceConfig
from idwbench.runs.results import CurvePoint
from idwbench.training.engine import Context, Fitted
from idwbench.training.module_training import (
    Measured,
    ModuleTraining,
    Values,
    checkpoint_file,
    fit_module,
    module_engine,
    shuffled_batches,
)
from idwbench.training.torch_engine import resolve_device

__all__ = ["ENGINES"]


def _fit(config: RunConfig, dataset: Dataset, context: Context) -> Fitted:
    """Train one network; the arrays are its parameters, and its metrics by the length of the source."""
    generator, device = np.random.default_rng(config.seed), resolve_device(context.device)
    assert isinstance(config.model, SequenceToSequenceConfig)
    draws = torch.Generator().manual_seed(int(generator.integers(2**63)))
    model = initial_sequence_network(config.model, dataset, draws).to(device)

    def measured(*names: str, alignment: bool) -> Values:
        chosen = (
            sequence_metrics(model, dataset, name, alignment=alignment) for name in names if name in dataset.splits
        )
        return {key: value for metrics in chosen for key, value in metrics.items()}

    def measure(curve: Sequence[CurvePoint]) -> Measured:
        arrays = {**parameter_arrays(model), **metrics_by_length(model, dataset)}
        return measured(*dataset.splits, alignment=True), arrays

    training = ModuleTraining(
        model,
        config.protocol,
        _losses_of_rows(model, dataset, device),
        shuffled_batches(len(dataset.train), config.protocol.batch_size),
        generator,
        evaluate=lambda: measured("test", "validation", alignment=False),
        checkpoint=checkpoint_file(config, dataset, context),
    )
    return fit_module(training, context.on_epoch, measure)


def _losses_of_rows(
    model: SequenceToSequence, dataset: Dataset, device: torch.device
) -> Callable[[NDArray[np.int64]], Tensor]:
    """Return a function from rows of the training data to the cross-entropy of each letter and end, one after another.

    Columns that are padding in all rows are left out.
    """
    pairs = letters_of(dataset.train, device)

    def losses(rows: NDArray[np.int64]) -> Tensor:
        where = torch.from_numpy(rows).to(device)
        source, target = (narrowed(part.index_select(0, where)) for part in pairs)
        logits, _ = model(source, target)
        counted = target != PADDING
        return functional.cross_entropy(logits[counted], target[counted], reduction="none")

    return losses


ENGINES = {"sequence_to_sequence": module_engine(_fit, lambda model, dataset: None)}

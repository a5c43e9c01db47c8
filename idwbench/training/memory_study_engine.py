"""The engine of studies of what a recorded perceptron remembers, beside networks that are trained again."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from idwbench.data.dataset import Dataset, Split
from idwbench.dual.limited import Keep, limited_outputs
from idwbench.dual.recording import Recording, open_recording
from idwbench.errors import ConfigError, PatchError
from idwbench.models.array_weights import softmax
from idwbench.models.inputs import find_label
from idwbench.models.perceptron import MultilayerPerceptron, mlp_from_arrays
from idwbench.runs.config import RunConfig
from idwbench.runs.datasets import PartsConfig
from idwbench.runs.kinds.memory_study import MemoryStudyConfig
from idwbench.runs.metrics import Metrics
from idwbench.training.engine import Context, Fitted, one_by_one, required_run
from idwbench.training.module_training import ModuleTraining, shuffled_batches
from idwbench.training.network_engine import losses_of_rows
from idwbench.training.selection import engine_of
from idwbench.training.torch_engine import resolve_device, torch_environment

__all__ = ["ENGINES"]

# Added to the seed of a run for networks that are trained alike.
_OTHER_SEED = 1_000_000
# Test inputs that a network with limited memory answers.
_QUERIES = 250

Mask = NDArray[np.bool_]


def _fit(config: RunConfig, dataset: Dataset, context: Context) -> Fitted:
    """Study the memory of one network; the study of a diverged network is diverged.

    Raises:
        RecordingError: the recording of the network is missing or damaged.
    """
    model, run = config.model, required_run(config, dataset, context)
    assert isinstance(model, MemoryStudyConfig) and context.results is not None
    if run.state == "diverged":
        return Fitted({}, {}, None, diverged_epoch=run.diverged_epoch)
    recording = open_recording(context.results, run)
    if model.keep is None:
        metrics = _forgetting(config, dataset, recording, context)
    else:
        metrics = _limited(config, dataset, recording, model.keep, model.slots or 0)
    return Fitted(metrics, {}, run.n_parameters)


def _limited(config: RunConfig, dataset: Dataset, recording: Recording, keep: Keep, n: int) -> Metrics:
    """Return metrics of a network whose layers keep n slots each, over 250 test inputs at equal distances.

    ``same_answers`` is the share of inputs that it answers as with all slots, ``attention_to_answer`` the share for
    which the class with the largest total attention of the last layer's slots is the one that it answers.
    """
    memories, labels = [*recording.layers.values()], dataset.train.labels[recording.rows]
    rows = np.arange(0, len(dataset.test), max(1, len(dataset.test) // _QUERIES))[:_QUERIES]
    test = _taken(dataset.test, rows)
    whole = {name: (memory.weight, memory.bias) for name, memory in recording.layers.items()}
    before = _network(config, whole).predict(test.inputs)
    outputs, totals = limited_outputs(memories, test.inputs, keep, n, labels, config.seed)
    answers = outputs.argmax(1)
    shares = {"accuracy": answers == test.labels, "same_answers": answers == before}
    if totals is not None:
        shares["attention_to_answer"] = totals.argmax(1) == answers
    return {("test", name): float(hits.mean()) for name, hits in shares.items()}


def _forgetting(config: RunConfig, dataset: Dataset, recording: Recording, context: Context) -> Metrics:
    """Return for each way to forget a part of the training data what is measured of it, see `FORGETTING_WAYS`."""
    rows = _masked_rows(config, dataset)
    rest, masked = (replace(dataset, train=_taken(dataset.train, where)) for where in (~rows, rows))
    networks = _forgetful(config, recording, rows)
    whole = networks["whole"]
    networks["fine_tuned"] = _continued(config, whole, rest)
    networks["ascended"] = _continued(config, whole, masked, -1.0)
    for way, seed in (("retrained", config.seed), ("other_seed", config.seed + _OTHER_SEED)):
        again = _trained_again(config.with_seed(seed), rest, context)
        if again is not None:
            networks[way] = again
    return _measures(config, networks, dataset, masked.train)


def _masked_rows(config: RunConfig, dataset: Dataset) -> Mask:
    """Return which training rows (n,) the mask of a study names; random ones follow from the seed of the run.

    Raises:
        ConfigError: the data has no such class, or the mask is of no row or of all.
    """
    model, train = config.model, dataset.train
    assert isinstance(model, MemoryStudyConfig)
    field, _ = model.masked
    if field == "rows":
        drawn = np.random.default_rng(config.seed).permutation(len(train))
        rows = np.isin(np.arange(len(train)), drawn[: round(model.masked_fraction * len(train))])
    else:
        rows = _named(config, dataset, train)
    if rows.all() or not rows.any():
        problem = f"{'all' if rows.all() else 'no'} training rows have {model.mask}"
        raise ConfigError(problem, location=("mask",))
    return rows


def _named(config: RunConfig, dataset: Dataset, split: Split) -> Mask:
    """Return which rows (n,) of a split are of the class or the part that the mask names."""
    model = config.model
    assert isinstance(model, MemoryStudyConfig)
    field, value = model.masked
    if field == "task":
        assert isinstance(config.dataset, PartsConfig) and split.tasks is not None
        return np.asarray(split.tasks == config.dataset.of.index(value))
    try:
        return np.asarray(split.labels == find_label(value, dataset.class_names))
    except PatchError as error:
        raise ConfigError(error.problem, location=("mask",), hint=error.hint) from None


def _taken(split: Split, rows: Mask | NDArray[np.int64]) -> Split:
    """Return some rows of a split."""
    tasks = None if split.tasks is None else split.tasks[rows]
    return Split(split.inputs[rows], split.labels[rows], tasks)


def _forgetful(config: RunConfig, recording: Recording, rows: Mask) -> dict[str, MultilayerPerceptron]:
    """Return the network as it was trained, and without the slots of some rows in all layers, or in the last one."""
    slots, layers = rows[recording.rows], recording.layers.items()
    whole = {name: (memory.weight, memory.bias) for name, memory in layers}
    masked = {name: memory.without(slots) for name, memory in layers}
    last = [*whole][-1]
    parts = {"whole": whole, "masked": masked, "masked_last": {**whole, last: masked[last]}}
    return {way: _network(config, part) for way, part in parts.items()}


def _network(config: RunConfig, layers: Mapping[str, Any]) -> MultilayerPerceptron:
    """Return the network of a study with a weight and a bias for each layer."""
    arrays = {f"{name}.weight": weight for name, (weight, _) in layers.items()}
    arrays |= {f"{name}.bias": bias for name, (_, bias) in layers.items()}
    assert isinstance(config.model, MemoryStudyConfig)
    return mlp_from_arrays(config.model.network, arrays)


def _trained_again(config: RunConfig, dataset: Dataset, context: Context) -> MultilayerPerceptron | None:
    """Return the network of a study trained on other data, without a recording; None if that diverges."""
    assert isinstance(config.model, MemoryStudyConfig)
    model = config.model.network.model_copy(update={"record": False, "record_dtype": "float32"})
    required = config.model_copy(update={"model": model})
    own = Context(engine=context.engine, device=context.device)
    (result,) = engine_of(required, own).train([required], replace(dataset, validation=None), own)
    return mlp_from_arrays(model, result.arrays) if result.state == "complete" else None


def _continued(
    config: RunConfig, network: MultilayerPerceptron, dataset: Dataset, sign: float = 1.0
) -> MultilayerPerceptron:
    """Return a network after one more epoch on some data by the protocol; with the sign −1 the loss grows."""
    network = deepcopy(network)

    def losses(inputs: Tensor, labels: Tensor) -> Tensor:
        return sign * functional.cross_entropy(network(inputs), labels, reduction="none")

    protocol = config.protocol.model_copy(update={"epochs": 1})
    ModuleTraining(
        network,
        protocol,
        losses_of_rows(dataset, resolve_device("cpu"), losses),
        shuffled_batches(len(dataset.train), protocol.batch_size),
        np.random.default_rng(config.seed),
    ).train()
    return network


def _measures(
    config: RunConfig, networks: Mapping[str, MultilayerPerceptron], dataset: Dataset, masked: Split
) -> Metrics:
    """Return accuracies of each network, and how far its test answers are from those of the one trained again.

    What is masked are the test inputs of a class or part, the rest are the others; random rows are measured themselves.
    """
    model, test = config.model, dataset.test
    assert isinstance(model, MemoryStudyConfig)
    is_rows = model.masked[0] == "rows"
    where = np.zeros(len(test), bool) if is_rows else _named(config, dataset, test)
    part = masked if is_rows else _taken(test, where)
    outputs = {way: network.outputs(test.inputs).astype(np.float64) for way, network in networks.items()}
    metrics: dict[tuple[str, str], float] = {}
    for way, own in outputs.items():
        answers = own.argmax(1)
        metrics[way, "masked_accuracy"] = float((networks[way].predict(part.inputs) == part.labels).mean())
        metrics[way, "rest_accuracy"] = float((answers == test.labels)[~where].mean())
        if way != "retrained" and "retrained" in outputs:
            again = outputs["retrained"]
            metrics[way, "different_answers"] = float((answers != again.argmax(1)).mean())
            variation = np.abs(softmax(own) - softmax(again)).sum(1) / 2
            metrics[way, "total_variation"] = float(variation.mean())
    return metrics


ENGINES = {
    "memory_study": one_by_one(
        "torch", _fit, environment=lambda context: torch_environment(resolve_device(context.device))
    )
}

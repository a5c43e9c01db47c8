"""One call that explains the answer of any model with a memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from os import PathLike, fspath
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from idwbench.data.dataset import Dataset, Split
from idwbench.data.loading import load_dataset
from idwbench.dual.recording import open_recording
from idwbench.errors import DatasetError, ExplanationError, TrainingError
from idwbench.explanations.explanation import AccuracyChange, Explanation, MaskEffect, Query
from idwbench.explanations.memory import (
    Memory,
    Outputs,
    Request,
    chosen_layers,
    layer_progress,
    masked_entries,
    read_query,
    task_names,
)
from idwbench.explanations.prototypes import head_memory, prototype_memory
from idwbench.explanations.surroundings import answers_in_plane, with_surroundings
from idwbench.explanations.training_data import history_memory, kernel_memory
from idwbench.models.inputs import data_difference
from idwbench.models.model_file import load_model
from idwbench.models.networks import network_from_arrays
from idwbench.models.saved_model import SavedModel, find_stored_run, stored_model
from idwbench.results import DEFAULT_DATABASE
from idwbench.results.records import StoredRun
from idwbench.results.store import Results, results_to_read
from idwbench.runs.kinds.lstm_lm import LstmConfig
from idwbench.runs.kinds.mlp import MlpConfig
from idwbench.runs.kinds.network import LINEAR, NetworkConfig

__all__ = ["EXPLAINED_KINDS", "explain", "explain_memory"]

EXPLAINED_KINDS = ("prototypes", "kernel_regression", "network", "mlp")

Model = SavedModel | StoredRun | str | PathLike[str]


def explain(
    model: Model,
    x: str | ArrayLike,
    results: Results | str | PathLike[str] = DEFAULT_DATABASE,
    *,
    top: int = 10,
    layer: str | None = None,
    mask: Sequence[str] = (),
    data_dir: Path | None = None,
    on_slots: Callable[[int, int], None] = lambda done, total: None,
) -> Explanation:
    """Return which part of its memory a model attends to when it answers one input.

    The memory of a prototype network and of a network with a head of prototypes are its prototypes, that of kernel
    regression the training data, that of a recorded ``mlp`` the history of its training.

    Args:
        model: A model, a model file (.pt, .safetensors), a stored run, or its key or the beginning of it.
        x: The input: numbers in the data's own units, or a text, see `idwbench.models.inputs.find_input`.
        results: The database of stored runs.
        top: Number of prototypes or samples of each layer to return.
        layer: The only layer to return, or None for all.
        mask: The part of the memory that the model also answers without: ``label=CLASS`` and ``task=NAME``. Several
            with the same word mean any of them; both words together mean what meets both.
        data_dir: Folder of the image archives.
        on_slots: Called with the number of slots of a recording that were looked at, and of all.

    Raises:
        ExplanationError: the model has no memory, or an argument is not valid.
        ModelFileError: the model file cannot be read.
        ResultsError: no such run, or its recording is missing, cut, or of another model.
        TrainingError: the run is not complete.
        DatasetError: the data set cannot be loaded.
    """
    if top < 1:
        raise ExplanationError(f"expected at least 1, got {top}", location=("top",))
    request = Request(x, top, layer, mask, data_dir, cache(load_dataset), on_slots)
    if isinstance(model, str | PathLike):
        model = find_stored_run(fspath(model), results, ExplanationError) or load_model(model)
    if isinstance(model, SavedModel):
        return explain_memory(prototype_memory(model), request)
    return explain_memory(_memory_of_run(results_to_read(results), model, request), request)


def explain_memory(memory: Memory, request: Request) -> Explanation:
    """Return the answer of a memory, for each layer the entries with the largest weights, and what a mask changes.

    Raises:
        ExplanationError: the input, the layer or the mask is not valid.
        DatasetError: the data set in `x` cannot be loaded.
    """
    names = chosen_layers(memory.layers, request.layer, "unknown layer")
    query, where = read_query(request, memory), masked_entries(request.masks, memory)
    answer = memory.answer(query.inputs, memory.outputs)
    layers = tuple(
        memory.attention(name, query.inputs, answer.label, request.top, layer_progress(request.on_slots, names, name))
        for name in names
    )
    layers = with_surroundings(memory, layers, request)
    effect, warnings = (None, ()) if where is None else _effect(memory, query, where, request)
    if memory.kind == "training data" and not layers[0].items:
        warnings += ("no training sample is within the bandwidth: the answer is the mean of all",)
    return Explanation(
        model=memory.config.model.label,
        memory=memory.kind,
        query=query,
        answer=answer,
        layers=layers,
        class_names=memory.data.class_names,
        image_shape=memory.data.image_shape,
        effect=effect,
        warnings=(*warnings, *memory.warnings),
        columns=memory.data.columns,
        spreads=_spreads(memory),
        plane=answers_in_plane(memory, request, query),
    )


def _spreads(memory: Memory) -> NDArray[np.float64] | None:
    """Return the standard deviation (features,) of each feature, or None if inputs are not standardised by feature."""
    scaling = memory.data.scaling
    return np.asarray(scaling.std) if scaling.std.ndim == 1 and scaling.std.size == memory.data.n_features else None


def _memory_of_run(results: Results, run: StoredRun, request: Request) -> Memory:
    config, model = run.config, run.config.model
    _check_run(run)
    if model.kind == "prototypes":
        return prototype_memory(stored_model(results, run, request.data_dir))
    if isinstance(model, NetworkConfig):
        dataset, arrays = request.dataset(config), results.load_arrays(run.run_key)
        network = network_from_arrays(model, dataset, arrays)
        return head_memory(config, network, np.asarray(arrays["nearest"], np.int64), dataset)
    if isinstance(model, MlpConfig):
        return history_memory(config, open_recording(results, run), request.dataset(config))
    return kernel_memory(config, run.metrics, request.dataset(config))


def _check_run(run: StoredRun) -> None:
    """Raise `ExplanationError` if the run has no memory, and `TrainingError` if it is not complete."""
    model = run.config.model
    if isinstance(model, LstmConfig):
        raise ExplanationError(f"a run of kind {model.kind} reads a prompt, not an input", location=("x",))
    if model.kind not in EXPLAINED_KINDS:
        kinds = f"expected one of: {', '.join(sorted(EXPLAINED_KINDS))}"
        raise ExplanationError(f"the answers of a run of kind {model.kind} cannot be explained", hint=kinds)
    if isinstance(model, NetworkConfig) and model.head == LINEAR:
        raise ExplanationError("the network has no memory: its head is linear", hint="explained: a head of prototypes")
    if isinstance(model, MlpConfig) and not model.record:
        raise ExplanationError(
            "the run has no memory: its training was not recorded", hint="train it with record: true"
        )
    if run.state != "complete":
        raise TrainingError(f"the run is {run.state}: it has no model")


def _effect(
    memory: Memory, query: Query, where: NDArray[np.bool_], request: Request
) -> tuple[MaskEffect, tuple[str, ...]]:
    """Return what a mask changes, and a line that says why the accuracy on the test data is not measured, if so."""
    outputs = memory.without(where)
    dataset, warnings = _test_data(memory, request)
    changes = () if dataset is None else _accuracy_changes(memory, dataset.test, outputs)
    answer = memory.answer(query.inputs, outputs)
    return MaskEffect(tuple(request.masks), int(where.sum()), len(where), answer, changes), warnings


def _test_data(memory: Memory, request: Request) -> tuple[Dataset | None, tuple[str, ...]]:
    """Return the data that a model was trained on, or None and why not."""
    if isinstance(memory.data, Dataset):
        return memory.data, ()
    unmeasured = "the effect on the test data is not measured"
    try:
        dataset = request.dataset(memory.config)
    except DatasetError as error:
        return None, (f"{unmeasured}: {error}",)
    difference = data_difference(memory.data, dataset)
    return (None, (f"{unmeasured}: {difference}",)) if difference else (dataset, ())


def _accuracy_changes(memory: Memory, test: Split, without: Outputs) -> tuple[AccuracyChange, ...]:
    """Return the accuracy on the test data with the whole memory and with a part, by task if there are several."""
    right = [outputs(test.inputs).argmax(1) == test.labels for outputs in (memory.outputs, without)]
    parts = {"test": np.ones(len(test), bool)}
    if test.tasks is not None:
        parts = {f"test {name}": test.tasks == number for number, name in enumerate(task_names(memory.config))}
    return tuple(
        AccuracyChange(name, int(where.sum()), *(float(hits[where].mean()) for hits in right))
        for name, where in parts.items()
    )

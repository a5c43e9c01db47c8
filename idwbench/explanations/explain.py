"""One call that explains the answer of any model with a memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from os import PathLike, fspath
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from idwbench.data.loading import load_dataset
from idwbench.errors import ExplanationError, TrainingError, did_you_mean
from idwbench.explanations.answers import ExplainedAnswer
from idwbench.explanations.queries import Request
from idwbench.models.saved_model import SavedModel, find_stored_run, stored_model
from idwbench.results import DEFAULT_DATABASE
from idwbench.results.records import StoredRun
from idwbench.results.store import Results, results_to_read
from idwbench.runs.kinds.lstm_lm import LstmConfig
from idwbench.runs.kinds.mlp import MlpConfig
from idwbench.runs.kinds.network import LINEAR, NetworkConfig

__all__ = ["EXPLAINED_KINDS", "explain", "find_run"]

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
) -> ExplainedAnswer:
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
        model = _found(fspath(model), results)
    if isinstance(model, SavedModel):
        from idwbench.explanations.prototypes import PROTOTYPES, explain_prototypes

        _check_layer(layer, (PROTOTYPES,))
        return explain_prototypes(model, request)
    return _explain_run(results_to_read(results), model, request)


def find_run(model: str, results: Results | str | PathLike[str]) -> StoredRun | None:
    """Return the stored run of a key or its beginning, or None if `model` is the name of a model file.

    Raises:
        ExplanationError: it is neither.
        ResultsError: no such run, or several.
    """
    return find_stored_run(model, results, ExplanationError)


def _found(model: str, results: Results | str | PathLike[str]) -> SavedModel | StoredRun:
    run = find_run(model, results)
    if run is not None:
        return run
    from idwbench.models.model_file import load_model

    return load_model(model)


def _check_layer(layer: str | None, valid: Sequence[str]) -> None:
    if layer is not None and layer not in valid:
        raise ExplanationError(f"unknown layer '{layer}'", location=("layer",), hint=did_you_mean(layer, valid))


def _explain_run(results: Results, run: StoredRun, request: Request) -> ExplainedAnswer:
    config, model = run.config, run.config.model
    _check_run(run)
    if isinstance(model, MlpConfig):
        from idwbench.dual.recording import open_recording
        from idwbench.explanations.history import explain_history

        _check_layer(request.layer, model.layer_names)
        recording = open_recording(results, run)
        return explain_history(config, recording, request.dataset(config), request)
    if model.kind == "prototypes":
        from idwbench.explanations.prototypes import PROTOTYPES, explain_prototypes

        _check_layer(request.layer, (PROTOTYPES,))
        return explain_prototypes(stored_model(results, run, request.data_dir), request)
    if isinstance(model, NetworkConfig):
        from idwbench.explanations.prototypes import HEAD, explain_head
        from idwbench.models.networks import network_from_arrays

        _check_layer(request.layer, (HEAD,))
        dataset, arrays = request.dataset(config), results.load_arrays(run.run_key)
        network = network_from_arrays(model, dataset, arrays)
        nearest = np.asarray(arrays["nearest"], np.int64)
        return explain_head(config, network, nearest, dataset, request)
    from idwbench.explanations.kernel_regression import TRAINING_DATA, explain_kernel_regression

    _check_layer(request.layer, (TRAINING_DATA,))
    return explain_kernel_regression(config, run.metrics, request.dataset(config), request)


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

"""A trained model as a file: a model file, or one that other programs use without idwbench."""

from __future__ import annotations

from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from idwbench.errors import ModelFileError, OutputError
from idwbench.files import check_output, write_file
from idwbench.machine import require_package
from idwbench.results import DEFAULT_DATABASE
from idwbench.results.records import StoredRun
from idwbench.results.store import Results, results_to_read
from idwbench.runs.kinds.network import NetworkConfig

if TYPE_CHECKING:
    from idwbench.models.patched_network import PatchedNetwork
    from idwbench.models.saved_model import SavedModel

__all__ = ["MODEL_SUFFIXES", "ModelFormat", "export_model", "model_card", "model_format"]

ModelFormat = Literal["onnx", "numpy", "skops", "pt", "safetensors"]
MODEL_SUFFIXES: dict[str, ModelFormat] = {
    ".onnx": "onnx",
    ".py": "numpy",
    ".skops": "skops",
    ".pt": "pt",
    ".safetensors": "safetensors",
}
Database = Results | str | PathLike[str]


def export_model(
    model: SavedModel | PatchedNetwork | StoredRun | str | PathLike[str],
    path: str | PathLike[str],
    *,
    format: ModelFormat | None = None,
    overwrite: bool = False,
    results: Database = DEFAULT_DATABASE,
    data_dir: Path | None = None,
) -> None:
    """Write a trained model as a file that other programs use without idwbench.

    Prototype networks have all formats. Stored runs of kind ``network``, and patched networks, have ``onnx``, if their
    encoder is ``mlp`` or ``conv``.

    - ``onnx``: a graph from inputs in the data's own units to labels and probabilities, see `onnx_content`.
    - ``numpy``: a Python module of one file that needs only NumPy, see `numpy_source`.
    - ``skops``: a fitted scikit-learn estimator, see `skops_content`.
    - ``pt``, ``safetensors``: a model file of idwbench.

    Args:
        model: A model, a patched network, a model file (.pt, .safetensors), a stored run, or its key or the beginning
            of it.
        path: The file to write.
        format: The format; by default that of the ending ``.onnx``, ``.py``, ``.skops``, ``.pt`` or ``.safetensors``.
        overwrite: Whether a file may be replaced.
        results: The database of stored runs.
        data_dir: Folder of the image archives: the model of a stored run has the scaling of its data.

    Raises:
        OutputError: another ending, a method that this format cannot have, a missing package, or the file cannot be
            written.
        ModelFileError: the model file cannot be read.
        ResultsError: no such run.
        TrainingError: the run has no model.
        DatasetError: the data of the run cannot be loaded.
    """
    from idwbench.models.patched_network import PatchedNetwork

    target = Path(path)
    chosen = model_format(target, format)
    check_output(target, overwrite=overwrite)
    found = model if isinstance(model, PatchedNetwork) else _found(model, results, data_dir)
    if chosen == "onnx":
        content = _onnx_content(found, results, data_dir)
    elif isinstance(found, StoredRun | PatchedNetwork):
        raise OutputError("a run of kind network can only be exported as .onnx")
    elif chosen == "skops":
        from idwbench.exports.skops_model import skops_content

        content = skops_content(found)
    elif chosen == "numpy":
        from idwbench.exports.numpy_module import numpy_source

        content = numpy_source(found).encode()
    else:
        from idwbench.models.model_file import model_content

        content = model_content(found, f".{chosen}")
    write_file(target, content, overwrite=overwrite)


def model_card(
    model: SavedModel | StoredRun | str | PathLike[str],
    results: Database = DEFAULT_DATABASE,
    *,
    data_dir: Path | None = None,
) -> dict[str, Any]:
    """Return the card of a model: what it is, what it was trained on, and how good it is, as plain data for JSON.

    The entries are ``model`` (a label), ``kind``, ``method`` with its ``formula`` and ``parameters``, ``prototypes``,
    ``task``, ``features``, ``outputs``, ``image_shape`` and ``classes``; ``dataset`` with its settings and SHA-256,
    ``protocol``, ``seed`` and ``run_key``; ``metrics`` by split, ``patches``, ``metrics_with_patches``, and the
    ``provenance`` with engine and versions; of a table ``columns`` with the names, the categories, and what stands for
    missing values. What is not known, such as the seed of prototypes that were made
    elsewhere, is None.

    Args:
        model: A model, a model file (.pt, .safetensors), a stored run, or its key or the beginning of it.
        results: The database of stored runs.
        data_dir: Folder of the image archives: the model of a stored run has the scaling of its data.

    Raises:
        ModelFileError: the model file cannot be read.
        ResultsError: no such run.
        TrainingError: the run has no model.
        DatasetError: the data of the run cannot be loaded.

    Example:
        >>> from idwbench import model_card
        >>> model_card("model.pt")["metrics"]["test"]  # doctest: +SKIP
        {'accuracy': 0.975}
    """
    from idwbench.data.loading import load_dataset
    from idwbench.models.model_card import network_card, saved_model_card
    from idwbench.models.model_file import read_card

    try:
        found = _found(model, results, data_dir)
    except ModelFileError:  # without the plugin of its method a file cannot be loaded, but says what it holds
        if not isinstance(model, str | PathLike) or not Path(model).exists() or (card := read_card(model)) is None:
            raise
        return card
    if isinstance(found, StoredRun):
        return network_card(found, load_dataset(found.config.dataset, data_dir))
    return saved_model_card(found)


def _found(
    model: SavedModel | StoredRun | str | PathLike[str], results: Database, data_dir: Path | None
) -> SavedModel | StoredRun:
    """Return a model that is given as it is, by its file, or by its run; a stored run of kind ``network`` as it is."""
    from idwbench.models.saved_model import find_stored_run, stored_model

    if isinstance(model, str | PathLike):
        from idwbench.models.model_file import load_model

        model = find_stored_run(fspath(model), results, ModelFileError) or load_model(model)
    if isinstance(model, StoredRun) and not isinstance(model.config.model, NetworkConfig):
        return stored_model(results_to_read(results), model, data_dir)
    return model


def model_format(path: Path, format: ModelFormat | None = None) -> ModelFormat:
    """Return the format of a file, given or by its ending, and check that its package is installed.

    Raises:
        OutputError: the ending names none, or the package is missing.
    """
    chosen = format or MODEL_SUFFIXES.get(path.suffix.lower())
    if chosen is None or chosen not in MODEL_SUFFIXES.values():
        raise OutputError(f"expected a name ending in {', '.join(MODEL_SUFFIXES)}", file=path)
    if chosen in ("onnx", "skops"):
        require_package(chosen, chosen)
    return chosen


def _onnx_content(model: SavedModel | PatchedNetwork | StoredRun, results: Database, data_dir: Path | None) -> bytes:
    from idwbench.data.loading import load_dataset
    from idwbench.exports.onnx_model import onnx_content
    from idwbench.models.model_card import network_card, saved_model_card
    from idwbench.models.networks import load_network
    from idwbench.models.saved_model import SavedModel

    if isinstance(model, SavedModel):
        return onnx_content(model.network, model, saved_model_card(model), model.patch_prototypes)
    if isinstance(model, StoredRun):
        network = load_network(results_to_read(results), model.run_key, data_dir)
        dataset = load_dataset(model.config.dataset, data_dir)
        return onnx_content(network, dataset, network_card(model, dataset))
    dataset, head = model.dataset, model.head
    shape = list(dataset.image_shape) if dataset.image_shape else None
    card = saved_model_card(head) | {"kind": "network", "features": dataset.n_features, "image_shape": shape}
    return onnx_content(model.network, dataset, card, head.patch_prototypes)

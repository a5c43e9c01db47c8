"""Model files: keys, values, scaling, configuration and provenance in one ``.pt`` or ``.safetensors``.

Neither form unpickles objects: ``.pt`` is read with ``torch.load(weights_only=True)``. A model file holds no
clock time, so that the same run writes the same bytes.
"""

from __future__ import annotations

import io
import json
import platform
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.torch
import torch
from pydantic import ValidationError
from torch import Tensor

import idwbench
from idwbench.config import RunConfig
from idwbench.data.dataset import Dataset, Scaling
from idwbench.errors import ConfigError, ModelFileError
from idwbench.methods import get_method
from idwbench.model import PrototypeNetwork
from idwbench.output import write_whole

__all__ = ["MODEL_SUFFIXES", "SavedModel", "check_model_path", "load_model", "save_model", "saved_model"]

MODEL_SUFFIXES = (".pt", ".safetensors")
FORMAT = "idwbench-model"
VERSION = 1
_TENSORS = ("keys", "values", "scaling_mean", "scaling_std")
_FACTS = ("format", "version", "config", "image_shape", "class_names", "provenance", "patches")


@dataclass(frozen=True)
class SavedModel:
    """A network with all that is needed to use, read and repair it.

    Attributes:
        network: Keys and values, in scaled units.
        config: The run that trained it.
        scaling: How inputs in the data's own units become the network's.
        image_shape: (height, width) if an input is an image.
        class_names: One name a class.
        provenance: Run key, engine, device, checksum of the data, versions.
        patches: What was added since, oldest first: label, η and how η was chosen.
    """

    network: PrototypeNetwork
    config: RunConfig
    scaling: Scaling
    image_shape: tuple[int, int] | None
    class_names: tuple[str, ...]
    provenance: dict[str, Any] = field(default_factory=dict)
    patches: tuple[dict[str, Any], ...] = ()

    @property
    def n_features(self) -> int:
        """Columns of the keys."""
        return self.network.keys.shape[1]

    @property
    def n_classes(self) -> int:
        """Columns of the values."""
        return self.network.values.shape[1]


def saved_model(
    config: RunConfig, dataset: Dataset, keys: Tensor, values: Tensor, *, engine: str, device: str
) -> SavedModel:
    """Return the model that a run on `dataset` gave, with its provenance."""
    return SavedModel(
        network=PrototypeNetwork(get_method(config.method), config.parameters, keys, values),
        config=config,
        scaling=dataset.scaling,
        image_shape=dataset.image_shape,
        class_names=dataset.class_names,
        provenance={
            "run_key": config.run_key,
            "engine": engine,
            "device": device,
            "data_sha256": dataset.sha256,
            "idwbench": idwbench.__version__,
            "torch": str(torch.__version__),
            "numpy": np.__version__,
            "python": platform.python_version(),
            "platform": platform.platform(),
        },
    )


def check_model_path(path: Path) -> None:
    """Raise `ModelFileError` unless the ending of `path` says how to write it."""
    if path.suffix not in MODEL_SUFFIXES:
        raise ModelFileError(f"{path}: expected a name ending in {' or '.join(MODEL_SUFFIXES)}")


def save_model(model: SavedModel, path: Path, *, overwrite: bool = False) -> None:
    """Write `model` in the form that the ending of `path` names, whole or not at all.

    Raises:
        ModelFileError: the ending is neither ``.pt`` nor ``.safetensors``.
        OutputError: the file exists and `overwrite` is false, or it cannot be written.
    """
    check_model_path(path)
    tensors = {
        "keys": model.network.keys.detach().cpu().contiguous(),
        "values": model.network.values.detach().cpu().contiguous(),
        "scaling_mean": torch.from_numpy(np.array(model.scaling.mean, dtype=np.float64)),
        "scaling_std": torch.from_numpy(np.array(model.scaling.std, dtype=np.float64)),
    }
    facts = {
        "format": FORMAT,
        "version": VERSION,
        "config": model.config.model_dump(mode="json"),
        "image_shape": list(model.image_shape) if model.image_shape else None,
        "class_names": list(model.class_names),
        "provenance": dict(model.provenance),
        "patches": [dict(patch) for patch in model.patches],
    }
    if path.suffix == ".pt":
        buffer = io.BytesIO()
        torch.save({**facts, **tensors}, buffer)
        content = buffer.getvalue()
    else:
        # One entry: safetensors keeps the order of several no steadier than a hash map does.
        content = safetensors.torch.save(tensors, {FORMAT: json.dumps(facts)})
    write_whole(path, content, overwrite=overwrite)


def load_model(path: Path) -> SavedModel:
    """Read a model file; nothing in it is executed.

    Raises:
        ModelFileError: no such file, no model file, a damaged one, or one of a newer version.
        ConfigError: its method is not registered (give its plugin).
    """
    if not path.is_file():
        raise ModelFileError(f"{path}: no such file")
    content = _read_safetensors(path) if path.suffix == ".safetensors" else _read_pt(path)
    if content.get("format") != FORMAT:
        raise ModelFileError(f"{path}: not an idwbench model")
    if content["version"] != VERSION:
        raise ModelFileError(
            f"{path}: model format {content['version']}, this idwbench reads {VERSION}; upgrade idwbench"
        )
    missing = [name for name in (*_FACTS, *_TENSORS) if name not in content]
    if missing:
        raise ModelFileError(f"{path}: damaged model file, '{missing[0]}' is missing")
    return _build(path, content)


def _read_pt(path: Path) -> dict[str, Any]:
    if not zipfile.is_zipfile(path):
        raise ModelFileError(f"{path}: not an idwbench model")
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a foreign or damaged file fails in a way of its own choosing
        raise ModelFileError(f"{path}: not an idwbench model ({_first_line(error)})") from None
    return content if isinstance(content, dict) else {}


def _read_safetensors(path: Path) -> dict[str, Any]:
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            facts = json.loads((file.metadata() or {}).get(FORMAT, "{}"))
            return {**facts, **{name: file.get_tensor(name) for name in file.keys()}}  # noqa: SIM118
    except (safetensors.SafetensorError, json.JSONDecodeError, OSError) as error:
        raise ModelFileError(f"{path}: not an idwbench model ({_first_line(error)})") from None


def _build(path: Path, content: dict[str, Any]) -> SavedModel:
    try:
        config = RunConfig.model_validate(content["config"])
        tensors = {name: content[name] for name in _TENSORS}
        _check_tensors(tensors, content)
        method = get_method(config.method)
    except (ValidationError, ValueError, TypeError, AttributeError) as error:
        raise ModelFileError(f"{path}: damaged model file ({_first_line(error)})") from None
    except ConfigError as error:
        raise ModelFileError(f"{path}: {error}; if a plugin brought it, give --plugin") from None
    shape = content["image_shape"]
    return SavedModel(
        network=PrototypeNetwork(method, config.parameters, tensors["keys"], tensors["values"]),
        config=config,
        scaling=Scaling(tensors["scaling_mean"].numpy(), tensors["scaling_std"].numpy()),
        image_shape=(int(shape[0]), int(shape[1])) if shape else None,
        class_names=tuple(content["class_names"]),
        provenance=content["provenance"],
        patches=tuple(content["patches"]),
    )


def _check_tensors(tensors: dict[str, Tensor], content: dict[str, Any]) -> None:
    keys, values = tensors["keys"], tensors["values"]
    if keys.ndim != 2 or values.ndim != 2 or len(keys) != len(values):
        raise ValueError(f"keys {tuple(keys.shape)} and values {tuple(values.shape)} do not fit")
    if values.shape[1] != len(content["class_names"]):
        raise ValueError(f"{len(content['class_names'])} class names for {values.shape[1]} classes")
    if keys.dtype != torch.float32 or values.dtype != torch.float32:
        raise ValueError("keys and values are not float32")
    if not (keys.isfinite().all() and values.isfinite().all()):
        raise ValueError("keys or values are not finite")
    for name in ("scaling_mean", "scaling_std"):
        if tensors[name].shape not in {(), keys.shape[1:]}:
            raise ValueError(f"{name} {tuple(tensors[name].shape)} does not fit {keys.shape[1]} features")


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]

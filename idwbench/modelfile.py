"""Model files: keys, values, scaling, configuration and provenance in one ``.pt`` or ``.safetensors``.

Neither form unpickles objects: ``.pt`` is read with ``torch.load(weights_only=True)``. A model file holds no
clock time, so that the same run writes the same bytes.
"""

from __future__ import annotations

import io
import json
import platform
import warnings
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from torch import Tensor

import idwbench
from idwbench.config import RunConfig
from idwbench.data.dataset import Dataset, Scaling
from idwbench.errors import ConfigError, ModelFileError
from idwbench.methods import Method, get_method
from idwbench.model import PrototypeNetwork
from idwbench.modelcontent import FACTS, TENSORS, check_parameters, check_tensors, parse_facts
from idwbench.output import write_whole
from idwbench.reading import read_whole

__all__ = ["MODEL_SUFFIXES", "SavedModel", "check_model_path", "load_model", "save_model", "saved_model"]

MODEL_SUFFIXES = (".pt", ".safetensors")
FORMAT = "idwbench-model"
VERSION = 1


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
    config: RunConfig,
    dataset: Dataset,
    keys: Tensor,
    values: Tensor,
    *,
    engine: str,
    device: str,
    versions: Mapping[str, str] | None = None,
    data_sha256: str | None = None,
) -> SavedModel:
    """Return the model that a run on `dataset` gave, with its provenance.

    Args:
        config: The run.
        dataset: Gives scaling, shape of images and names of classes.
        keys: (prototypes, features).
        values: (prototypes, classes).
        engine: What trained it.
        device: Where.
        versions: Of Python and packages when it was trained, by name; those of this process if not given.
        data_sha256: Checksum of the data it was trained on; that of `dataset` if not given.
    """
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
            "data_sha256": data_sha256 or dataset.sha256,
            "versions": dict(sorted((versions or _versions_here(engine)).items())),
        },
    )


def check_model_path(path: Path) -> None:
    """Raise `ModelFileError` unless the ending of `path` says how to write it."""
    if path.suffix not in MODEL_SUFFIXES:
        raise ModelFileError(f"{path}: expected a name ending in {' or '.join(MODEL_SUFFIXES)}")


def save_model(
    model: SavedModel, path: Path, *, overwrite: bool = False, check: Callable[[SavedModel], None] | None = None
) -> None:
    """Write `model` in the form that the ending of `path` names, whole or not at all.

    What is to be written is read back first, so no file is left that `load_model` would refuse.

    Args:
        model: What to write.
        path: Where to.
        overwrite: Whether a file of that name may be replaced.
        check: Is given the model as it was read back; if it raises, nothing is written.

    Raises:
        ModelFileError: the ending is neither ``.pt`` nor ``.safetensors``, or the model is not one that can be read.
        OutputError: the file exists and `overwrite` is false, or it cannot be written.
    """
    check_model_path(path)
    content = _serialised(model, path.suffix)
    again = _parsed(content, path)
    if check is not None:
        check(again)
    write_whole(path, content, overwrite=overwrite)


def load_model(path: Path) -> SavedModel:
    """Read a model file; nothing in it is executed.

    Raises:
        ModelFileError: no such file, no model file, a damaged one, one of a newer version, or its method is not
            registered (give its plugin) or was brought by another version of its plugin.
    """
    return _parsed(read_whole(path, ModelFileError), path)


def _versions_here(engine: str) -> dict[str, str]:
    versions = {
        "idwbench": idwbench.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "torch": str(torch.__version__),
    }
    return versions | {"numba": version("numba")} if engine == "fused" else versions


def _serialised(model: SavedModel, suffix: str) -> bytes:
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
    if suffix == ".safetensors":
        # One entry: safetensors keeps the order of several no steadier than a hash map does.
        return safetensors.torch.save(tensors, {FORMAT: json.dumps(facts)})
    buffer = io.BytesIO()
    torch.save({**facts, **tensors}, buffer)
    return buffer.getvalue()


def _parsed(content: bytes, path: Path) -> SavedModel:
    """Return the model that the bytes of a file hold; `path` tells their form, and the error which file it was."""
    try:
        # Torch warns of kinds of tensors that no model has; what matters is told by the error.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fields = _safetensors_fields(content) if path.suffix == ".safetensors" else _pt_fields(content)
    except Exception as error:  # a foreign or damaged file fails in a way of its own choosing
        raise ModelFileError(f"{path}: not an idwbench model ({_one_line(error)})") from None
    if not isinstance(fields, dict) or not isinstance(fields.get("format"), str) or fields["format"] != FORMAT:
        raise ModelFileError(f"{path}: not an idwbench model")
    found = fields.get("version")
    if type(found) is int and VERSION < found < 1000:
        raise ModelFileError(f"{path}: model format {found}, this idwbench reads {VERSION}; upgrade idwbench")
    missing = [name for name in ("version", *FACTS, *TENSORS) if name not in fields]
    if missing:
        raise ModelFileError(f"{path}: damaged model file ('{missing[0]}' is missing)")
    if type(found) is not int or found != VERSION:
        raise ModelFileError(f"{path}: damaged model file (version: expected {VERSION})")
    return _built(fields, path)


def _pt_fields(content: bytes) -> Any:
    # Torch reads tensors without looking at the checksums that are there.
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        broken = archive.testzip()
    if broken is not None:
        raise ValueError(f"damaged: the checksum of {broken} is wrong")
    return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)


def _safetensors_fields(content: bytes) -> Any:
    tensors = safetensors.torch.load(content)
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    facts = json.loads(header.get("__metadata__", {}).get(FORMAT, "null"))
    return {**facts, **tensors} if isinstance(facts, dict) else None


def _built(fields: dict[str, Any], path: Path) -> SavedModel:
    try:
        facts = parse_facts(fields)
        check_tensors(fields, facts)
        method = _method_of(facts.config, path)
        check_parameters(facts.config, method)
    except (ValueError, ConfigError) as error:
        raise ModelFileError(f"{path}: damaged model file ({_one_line(error)})") from None
    shape = facts.image_shape
    keys, values, mean, std = (fields[name].detach() for name in TENSORS)
    return SavedModel(
        network=PrototypeNetwork(method, facts.config.parameters, keys, values),
        config=facts.config,
        scaling=Scaling(mean.numpy(), std.numpy()),
        image_shape=(shape[0], shape[1]) if shape else None,
        class_names=tuple(facts.class_names),
        provenance=facts.provenance,
        patches=tuple(facts.patches),
    )


def _method_of(config: RunConfig, path: Path) -> Method:
    try:
        method = get_method(config.method)
    except ConfigError as error:
        raise ModelFileError(f"{path}: {_one_line(error)}; if a plugin brought it, give --plugin") from None
    if method.sha256 != config.plugin_sha256:
        raise ModelFileError(f"{path}: was trained with another version of the plugin that brings '{method.name}'")
    return method


def _one_line(error: Exception) -> str:
    """Return the error's text on one line; what a file says of itself may hold line ends and control characters."""
    text = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return "".join(char if char.isprintable() else " " for char in text)[:200]

"""Model files: the tensors and the card of one model, in a ``.pt`` or a ``.safetensors``.

The card is JSON: the public card of the model (`idwbench.models.model_card`), its whole configuration, and a checksum
of both and the tensors. It is the string ``model.json`` beside the tensors of ``.pt``, and the metadata of that name in
``.safetensors``. No objects are unpickled: ``.pt`` is read with ``torch.load(weights_only=True)``. A model file has no
time stamp, so that the same run gives the same bytes.
"""

import io
import json
import math
import pickletools
import warnings
import zipfile
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from torch import Tensor

from idwbench.attention.records import Method
from idwbench.attention.scores import get_method
from idwbench.attention.slopes import SLOPE_ARRAYS
from idwbench.data.dataset import Scaling, array_sha256
from idwbench.errors import ConfigError, ModelFileError, PatchError
from idwbench.files import check_model_path, read_file, write_file
from idwbench.models.array_weights import ArrayNetwork
from idwbench.models.demands import Repairs, earlier_repairs
from idwbench.models.model_card import CARD_NAME, ModelFacts, card_text, parse_facts, public_card, saved_model_card
from idwbench.models.modules import PrototypeNetwork
from idwbench.models.saved_model import SavedModel
from idwbench.runs.kinds.models import ModelConfig
from idwbench.runs.kinds.prototypes import PrototypesConfig

__all__ = ["load_model", "model_content", "read_card", "save_model"]

FORMAT = "idwbench-model"
# 5: slopes of values have tensors. 4: patches have tensors of their own. A model without either is a file of version 3,
# which has a card. Before 4 patches were the last keys and values. In 1 (classification) and 2 (regression) the facts
# were entries of .pt, or the metadata of the name FORMAT.
VERSION = 5
CHECKSUM = "sha256"
_DTYPES = {
    "keys": torch.float32,
    "values": torch.float32,
    "scaling_mean": torch.float64,
    "scaling_std": torch.float64,
    "target_mean": torch.float64,
    "target_std": torch.float64,
}
_PATCH_DTYPES = {"patch_inputs": torch.float32, "patch_values": torch.float64}
# What the pickle of tensors of these types calls.
_PARTS_OF_TENSORS = {
    "collections OrderedDict",
    "torch._utils _rebuild_tensor_v2",
    "torch DoubleStorage",
    "torch FloatStorage",
}

Fields = tuple[dict[str, Any], dict[str, Any]]


def save_model(
    model: SavedModel,
    path: str | PathLike[str],
    *,
    overwrite: bool = False,
) -> None:
    """Write `model` atomically, in the format given by the suffix of `path`; the content is read back before.

    Args:
        model: The model.
        path: A ``.pt`` or ``.safetensors`` file.
        overwrite: Whether an existing file may be replaced.

    Raises:
        ModelFileError: unknown suffix, or the content cannot be read back.
        OutputError: the file exists and `overwrite` is false, or it cannot be written.
    """
    target = Path(path)
    check_model_path(target)
    content = model_content(model, target.suffix.lower())
    _read_model(content, target)
    write_file(target, content, overwrite=overwrite)


def load_model(path: str | PathLike[str]) -> SavedModel:
    """Read a model file, to predict with it, explain and patch it; no code in the file is executed.

    Args:
        path: A ``.pt`` or ``.safetensors`` file that `idwbench train`, `patch`, `export` or `SavedModel.save` wrote.

    Raises:
        ModelFileError: the file does not exist, is not a model file, is damaged or of a newer version, or its method
            is not registered or is defined by another version of its plugin.
    """
    return _read_model(read_file(Path(path), ModelFileError), Path(path))


def read_card(path: str | PathLike[str]) -> dict[str, Any] | None:
    """Return the model card in a file whose method is that of a plugin, which need not be loaded; None of other files.

    Raises:
        ModelFileError: the file does not exist, is not a model file, is damaged or of a newer version.
    """
    card, _, facts, _ = _read_facts(read_file(Path(path), ModelFileError), Path(path))
    return public_card(card) if facts.config.model.plugin_sha256 is not None and "card" in card else None


def model_content(model: SavedModel, suffix: str) -> bytes:
    """Return the bytes of a model file with the ending ``.pt`` or ``.safetensors``."""
    tensors = {name: part.detach().cpu().contiguous() for name, part in model.network.named_parameters()}
    scalings = {"scaling": model.scaling} | ({} if model.class_names else {"target": model.target_scaling})
    for name, scaling in scalings.items():
        tensors[f"{name}_mean"] = torch.from_numpy(np.array(scaling.mean, dtype=np.float64))
        tensors[f"{name}_std"] = torch.from_numpy(np.array(scaling.std, dtype=np.float64))
    if len(model.repairs):
        # Columns in another order than those of memory would be no plain tensor.
        tensors["patch_inputs"] = torch.from_numpy(np.ascontiguousarray(model.repairs.inputs))
        tensors["patch_values"] = torch.from_numpy(np.ascontiguousarray(model.repairs.values))
    card = {
        "format": FORMAT,
        "version": VERSION if model.network.slopes else 4 if len(model.repairs) else 3,
        **saved_model_card(model),
        "provenance": dict(model.provenance),
        "config": model.config.model_dump(mode="json"),
    }
    text = card_text({**card, CHECKSUM: _checksum(card, tensors)})
    if suffix == ".safetensors":
        return safetensors.torch.save(tensors, {CARD_NAME: text})
    # In memory, since torch would write the name of a file into it.
    buffer = io.BytesIO()
    torch.save({CARD_NAME: text, **tensors}, buffer)
    return buffer.getvalue()


def _read_model(content: bytes, path: Path) -> SavedModel:
    """Return the model in the content of the file `path`."""
    _, tensors, facts, version = _read_facts(content, path)
    try:
        method = _method(facts, path)
        _check_tensors(tensors, facts, version)
        _check_learned(tensors, method, facts.config.model)
        return _model(facts, tensors, method, version)
    except (ValueError, ConfigError, PatchError) as error:
        raise ModelFileError(f"damaged model file: {_one_line(error)}", file=path) from None
    except ModelFileError as error:
        raise ModelFileError(error.problem, hint=error.hint, file=path) from None


def _read_facts(content: bytes, path: Path) -> tuple[dict[str, Any], dict[str, Tensor], ModelFacts, int]:
    """Return the card, the tensors, the facts and the version of a model file, without those that need its method."""
    try:
        # Torch warns of some kinds of tensors; the checks below refuse them.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            card, tensors = (
                _safetensors_fields(content) if path.suffix.lower() == ".safetensors" else _pt_fields(content)
            )
            _check_content(card, tensors)
    except Exception as error:  # the readers can raise any exception
        raise ModelFileError(f"not an idwbench model: {_one_line(error)}", file=path) from None
    if card.get("format") != FORMAT:
        raise ModelFileError("not an idwbench model", file=path)
    version = card.get("version")
    if type(version) is int and VERSION < version < 1000:
        problem = f"model format {version}, this idwbench reads up to {VERSION}"
        raise ModelFileError(problem, file=path, hint="upgrade idwbench")
    try:
        if type(version) is not int or not 1 <= version <= VERSION:
            raise ValueError(f"version: expected a number from 1 to {VERSION}")
        return card, tensors, parse_facts(card), version
    except (ValueError, ConfigError) as error:
        raise ModelFileError(f"damaged model file: {_one_line(error)}", file=path) from None


def _pt_fields(content: bytes) -> Fields:
    """Return the card and the tensors of a ``.pt`` file."""
    called = _called_names(content)
    try:
        if not called <= _PARTS_OF_TENSORS:
            raise ValueError
        fields: dict[str, Any] = dict(torch.load(io.BytesIO(content), map_location="cpu", weights_only=True))
    except Exception as error:  # the message of torch recommends loading without protection
        raise ValueError("it holds Python objects, or is not a file of torch.save") from error
    tensors = {name: field for name, field in fields.items() if isinstance(field, Tensor)}
    facts = {name: field for name, field in fields.items() if name not in tensors}
    return json.loads(facts[CARD_NAME]) if CARD_NAME in facts else facts, tensors


def _called_names(content: bytes) -> set[object]:
    """Return what the pickle in a ``.pt`` file would call; torch would call more than tensors need: bytearray(10**12).

    Raises:
        ValueError: the file is not a zip archive as torch writes it, or a checksum is wrong.
    """
    if not zipfile.is_zipfile(io.BytesIO(content)):
        raise ValueError("it is not the zip archive that torch.save writes")
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        entries, names = archive.infolist(), archive.namelist()
        # Torch would allocate whatever size an entry claims, and entries may claim the same bytes again and again.
        if any(entry.compress_type for entry in entries) or sum(entry.file_size for entry in entries) > len(content):
            raise ValueError("it is compressed, which torch.save never does, or a size in it is wrong")
        broken = archive.testzip()  # torch does not check the checksums
        if broken is not None:
            raise ValueError(f"the checksum of {broken} is wrong")
        pickles = [name for name in names if name.endswith("/data.pkl")]
        if len(pickles) != 1:
            raise ValueError("it is not the zip archive that torch.save writes")
        return {name for code, name, _ in pickletools.genops(archive.read(pickles[0])) if code.name == "GLOBAL"}


def _safetensors_fields(content: bytes) -> Fields:
    """Return the card and the tensors of a ``.safetensors`` file."""
    tensors = safetensors.torch.load(content)  # checks the header
    metadata = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")]).get("__metadata__", {})
    # Files of version 2 have a card too, which repeats some of the facts.
    return json.loads(metadata.get(FORMAT) or metadata.get(CARD_NAME, "{}")), tensors


def _check_content(card: Any, tensors: Mapping[str, Tensor]) -> None:
    """Check the checksum, of plain tensors alone: an expanded tensor has any size, with few numbers in its file."""
    if not isinstance(card, dict):
        raise ValueError("its card is not a mapping")
    for name, tensor in tensors.items():
        if tensor.layout != torch.strided or tensor.device.type != "cpu" or not tensor.is_contiguous():
            raise ValueError(f"{name} is not a plain tensor")
    checksum = card.pop(CHECKSUM, None)  # .pt of versions 1 and 2 have none, nor has .safetensors of idwbench 0.2.0
    if checksum is not None and checksum != _checksum(card, tensors):
        raise ValueError("its checksum is wrong")


def _checksum(card: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> str:
    """Return the SHA-256, in hexadecimal, of the card and the tensors of a model."""
    names = sorted(tensors)
    arrays = [tensors[name].numpy() for name in names]
    return array_sha256(np.frombuffer(json.dumps([card, names]).encode(), np.uint8), *arrays)


def _check_tensors(tensors: Mapping[str, Tensor], facts: ModelFacts, version: int) -> None:
    """Check types, shapes and values of the tensors of a model file.

    Raises:
        ValueError: a tensor is missing, does not fit the facts, or has an invalid value.
    """
    names = [name for name in _DTYPES if not (facts.class_names and name.startswith("target"))]
    if version == 4 or (version > 4 and facts.patches):
        names += ["patch_inputs", "patch_values"]
    for name in names:
        if name not in tensors:
            raise ValueError(f"'{name}' is missing")
        dtype = (_DTYPES | _PATCH_DTYPES)[name]
        if tensors[name].dtype != dtype:
            raise ValueError(f"{name} is not {str(dtype).removeprefix('torch.')}")
        if not tensors[name].isfinite().all():
            raise ValueError(f"{name} is not finite")
    keys, values = tensors["keys"], tensors["values"]
    if keys.ndim != 2 or values.ndim != 2 or len(keys) != len(values):
        raise ValueError(f"keys {tuple(keys.shape)} and values {tuple(values.shape)} do not fit")
    if not keys.numel():
        raise ValueError(f"keys {tuple(keys.shape)}: expected at least one prototype and one feature")
    if facts.class_names and values.shape[1] != len(facts.class_names):
        raise ValueError(f"{len(facts.class_names)} class names for {values.shape[1]} classes")
    if facts.image_shape and math.prod(facts.image_shape) != keys.shape[1]:
        raise ValueError(f"image_shape {facts.image_shape} does not fit {keys.shape[1]} features")
    if facts.columns and facts.columns.n_features != keys.shape[1]:
        raise ValueError(f"columns of {facts.columns.n_features} features do not fit {keys.shape[1]} features")
    for name, columns in (("patch_inputs", keys.shape[1]), ("patch_values", values.shape[1])):
        if name in names and (tensors[name].ndim != 2 or tensors[name].shape[1] != columns):
            raise ValueError(f"{name} {tuple(tensors[name].shape)} does not fit {columns} columns")
    for name in (name for name in names if name.startswith(("scaling", "target"))):
        columns = (keys if name.startswith("scaling") else values).shape[1]
        if tensors[name].shape not in {(), (columns,)}:
            raise ValueError(f"{name} {tuple(tensors[name].shape)} does not fit {columns} columns")
        if name.endswith("std") and not (tensors[name] > 0).all():
            raise ValueError(f"{name} is not positive")


def _check_learned(tensors: Mapping[str, Tensor], method: Method, model: ModelConfig) -> None:
    """Check the arrays that the score of the method learns, and the slopes of values; raises `ValueError`."""
    (n_prototypes, n_features), n_outputs = tensors["keys"].shape, tensors["values"].shape[1]
    shapes = {one.name: one.shape(n_features, model.parameters) for one in method.learned}
    if rank := _slope_rank(model):
        for name, columns in zip(SLOPE_ARRAYS, (n_features, n_outputs), strict=True):
            shapes[name] = (rank, n_prototypes, columns)
    for name, shape in shapes.items():
        if name not in tensors:
            raise ValueError(f"'{name}' is missing")
        tensor = tensors[name]
        if tensor.dtype != torch.float32 or tensor.shape != shape or not tensor.isfinite().all():
            raise ValueError(f"{name}: expected finite float32 {shape}, got {tensor.dtype} {tuple(tensor.shape)}")


def _slope_rank(model: ModelConfig) -> int:
    return model.slope_rank if isinstance(model, PrototypesConfig) else 0


def _model(facts: ModelFacts, tensors: Mapping[str, Tensor], method: Method, version: int) -> SavedModel:
    keys, values = (tensors[name].detach() for name in ("keys", "values"))
    given: dict[str, Any] = dict(facts)
    for name in ["scaling"] if facts.class_names else ["scaling", "target"]:
        scaling = Scaling(*(tensors[f"{name}_{part}"].detach().numpy() for part in ("mean", "std")))
        given["scaling" if name == "scaling" else "target_scaling"] = scaling
    parameters, patches = facts.config.model.parameters, given.pop("patches")
    if patches and version < 4:
        n_learned = facts.config.model.prototypes
        if len(keys) != n_learned + len(patches):
            expected = f"{n_learned} learned prototypes and {len(patches)} patches"
            raise ValueError(f"{expected} are recorded, but {len(keys)} prototypes found")
        base = ArrayNetwork(method, parameters, keys[:n_learned].numpy(), values[:n_learned].numpy())
        given["repairs"] = earlier_repairs(base, patches, keys[n_learned:].numpy(), values[n_learned:].double().numpy())
        keys, values = keys[:n_learned].clone(), values[:n_learned].clone()
    elif patches:
        arrays = (tensors[name].numpy() for name in ("patch_inputs", "patch_values"))
        given["repairs"] = Repairs.parse(patches, *arrays, is_classification=bool(facts.class_names))
    names = [*(one.name for one in method.learned), *(SLOPE_ARRAYS if _slope_rank(facts.config.model) else ())]
    learned = {name: tensors[name].detach() for name in names}
    return SavedModel(network=PrototypeNetwork(method, parameters, keys, values, arrays=learned), **given)


def _method(facts: ModelFacts, path: Path) -> Method:
    """Return the method of a model, which must be registered and have a valid value of every parameter."""
    model = facts.config.model
    try:
        method = get_method(model.method, model.weighting if isinstance(model, PrototypesConfig) else None)
    except ConfigError as error:
        if model.plugin_sha256 is None:
            raise ModelFileError(error.problem, file=path) from None
        file = facts.provenance.get("plugin", "a file of its own")
        problem = f"its method '{model.method}' is a plugin, {file}"
        raise ModelFileError(problem, file=path, hint="load the plugin first") from None
    if method.sha256 != model.plugin_sha256:
        problem = f"was trained with another version of the plugin that defines '{method.name}'"
        raise ModelFileError(problem, file=path)
    method.resolve(model.parameters)
    for parameter in method.parameters:
        if parameter.name not in model.parameters:
            raise ValueError(f"config.parameters: '{parameter.name}' is missing")
    return method


def _one_line(error: Exception) -> str:
    """Return the error's text on one line, without control characters."""
    text = " ".join(str(error).split()) or type(error).__name__
    return "".join(char if char.isprintable() else " " for char in text)[:200]

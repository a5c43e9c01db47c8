"""Model files: keys, values, scaling, configuration and provenance in one ``.pt`` or ``.safetensors``.

No objects are unpickled: ``.pt`` is read with ``torch.load(weights_only=True)``. A model file has no time stamp, so
that the same run gives the same bytes. Both have the model card for other readers: the entry ``model.json`` of the zip
archive, and of the metadata of ``.safetensors``.
"""

import hashlib
import io
import json
import sys
import warnings
import zipfile
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch

from idwbench.attention.records import Method
from idwbench.attention.scores import get_method
from idwbench.data.dataset import Scaling, array_sha256
from idwbench.errors import ConfigError, ModelFileError
from idwbench.files import check_model_path, read_file, write_file
from idwbench.models.model_card import (
    CARD_NAME,
    FACTS,
    REGRESSION_TENSORS,
    TENSORS,
    card_text,
    check_parameters,
    check_tensors,
    parse_facts,
    saved_model_card,
)
from idwbench.models.prototypes import PrototypeNetwork
from idwbench.models.saved_model import SavedModel
from idwbench.runs.config import RunConfig

__all__ = ["load_model", "model_content", "save_model"]

FORMAT = "idwbench-model"
CHECKSUM = "sha256"  # of tensors and facts, in .safetensors; a .pt file is a zip archive, which has its own
CARD_CHECKSUM = "card_sha256"  # a fact of .safetensors
# 1: classification; 2: regression, with the scaling of the targets.
VERSIONS = (1, 2)


def save_model(
    model: SavedModel,
    path: str | PathLike[str],
    *,
    overwrite: bool = False,
    check: Callable[[SavedModel], None] | None = None,
) -> None:
    """Write `model` atomically, in the format given by the suffix of `path`; the content is read back before.

    Args:
        model: The model.
        path: A ``.pt`` or ``.safetensors`` file.
        overwrite: Whether an existing file may be replaced.
        check: Called with the model as read back; if it raises, nothing is written.

    Raises:
        ModelFileError: unknown suffix, or the content cannot be read back.
        OutputError: the file exists and `overwrite` is false, or it cannot be written.
    """
    target = Path(path)
    check_model_path(target)
    content = model_content(model, target.suffix)
    again = _parsed(content, target)
    if check is not None:
        check(again)
    write_file(target, content, overwrite=overwrite)


def load_model(path: str | PathLike[str]) -> SavedModel:
    """Read a model file; no code in it is executed.

    Raises:
        ModelFileError: the file does not exist, is not a model file, is damaged or of a newer version, or its method
            is not registered or is defined by another version of its plugin.
    """
    return _parsed(read_file(Path(path), ModelFileError), Path(path))


def model_content(model: SavedModel, suffix: str) -> bytes:
    """Return the bytes of a model file with the ending ``.pt`` or ``.safetensors``."""
    tensors = {name: getattr(model.network, name).detach().cpu().contiguous() for name in ("keys", "values")}
    scalings = [("scaling", model.scaling), ("target", model.target_scaling)]
    for name, scaling in scalings[:1] if model.class_names else scalings:
        tensors[f"{name}_mean"] = torch.from_numpy(np.array(scaling.mean, dtype=np.float64))
        tensors[f"{name}_std"] = torch.from_numpy(np.array(scaling.std, dtype=np.float64))
    facts = {
        "format": FORMAT,
        "version": 1 if model.class_names else 2,
        "config": model.config.model_dump(mode="json"),
        "image_shape": list(model.image_shape) if model.image_shape else None,
        "class_names": list(model.class_names),
        "provenance": dict(model.provenance),
        "patches": [_interned(patch) for patch in model.patches],
        "metrics": _interned({split: dict(values) for split, values in model.metrics.items()}),
        "patched_metrics": _interned({split: dict(values) for split, values in model.patched_metrics.items()}),
    }
    card = card_text(saved_model_card(model))
    if suffix == ".safetensors":
        return _safetensors_content(facts | {CARD_CHECKSUM: _text_sha256(card)}, tensors, card)
    buffer = io.BytesIO()
    torch.save({**facts, **tensors}, buffer)
    with zipfile.ZipFile(buffer, "a") as archive:
        # In the folder of the others, since torch expects one; the time is that of no clock.
        archive.writestr(zipfile.ZipInfo(f"{archive.namelist()[0].partition('/')[0]}/{CARD_NAME}"), card)
    return buffer.getvalue()


def _safetensors_content(facts: Mapping[str, Any], tensors: Mapping[str, torch.Tensor], card: str) -> bytes:
    content = safetensors.torch.save(dict(tensors))
    start = 8 + int.from_bytes(content[:8], "little")
    # Not by safetensors, which does not keep the order of several entries.
    entries = {FORMAT: json.dumps({**facts, CHECKSUM: _checksum(facts, tensors)}), CARD_NAME: card}
    header = json.dumps({"__metadata__": entries, **json.loads(content[8:start])}).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + content[start:]


def _text_sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _interned(content: Any) -> Any:
    """Return a copy in which equal strings are one object: pickle writes an object once, so that bytes depend on it."""
    if isinstance(content, str):
        return sys.intern(content)
    if isinstance(content, dict):
        return {_interned(key): _interned(value) for key, value in content.items()}
    return [_interned(value) for value in content] if isinstance(content, list) else content


def _parsed(content: bytes, path: Path) -> SavedModel:
    """Return the model in the content of the file `path`."""
    try:
        # Torch warns of some kinds of tensors; the checks below refuse them.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fields = _safetensors_fields(content) if path.suffix == ".safetensors" else _pt_fields(content)
    except Exception as error:  # the readers can raise any exception
        raise ModelFileError(f"not an idwbench model: {_one_line(error)}", file=path) from None
    if not isinstance(fields, dict) or not isinstance(fields.get("format"), str) or fields["format"] != FORMAT:
        raise ModelFileError("not an idwbench model", file=path)
    found = fields.get("version")
    if type(found) is int and VERSIONS[-1] < found < 1000:
        problem = f"model format {found}, this idwbench reads up to {VERSIONS[-1]}"
        raise ModelFileError(problem, file=path, hint="upgrade idwbench")
    try:
        if missing := [name for name in ("version", *FACTS, *TENSORS) if name not in fields]:
            raise ValueError(f"'{missing[0]}' is missing")
        if type(found) is not int or found not in VERSIONS:
            raise ValueError(f"version: expected one of {VERSIONS}")
        return _built(fields, path)
    except (ValueError, ConfigError) as error:
        raise ModelFileError(f"damaged model file: {_one_line(error)}", file=path) from None


def _pt_fields(content: bytes) -> Any:
    if not zipfile.is_zipfile(io.BytesIO(content)):
        raise ValueError("it is not the zip archive that torch.save writes")
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        broken = archive.testzip()  # torch does not check the checksums
    if broken is not None:
        raise ValueError(f"the checksum of {broken} is wrong")
    try:
        return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception as error:  # the message of torch recommends loading without protection
        raise ValueError("it holds Python objects, or is not a file of torch.save") from error


def _safetensors_fields(content: bytes) -> Any:
    tensors = safetensors.torch.load(content)
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    entries = header.get("__metadata__", {})
    facts = json.loads(entries.get(FORMAT, "null"))
    if not isinstance(facts, dict):
        return None
    expected = facts.pop(CHECKSUM, None)  # files of version 0.2.0 have none
    if expected is not None and expected != _checksum(facts, tensors):
        raise ValueError("its checksum is wrong")
    if CARD_NAME in entries and _text_sha256(entries[CARD_NAME]) != facts.get(CARD_CHECKSUM):
        raise ValueError("the checksum of its model card is wrong")
    return {**facts, **tensors}


def _checksum(facts: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]) -> str:
    """Return the SHA-256, in hexadecimal, of the facts and the tensors of a model."""
    names = sorted(tensors)
    arrays = [tensors[name].numpy() for name in names]
    return array_sha256(np.frombuffer(json.dumps([facts, names]).encode(), np.uint8), *arrays)


def _built(fields: dict[str, Any], path: Path) -> SavedModel:
    facts = parse_facts(fields)
    check_tensors(fields, facts)
    method = _method_of(facts.config, path)
    check_parameters(facts.config.network, method)
    shape = facts.image_shape
    keys, values, *scales = (fields[name].detach() for name in TENSORS)
    targets = [fields[name].detach().numpy() for name in REGRESSION_TENSORS] if not facts.class_names else None
    return SavedModel(
        network=PrototypeNetwork(method, facts.config.model.parameters, keys, values),
        config=facts.config,
        scaling=Scaling(*(scale.numpy() for scale in scales)),
        image_shape=(shape[0], shape[1]) if shape else None,
        class_names=tuple(facts.class_names),
        target_scaling=Scaling(*targets) if targets else Scaling.identity(),
        provenance=facts.provenance,
        patches=tuple(facts.patches),
        metrics=facts.metrics,
        patched_metrics=facts.patched_metrics,
    )


def _method_of(config: RunConfig, path: Path) -> Method:
    try:
        method = get_method(config.model.method)
    except ConfigError as error:
        hint = "if a plugin defines it, load the plugin first"
        raise ModelFileError(error.problem, file=path, hint=hint) from None
    if method.sha256 != config.model.plugin_sha256:
        problem = f"was trained with another version of the plugin that defines '{method.name}'"
        raise ModelFileError(problem, file=path)
    return method


def _one_line(error: Exception) -> str:
    """Return the error's text on one line, without control characters."""
    text = " ".join(str(error).split()) or type(error).__name__
    return "".join(char if char.isprintable() else " " for char in text)[:200]

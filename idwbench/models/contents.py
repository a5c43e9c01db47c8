"""Validation of model files: facts of the right types, and tensors that fit them."""

import json
import math
from typing import Annotated, Any

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor

from idwbench.attention.definitions import Method
from idwbench.attention.methods import resolve_parameters
from idwbench.runs.config import RunConfig
from idwbench.runs.models import PrototypesConfig
from idwbench.runs.settings import Count

__all__ = ["FACTS", "REGRESSION_TENSORS", "TENSORS", "ModelFacts", "check_parameters", "check_tensors", "parse_facts"]

TENSORS = ("keys", "values", "scaling_mean", "scaling_std")
REGRESSION_TENSORS = ("target_mean", "target_std")
FACTS = ("config", "image_shape", "class_names", "provenance", "patches")


class ModelFacts(BaseModel):
    """The content of a model file without its tensors."""

    model_config = ConfigDict(frozen=True, strict=True)

    config: RunConfig
    image_shape: Annotated[list[Count], Field(min_length=2, max_length=2)] | None
    class_names: list[str]
    provenance: dict[str, Any]
    patches: list[dict[str, Any]]


def parse_facts(content: dict[str, Any]) -> ModelFacts:
    """Return the facts of a model file.

    Raises:
        ValueError: one is missing or of a wrong type.
    """
    try:
        facts = ModelFacts.model_validate({name: content[name] for name in FACTS if name in content})
        # A .pt file can be written as .safetensors, whose metadata is JSON.
        json.dumps(facts.model_dump(mode="json"), allow_nan=False)
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    except (TypeError, ValueError, RecursionError):
        raise ValueError("expected plain texts, numbers, lists and mappings") from None
    return facts


def check_parameters(model: PrototypesConfig, method: Method) -> None:
    """Check that a model has every parameter of its method, each with a valid value.

    Raises:
        ValueError: a parameter is missing.
        ConfigError: a parameter is unknown or out of range.
    """
    resolve_parameters(method, model.parameters)
    for parameter in method.parameters:
        if parameter.name not in model.parameters:
            raise ValueError(f"config.parameters: '{parameter.name}' is missing")


def check_tensors(content: dict[str, Any], facts: ModelFacts) -> None:
    """Check types, shapes and values of the tensors of a model file.

    Raises:
        ValueError: a tensor is missing, does not fit the facts, or has an invalid value.
    """
    names = TENSORS if facts.class_names else TENSORS + REGRESSION_TENSORS
    for name in names:
        _check_tensor(name, content.get(name), torch.float32 if name in ("keys", "values") else torch.float64)
    keys, values = content["keys"], content["values"]
    if keys.ndim != 2 or values.ndim != 2 or len(keys) != len(values):
        raise ValueError(f"keys {tuple(keys.shape)} and values {tuple(values.shape)} do not fit")
    if not keys.numel():
        raise ValueError(f"keys {tuple(keys.shape)}: expected at least one prototype and one feature")
    n_features = keys.shape[1]
    if (facts.config.dataset.task == "classification") != bool(facts.class_names):
        raise ValueError("class_names do not fit the task of the data set")
    if facts.class_names and values.shape[1] != len(facts.class_names):
        raise ValueError(f"{len(facts.class_names)} class names for {values.shape[1]} classes")
    if facts.image_shape and math.prod(facts.image_shape) != n_features:
        raise ValueError(f"image_shape {facts.image_shape} does not fit {n_features} features")
    for name in names[2:]:
        columns = n_features if name.startswith("scaling") else values.shape[1]
        if content[name].shape not in {(), (columns,)}:
            raise ValueError(f"{name} {tuple(content[name].shape)} does not fit {columns} columns")
        if name.endswith("std") and not (content[name] > 0).all():
            raise ValueError(f"{name} is not positive")


def _check_tensor(name: str, tensor: object, dtype: torch.dtype) -> None:
    if not isinstance(tensor, Tensor):
        raise ValueError(f"'{name}' is missing" if tensor is None else f"{name} is not a tensor")
    if tensor.layout != torch.strided or tensor.device.type != "cpu":
        raise ValueError(f"{name} is not a plain tensor")
    if tensor.dtype != dtype:
        raise ValueError(f"{name} is not {str(dtype).removeprefix('torch.')}")
    if not tensor.isfinite().all():
        raise ValueError(f"{name} is not finite")

"""Validation of model files: facts of the right types, and tensors that fit them."""

import json
import math
from typing import Annotated, Any, Literal

import torch
from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from torch import Tensor

from idwbench.attention.definitions import Method
from idwbench.attention.methods import resolve_parameters
from idwbench.errors import ModelFileError
from idwbench.runs.config import RunConfig
from idwbench.runs.datasets import UnknownConfig
from idwbench.runs.kinds.prototypes import PrototypesConfig
from idwbench.runs.settings import Count, validated

__all__ = [
    "FACTS",
    "REGRESSION_TENSORS",
    "TENSORS",
    "ModelFacts",
    "PatchRecord",
    "ReplacedEta",
    "check_parameters",
    "check_tensors",
    "parse_facts",
    "parse_patch",
]

TENSORS = ("keys", "values", "scaling_mean", "scaling_std")
REGRESSION_TENSORS = ("target_mean", "target_std")
_SplitMetrics = dict[str, dict[str, Annotated[float, Field(allow_inf_nan=False)]]]
FACTS = ("config", "image_shape", "class_names", "provenance", "patches")


def _with_unknown_data(content: Any) -> Any:
    """Return the content of a run, whose data may be unknown: in no other place this is the name of a data set."""
    dataset = content.get("dataset") if isinstance(content, dict) else None
    if not isinstance(dataset, dict) or dataset.get("name") != "unknown":
        return content
    return {**content, "dataset": validated(UnknownConfig, dataset)}


class ModelFacts(BaseModel):
    """The content of a model file without its tensors; files of version 0.1.0 have no metrics."""

    model_config = ConfigDict(frozen=True, strict=True)

    config: Annotated[RunConfig, BeforeValidator(_with_unknown_data)]
    image_shape: Annotated[list[Count], Field(min_length=2, max_length=2)] | None
    class_names: list[str]
    provenance: dict[str, Any]
    patches: list[dict[str, Any]]
    metrics: _SplitMetrics = {}
    patched_metrics: _SplitMetrics = {}


class ReplacedEta(BaseModel):
    """The η, the amount and the value of an earlier patch before it was solved again for a new one."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", allow_inf_nan=False)

    number: Annotated[int, Field(ge=1)]
    eta: float
    amount: float
    value: list[float]


class PatchRecord(BaseModel):
    """What a model file records of a patch; version 0.1.0 had other names for the criterion and the amount requested.

    Attributes:
        x: The input as the user gave it.
        label: The target class.
        eta: η of the value.
        criterion: Kind of the criterion.
        amount_requested: Its amount.
        amount: The amount that η was computed for.
        label_before: The model's answer before the patch.
        keep_logits: Whether the value is z(q) + η e_c; recorded only if it is.
        replaced: What earlier patches had before they were solved again for this one; recorded only if any were.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", allow_inf_nan=False)

    x: str | list[float]
    label: Annotated[int, Field(ge=0)]
    eta: float
    criterion: Literal["margin", "logit_margin", "confidence"] = Field(
        validation_alias=AliasChoices("criterion", "demand")
    )
    amount_requested: float = Field(validation_alias=AliasChoices("amount_requested", "amount_asked"))
    amount: float
    label_before: int
    keep_logits: bool = False
    replaced: list[ReplacedEta] = []


def parse_patch(number: int, content: dict[str, Any]) -> PatchRecord:
    """Return the record of the patch `number`, from 1.

    Raises:
        ModelFileError: a field is missing or of a wrong type.
    """
    try:
        return PatchRecord.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        raise ModelFileError(f"damaged record of patch {number}: {first['loc'][0]}: {first['msg']}") from None


def parse_facts(content: dict[str, Any]) -> ModelFacts:
    """Return the facts of a model file.

    Raises:
        ValueError: one is missing or of a wrong type.
    """
    try:
        facts = ModelFacts.model_validate({name: content[name] for name in ModelFacts.model_fields if name in content})
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
    # An expanded tensor has any size, with few numbers in its file.
    if tensor.layout != torch.strided or tensor.device.type != "cpu" or not tensor.is_contiguous():
        raise ValueError(f"{name} is not a plain tensor")
    if tensor.dtype != dtype:
        raise ValueError(f"{name} is not {str(dtype).removeprefix('torch.')}")
    if not tensor.isfinite().all():
        raise ValueError(f"{name} is not finite")

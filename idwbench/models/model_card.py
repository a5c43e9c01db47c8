"""The card of a model: the data, protocol and accuracies of its training, and its patches, as plain JSON."""

import json
import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import torch
from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from torch import Tensor

from idwbench.attention.records import Method
from idwbench.attention.scores import METHODS
from idwbench.data.dataset import Dataset
from idwbench.errors import ModelFileError
from idwbench.models.saved_model import SavedModel, SplitMetrics, metrics_of_task
from idwbench.results.records import StoredRun
from idwbench.runs.config import RunConfig
from idwbench.runs.datasets import UnknownConfig
from idwbench.runs.kinds.network import NetworkConfig
from idwbench.runs.kinds.prototypes import PrototypesConfig
from idwbench.runs.settings import Count, validated

__all__ = [
    "CARD_NAME",
    "FACTS",
    "REGRESSION_TENSORS",
    "TENSORS",
    "ModelFacts",
    "PatchRecord",
    "ReplacedEta",
    "card_text",
    "check_parameters",
    "check_tensors",
    "network_card",
    "parse_facts",
    "parse_patch",
    "saved_model_card",
]

CARD_NAME = "model.json"
_VERSION = 1
TENSORS = ("keys", "values", "scaling_mean", "scaling_std")
REGRESSION_TENSORS = ("target_mean", "target_std")
_SplitMetrics = dict[str, dict[str, Annotated[float, Field(allow_inf_nan=False)]]]
FACTS = ("config", "image_shape", "class_names", "provenance", "patches")


def saved_model_card(model: SavedModel) -> dict[str, Any]:
    """Return the card of a model as values for JSON, without a time stamp.

    ``metrics`` are those of the model without its patches, by split; ``metrics_with_patches`` those with all of them,
    or None if there are none or they were not measured. ``protocol``, ``seed`` and ``run_key`` are None for prototypes
    that were made elsewhere, and ``dataset`` if no data set was named.
    """
    network = model.network
    return {
        "card": _VERSION,
        "model": model.config.model.label,
        "kind": model.config.model.kind,
        "method": network.method.name,
        "formula": network.method.formula,
        "parameters": dict(network.parameters_of_method),
        "prototypes": len(network.keys),
        **_sizes(model.n_features, model.n_outputs, model.image_shape, model.class_names),
        **_training(model.config, model.provenance, model.metrics),
        "metrics_with_patches": _plain(model.patched_metrics) or None,
        "patches": [dict(patch) for patch in model.patches],
    }


def network_card(run: StoredRun, dataset: Dataset) -> dict[str, Any]:
    """Return the card of a stored run of kind ``network``; the formula is that of the head's method."""
    model = run.config.model
    assert isinstance(model, NetworkConfig)
    versions = dict(sorted((run.versions or {}).items()))
    facts = {"run_key": run.run_key, "engine": run.engine, "device": run.device, "data_sha256": run.data_sha256}
    return {
        "card": _VERSION,
        "model": model.label,
        "kind": model.kind,
        "method": model.method,
        "formula": METHODS[model.head].formula if model.prototypes else "",
        "parameters": dict(model.parameters),
        "prototypes": model.prototypes,
        **_sizes(dataset.n_features, dataset.n_outputs, dataset.image_shape, dataset.class_names),
        **_training(run.config, {**facts, "versions": versions}, metrics_of_task(run.metrics, dataset.task)),
        "metrics_with_patches": None,
        "patches": [],
    }


def card_text(card: dict[str, Any]) -> str:
    """Return a card as JSON in ASCII, of which no character needs an escape in a terminal."""
    return json.dumps(card, indent=2, allow_nan=False).replace("\x7f", "\\u007f")


def _sizes(
    n_features: int, n_outputs: int, image_shape: tuple[int, int] | None, class_names: tuple[str, ...]
) -> dict[str, Any]:
    return {
        "task": "classification" if class_names else "regression",
        "features": n_features,
        "outputs": n_outputs,
        "image_shape": list(image_shape) if image_shape else None,
        "classes": list(class_names),
    }


def _training(config: RunConfig, provenance: Mapping[str, Any], metrics: SplitMetrics) -> dict[str, Any]:
    """Return data, protocol, metrics and provenance; the protocol is None without a run."""
    is_trained = "run_key" in provenance
    return {
        "dataset": _dataset(config, provenance),
        "protocol": config.protocol.model_dump(mode="json") if is_trained else None,
        "seed": config.seed if is_trained else None,
        "metrics": _plain(metrics),
        "run_key": provenance.get("run_key"),
        "provenance": {name: part for name, part in provenance.items() if name not in ("run_key", "data_sha256")},
    }


def _dataset(config: RunConfig, provenance: Mapping[str, Any]) -> dict[str, Any] | None:
    if isinstance(config.dataset, UnknownConfig):
        return None
    settings = config.dataset.model_dump(mode="json")
    return {"label": config.dataset_label, "sha256": provenance.get("data_sha256"), "settings": settings}


def _plain(metrics: SplitMetrics) -> dict[str, dict[str, float]]:
    return {split: dict(values) for split, values in metrics.items()}


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
    method.resolve(model.parameters)
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

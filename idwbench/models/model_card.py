"""The card of a model: the data, protocol and accuracies of its training, and its patches, as plain JSON.

The card in a model file has the whole configuration too, so that the model is read from the card and its tensors.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Self

import numpy as np
from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    ValidationError,
    model_validator,
)

from idwbench.attention.scores import METHODS
from idwbench.data.columns import Columns
from idwbench.data.dataset import Dataset
from idwbench.models.demands import Demand
from idwbench.models.saved_model import SavedModel, SplitMetrics, task_metrics
from idwbench.results.records import StoredRun
from idwbench.runs.config import RunConfig
from idwbench.runs.datasets import UnknownConfig
from idwbench.runs.kinds.network import NetworkConfig
from idwbench.runs.settings import Count

__all__ = [
    "CARD_NAME",
    "ModelFacts",
    "card_text",
    "network_card",
    "parse_facts",
    "patch_table",
    "public_card",
    "readable_card",
    "saved_model_card",
]

CARD_NAME = "model.json"
_VERSION = 1
_LONGEST_INPUT = 30
# Fields of the record of a patch by their headers.
_RADII = {"radius": "radius", "certified": "certified_radius", "reach": "reach"}
_SplitMetrics = dict[str, dict[str, Annotated[float, Field(allow_inf_nan=False)]]]


def saved_model_card(model: SavedModel) -> dict[str, Any]:
    """Return the card of a model as values for JSON, without a time stamp.

    ``metrics`` are those of the model without its patches, by split; ``metrics_with_patches`` those with all of them,
    or None if there are none or they were not measured. ``protocol``, ``seed`` and ``run_key`` are None for prototypes
    that were made elsewhere, and ``dataset`` if no data set was named. Only the model of a table has ``columns``.
    """
    network = model.network
    card = _card(model.config, model, model.provenance, model.metrics, network.method.formula, len(model.keys))
    rank = model.config.network.slope_rank if network.slopes else 0
    return (
        card
        | ({"slope_rank": rank} if rank else {})
        | {
            "metrics_with_patches": dict(model.patched_metrics) or None,
            "patches": [_patch(model, record) for record in model.repairs.records],
        }
    )


def _patch(model: SavedModel, record: Demand) -> dict[str, Any]:
    """Return the record of a patch, of a regression with what is ``wanted`` in the targets' own units."""
    facts = record.model_dump(exclude_none=True)
    if record.target is not None:
        facts["wanted"] = model.target_scaling.invert(np.array(record.target)).tolist()
    return facts


def readable_card(card: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a card has as lines for readers, by name; what is not known is None or empty."""
    dataset = card["dataset"] or {}
    image = "x".join(map(str, card["image_shape"] or ()))
    return {
        "model": card["model"],
        "score": card["formula"],
        "prototypes": card["prototypes"],
        **({"rank of slopes": card["slope_rank"]} if "slope_rank" in card else {}),
        "features": f"{card['features']}{f' ({image} pixels)' if image else ''}",
        "columns": ", ".join(map(_column, card.get("columns", ()))),
        "classes" if card["classes"] else "outputs": ", ".join(card["classes"]) or card["outputs"],
        "dataset": dataset.get("label"),
        "sha256 of the data": dataset.get("sha256"),
        "protocol": _pairs(card["protocol"]),
        "seed": card["seed"],
        **{f"{split} metrics": _pairs(values) for split, values in card["metrics"].items()},
        "patches": len(card["patches"]),
        **{
            f"patch {number}": _patch_line(patch, card["classes"])
            for number, patch in enumerate(card["patches"], start=1)
        },
        **{f"{split}, patched": _pairs(values) for split, values in (card["metrics_with_patches"] or {}).items()},
        "run key": card["run_key"],
        **{name: text for name, text in card["provenance"].items() if name != "versions"},
        "versions": _pairs(card["provenance"].get("versions")),
    }


def _column(column: dict[str, Any]) -> str:
    """Return ``island (Biscoe, Dream, Torgersen)`` of a column of categories, and the name of one of numbers."""
    categories = column.get("categories")
    return f"{column['name']} ({', '.join(categories)})" if categories else column["name"]


def _patch_line(record: dict[str, Any], classes: list[str]) -> str:
    """Return ``0.0,1.0 -> lower, radius 0.1, certified 0.08, reach 0.2`` of the record of a patch."""
    solved = [f"{header} {record[name]:.4g}" for header, name in _RADII.items() if name in record]
    return ", ".join([f"{_input(record)} -> {_wanted(record, classes)}", *solved])


def patch_table(card: Mapping[str, Any], held: Sequence[bool]) -> dict[str, list[str]]:
    """Return the columns of a table of the patches on a card, and whether each still holds, as texts by header."""
    facts, classes = card["patches"], card["classes"]
    before = [f"{classes[one['label_before']]} -> " if "label_before" in one else "" for one in facts]
    return {
        "patch": [str(number) for number in range(1, len(facts) + 1)],
        "x": list(map(_input, facts)),
        "wanted": [f"{start}{_wanted(one, classes)}" for start, one in zip(before, facts, strict=True)],
        "kind": [one["kind"] for one in facts],
        **{header: [f"{one[name]:.4g}" if name in one else "" for one in facts] for header, name in _RADII.items()},
        **({"holds": ["yes" if holds else "no" for holds in held]} if held else {}),
    }


def _input(record: dict[str, Any]) -> str:
    x = record.get("x", "")
    text = x if isinstance(x, str) else _numbers(x)
    return text if len(text) <= _LONGEST_INPUT else f"{text[: _LONGEST_INPUT - 3]}..."


def _wanted(record: dict[str, Any], classes: list[str]) -> str:
    return classes[record["label"]] if classes else _numbers(record["wanted"])


def _numbers(numbers: list[float]) -> str:
    return ",".join(f"{number:g}" for number in numbers)


def _pairs(facts: dict[str, Any] | None) -> str:
    shown = {name: f"{fact:.6g}" if isinstance(fact, float) else fact for name, fact in (facts or {}).items()}
    return ", ".join(f"{name} {fact}" for name, fact in shown.items())


def network_card(run: StoredRun, dataset: Dataset) -> dict[str, Any]:
    """Return the card of a stored run of kind ``network``; the formula is that of the head's method."""
    model = run.config.model
    assert isinstance(model, NetworkConfig)
    provenance = {
        "run_key": run.run_key,
        "engine": run.engine,
        "device": run.device,
        "data_sha256": run.data_sha256,
        "versions": dict(sorted((run.versions or {}).items())),
    }
    formula = METHODS[model.head].formula if model.prototypes else ""
    metrics = task_metrics(run.metrics, dataset.task)
    return _card(run.config, dataset, provenance, metrics, formula, model.prototypes)


def card_text(card: dict[str, Any]) -> str:
    """Return a card as JSON in ASCII, of which no character needs an escape in a terminal."""
    return json.dumps(card, indent=2, allow_nan=False).replace("\x7f", "\\u007f")


def _card(
    config: RunConfig,
    sizes: SavedModel | Dataset,
    provenance: Mapping[str, Any],
    metrics: SplitMetrics,
    formula: str,
    prototypes: int,
) -> dict[str, Any]:
    """Return the card of a model without patches; protocol and seed are None without a run."""
    is_trained, dataset = "run_key" in provenance, None
    if not isinstance(config.dataset, UnknownConfig):
        settings = config.dataset.model_dump(mode="json")
        dataset = {"label": config.dataset_label, "sha256": provenance.get("data_sha256"), "settings": settings}
    return {
        "card": _VERSION,
        "model": config.model.label,
        "kind": config.model.kind,
        "method": config.model.method,
        "formula": formula,
        "parameters": dict(config.model.parameters),
        "prototypes": prototypes,
        "task": "classification" if sizes.class_names else "regression",
        "features": sizes.n_features,
        "outputs": sizes.n_outputs,
        "image_shape": list(sizes.image_shape) if sizes.image_shape else None,
        **({} if sizes.columns is None else {"columns": sizes.columns.plain()}),
        "classes": list(sizes.class_names),
        "dataset": dataset,
        "protocol": config.protocol.model_dump(mode="json") if is_trained else None,
        "seed": config.seed if is_trained else None,
        "metrics": dict(metrics),
        "run_key": provenance.get("run_key"),
        "provenance": _without(provenance, "run_key", "data_sha256"),
        "metrics_with_patches": None,
        "patches": [],
    }


def public_card(card: Mapping[str, Any]) -> dict[str, Any]:
    """Return the card of a model without what the card in its file has for reading it."""
    shown = _without(card, "format", "version", "config")
    return {**shown, "provenance": _without(card["provenance"], "run_key", "data_sha256")}


def _without(facts: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: fact for name, fact in facts.items() if name not in names}


def _columns(content: Any) -> Columns | None:
    return None if content is None else Columns.parse(content)


class ModelFacts(BaseModel):
    """What a model file says of its model beside the tensors, by the names in the card or in files before version 3.

    Those of idwbench 0.1.0 have no metrics.
    """

    model_config = ConfigDict(frozen=True, strict=True, arbitrary_types_allowed=True)

    config: RunConfig
    image_shape: Annotated[tuple[Count, ...], Strict(False), Field(min_length=2, max_length=2)] | None
    class_names: Annotated[tuple[str, ...], Strict(False)] = Field(
        validation_alias=AliasChoices("class_names", "classes")
    )
    provenance: dict[str, Any]
    patches: Annotated[tuple[dict[str, Any], ...], Strict(False)]
    metrics: _SplitMetrics = {}
    patched_metrics: Annotated[_SplitMetrics, BeforeValidator(lambda metrics: metrics or {})] = Field(
        default={}, validation_alias=AliasChoices("patched_metrics", "metrics_with_patches")
    )
    columns: Annotated[Columns | None, BeforeValidator(_columns)] = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.config.dataset.task == "classification") != bool(self.class_names):
            raise ValueError("class_names do not fit the task of the data set")
        # A .pt file of version 1 or 2 holds more than JSON can.
        try:
            json.dumps([self.provenance, self.patches], allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            raise ValueError("expected plain texts, numbers, lists and mappings") from None
        return self


def parse_facts(card: dict[str, Any]) -> ModelFacts:
    """Return the facts of a model file.

    Raises:
        ValueError: one is missing or of a wrong type.
    """
    try:
        return ModelFacts.model_validate(card)
    except ValidationError as error:
        first = error.errors()[0]
        if first["type"] == "missing":
            raise ValueError(f"'{first['loc'][0]}' is missing") from None
        raise ValueError(": ".join([".".join(map(str, first["loc"])), first["msg"]]).removeprefix(": ")) from None

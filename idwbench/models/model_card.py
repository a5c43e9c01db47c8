"""The card of a model: the data, protocol and accuracies of its training, and its patches, as plain JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from idwbench.attention.methods import METHODS
from idwbench.data.dataset import Dataset
from idwbench.models.saved import SavedModel, SplitMetrics
from idwbench.results.records import StoredRun
from idwbench.runs.config import RunConfig
from idwbench.runs.datasets import UnknownConfig
from idwbench.runs.kinds.network import NetworkConfig
from idwbench.runs.metrics import METRICS, SPLITS, Metrics

__all__ = ["CARD_NAME", "card_text", "metrics_of_task", "network_card", "saved_model_card"]

CARD_NAME = "model.json"
_VERSION = 1


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


def metrics_of_task(metrics: Metrics, task: str) -> SplitMetrics:
    """Return the finite metrics of a task by split, in the order of tables: others may be added to a run later."""
    names = [name for name, metric in METRICS.items() if metric.task == task]
    found = {
        split: {name: metrics[split, name] for name in names if math.isfinite(metrics.get((split, name), math.nan))}
        for split in SPLITS
    }
    return {split: values for split, values in found.items() if values}


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

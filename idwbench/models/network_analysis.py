"""What the prototypes of a network's head look like in feature space, and what patches of them change."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from idwbench.data.dataset import Dataset
from idwbench.models.neighbours import mutual_nearest
from idwbench.models.network import Network, feature_dataset
from idwbench.models.patch_study import study_patches
from idwbench.models.prototypes import PrototypeNetwork
from idwbench.models.quality import PrototypeQuality
from idwbench.runs.kinds.network import NetworkConfig
from idwbench.runs.kinds.patch_study import PatchStudyConfig

__all__ = ["head_metrics", "nearest_rows"]

Values = dict[tuple[str, str], float]


def head_metrics(model: NetworkConfig, network: Network, dataset: Dataset) -> Values:
    """Return metrics of a head of prototypes by split and name; none of a linear head.

    These are the quality of the prototypes (`idwbench.models.quality`), and for an ``idw`` head with patches those of a
    study of patches of wrong test inputs (`idwbench.models.patch_study`). In both the features of the encoder stand for
    the inputs, so that distances are distances of features.
    """
    if not isinstance(network.head, PrototypeNetwork):
        return {}
    features = feature_dataset(network, dataset)
    keys, values = _prototypes(network.head)
    metrics = dict(PrototypeQuality(features).metrics(keys, values))
    if model.is_patched and dataset.task == "classification":
        metrics |= study_patches(_patch_study(model), keys, values, features)[0]
    return metrics


def nearest_rows(network: Network, dataset: Dataset) -> NDArray[np.int64]:
    """Return for each key (prototypes,) the training row whose features are nearest to it."""
    assert isinstance(network.head, PrototypeNetwork)
    features = network.features(dataset.train.inputs)
    return mutual_nearest(features, _prototypes(network.head)[0])[1][0]


def _prototypes(head: PrototypeNetwork) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    keys, values = (part.detach().cpu().numpy() for part in (head.keys, head.values))
    return keys, values


def _patch_study(model: NetworkConfig) -> PatchStudyConfig:
    return PatchStudyConfig(
        method=model.head,
        parameters=model.head_parameters,
        prototypes=model.prototypes,
        cases="wrong",
        n_cases=model.patches,
    )

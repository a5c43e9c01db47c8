"""`PatchedNetwork`: a network whose head of prototypes has patches in the space of its features.

The head is a model of prototypes whose inputs are the features of the encoder, and a patch of it is a patch as of any
other model, with the features of an input as its key: radii and certificates are distances of features. The encoder
stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

import idwbench
from idwbench.data.dataset import Dataset, Scaling
from idwbench.errors import PatchError
from idwbench.models.array_weights import ArrayNetwork
from idwbench.models.demands import Repairs
from idwbench.models.imported import import_prototypes
from idwbench.models.inputs import scaled_input
from idwbench.models.modules import PrototypeNetwork
from idwbench.models.networks import Network
from idwbench.models.repair import Repair, SplitEffect, own_rows
from idwbench.models.saved_model import Patchable, SavedModel

__all__ = ["PatchedNetwork"]


@dataclass(frozen=True)
class PatchedNetwork(Patchable):
    """A network with a head of prototypes, and its patches.

    Inputs are scaled, as those of the network.

    Attributes:
        network: The network without patches.
        head: The head as a model of features, with the patches; it is saved, explained and exported like any other.
        dataset: The data that the network was trained on.
        features: The same with features as inputs.
    """

    network: Network
    head: SavedModel
    dataset: Dataset
    features: Dataset

    def _repr_html_(self) -> str:
        return idwbench.html(self)

    @classmethod
    def of(cls, network: Network, dataset: Dataset, head: SavedModel | None = None) -> PatchedNetwork:
        """Return a network without patches, or with those of its head as a model of features that was saved.

        Args:
            network: The network.
            dataset: The data that it was trained on.
            head: The head.

        Raises:
            PatchError: its head is linear, or its score has learned numbers that are no parameters of the method; or
                the data or the head given does not fit.
        """
        if not isinstance(network.head, PrototypeNetwork):
            raise PatchError("a network with a linear head cannot be patched", hint="a head of prototypes can")
        own = ArrayNetwork.of(network.head.plain(PatchError))
        if own.method.learned or own.method.weighting != "softmax":
            what = "learns arrays of its own" if own.method.learned else "has weights that are not a softmax"
            raise PatchError(f"a network with a head of '{own.method.title}' cannot be patched", hint=f"it {what}")
        if dataset.n_outputs != own.values.shape[1]:
            problem = f"expected {own.values.shape[1]} outputs, those of the network, got {dataset.n_outputs}"
            raise PatchError(problem, location=("dataset",))
        if head is None:
            given: dict[str, Any] = {"class_names": dataset.class_names or None, **own.parameters}
            head = import_prototypes(own.keys, own.values, method=own.method.name, **given)
            head = replace(head, target_scaling=dataset.target_scaling)
        parts = [(one.method, one.parameters, one.keys.tolist(), one.values.tolist()) for one in (head.base, own)]
        if parts[0] != parts[1] or head.base.slopes:
            raise PatchError("it is the head of another network", location=("head",))
        splits: dict[str, Any] = {
            name: replace(one, inputs=network.features(one.inputs)) for name, one in dataset.splits.items()
        }
        features = replace(dataset, **splits, scaling=Scaling.identity(), image_shape=None)
        return cls(network, head, dataset, features)

    @property
    def repairs(self) -> Repairs:
        """The patches, oldest first; their inputs are features."""
        return self.head.repairs

    def outputs(self, inputs: NDArray[np.float32]) -> NDArray[np.floating[Any]]:
        """Return the outputs (n, outputs) of inputs (n, features of the data); with patches in float64."""
        if not len(self.head.patch_prototypes):
            return self.network.outputs(inputs)
        return self.head.outputs(self.network.features(inputs))

    def predict(self, inputs: NDArray[np.float32]) -> NDArray[np.int64]:
        """Return the labels (n,) of inputs (n, features of the data): the class with the largest logit."""
        return np.asarray(self.outputs(inputs).argmax(1), np.int64)

    def patch_all(
        self, inputs: ArrayLike | Sequence[ArrayLike], labels: Sequence[int | str] | None = None, **options: Any
    ) -> PatchedNetwork:
        """Return a network that predicts `labels` (n,) for scaled `inputs` (n, features of the data).

        Options, ``targets`` and errors are those of `SavedModel.patch_all`; a radius is a distance of features.
        """
        scaled = replace(self.dataset, scaling=Scaling.identity())
        rows = self.network.features(np.stack([scaled_input(x, scaled) for x in np.asarray(inputs)]))
        return replace(self, head=self.head.patch_all(list(rows), labels, dataset=self.features, **options))

    def undo_patch(self, number: int) -> PatchedNetwork:
        """Return the network without the patch `number`, see `SavedModel.undo_patch`."""
        return replace(self, head=self.head.undo_patch(number, dataset=self.features))

    def effects(self) -> dict[str, SplitEffect]:
        """Return what the patches change in the predictions for the training and test data."""
        plain = replace(self.head, repairs=Repairs())
        return Repair(plain, self.head, splits=own_rows(plain, self.features)).effects

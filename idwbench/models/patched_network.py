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
from idwbench.models.effects import SplitEffect
from idwbench.models.imported import import_prototypes
from idwbench.models.inputs import scaled_input
from idwbench.models.modules import PrototypeNetwork, parameter_arrays
from idwbench.models.networks import Network
from idwbench.models.patch_records import Repairs
from idwbench.models.repair import Repair, own_rows
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
        """Return a network without patches, or with those of a head that was saved.

        Args:
            network: The network.
            dataset: The data that it was trained on.
            head: Its head as a model of features.

        Raises:
            PatchError: its head is linear, or its score has learned numbers that are no parameters of the method; or
                the data or the head given does not fit.
        """
        if not isinstance(network.head, PrototypeNetwork):
            raise PatchError("a network with a linear head cannot be patched", hint="a head of prototypes can")
        plain = network.head.plain(PatchError)
        method, parameters = plain.method, dict[str, Any](plain.parameters_of_method)
        if method.learned or method.weighting != "softmax":
            what = "learns arrays of its own" if method.learned else "has weights that are not a softmax"
            raise PatchError(f"a network with a head of '{method.title}' cannot be patched", hint=f"it {what}")
        arrays = parameter_arrays(plain)
        if dataset.n_outputs != arrays["values"].shape[1]:
            problem = f"expected {arrays['values'].shape[1]} outputs, those of the network, got {dataset.n_outputs}"
            raise PatchError(problem, location=("dataset",))
        if head is None:
            names = dataset.class_names or None
            pair = arrays["keys"], arrays["values"]
            head = import_prototypes(*pair, class_names=names, method=method.name, **parameters)
            head = replace(head, target_scaling=dataset.target_scaling)
        is_own = (head.network.method, head.network.parameters_of_method) == (method, parameters)
        if not is_own or not all(
            np.array_equal(part, arrays[name]) for name, part in parameter_arrays(head.network).items()
        ):
            raise PatchError("it is the head of another network", location=("head",))
        encoded: dict[str, Any] = {
            name: replace(split, inputs=network.features(split.inputs)) for name, split in dataset.splits.items()
        }
        features = replace(dataset, **encoded, scaling=Scaling.identity(), image_shape=None)
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
        self,
        inputs: ArrayLike | Sequence[ArrayLike],
        labels: Sequence[int | str] | None = None,
        *,
        targets: Sequence[ArrayLike] | None = None,
        **options: Any,
    ) -> PatchedNetwork:
        """Return a network that predicts `labels` (n,), or `targets` (n, outputs), for `inputs`.

        Args:
            inputs: Scaled inputs (n, features of the data).
            labels: Names or numbers of classes, of a classifier.
            targets: Wanted outputs of a regression, in their own units.
            options: Those of `SavedModel.patch_all`, such as ``radius``; a radius is a distance of features.

        Raises:
            PatchConflictError: they cannot hold together with each other and earlier patches.
            PatchError: an invalid input, class or option, or a demand that this network cannot meet.
        """
        scaled = replace(self.dataset, scaling=Scaling.identity())
        rows = self.network.features(np.stack([scaled_input(x, scaled) for x in np.asarray(inputs)]))
        head = self.head.patch_all(list(rows), labels, targets=targets, dataset=self.features, **options)
        return replace(self, head=head)

    def undo_patch(self, number: int) -> PatchedNetwork:
        """Return the network without the patch `number`, from 1 and oldest first; the others are solved again.

        Raises:
            PatchError: there is no such patch.
        """
        return replace(self, head=self.head.undo_patch(number, dataset=self.features))

    def effects(self) -> dict[str, SplitEffect]:
        """Return what the patches change in the predictions for the training and test data."""
        plain = replace(self.head, repairs=Repairs())
        return Repair(plain, self.head, splits=own_rows(plain, self.features)).effects

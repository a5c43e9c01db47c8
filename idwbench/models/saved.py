"""`SavedModel`: a network with scaling, class names and provenance; predicts, explains and patches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from idwbench.data.dataset import Scaling
from idwbench.errors import PatchError
from idwbench.models.criteria import Criterion
from idwbench.models.inputs import find_label, scaled_input
from idwbench.models.prototypes import PrototypeNetwork
from idwbench.runs.config import RunConfig

if TYPE_CHECKING:
    from idwbench.models.patch_records import RecordedPatch

__all__ = ["Explanation", "SavedModel"]

SplitMetrics = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Explanation:
    """The terms of an answer Σ_j weights_j · values_j, in order of decreasing weight.

    Attributes:
        outputs: (outputs,), logits, or predictions of a regression in the targets' own units.
        prototypes: (prototypes,), positions in the model.
        weights: (prototypes,); the sum of softmax weights is 1.
        keys: (prototypes, features), in the data's own units.
        values: (prototypes, outputs).
    """

    outputs: NDArray[np.float64]
    prototypes: NDArray[np.int64]
    weights: NDArray[np.float32]
    keys: NDArray[np.float64]
    values: NDArray[np.float32]


@dataclass(frozen=True)
class SavedModel:
    """A trained prototype network with scaling and provenance.

    Attributes:
        network: Keys and values, in scaled units.
        config: The run that trained it.
        scaling: Scaling of the inputs.
        image_shape: (height, width) if an input is an image, or None.
        class_names: One name for each class; empty for a regression.
        target_scaling: Scaling of the targets of a regression.
        provenance: Run key, engine, device, checksum of the data, versions.
        patches: Input, label, η and criterion of each patch, oldest first.
        metrics: By split and name, without the patches; empty if they are not known.
        patched_metrics: The same with all patches; empty if there are none or they were not measured.
    """

    network: PrototypeNetwork
    config: RunConfig
    scaling: Scaling
    image_shape: tuple[int, int] | None
    class_names: tuple[str, ...]
    target_scaling: Scaling = field(default_factory=Scaling.identity)
    provenance: dict[str, Any] = field(default_factory=dict)
    patches: tuple[dict[str, Any], ...] = ()
    metrics: SplitMetrics = field(default_factory=dict)
    patched_metrics: SplitMetrics = field(default_factory=dict)

    @property
    def n_features(self) -> int:
        """Columns of the keys."""
        return self.network.keys.shape[1]

    @property
    def n_outputs(self) -> int:
        """Columns of the values."""
        return self.network.values.shape[1]

    def scale(self, x: ArrayLike) -> NDArray[np.float32]:
        """Return one input (in the data's own units, of any shape) scaled and flattened, (features,).

        Raises:
            PatchError: wrong size, or a value that is not finite or too large for float32.
        """
        return scaled_input(x, self.scaling, self.n_features)

    def predict(self, inputs: ArrayLike) -> NDArray[Any]:
        """Return class names (n,) or predictions (n, outputs) for `inputs` (n, features), in the data's own units."""
        rows = np.stack([self.scale(row) for row in np.asarray(inputs)])
        if self.class_names:
            return np.array(self.class_names)[self.network.predict(rows)]
        return self.target_scaling.invert(self.network.outputs(rows))

    def explain(self, x: ArrayLike) -> Explanation:
        """Return the weight of each prototype in the answer to one input, in the data's own units."""
        query = torch.from_numpy(self.scale(x))[None]
        with torch.no_grad():
            weights = self.network.weights(query)[0].numpy()
            outputs = self.network(query)[0].numpy()
        order = np.argsort(-weights, kind="stable")
        keys, values = (tensor.detach().numpy() for tensor in (self.network.keys, self.network.values))
        return Explanation(
            outputs=self.target_scaling.invert(outputs),
            prototypes=order.astype(np.int64),
            weights=weights[order],
            keys=self.scaling.invert(keys[order]),
            values=values[order],
        )

    def patch(
        self,
        x: ArrayLike,
        label: int | str,
        criterion: Criterion | None = None,
        *,
        keep_logits: bool = False,
        **amount: float,
    ) -> SavedModel:
        """Return a model with one more prototype that predicts `label` for the input `x`, in the data's own units.

        A text as `label` is read by `idwbench.models.inputs.find_label`. The criterion may be given as `margin`,
        `logit_margin` or `confidence`, see `Criterion`. With `keep_logits` the new value is z(q) + η e_c. Returns the
        same model if it already meets the criterion. If the patch would break earlier ones, all are solved again
        together.

        Raises:
            PatchConflictError: the patch and earlier ones cannot hold together.
            PatchError: not an `idw` classifier, an invalid input or class, or a criterion that float32 cannot meet.
        """
        from idwbench.models.patch_changes import PatchInput, add_patches

        given = PatchInput(np.asarray(x).reshape(-1).tolist(), self.scale(x), self._label(label))
        return add_patches(self, [given], criterion or Criterion.of(**amount), keep_logits=keep_logits).model

    def patch_all(
        self,
        inputs: ArrayLike,
        labels: Sequence[int | str],
        criterion: Criterion | None = None,
        *,
        keep_logits: bool = False,
        **amount: float,
    ) -> SavedModel:
        """Return a model that predicts `labels` (n,) for the `inputs` (n, features), in the data's own units.

        The patches are solved together and all hold, with those that the model has already; arguments as for `patch`.

        Raises:
            PatchConflictError: they cannot hold together.
            PatchError: as `patch`; `location` has the row.
        """
        from idwbench.models.patch_changes import PatchInput, add_patches

        rows = list(np.asarray(inputs))
        if len(rows) != len(labels):
            raise PatchError(f"expected {len(rows)}, one for each input, got {len(labels)}", location=("labels",))
        given = []
        for row, (x, label) in enumerate(zip(rows, labels, strict=True)):
            try:
                given.append(PatchInput(x.reshape(-1).tolist(), self.scale(x), self._label(label), f"input {row}"))
            except PatchError as error:
                raise error.at(row) from None
        return add_patches(self, given, criterion or Criterion.of(**amount), keep_logits=keep_logits).model

    def recorded_patches(self) -> tuple[RecordedPatch, ...]:
        """Return the patches, oldest first, and whether each still holds.

        Raises:
            ModelFileError: the records do not fit the prototypes.
        """
        from idwbench.models.patch_records import recorded_patches

        return recorded_patches(self)

    def undo_patch(self, number: int) -> SavedModel:
        """Return the model without the patch `number`, from 1 and oldest first; see `without_patch`.

        Raises:
            PatchError: there is no such patch.
            ModelFileError: the records do not fit the prototypes.
        """
        from idwbench.models.patch_changes import without_patch

        return without_patch(self, number).model

    def _label(self, label: int | str) -> int:
        return find_label(label, self.class_names) if isinstance(label, str) else label

    def save(self, path: str | PathLike[str], *, overwrite: bool = False) -> None:
        """Write the model to a ``.pt`` or ``.safetensors`` file, see `idwbench.models.checkpoints.save_model`."""
        from idwbench.models.checkpoints import save_model

        save_model(self, Path(path), overwrite=overwrite)

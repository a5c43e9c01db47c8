"""`SavedModel`: a network with scaling, class names and provenance; predicts, explains and patches.

It is made from a stored run; `idwbench.models.model_file` reads and writes it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from idwbench.attention.scores import get_method
from idwbench.data.dataset import Scaling
from idwbench.data.loading import load_dataset
from idwbench.errors import IdwbenchError, PatchError, TrainingError
from idwbench.files import MODEL_SUFFIXES
from idwbench.models.array_weights import AnswerTerms
from idwbench.models.criteria import Criterion
from idwbench.models.inputs import find_label, scaled_input
from idwbench.models.modules import PrototypeNetwork
from idwbench.runs.config import RunConfig
from idwbench.runs.metrics import METRICS, SPLITS, Metrics

if TYPE_CHECKING:
    from idwbench.models.patch_records import RecordedPatch
    from idwbench.results.records import StoredRun
    from idwbench.results.store import Results

__all__ = [
    "SavedModel",
    "find_stored_run",
    "stored_model",
    "task_metrics",
]

_KEY = re.compile(r"[0-9a-fA-F]{1,64}")

SplitMetrics = Mapping[str, Mapping[str, float]]


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
        return scaled_input(x, self)

    def predict(self, inputs: ArrayLike) -> NDArray[Any]:
        """Return class names (n,) or predictions (n, outputs) for `inputs` (n, features), in the data's own units."""
        raw = np.asarray(inputs)
        rows = np.empty((len(raw), self.n_features), np.float32)
        for place, row in enumerate(raw):
            rows[place] = self.scale(row)
        if self.class_names:
            return np.array(self.class_names)[self.network.predict(rows)]
        return self.target_scaling.invert(self.network.outputs(rows))

    def explain(self, x: ArrayLike) -> AnswerTerms:
        """Return the weight of each prototype in the answer to one input, in the data's own units."""
        query = torch.from_numpy(self.scale(x))[None]
        with torch.no_grad():
            weights = self.network.weights(query)[0].numpy()
            outputs = self.network(query)[0].numpy()
        order = np.argsort(-weights, kind="stable")
        keys, values = (tensor.detach().numpy() for tensor in (self.network.keys, self.network.values))
        outputs, names = self.target_scaling.invert(outputs), np.array(self.class_names)
        return AnswerTerms(
            prediction=names[outputs.argmax()] if self.class_names else outputs,
            outputs=outputs,
            prototypes=order.astype(np.int64),
            weights=weights[order],
            keys=self.scaling.invert(keys[order]),
            values=values[order],
            labels=names[values[order].argmax(1)] if self.class_names else None,
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
        """Write the model to a ``.pt`` or ``.safetensors`` file, see `idwbench.models.model_file.save_model`."""
        from idwbench.models.model_file import save_model

        save_model(self, Path(path), overwrite=overwrite)


def find_stored_run(
    model: str, results: Results | str | PathLike[str], failure: type[IdwbenchError]
) -> StoredRun | None:
    """Return the stored run of a key or its beginning, or None if `model` is the name of a model file.

    Raises:
        IdwbenchError: of class `failure`, if it is neither.
        ResultsError: no such run, or several.
    """
    if Path(model).suffix.lower() in MODEL_SUFFIXES:
        return None
    if not _KEY.fullmatch(model):
        problem = f"'{model}' is neither a model file ({', '.join(MODEL_SUFFIXES)}) nor the key of a stored run"
        raise failure(problem, location=("model",))
    from idwbench.results.store import results_to_read

    return results_to_read(results).find_run(model)


def stored_model(results: Results, run: StoredRun, data_dir: Path | None = None) -> SavedModel:
    """Return the model of a stored run, with its provenance and the metrics that its task has.

    Raises:
        TrainingError: the run is of a kind without a model, or is not complete.
        DatasetError: its data set, which has the scaling, cannot be loaded.
    """
    if run.config.model.kind != "prototypes":
        raise TrainingError(f"a run of kind {run.config.model.kind} has no model: it trains no prototype network")
    if run.state != "complete":
        epoch = f" in epoch {run.diverged_epoch}" if run.diverged_epoch else ""
        raise TrainingError(f"the run is {run.state}{epoch}: it has no model")
    from idwbench.results.provenance import package_versions  # which imports the database

    dataset, arrays = load_dataset(run.config.dataset, data_dir), results.load_arrays(run.run_key)
    method, parameters = get_method(run.config.model.method), run.config.model.parameters
    keys, values = (torch.from_numpy(np.asarray(arrays[name])) for name in ("keys", "values"))
    return SavedModel(
        network=PrototypeNetwork(method, parameters, keys, values),
        config=run.config,
        scaling=dataset.scaling,
        image_shape=dataset.image_shape,
        class_names=dataset.class_names,
        target_scaling=dataset.target_scaling,
        provenance={
            "run_key": run.run_key,
            "engine": run.engine or "",
            "device": run.device or "",
            "data_sha256": run.data_sha256 or dataset.sha256,
            "versions": dict(sorted((run.versions or package_versions()).items())),
        },
        metrics=task_metrics(run.metrics, dataset.task),
    )


def task_metrics(metrics: Metrics, task: str) -> SplitMetrics:
    """Return the finite metrics of a task by split, in the order of tables: others may be added to a run later."""
    names = [name for name, metric in METRICS.items() if metric.task == task]
    by_split = {
        split: {name: metrics[split, name] for name in names if math.isfinite(metrics.get((split, name), math.nan))}
        for split in SPLITS
    }
    return {split: values for split, values in by_split.items() if values}

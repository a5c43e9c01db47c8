"""`SavedModel`: a network with scaling, class names and provenance; predicts, explains and patches.

It is made from a stored run; `idwbench.models.model_file` reads and writes it.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

import idwbench
from idwbench.data.columns import Columns
from idwbench.data.dataset import Scaling
from idwbench.data.loading import load_dataset
from idwbench.errors import IdwbenchError, PatchError, TrainingError
from idwbench.files import MODEL_SUFFIXES
from idwbench.models.array_weights import AnswerTerms, ArrayNetwork
from idwbench.models.demands import Repairs
from idwbench.models.inputs import PatchLine, scaled_input
from idwbench.models.modules import PrototypeNetwork
from idwbench.models.patches import PatchPrototypes
from idwbench.plugins import plugin_file
from idwbench.runs.config import RunConfig
from idwbench.runs.metrics import METRICS, SPLITS, Metrics

if TYPE_CHECKING:
    from idwbench.results.records import StoredRun
    from idwbench.results.store import Results

__all__ = [
    "Patchable",
    "SavedModel",
    "find_stored_run",
    "stored_model",
    "task_metrics",
]

_KEY = re.compile(r"[0-9a-fA-F]{1,64}")

SplitMetrics = Mapping[str, Mapping[str, float]]


class Patchable(ABC):
    """A model that can be patched."""

    def patch(
        self, x: ArrayLike, label: int | str | None = None, *, target: ArrayLike | None = None, **options: Any
    ) -> Self:
        """Return a model that predicts `label`, or a `target`, for one input `x`.

        The same model if it meets the demand without patches. Units, options and errors are those of `patch_all`.
        """
        labels, targets = None if label is None else [label], None if target is None else [target]
        return self.patch_all([x], labels, targets=targets, **options)

    @abstractmethod
    def patch_all(
        self, inputs: ArrayLike | Sequence[ArrayLike], labels: Sequence[int | str] | None = None, **options: Any
    ) -> Self:
        """Return a model that predicts `labels` (n,), or ``targets`` (n, outputs), for `inputs` (n, features)."""


@dataclass(frozen=True)
class SavedModel(Patchable):
    """A trained prototype network with scaling and provenance.

    Attributes:
        network: Keys and values without patches, in scaled units.
        config: The run that trained it.
        scaling: Scaling of the inputs.
        image_shape: (height, width) if an input is an image, or None.
        class_names: One name for each class; empty for a regression.
        target_scaling: Scaling of the targets of a regression.
        provenance: Run key, engine, device, checksum of the data, versions.
        repairs: Its patches, oldest first.
        metrics: By split and name, without the patches; empty if they are not known.
        patched_metrics: The same with all patches; empty if there are none or they were not measured.
        columns: Those of the table that it was trained on, or None.
    """

    network: PrototypeNetwork
    config: RunConfig
    scaling: Scaling
    image_shape: tuple[int, int] | None
    class_names: tuple[str, ...]
    target_scaling: Scaling = field(default_factory=Scaling.identity)
    provenance: dict[str, Any] = field(default_factory=dict)
    repairs: Repairs = field(default_factory=Repairs)
    metrics: SplitMetrics = field(default_factory=dict)
    patched_metrics: SplitMetrics = field(default_factory=dict)
    columns: Columns | None = None

    @property
    def n_features(self) -> int:
        """Columns of the keys."""
        return self.network.keys.shape[1]

    @property
    def n_outputs(self) -> int:
        """Columns of the values."""
        return self.network.values.shape[1]

    @cached_property
    def base(self) -> ArrayNetwork:
        """The network without patches in float64."""
        return ArrayNetwork.of(self.network)

    def values_at(self, query: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return all values (prototypes + patches, outputs); those with a slope at a scaled input (features,)."""
        return np.concatenate([self.base.values_at(query), self.patch_prototypes.values])

    @cached_property
    def patch_prototypes(self) -> PatchPrototypes:
        """The prototypes of the patches."""
        return self.repairs.prototypes(self.base)

    @property
    def keys(self) -> NDArray[np.float32]:
        """All keys (prototypes + patches, features), in scaled units."""
        return np.concatenate([self.network.keys.detach().cpu().numpy(), self.patch_prototypes.keys])

    @property
    def values(self) -> NDArray[np.float64]:
        """All values (prototypes + patches, outputs); of those with a slope the values at their keys."""
        values = self.network.values.detach().cpu().numpy()
        patches = self.patch_prototypes.values
        return np.asarray(np.concatenate([values, patches]) if len(patches) else values, np.float64)

    def outputs(self, inputs: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return the outputs (n, outputs) for scaled inputs (n, features), in float64."""
        if self.network.method.weighting != "softmax":
            return self.weights(inputs) @ self.values
        return self.patch_prototypes.outputs(self.base, inputs)

    def weights(self, inputs: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return the weights (n, prototypes + patches) for scaled inputs (n, features), in float64."""
        patches = self.patch_prototypes
        return patches.weights(self.base, inputs) if len(patches) else self.base.weights(inputs)

    def scale(self, x: ArrayLike) -> NDArray[np.float32]:
        """Return one input (in the data's own units, of any shape) scaled and flattened, (features,).

        Of a table with named columns it may be a mapping of columns to values, or a row of a data frame.

        Raises:
            PatchError: wrong size, or a value that is not finite or too large for float32.
        """
        return scaled_input(x, self)

    def predict(self, inputs: ArrayLike) -> NDArray[Any]:
        """Return class names (n,) or predictions (n, outputs) for `inputs` (n, features), in the data's own units.

        They may be a data frame with the columns of the table that the model was trained on.
        """
        raw = [row for _, row in inputs.iterrows()] if hasattr(inputs, "iterrows") else np.asarray(inputs)
        rows = np.empty((len(raw), self.n_features), np.float32)
        for place, row in enumerate(raw):
            rows[place] = self.scale(row)
        outputs = self.outputs(rows)
        if self.class_names:
            return np.asarray(np.array(self.class_names)[outputs.argmax(1)])
        return self.target_scaling.invert(outputs)

    def explain(self, x: ArrayLike) -> AnswerTerms:
        """Return the weight of each prototype in the answer to one input, in the data's own units.

        Patches come after the learned prototypes, and are numbered.
        """
        query = self.scale(x)[None]
        weights, outputs = self.weights(query)[0], self.outputs(query)[0]
        order = np.argsort(-weights, kind="stable")
        keys, values = self.keys, self.values_at(query[0])
        outputs, names = self.target_scaling.invert(outputs), np.array(self.class_names)
        return AnswerTerms(
            prediction=names[outputs.argmax()] if self.class_names else outputs,
            outputs=outputs,
            prototypes=order.astype(np.int64),
            weights=weights[order],
            keys=self.scaling.invert(keys[order]),
            values=values[order],
            labels=names[values[order].argmax(1)] if self.class_names else None,
            patches=self.repairs.numbers(len(self.network.keys))[order],
        )

    def demanded_outputs(self) -> NDArray[np.float64]:
        """Return the outputs (demands, outputs) at the inputs of the patches."""
        rows = self.repairs.inputs.reshape(-1, self.n_features)
        return self.outputs(rows)

    def without(self, where: NDArray[np.bool_]) -> SavedModel:
        """Return the model without some prototypes, `where` (prototypes + patches,) is true; none is solved again."""
        n_learned = len(self.network.keys)
        network, repairs = self.network.without(where[:n_learned]), self.repairs.without(where[n_learned:])
        return replace(self, network=network, repairs=repairs)

    def patch_all(
        self,
        inputs: ArrayLike | Sequence[ArrayLike],
        labels: Sequence[int | str] | None = None,
        *,
        targets: Sequence[ArrayLike] | None = None,
        **options: Any,
    ) -> SavedModel:
        """Return a model that predicts `labels` (n,) or `targets` (n, outputs) for `inputs` (n, features).

        They are in the data's own units. All patches of the model, these and earlier ones, are solved as a whole; their
        solution does not depend on their order.

        Args:
            inputs: The inputs; each may be a text as for the command line, such as ``"mnist:test:17"``.
            labels: Names or numbers of classes, of a classifier.
            targets: Wanted outputs, of a regression.
            options: ``keep``, ``merge``, ``dataset``, ``data_dir``, ``kind``, ``radius``, ``steepness``, ``margin`` and
                ``confidence``, see `idwbench.models.repair.repair`.

        Raises:
            PatchConflictError: they and earlier patches cannot hold together.
            PatchError: an invalid input, class or option, or a demand that this model cannot meet; `location` has the
                row.
        """
        from idwbench.models.repair import repair

        rows = inputs if isinstance(inputs, list) else list(np.asarray(inputs))
        wishes: dict[str, Any] = {
            name: one for name, one in (("label", labels), ("target", targets)) if one is not None
        }
        for name, one in wishes.items():
            if len(one) != len(rows):
                raise PatchError(f"expected {len(rows)}, one for each input, got {len(one)}", location=(f"{name}s",))
        lines = [
            PatchLine(x, row=row if len(rows) > 1 else None, **{name: one[row] for name, one in wishes.items()})
            for row, x in enumerate(rows)
        ]
        return repair(self, lines, **options).solved

    def undo_patch(self, number: int, **options: Any) -> SavedModel:
        """Return the model without the patch `number`, from 1 and oldest first; the others are solved again.

        Options are ``dataset`` and ``data_dir``, see `idwbench.models.repair.repair`.

        Raises:
            PatchError: there is no such patch, or the others cannot be solved again without the training data.
        """
        from idwbench.models.repair import repair

        return repair(self, undo=number, **options).solved

    def save(self, path: str | PathLike[str], *, overwrite: bool = False) -> None:
        """Write the model to a ``.pt`` or ``.safetensors`` file, see `idwbench.models.model_file.save_model`."""
        from idwbench.models.model_file import save_model

        save_model(self, Path(path), overwrite=overwrite)

    def _repr_html_(self) -> str:
        return idwbench.html(self)


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
    return SavedModel(
        network=PrototypeNetwork.of(run.config.network.method_record, run.config.model.parameters, arrays),
        config=run.config,
        scaling=dataset.scaling,
        image_shape=dataset.image_shape,
        class_names=dataset.class_names,
        target_scaling=dataset.target_scaling,
        provenance={
            "run_key": run.run_key,
            "engine": run.engine or "",
            "device": run.device or "",
            **({"plugin": file} if (file := plugin_file(run.config.network.method_record)) else {}),
            "data_sha256": run.data_sha256 or dataset.sha256,
            "versions": dict(sorted((run.versions or package_versions()).items())),
        },
        metrics=task_metrics(run.metrics, dataset.task),
        columns=dataset.columns,
    )


def task_metrics(metrics: Metrics, task: str) -> SplitMetrics:
    """Return the finite metrics of a task by split, in the order of tables: others may be added to a run later."""
    names = [name for name, metric in METRICS.items() if metric.task == task]
    by_split = {
        split: {name: metrics[split, name] for name in names if math.isfinite(metrics.get((split, name), math.nan))}
        for split in SPLITS
    }
    return {split: values for split, values in by_split.items() if values}

"""The settings of baselines."""

# No postponed annotations: pydantic would compile each of them again.
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from idwbench.errors import ConfigError
from idwbench.runs.dataset_base import DatasetConfig
from idwbench.runs.kinds.base import ModelSettings, NoParameters, NoPlugin
from idwbench.runs.settings import Count

__all__ = ["BaselineConfig"]


class BaselineConfig(NoPlugin, NoParameters, ModelSettings):
    """Prototypes that are not learned by gradient descent; a prediction is the value of the nearest key.

    ``kmeans``: the centres of k-means of the training inputs, with the class frequencies (or the mean target) of their
    clusters as values. ``kmeans_per_class``: the centres of k-means of each class with its label; the prototypes are
    divided equally among the classes, as those of the initialisation ``kmeans``. ``samples``: random training inputs
    with their labels or targets.
    """

    array_names: ClassVar[tuple[str, ...]] = ("keys", "values")
    defaults: ClassVar[Mapping[str, Any]] = {"prototypes": 16}

    kind: Literal["baseline"] = "baseline"
    method: Literal["kmeans", "kmeans_per_class", "samples"]
    prototypes: Count

    @property
    def label(self) -> str:
        """Label of the model: ``kmeans · 16 prototypes``."""
        return f"{self.method} · {self.prototypes} prototype{'s' if self.prototypes > 1 else ''}"

    @property
    def parameters_label(self) -> str:
        """Label of the parameters in tables."""
        return "nearest key"

    def check_dataset(self, dataset: DatasetConfig) -> None:
        """Raise `ConfigError` for a text, a sequence, and for k-means of each class on a regression."""
        super().check_dataset(dataset)
        if self.method == "kmeans_per_class" and dataset.task != "classification":
            problem = f"kmeans_per_class needs classes, and {dataset.name} has none"
            raise ConfigError(problem, location=("method",), hint="choose kmeans")

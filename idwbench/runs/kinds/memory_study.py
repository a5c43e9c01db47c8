"""The settings of studies of the memory of a recorded perceptron."""

# No postponed annotations: pydantic would compile each of them again.
from collections.abc import Collection
from typing import Literal

from pydantic import Field

from idwbench.errors import ConfigError, did_you_mean
from idwbench.runs.dataset_base import DatasetConfig
from idwbench.runs.datasets import PartsConfig
from idwbench.runs.kinds.mlp import MlpConfig, PerceptronSettings
from idwbench.runs.settings import Count

__all__ = ["MemoryStudyConfig"]

_FIELDS = ("label", "task", "rows")


class MemoryStudyConfig(PerceptronSettings):
    """A study of a recorded perceptron that answers with a part of the history of its training.

    With `mask` it answers without the slots of a class, of a part of the data, or of some rows drawn at random, and is
    compared with networks that are trained again without these rows. With `keep`, each layer keeps `slots` slots:

    - ``top``: for each input those with the largest attention;
    - ``recent``: the last ones of the training;
    - ``random``: drawn at random; ``rescaled``: these, with error signals multiplied so that their sum is right in
      the mean;
    - ``merged``: new slots, the best sum of so many outer products (singular vectors) for the sum of all.
    """

    kind: Literal["memory_study"] = "memory_study"
    record_dtype: Literal["float32", "float16"] = Field(default="float32", description="Type of recorded numbers.")
    mask: str | None = Field(
        default=None, description="Part to answer and to train again without: label=CLASS, task=NAME or rows=FRACTION."
    )
    keep: Literal["top", "recent", "random", "rescaled", "merged"] | None = Field(
        default=None, description="Which slots each layer keeps."
    )
    slots: Count | None = Field(default=None, description="Number of slots that each layer keeps.")

    @property
    def parameters_label(self) -> str:
        """Label of the settings in tables: ``width 200, depth 2, without label=3``, or ``…, top 100 slots``."""
        part = f"without {self.mask}" if self.keep is None else f"{self.keep} {self.slots} slots"
        return f"width {self.width}, depth {self.depth}, {part}"

    @property
    def network(self) -> MlpConfig:
        """The recorded network, by a run with the same data, protocol and seed."""
        return MlpConfig(width=self.width, depth=self.depth, record=True, record_dtype=self.record_dtype)

    @property
    def masked(self) -> tuple[str, str]:
        """What `mask` names, and its value; raises `ConfigError` for another form."""
        field, sign, value = (self.mask or "").partition("=")
        if not sign or not value:
            problem = f"expected label=CLASS, task=NAME or rows=FRACTION, got {self.mask!r}"
            raise ConfigError(problem, location=("mask",))
        if field not in _FIELDS:
            raise ConfigError(f"unknown '{field}'", location=("mask",), hint=did_you_mean(field, _FIELDS))
        return field, value

    @property
    def masked_fraction(self) -> float:
        """The fraction of the training rows that ``rows=FRACTION`` names; raises `ConfigError` for no fraction."""
        value = self.masked[1]
        try:
            fraction = float(value)
        except ValueError:
            fraction = 0.0
        if not 0 < fraction < 1:
            raise ConfigError(f"expected a fraction between 0 and 1, got '{value}'", location=("mask",))
        return fraction

    def check_given(self, given: Collection[str]) -> None:
        """Raise `ConfigError` unless there is either a mask, or a number of slots and which of them are kept."""
        if self.mask is None and self.keep is None and self.slots is None:
            raise ConfigError("a study of a memory needs mask, or keep and slots")
        if self.mask is not None and (self.keep is not None or self.slots is not None):
            raise ConfigError("expected either mask, or keep and slots", location=("mask",))
        if self.mask is None and (self.keep is None or self.slots is None):
            location = "slots" if self.keep is None else "keep"
            raise ConfigError("keep and slots belong together", location=(location,))
        if self.mask is not None and self.masked[0] == "rows":
            self.masked_fraction  # noqa: B018  # raises

    def check_dataset(self, dataset: DatasetConfig) -> None:
        """Raise `ConfigError` unless the data set has classes, and the part that the mask names."""
        super().check_dataset(dataset)
        if self.mask is None or self.masked[0] != "task":
            return
        parts, name = dataset.of if isinstance(dataset, PartsConfig) else (), self.masked[1]
        if name not in parts:
            hint = did_you_mean(name, parts) if parts else "only data sets of several parts have tasks"
            raise ConfigError(f"the data set {dataset.name} has no part '{name}'", location=("mask",), hint=hint)

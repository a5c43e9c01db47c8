"""The settings of multilayer perceptrons, whose training can be recorded."""

# No postponed annotations: pydantic would compile each of them again.
from collections.abc import Collection
from typing import Annotated, Literal

from pydantic import Field

from idwbench.errors import ConfigError
from idwbench.runs.dataset_base import DatasetConfig
from idwbench.runs.kinds.base import ModelSettings, NoParameters, NoPlugin, NoPrototypes, check_recording
from idwbench.runs.settings import Count

__all__ = ["MAX_DEPTH", "MlpConfig", "PerceptronSettings"]

MAX_DEPTH = 4


class PerceptronSettings(NoPrototypes, NoPlugin, NoParameters, ModelSettings):
    """The settings of a multilayer perceptron, and of studies of one; subclasses have ``kind``."""

    width: Count = Field(default=800, description="Units of each hidden layer.")
    depth: Annotated[int, Field(ge=1, le=MAX_DEPTH)] = Field(default=2, description="Number of hidden layers.")

    @property
    def n_layers(self) -> int:
        """Number of linear layers."""
        return self.depth + 1

    @property
    def layer_names(self) -> tuple[str, ...]:
        """The names of the linear layers, from inputs to logits."""
        return tuple(f"layer_{number}" for number in range(self.n_layers))

    @property
    def method(self) -> str:
        """The name in tables."""
        return self.kind

    def check_dataset(self, dataset: DatasetConfig) -> None:
        """Raise `ConfigError` unless the data set has classes."""
        if dataset.task in ("language", "sequence_to_sequence"):
            super().check_dataset(dataset)
        if dataset.task != "classification":
            problem = f"{self.kind} needs classes, and the data set {dataset.name} has none"
            raise ConfigError(problem, location=("kind",), hint="choose mnist, joint or sequence")


class MlpConfig(PerceptronSettings):
    """A multilayer perceptron: `depth` hidden layers of `width` units with ReLU, and a linear layer to the classes.

    With `record`, the inputs and error signals of each linear layer at each training step are written to disk.
    """

    kind: Literal["mlp"] = "mlp"
    record: bool = Field(default=False, description="Whether to record the training on disk.")
    record_dtype: Literal["float32", "float16"] = Field(default="float32", description="Type of recorded numbers.")
    fold: bool = Field(default=True, description="Whether to record each distinct input of the first layer once.")

    @property
    def parameters_label(self) -> str:
        """Label of the settings in tables: ``width 800, depth 2, recorded in float16``."""
        words = [f"width {self.width}", f"depth {self.depth}"]
        if self.record:
            words += [f"recorded in {self.record_dtype}", *([] if self.fold else ["not folded"])]
        return ", ".join(words)

    def check_given(self, given: Collection[str]) -> None:
        """Raise `ConfigError` for a setting of recordings without `record`."""
        check_recording(given, self.record, ("record_dtype", "fold"))

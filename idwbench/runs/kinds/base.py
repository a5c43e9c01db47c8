"""The base class of the settings of a model, which each kind of run extends."""

# No postponed annotations: pydantic would compile each of them again.
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from idwbench.attention.definitions import Method, ParameterValue
from idwbench.attention.methods import METHODS, get_method
from idwbench.errors import ConfigError, did_you_mean
from idwbench.runs.datasets import DatasetConfig, dataset_label
from idwbench.runs.settings import Settings

__all__ = ["LAYER_NUMBERS", "ModelSettings", "check_recording", "given_method"]

# The Python objects of a layer take at least as much memory as so many float32 numbers.
LAYER_NUMBERS = 1_000


class ModelSettings(Settings):
    """Settings of a model; subclasses also have ``kind``, ``method``, ``prototypes``, ``parameters`` and labels.

    Attributes:
        array_names: The arrays of a complete run.
        defaults: Settings of a run from Python.
    """

    array_names: ClassVar[tuple[str, ...]] = ()
    defaults: ClassVar[Mapping[str, Any]] = {}

    @property
    def is_deterministic(self) -> bool:
        """Whether the seed of a run does not affect its result, since only the data may be random."""
        return False

    @property
    def studied(self) -> "ModelSettings | None":
        """The network that must have been trained before, by a run with the same data, protocol and seed, or None."""
        return None

    def replace_parameters(self, values: Mapping[str, ParameterValue]) -> Self:
        """Return a copy with other values of the parameters."""
        return self.model_copy(update={"parameters": dict(values)})

    def check_dataset(self, dataset: DatasetConfig) -> None:
        """Check that the model supports a data set.

        Raises:
            ConfigError: it does not; by default the data set is a text, or a sequence of two.
        """
        if dataset.task == "language":
            kind = getattr(self, "kind", "")
            problem = f"{dataset_label(dataset)} is a text, which the kind {kind} does not support"
            hint = "give a .csv or .npz file or another data set; in a sweep or in Python, kind: lstm_lm takes texts"
            raise ConfigError(problem, location=("dataset",), hint=hint)
        if dataset.name == "sequence":
            kind = getattr(self, "kind", "")
            problem = f"the kind {kind} does not train on one data set after the other"
            raise ConfigError(problem, location=("dataset",), hint="choose joint, or kind: mlp")

    def numbers_in_memory(self, n_features: int, n_outputs: int, n_rows: int, batch_size: int) -> int:
        """Return a lower bound of the float32 numbers that a training holds at once; by default 0.

        Args:
            n_features: Columns of the inputs.
            n_outputs: Classes, targets, or tokens of the vocabulary.
            n_rows: Rows of the training data.
            batch_size: That of the protocol.
        """
        return 0

    @classmethod
    @abstractmethod
    def parse(cls, settings: Mapping[str, Any]) -> Self:
        """Return the model for flat settings; raises `ConfigError`."""


def given_method(settings: Mapping[str, Any]) -> Method:
    """Return the method that the setting ``method`` names.

    Raises:
        ConfigError: it is missing, no text, or unknown.
    """
    name = settings.get("method")
    if name is None:
        raise ConfigError("'method' is missing", hint=did_you_mean("", METHODS))
    if not isinstance(name, str):
        raise ConfigError(f"expected the name of a method, got {name!r}", location=("method",))
    return get_method(name)


def check_recording(settings: Mapping[str, Any], record: bool, names: Sequence[str]) -> None:
    """Check that settings of recordings are given only for a recorded run.

    Args:
        settings: The flat settings that were given.
        record: Whether the run is recorded.
        names: The settings of recordings.

    Raises:
        ConfigError: one of them is given, and the run is not recorded.
    """
    for name in names:
        if name in settings and not record:
            raise ConfigError("only with record: true", location=(name,))

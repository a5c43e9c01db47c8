"""The base class of the settings of a model, which each kind of run extends."""

# No postponed annotations: pydantic would compile each of them again.
from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

from idwbench.attention.records import Method, ParameterValue
from idwbench.attention.scores import METHODS, get_method
from idwbench.errors import ConfigError, did_you_mean
from idwbench.runs.dataset_base import DatasetConfig
from idwbench.runs.datasets import dataset_label
from idwbench.runs.settings import Settings

__all__ = [
    "ModelSettings",
    "NoParameters",
    "NoPlugin",
    "NoPrototypes",
    "check_parameter_names",
    "check_recording",
    "check_softmax",
    "given_method",
    "learned_label",
    "weighted_method",
]

_LEARNED_LABELS = {"learned_power": "learned p", "learned_temperature": "learned temperature"}


class NoPrototypes:
    """The settings of a model without learned prototypes."""

    prototypes: ClassVar[int] = 0


class NoPlugin:
    """The settings of a model that no plugin defines."""

    plugin_sha256: ClassVar[None] = None


class NoParameters:
    """The settings of a model without parameters."""

    @property
    def parameters(self) -> dict[str, ParameterValue]:
        """None."""
        return {}

    def replace_parameters(self, values: Mapping[str, ParameterValue]) -> Self:
        """Return the same settings."""
        return self


class ModelSettings(Settings):
    """Settings of a model; subclasses also have ``kind``, ``method``, ``prototypes``, ``parameters`` and labels.

    Kinds that lack some of these inherit `NoPrototypes`, `NoPlugin` or `NoParameters`.

    Attributes:
        array_names: The arrays of a complete run.
        defaults: Settings of a run from Python.
    """

    array_names: ClassVar[tuple[str, ...]] = ()
    defaults: ClassVar[Mapping[str, Any]] = {}

    if TYPE_CHECKING:  # fields or properties of each kind

        @property
        def kind(self) -> str:
            """Name of the kind."""
            ...

        @property
        def method(self) -> str:
            """The name in tables."""
            ...

        @property
        def prototypes(self) -> int:
            """Number of learned prototypes."""
            ...

        @property
        def plugin_sha256(self) -> str | None:
            """Checksum of the plugin that defines the method, or None."""
            ...

        @property
        def is_deterministic(self) -> bool:
            """Whether the seed of a run does not affect its result, since only the data may be random."""
            ...

    else:
        is_deterministic: ClassVar[bool] = False

    @property
    def label(self) -> str:
        """Label of the model: method, prototypes and parameters, as ``idw · 16 prototypes · p=2, ε=0.001``."""
        n = self.prototypes
        prototypes = f"{n} prototype{'s' if n > 1 else ''}" if n else ""
        return " · ".join(filter(None, (self.method, prototypes, self.parameters_label)))

    @property
    @abstractmethod
    def parameters_label(self) -> str:
        """Label of the parameters and other settings in tables."""

    @property
    def versioned_label(self) -> str:
        """The label of the parameters with the checksum of the plugin, which tells two versions of a method apart."""
        plugin = "" if self.plugin_sha256 is None else f"plugin {self.plugin_sha256[:8]}"
        return ", ".join(filter(None, (self.parameters_label, plugin)))

    def replace_parameters(self, values: Mapping[str, ParameterValue]) -> Self:
        """Return a copy with other values of the parameters."""
        return self.model_copy(update={"parameters": dict(values)})

    def check_dataset(self, dataset: DatasetConfig) -> None:
        """Check that the model supports a data set.

        Raises:
            ConfigError: it does not; by default the data set is a text, or pairs of sequences, or a sequence of two.
        """
        if dataset.task == "language":
            problem = f"{dataset_label(dataset)} is a text, which the kind {self.kind} does not support"
            hint = "give a .csv or .npz file or another data set; in a sweep or in Python, kind: lstm_lm takes texts"
            raise ConfigError(problem, location=("dataset",), hint=hint)
        if dataset.task == "sequence_to_sequence":
            problem = f"{dataset.name} has pairs of sequences, which the kind {self.kind} does not support"
            hint = "in a sweep or in Python, kind: sequence_to_sequence does"
            raise ConfigError(problem, location=("dataset",), hint=hint)
        if dataset.name == "sequence":
            problem = f"the kind {self.kind} does not train on one data set after the other"
            raise ConfigError(problem, location=("dataset",), hint="choose joint, or kind: mlp")

    @classmethod
    def completed(cls, fields: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
        """Return all fields of the model, with the parameters for those that are given; raises `ConfigError`."""
        return {**fields, **given}

    def check_given(self, given: Collection[str]) -> None:
        """Raise `ConfigError` if settings with the names in `given` were given that do not belong together."""


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


def check_recording(given: Collection[str], record: bool, names: Sequence[str]) -> None:
    """Raise `ConfigError` if one of the settings of recordings, `names`, was given for a run that is not recorded."""
    for name in names:
        if name in given and not record:
            raise ConfigError("only with record: true", location=(name,))


def check_parameter_names(method: Method, settings: Iterable[str], location: str) -> None:
    """Raise `ConfigError` if a parameter of a plugin's method is called like a setting of the model."""
    for name in sorted({parameter.name for parameter in method.parameters}.intersection(settings)):
        problem = f"method '{method.name}' has a parameter '{name}', which is also a setting of this kind of model"
        raise ConfigError(problem, location=(location,))


def check_softmax(method: Method, location: str) -> None:
    """Raise `ConfigError` unless the weights of a method are a softmax, as attention layers need."""
    if method.weighting != "softmax":
        problem = f"the weights of {method.name} are not a softmax, as attention layers need"
        raise ConfigError(problem, location=(location,))


def learned_label(settings: Mapping[str, Any]) -> str:
    """Return ``QK-norm rms, learned p, learned temperature`` for values of the `LEARNED_NUMBERS`."""
    words = [f"QK-norm {settings['qk_norm']}"] if settings["qk_norm"] != "none" else []
    return ", ".join([*words, *(label for name, label in _LEARNED_LABELS.items() if settings[name])])


def weighted_method(
    method: Method, settings: Mapping[str, Any], setting: str = "weighting"
) -> tuple[Method, str | None]:
    """Return a method with the weighting that a setting names, and this name: None if it is the method's own.

    Raises:
        ConfigError: as `get_method`; `location` is the setting.
    """
    name = settings.get(setting)
    if name in (None, method.weighting):
        return method, None
    try:
        return get_method(method.name, name), str(name)
    except ConfigError as error:
        raise ConfigError(error.problem, location=(setting,), hint=error.hint) from None

"""The settings of networks that write one sequence for another."""

# No postponed annotations: pydantic would compile each of them again.
from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field

from idwbench.attention.records import Parameter, ParameterValue, Record, parameters_label
from idwbench.attention.scores import METHODS
from idwbench.attention.weightings import get_weighting
from idwbench.errors import ConfigError, did_you_mean
from idwbench.runs.dataset_base import DatasetConfig
from idwbench.runs.kinds.base import (
    ModelSettings,
    NoPrototypes,
    check_parameter_names,
    check_softmax,
    given_method,
)
from idwbench.runs.settings import Count

__all__ = ["ADDITIVE", "CONTEXT_VECTOR", "SequenceToSequenceConfig"]

# What answers without a look-up, and the score of layers that is not a method.
CONTEXT_VECTOR = "context_vector"
_FORM = Parameter("form", "tanh", help="Form of the additive score.", choices=("tanh", "linear"))
ADDITIVE = Record("additive", "vᵀ tanh(W [q; k]), or vᵀ W [q; k]", parameters=(_FORM,))


class SequenceToSequenceConfig(NoPrototypes, ModelSettings):
    """An encoder and a decoder, which looks up the states of the encoder or has one context vector.

    `parameters` holds every parameter of the attention score `method` and of the weighting, defaults included;
    `plugin_sha256` is the checksum of the plugin that defines the score, or None.
    """

    # And the parameters of the network, by name.
    array_names: ClassVar[tuple[str, ...]] = ("lengths", "exact_match_by_length", "token_accuracy_by_length")
    defaults: ClassVar[Mapping[str, Any]] = {"method": "idw"}

    kind: Literal["sequence_to_sequence"] = "sequence_to_sequence"
    method: str
    weighting: str = Field(default="softmax", description="How similarities become weights.")
    parameters: dict[str, ParameterValue]
    embedding: Count = Field(default=16, description="Features of a letter.")
    width: Count = Field(default=32, description="Features of a state, half of them from each direction; even.")
    plugin_sha256: str | None = None

    @property
    def has_look_up(self) -> bool:
        """Whether the decoder looks up the states of the encoder."""
        return self.method != CONTEXT_VECTOR

    @property
    def label(self) -> str:
        """Label of the model: ``sequence_to_sequence · idw · softmax, p=2, ε=0.001, embedding 16, width 32``."""
        return f"{self.kind} · {self.method} · {self.parameters_label}"

    @property
    def parameters_label(self) -> str:
        """Label of the other settings in tables: ``softmax, p=2, ε=0.001, embedding 16, width 32``."""
        words = []
        if self.has_look_up:
            chosen = get_weighting(self.weighting)
            own = {name: value for name, value in self.parameters.items() if chosen.takes(name)}
            others = {name: value for name, value in self.parameters.items() if name not in own}
            words = [self.weighting, parameters_label(METHODS.get(self.method), others), parameters_label(chosen, own)]
        words += [f"{name} {getattr(self, name)}" for name in ("embedding", "width")]
        return ", ".join(filter(None, words))

    def check_dataset(self, dataset: DatasetConfig) -> None:
        """Raise `ConfigError` unless the data set has pairs of sequences."""
        if dataset.task != "sequence_to_sequence":
            problem = f"{self.kind} needs pairs of sequences, which the data set {dataset.name} does not have"
            raise ConfigError(problem, location=("kind",), hint="choose copying, reversing or transliteration")

    @classmethod
    def completed(cls, fields: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
        """Return the fields with all parameters of the score and of the weighting.

        Raises:
            ConfigError: unknown score, weighting or parameter, a value out of range, or a setting of look-ups for one
                context vector.
        """
        name = fields.get("method")
        if name == CONTEXT_VECTOR:
            for setting in (*given, *(["weighting"] if "weighting" in fields else [])):
                raise ConfigError(f"one context vector has no {setting}", location=(setting,))
            return {**fields, "parameters": {}}
        chosen = get_weighting(fields.get("weighting", "softmax"))
        if chosen.own_score is not None:
            problem = f"'{chosen.name}' compares states itself, and no two are equal"
            raise ConfigError(problem, location=("weighting",), hint="choose straight_through")
        own = {key: value for key, value in given.items() if chosen.takes(key)}
        others = {key: value for key, value in given.items() if key not in own}
        parameters, sha256 = _score(fields, others)
        return {**fields, "parameters": {**parameters, **chosen.resolve(own)}, "plugin_sha256": sha256}

    def check_given(self, given: Collection[str]) -> None:
        """Raise `ConfigError` for a width that two directions cannot share."""
        if self.width % 2:
            raise ConfigError(f"expected an even number, got {self.width}", location=("width",))


def _score(fields: Mapping[str, Any], given: Mapping[str, Any]) -> tuple[dict[str, ParameterValue], str | None]:
    """Return all parameters of the attention score, and the checksum of its plugin."""
    name = fields.get("method")
    if name == ADDITIVE.name:
        return ADDITIVE.resolve(given), None
    try:
        method = given_method(fields)
    except ConfigError as error:
        if not isinstance(name, str):
            raise
        hint = did_you_mean(name, (*METHODS, ADDITIVE.name, CONTEXT_VECTOR))
        raise ConfigError(error.problem, location=error.location, hint=hint) from None
    check_parameter_names(method, SequenceToSequenceConfig.model_fields, "method")
    check_softmax(method, "method")
    return method.resolve(given), method.sha256

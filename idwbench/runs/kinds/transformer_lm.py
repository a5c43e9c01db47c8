"""The settings of language models."""

# No postponed annotations: pydantic would compile each of them again.
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from idwbench.attention.records import LEARNED_NUMBERS, ParameterValue, QkNorm, check_learned_numbers, parameters_label
from idwbench.attention.scores import METHODS
from idwbench.errors import ConfigError
from idwbench.runs.dataset_base import DatasetConfig, LanguageConfig
from idwbench.runs.kinds.base import (
    ModelSettings,
    NoPrototypes,
    check_parameter_names,
    check_softmax,
    given_method,
    learned_label,
)
from idwbench.runs.settings import Count, added_in_0_2

__all__ = ["LanguageModelConfig", "check_context", "check_text"]


class LanguageModelConfig(NoPrototypes, ModelSettings):
    """A causal transformer that predicts the next character of a text.

    `parameters` holds every parameter of the attention score `method`, defaults included; `plugin_sha256` is the
    checksum of the plugin that defines it, or None.
    """

    array_names: ClassVar[tuple[str, ...]] = ("vocabulary",)  # and the parameters of the network, by name
    defaults: ClassVar[Mapping[str, Any]] = {"method": "idw"}

    kind: Literal["transformer_lm"] = "transformer_lm"
    method: str
    parameters: dict[str, ParameterValue]
    depth: Count = Field(default=2, description="Number of blocks.")
    width: Count = Field(default=64, description="Features of a character.")
    heads: Count = Field(default=4, description="Number of attention heads; a divisor of the width.")
    context: Count = Field(default=64, description="Number of characters that a prediction may depend on.")
    qk_norm: QkNorm = added_in_0_2("none", description="Normalisation of queries and keys: none, rms or l2.")
    learned_power: bool = added_in_0_2(False, description="Learn the power of the score, one for each head.")
    learned_temperature: bool = added_in_0_2(False, description="Learn a divisor of the scores, one for each head.")
    statistics: bool = added_in_0_2(
        False, description="Record scores, weights and gradients of each layer at some steps."
    )
    plugin_sha256: str | None = None

    @model_validator(mode="after")
    def _check_heads(self) -> Self:
        if self.width % self.heads:
            problem = f"expected a divisor of the width {self.width}, got {self.heads}"
            raise ConfigError(problem, location=("heads",))
        return self

    @property
    def learned(self) -> dict[str, Any]:
        """What is learned of the score, by the names of `LEARNED_NUMBERS`."""
        return {name: getattr(self, name) for name in LEARNED_NUMBERS}

    @property
    def label(self) -> str:
        """Label of the model: ``transformer_lm · idw · p=2, ε=0.001, depth 2, width 64, heads 4, context 64``."""
        return f"{self.kind} · {self.method} · {self.parameters_label}"

    @property
    def parameters_label(self) -> str:
        """Label of the parameters in tables: ``p=2, ε=0.001, depth 2, width 64, heads 4, context 64``."""
        words = [parameters_label(METHODS.get(self.method), self.parameters), learned_label(self.learned)]
        words += [f"{name} {getattr(self, name)}" for name in ("depth", "width", "heads", "context")]
        words += ["statistics"] if self.statistics else []
        return ", ".join(filter(None, words))

    def check_dataset(self, dataset: DatasetConfig) -> None:
        """Raise `ConfigError` unless the data set is a text of characters."""
        check_text(self.kind, dataset)
        if isinstance(dataset, LanguageConfig) and dataset.tokens != "characters":
            problem = f"transformer_lm predicts characters, and the tokens of the data set are {dataset.tokens}"
            raise ConfigError(problem, location=("kind",), hint="choose lstm_lm")

    @classmethod
    def completed(cls, fields: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
        """Return the fields with all parameters of the attention score; raises `ConfigError`."""
        method = given_method(fields)
        check_parameter_names(method, cls.model_fields, "method")
        check_softmax(method, "method")
        check_learned_numbers(method, fields)
        return {**fields, "parameters": method.resolve(given), "plugin_sha256": method.sha256}


def check_text(kind: str, dataset: DatasetConfig) -> None:
    """Raise `ConfigError` unless the data set of a run of a kind is a text."""
    if dataset.task != "language":
        problem = f"{kind} needs a text, and the data set {dataset.name} is not a text"
        raise ConfigError(problem, location=("kind",), hint="choose aesop, wikitext_2 or a text file")


def check_context(context: int, n_train: int, unit: str = "characters") -> None:
    """Raise `ConfigError` unless a training text of `n_train` + 1 tokens has one window of the context."""
    if n_train < context:
        problem = f"the training text is too short: {n_train + 1:,} {unit}, expected more than {context:,}"
        raise ConfigError(problem, location=("context",))

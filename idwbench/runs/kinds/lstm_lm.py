"""The settings of LSTM language models."""

# No postponed annotations: pydantic would compile each of them again.
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import Field

from idwbench.attention.definitions import ParameterValue
from idwbench.runs.datasets import DatasetConfig
from idwbench.runs.kinds.base import ModelSettings, check_recording
from idwbench.runs.kinds.transformer_lm import check_text
from idwbench.runs.settings import Count, validated

__all__ = ["LstmConfig"]


class LstmConfig(ModelSettings):
    """A language model of one LSTM layer, which predicts the next token of a text.

    With `record` the inputs and error signals of the LSTM's two matrices and of the head are recorded while training.
    """

    array_names: ClassVar[tuple[str, ...]] = ("vocabulary",)  # and the parameters of the network, by name
    defaults: ClassVar[Mapping[str, Any]] = {}

    kind: Literal["lstm_lm"] = "lstm_lm"
    embedding: Count = Field(default=64, description="Features of a token.")
    width: Count = Field(default=128, description="Hidden units of the LSTM.")
    context: Count = Field(default=64, description="Number of tokens in a window, each with the initial state zero.")
    record: bool = Field(default=False, description="Whether to record the training on disk.")
    record_dtype: Literal["float32", "float16"] = Field(default="float32", description="Type of recorded numbers.")

    @property
    def method(self) -> str:
        """The name in tables."""
        return "lstm"

    @property
    def parameters(self) -> dict[str, ParameterValue]:
        """None: an LSTM has no attention score."""
        return {}

    @property
    def plugin_sha256(self) -> None:
        """None: no plugin defines an LSTM."""

    @property
    def prototypes(self) -> int:
        """Number of learned prototypes: 0."""
        return 0

    @property
    def label(self) -> str:
        """Label of the model: ``lstm_lm · embedding 64, width 128, context 64``."""
        return f"{self.kind} · {self.parameters_label}"

    @property
    def parameters_label(self) -> str:
        """Label of the settings in tables: ``embedding 64, width 128, context 64``, and ``recorded in float16``."""
        words = [f"{name} {getattr(self, name)}" for name in ("embedding", "width", "context")]
        return ", ".join([*words, *([f"recorded in {self.record_dtype}"] if self.record else [])])

    def numbers_in_memory(self, n_features: int, n_outputs: int, n_rows: int, batch_size: int) -> int:
        """Parameters with gradients and the state of the optimizer, and the gates of a batch."""
        of_lstm = 4 * self.width * (self.embedding + self.width)
        parameters = of_lstm + n_outputs * (self.embedding + self.width)
        return 3 * parameters + batch_size * self.context * (4 * self.width + self.embedding)

    def replace_parameters(self, values: Mapping[str, ParameterValue]) -> Self:
        """Return the same settings."""
        return self

    def check_dataset(self, dataset: DatasetConfig) -> None:
        """Raise `ConfigError` unless the data set is a text."""
        check_text(self.kind, dataset)

    @classmethod
    def parse(cls, settings: Mapping[str, Any]) -> Self:
        """Return the model for flat settings.

        Raises:
            ConfigError: an unknown setting, a value out of range, or a setting of recordings without `record`.
        """
        made = validated(cls, dict(settings))
        check_recording(settings, made.record, ("record_dtype",))
        return made

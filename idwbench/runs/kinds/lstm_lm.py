"""The settings of LSTM language models."""

# No postponed annotations: pydantic would compile each of them again.
from collections.abc import Collection
from typing import ClassVar, Literal

from pydantic import Field

from idwbench.runs.dataset_base import DatasetConfig
from idwbench.runs.kinds.base import ModelSettings, NoParameters, NoPlugin, NoPrototypes, check_recording
from idwbench.runs.kinds.transformer_lm import check_text
from idwbench.runs.settings import Count

__all__ = ["LstmConfig"]


class LstmConfig(NoPrototypes, NoPlugin, NoParameters, ModelSettings):
    """A language model of one LSTM layer, which predicts the next token of a text.

    With `record` the inputs and error signals of the LSTM's two matrices and of the head are recorded while training.
    """

    array_names: ClassVar[tuple[str, ...]] = ("vocabulary",)  # and the parameters of the network, by name

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
    def label(self) -> str:
        """Label of the model: ``lstm_lm · embedding 64, width 128, context 64``."""
        return f"{self.kind} · {self.parameters_label}"

    @property
    def parameters_label(self) -> str:
        """Label of the settings in tables: ``embedding 64, width 128, context 64``, and ``recorded in float16``."""
        words = [f"{name} {getattr(self, name)}" for name in ("embedding", "width", "context")]
        return ", ".join([*words, *([f"recorded in {self.record_dtype}"] if self.record else [])])

    def check_dataset(self, dataset: DatasetConfig) -> None:
        """Raise `ConfigError` unless the data set is a text."""
        check_text(self.kind, dataset)

    def check_given(self, given: Collection[str]) -> None:
        """Raise `ConfigError` for a setting of recordings without `record`."""
        check_recording(given, self.record, ("record_dtype",))

"""The training protocol: optimiser, learning rate, schedule, batch size, epochs."""

# No postponed annotations: pydantic would compile each of them again.
import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from idwbench.errors import ConfigError
from idwbench.runs.datasets import DATASETS
from idwbench.runs.settings import Count, NonNegative, Settings, added_in_0_2, validated

__all__ = ["DEFAULT_PROTOCOLS", "Protocol", "learning_rate", "parse_protocol"]


class Protocol(Settings):
    """Settings of training; the loss is cross-entropy for classification and mean squared error for regression."""

    epochs: Count = Field(description="Passes over the training data.")
    batch_size: Count = Field(description="Batch size.")
    # Adam divides it by 0.1 in its first step, in float32.
    learning_rate: Annotated[float, Field(gt=0, le=3e37, allow_inf_nan=False)] = Field(
        description="Learning rate, before its schedule."
    )
    optimizer: Literal["adam_amsgrad", "adam", "sgd"] = Field(
        default="adam_amsgrad", description="Optimizer: adam_amsgrad, adam or sgd."
    )
    schedule: Literal["cosine", "constant"] = Field(
        default="cosine", description="Schedule of the learning rate: cosine (per epoch) or constant."
    )
    momentum: Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)] = added_in_0_2(
        0.0, description="Momentum of sgd."
    )
    weight_decay: NonNegative = added_in_0_2(
        0.0, description="Weight decay: this multiple of keys and values is added to their gradients."
    )
    gradient_clip: NonNegative = added_in_0_2(0.0, description="Maximum norm of the whole gradient; 0 for no clipping.")
    warmup_epochs: Annotated[int, Field(ge=0, lt=2**31)] = added_in_0_2(
        0, description="Epochs of linear warm-up of the learning rate, before its schedule."
    )

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if self.momentum and self.optimizer != "sgd":
            raise ConfigError(f"needs optimizer sgd, not {self.optimizer}", location=("momentum",))
        if self.warmup_epochs >= self.epochs:
            problem = f"expected fewer than the {self.epochs} epochs, got {self.warmup_epochs}"
            raise ConfigError(problem, location=("warmup_epochs",))
        return self


# They are not checked, which would compile the class for commands that only read.
_protocol = Protocol.model_construct
_LANGUAGE_PROTOCOL = _protocol(epochs=10, batch_size=8, learning_rate=0.003)
_PARTS_PROTOCOL = _protocol(
    epochs=8,
    batch_size=128,
    learning_rate=0.003,
    optimizer="sgd",
    schedule="constant",
    momentum=0.9,
    gradient_clip=1.0,
)
_SEQUENCES_PROTOCOL = _protocol(epochs=10, batch_size=64, learning_rate=0.02, gradient_clip=1.0)
# By the name of the data set: for those of the paper its own (arXiv 2310.18805, section 3); that of `joint` and
# `sequence` is near the one of arXiv 2202.05798.
DEFAULT_PROTOCOLS: Mapping[str, Protocol] = {
    **dict.fromkeys([*DATASETS, "unknown"], _protocol(epochs=50, batch_size=16, learning_rate=0.01)),
    **dict.fromkeys(["copying", "reversing", "transliteration"], _SEQUENCES_PROTOCOL),
    "aesop": _LANGUAGE_PROTOCOL,
    "wikitext_2": _LANGUAGE_PROTOCOL,
    "text": _LANGUAGE_PROTOCOL,
    "two_moons": _protocol(epochs=25, batch_size=10, learning_rate=0.01),
    **dict.fromkeys(("mnist", "fashion_mnist"), _protocol(epochs=50, batch_size=4, learning_rate=0.001)),
    "joint": _PARTS_PROTOCOL,
    "sequence": _PARTS_PROTOCOL,
}


def parse_protocol(content: Any, base: Protocol) -> Protocol:
    """Return `base` with the settings in the mapping `content` replaced.

    Raises:
        ConfigError: unknown key, or a value of the wrong type or out of range; `location` is the key.
    """
    if not isinstance(content, dict):
        raise ConfigError(f"expected a mapping, got {content!r}")
    return validated(Protocol, {**base.model_dump(), **content})


def learning_rate(protocol: Protocol, epoch: int) -> float:
    """Return the learning rate of an epoch, counted from 0.

    With r = `learning_rate`, w = `warmup_epochs` and E = `epochs`: r·(e + 1)/(w + 1) while e < w; then r, or for
    ``cosine`` r·(1 + cos(π·(e − w)/(E − w)))/2.
    """
    rate, warmup = protocol.learning_rate, protocol.warmup_epochs
    if epoch < warmup:
        return rate * (epoch + 1) / (warmup + 1)
    if protocol.schedule == "constant":
        return rate
    return rate * (1 + math.cos(math.pi * (epoch - warmup) / (protocol.epochs - warmup))) / 2

"""What the settings of several data sets share: the base classes of those in `datasets`."""

# No postponed annotations: pydantic would compile each of them again.
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from idwbench.errors import ConfigError
from idwbench.runs.settings import Count, Fraction, Seed, Settings, added_in_0_2

__all__ = [
    "LARGEST_VOCABULARY",
    "CorruptibleConfig",
    "CountOrZero",
    "DatasetConfig",
    "FileConfig",
    "LanguageConfig",
    "SequencePairsConfig",
    "TableConfig",
    "TableFileConfig",
    "Task",
]

Task = Literal["classification", "regression", "lookup", "language", "sequence_to_sequence"]

LARGEST_VOCABULARY = 2**24 - 1  # float32, the type of inputs, has all whole numbers up to it

_VALIDATION = "Training rows for validation: a number, or a fraction below 1."

CountOrZero = Annotated[int, Field(ge=0, lt=2**31)]
_Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


def _check_rows(value: object) -> object:
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31
    if not is_count and not (isinstance(value, float) and 0 < value < 1):
        raise PydanticCustomError("rows", "expected a number of rows, or a fraction between 0 and 1")
    return value


class DatasetConfig(Settings):
    """The settings of a data set, or of several that differ in their names only."""

    name: str
    validation: Annotated[int | float, BeforeValidator(_check_rows)] = added_in_0_2(0, description=_VALIDATION)
    if TYPE_CHECKING:  # each class declares them, in its own place in the order
        task: Task
        seed: int = 0


class CorruptibleConfig(DatasetConfig):
    """Classes whose training rows can be corrupted on purpose, to see what a method makes of it."""

    label_noise: _Share = added_in_0_2(
        0.0, description="Fraction of the training rows that get the label of another class."
    )
    outliers: _Share = added_in_0_2(
        0.0, description="Fraction of the training rows whose inputs are drawn far and wide."
    )


class TableConfig(DatasetConfig):
    """A table that scikit-learn ships, split by class or at random; needs no download."""

    task: Literal["classification", "regression"] = "classification"
    test_fraction: Fraction = 0.2
    seed: Seed = 0


class FileConfig(DatasetConfig):
    """The user's own file, identified by its checksum and not by its path."""

    suffixes: ClassVar[tuple[str, ...]]  # in lower case; the first one is named as an example

    path: Annotated[str, Field(min_length=1)]
    sha256: str | None = None


class TableFileConfig(FileConfig):
    """The user's own file with rows of features."""

    scaling: Literal["standard", "none"] = "standard"
    task: Literal["classification", "regression"] = added_in_0_2(
        "classification", description="classification (labels) or regression (numeric targets)."
    )


class LanguageConfig(DatasetConfig):
    """A text, whose validation part is contiguous: the end of the training part."""

    task: Literal["language"] = "language"
    seed: ClassVar[int] = 0  # type: ignore[misc]  # nothing is random
    is_spaced: ClassVar[bool] = False  # whether words and punctuation are separated by spaces

    tokens: Literal["characters", "words"] = added_in_0_2(
        "characters", description="What is predicted: characters or words."
    )
    vocabulary_size: Annotated[int, Field(ge=0, le=LARGEST_VOCABULARY)] = added_in_0_2(
        0, description="Largest number of different tokens, the most frequent; 0 for all characters, or 10,000 words."
    )
    validation: Annotated[int | float, BeforeValidator(_check_rows)] = Field(
        default=0.1, description="Tokens for validation: a number, or a fraction of the training part below 1."
    )


class SequencePairsConfig(DatasetConfig):
    """Sequences of letters with the sequences that are to be written for them, drawn by the seed.

    The lengths of the test are those of the training, `shortest` to `longest`; those of the holdout are longer.
    """

    task: Literal["sequence_to_sequence"] = "sequence_to_sequence"
    shortest: Annotated[int, Field(ge=1, le=10_000)] = 4
    longest: Annotated[int, Field(ge=1, le=10_000)] = 10
    longest_holdout: Annotated[int, Field(ge=1, le=10_000)] = 20
    train_size: Count = 2000
    test_size: Count = 500
    holdout_size: CountOrZero = 500
    seed: Seed = 0

    @model_validator(mode="after")
    def _check_lengths(self) -> Self:
        if self.longest < self.shortest:
            problem = f"expected at least the shortest length {self.shortest}, got {self.longest}"
            raise ConfigError(problem, location=("longest",))
        if self.holdout_size and self.longest_holdout <= self.longest:
            problem = (
                f"expected more than the longest length {self.longest} of the training, got {self.longest_holdout}"
            )
            raise ConfigError(problem, location=("longest_holdout",))
        return self

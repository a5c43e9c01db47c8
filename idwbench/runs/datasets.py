"""The settings of data sets: one class each, discriminated by name."""

# No postponed annotations: pydantic would compile each of them again.
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import BeforeValidator, Field, Strict, model_validator

from idwbench.errors import ConfigError, did_you_mean
from idwbench.runs.dataset_base import (
    CorruptibleConfig,
    CountOrZero,
    DatasetConfig,
    FileConfig,
    LanguageConfig,
    SequencePairsConfig,
    TableConfig,
    TableFileConfig,
)
from idwbench.runs.settings import Count, Fraction, NonNegative, Seed, added_in_0_2, validated

__all__ = [
    "DATASETS",
    "AesopConfig",
    "BlobsConfig",
    "CirclesConfig",
    "ClassTableConfig",
    "CsvConfig",
    "DiabetesConfig",
    "DigitsConfig",
    "Friedman1Config",
    "GaussianQuantilesConfig",
    "Hastie102Config",
    "HypercubeConfig",
    "ImageConfig",
    "LookupConfig",
    "NpzConfig",
    "PartsConfig",
    "SineConfig",
    "SymbolsConfig",
    "TextConfig",
    "TransliterationConfig",
    "TwoMoonsConfig",
    "UnknownConfig",
    "WikiText2Config",
    "dataset_identity",
    "dataset_label",
    "parse_dataset",
]

_VALIDATION_SEED = "Seed of the choice of validation rows."
_PIXELS = "Scaling of pixels: standard (the usual mean and standard deviation), or unit (x/255, from 0 to 1)."

ClassCount = Annotated[int, Field(ge=2, le=10_000)]


class TwoMoonsConfig(CorruptibleConfig):
    """Two interleaved half circles, with 100 and 20 points per class as in the authors' code.

    The paper's text has 100 and 20 in total: ``train_per_class=50, test_per_class=10``. The holdout is a new sample.
    """

    name: Literal["two_moons"] = "two_moons"
    task: Literal["classification"] = added_in_0_2("classification")
    train_per_class: Count = 100
    test_per_class: Count = 20
    holdout_per_class: CountOrZero = 2000
    noise: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.1
    seed: Seed = 0


class DigitsConfig(CorruptibleConfig, TableConfig):
    """scikit-learn's 1,797 digits of 8 x 8 pixels, split by class; needs no download."""

    name: Literal["digits"] = "digits"
    task: Literal["classification"] = added_in_0_2("classification")


class ClassTableConfig(CorruptibleConfig, TableConfig):
    """A small table of classes that scikit-learn ships: iris, wine or breast_cancer.

    ``iris``: 150 irises, four lengths and widths, three species. ``wine``: 178 wines, 13 chemical measurements, three
    growers. ``breast_cancer``: 569 tumours, 30 measurements of cell nuclei, malignant or benign.
    """

    name: Literal["iris", "wine", "breast_cancer"]
    task: Literal["classification"] = "classification"


class _DrawnClasses(CorruptibleConfig):
    task: Literal["classification"] = "classification"
    train_size: Count = 200
    test_size: Count = 200
    holdout_size: CountOrZero = 2000
    seed: Seed = 0


class CirclesConfig(_DrawnClasses):
    """scikit-learn's ``make_circles``: a circle inside another, whose radius is `factor`, with noise."""

    name: Literal["circles"] = "circles"
    noise: NonNegative = 0.1
    factor: Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)] = 0.5


class _NumberedClasses(_DrawnClasses):
    classes: ClassCount = 3
    features: Count = 2


class BlobsConfig(_NumberedClasses):
    """scikit-learn's ``make_blobs``: one Gaussian for each class, with the standard deviation `spread`."""

    name: Literal["blobs"] = "blobs"
    classes: ClassCount = 5
    spread: NonNegative = 2.0


class HypercubeConfig(_NumberedClasses):
    """scikit-learn's ``make_classification``: two Gaussian clusters for each class, at vertices of a hypercube.

    Only the `informative` ones of the features depend on the class. A fraction `flipped` of the labels is random.
    """

    name: Literal["hypercube"] = "hypercube"
    features: Count = 10
    informative: Count = 5
    flipped: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 0.01

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if self.informative > self.features:
            problem = f"expected at most the {self.features} features, got {self.informative}"
            raise ConfigError(problem, location=("informative",))
        if 2 * self.classes > 2 ** min(self.informative, 20):
            problem = f"{self.classes} classes of two clusters need more vertices than {self.informative} features have"
            raise ConfigError(problem, location=("classes",))
        return self


class GaussianQuantilesConfig(_NumberedClasses):
    """scikit-learn's ``make_gaussian_quantiles``: normal points, with equal classes by the distance to the origin."""

    name: Literal["gaussian_quantiles"] = "gaussian_quantiles"


class Hastie102Config(_DrawnClasses):
    """scikit-learn's ``make_hastie_10_2``: ten normal features, two classes by the sum of their squares."""

    name: Literal["hastie_10_2"] = "hastie_10_2"
    train_size: Count = 1000
    test_size: Count = 1000


_ImageSet = Literal["mnist", "fashion_mnist"]
_PARTS: tuple[str, ...] = get_args(_ImageSet)


class ImageConfig(CorruptibleConfig):
    """Images of 28 x 28 pixels in ten classes, in the archives of MNIST; such data sets can be parts of one.

    The official archives: 60,000 and 10,000 images.
    """

    name: _ImageSet
    task: Literal["classification"] = added_in_0_2("classification")
    scaling: Literal["standard", "unit"] = added_in_0_2("standard", description=_PIXELS)
    seed: Seed = added_in_0_2(0, description=_VALIDATION_SEED)
    shifts: Annotated[int, Field(ge=0, le=4)] = added_in_0_2(
        0, description="Adds copies of the training images, shifted by up to so many pixels in four directions."
    )


def _check_parts(value: object) -> tuple[str, ...]:
    hint = f"expected {' and '.join(_PARTS)}, in any order"
    if not isinstance(value, list | tuple):
        raise ConfigError(f"expected a list of two data sets, got {value!r}", location=("of",), hint=hint)
    for index, name in enumerate(value):
        place = ("of", index)
        if not isinstance(name, str) or name not in DATASETS:
            raise ConfigError(f"unknown data set {name!r}", location=place, hint=did_you_mean(str(name), _PARTS))
        if name not in _PARTS:
            raise ConfigError(f"{name} has no images of 28 x 28 pixels as the parts need", location=place, hint=hint)
        if name in value[:index]:
            raise ConfigError(f"{name} is already a part", location=place, hint=hint)
    if len(value) != 2:
        raise ConfigError(f"expected a list of two data sets, got {len(value)}", location=("of",), hint=hint)
    return tuple(value)


class PartsConfig(DatasetConfig):
    """Two data sets of images as one: label c of each part is class c, and all pixels are scaled alike.

    The rows of the parts follow each other. Validation rows are taken from each part. ``joint`` trains on both
    together, ``sequence`` on one after the other: all epochs of the first, then all of the second.
    """

    name: Literal["joint", "sequence"]
    task: Literal["classification"] = "classification"
    of: Annotated[tuple[str, ...], BeforeValidator(_check_parts)] = Field(description="The parts, in order.")
    scaling: Literal["unit", "standard"] = added_in_0_2("unit", description=_PIXELS)
    seed: Seed = Field(default=0, description=_VALIDATION_SEED)

    @property
    def n_passes(self) -> int:
        """How often all epochs of the protocol are trained."""
        return len(self.of) if self.name == "sequence" else 1

    @property
    def parts(self) -> tuple[ImageConfig, ...]:
        """The settings of each part as a data set of its own, with the same validation rows."""
        shared = {"scaling": self.scaling, "validation": self.validation, "seed": self.seed}
        return tuple(validated(ImageConfig, {"name": name, **shared}) for name in self.of)


class _DrawnRegression(DatasetConfig):
    task: Literal["regression"] = "regression"
    train_size: Count = 200
    test_size: Count = 200
    holdout_size: CountOrZero = 2000
    noise: NonNegative = 1.0
    seed: Seed = 0


class SineConfig(_DrawnRegression):
    """A noisy sine, x uniform in [−π, π], y = sin x + noise · N(0, 1); the holdout is without noise."""

    name: Literal["sine"] = "sine"
    train_size: Count = 100
    test_size: Count = 100
    noise: NonNegative = 0.2


class Friedman1Config(_DrawnRegression):
    """scikit-learn's ``make_friedman1``: ten features, five of them relevant; the holdout is without noise."""

    name: Literal["friedman1"] = "friedman1"


class DiabetesConfig(TableConfig):
    """scikit-learn's 442 diabetes patients: ten features and the progression of the disease after one year."""

    name: Literal["diabetes"] = "diabetes"
    task: Literal["regression"] = "regression"


class LookupConfig(DatasetConfig):
    """Random key-value pairs and noisy queries for them; a lookup is a regression of values on keys."""

    name: Literal["lookup"] = "lookup"
    task: Literal["lookup"] = "lookup"
    items: Count = 64
    dimensions: Count = 16
    queries: Count = 256
    noise: NonNegative = 0.5
    mean: Annotated[float, Field(ge=-1e6, le=1e6, allow_inf_nan=False)] = 0.0
    seed: Seed = 0
    validation: CountOrZero = added_in_0_2(0, description="Number of queries for validation.")
    std: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)] = added_in_0_2(
        default=1.0, description="Standard deviation σ of the numbers of keys."
    )


class NpzConfig(TableFileConfig):
    """The arrays ``X_train, y_train, X_test, y_test`` of an ``.npz`` file."""

    suffixes: ClassVar[tuple[str, ...]] = (".npz",)

    name: Literal["npz"] = "npz"
    seed: Seed = added_in_0_2(0, description=_VALIDATION_SEED)


class CsvConfig(TableFileConfig):
    """A table with a label or target column, split into train and test, by class if there are classes.

    Texts in other columns are categories; missing values become the median or the most frequent category.
    """

    suffixes: ClassVar[tuple[str, ...]] = (".csv", ".tsv")

    name: Literal["csv"] = "csv"
    label: str = Field(default="label", description="Column of the labels or targets of a .csv or .tsv file.")
    test_fraction: Fraction = 0.2
    seed: Seed = 0
    drop: Annotated[tuple[str, ...], Strict(False)] = added_in_0_2(
        (), description="A column of a .csv or .tsv file to leave out, such as a number of the row; may be repeated."
    )


class TextConfig(LanguageConfig, FileConfig):
    """A text file in UTF-8; the end is for test."""

    suffixes: ClassVar[tuple[str, ...]] = (".txt",)

    name: Literal["text"] = "text"
    test_fraction: Fraction = 0.1


class AesopConfig(LanguageConfig):
    """Aesop's fables in the version of J. H. Stickney (1915), Project Gutenberg's eBook 49010; the end is for test."""

    name: Literal["aesop"] = "aesop"
    test_fraction: Fraction = 0.1


class WikiText2Config(LanguageConfig):
    """WikiText-2 (Merity et al. 2016): trained on its validation file, tested on its test file."""

    is_spaced: ClassVar[bool] = True

    name: Literal["wikitext_2"] = "wikitext_2"


class SymbolsConfig(SequencePairsConfig):
    """Sequences of letters that are to be written again, from the beginning or from the end."""

    name: Literal["copying", "reversing"]
    symbols: Annotated[int, Field(ge=2, le=26)] = 8


class TransliterationConfig(SequencePairsConfig):
    """Words of Latin letters that are to be written in Greek letters, see `idwbench.data.sequences`."""

    name: Literal["transliteration"] = "transliteration"


class UnknownConfig(DatasetConfig):
    """The data of prototypes that were made elsewhere, of which nothing is known; only in model files, not by name."""

    name: Literal["unknown"] = "unknown"
    task: Literal["classification", "regression"] = "classification"


# In the order of reports.
DATASETS: dict[str, type[DatasetConfig]] = {
    name: settings
    for settings in (
        *(TwoMoonsConfig, DigitsConfig, ClassTableConfig),
        *(CirclesConfig, BlobsConfig, HypercubeConfig, GaussianQuantilesConfig, Hastie102Config),
        *(ImageConfig, PartsConfig, SineConfig, Friedman1Config, DiabetesConfig, LookupConfig),
        *(NpzConfig, CsvConfig, TextConfig, AesopConfig, WikiText2Config),
        *(SymbolsConfig, TransliterationConfig),
    )
    for name in get_args(settings.model_fields["name"].annotation)
}

# The kinds of the user's own files by suffix.
_KINDS = {suffix: name for name, kind in DATASETS.items() if issubclass(kind, FileConfig) for suffix in kind.suffixes}


def dataset_identity(dataset: DatasetConfig) -> str:
    """Return the data set as JSON, with the checksum but not the path of a file."""
    return dataset.model_dump_json(exclude={"path"})


def dataset_label(dataset: DatasetConfig) -> str:
    """Return the label in reports and the database: the name of the data set, or of the file of the user's own data."""
    return Path(dataset.path).name if isinstance(dataset, FileConfig) else dataset.name


def parse_dataset(content: Any) -> DatasetConfig:
    """Return the settings for a name or a mapping; a name ending in .npz, .csv, .tsv or .txt is the path of a file.

    Raises:
        ConfigError: unknown data set or key, or a value of the wrong type; `location` is the key.
    """
    if isinstance(content, str):
        content = {"name": content}
    if not isinstance(content, dict):
        raise ConfigError(f"expected a name or a mapping, got {content!r}")
    name = content.get("name")
    if name is None:
        raise ConfigError("'name' is missing", hint=did_you_mean("", DATASETS))
    if not isinstance(name, str):
        raise ConfigError(f"expected the name of a data set, got {name!r}", location=("name",))
    if "path" not in content and (suffix := Path(name).suffix.lower()) in _KINDS:
        content = {**content, "name": (name := _KINDS[suffix]), "path": content["name"]}
    if name not in DATASETS:
        raise ConfigError(f"unknown data set '{name}'", location=("name",), hint=_expected(name))
    kind = DATASETS[name]
    if issubclass(kind, FileConfig) and "path" not in content:
        problem = f"'path' is missing: the data set {name} is a file of your own"
        raise ConfigError(problem, hint=f"give its path, such as data{kind.suffixes[0]}")
    return validated(kind, content)


def _expected(name: str) -> str:
    """Return a hint at what is expected in place of an unknown name, which may be meant as the path of a file."""
    if Path(name).suffix or "/" in name or "\\" in name:
        return f"the name of a file ends in {', '.join(_KINDS)}"
    return did_you_mean(name, DATASETS)

"""What a run is: data set, method, prototypes, protocol and seed, validated and frozen.

The *run key* is the SHA-256 of a run's canonical JSON with a version in front. The same configuration has the
same key, whatever sweep, order, worker or engine it comes from.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from idwbench.errors import ConfigError, did_you_mean
from idwbench.methods import ParameterValue, get_method, resolve_parameters

__all__ = [
    "DATASET_NAMES",
    "CsvConfig",
    "DatasetConfig",
    "DigitsConfig",
    "FashionMnistConfig",
    "MnistConfig",
    "NpzConfig",
    "Protocol",
    "RunConfig",
    "TwoMoonsConfig",
    "dataset_identity",
    "dataset_mapping",
    "default_protocol",
    "parse_dataset",
    "parse_protocol",
    "parse_run",
]

RUN_KEY_VERSION = "idwbench-run-1"

Seed = Annotated[int, Field(ge=0, lt=2**32)]
Count = Annotated[int, Field(ge=1, lt=2**31)]
Fraction = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)]


class Frozen(BaseModel):
    """Values that cannot change, refuse unknown names, and take no value of another type."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class TwoMoonsConfig(Frozen):
    """Two interleaved half circles; the authors draw 100 and 20 points *per moon*, in this order, from one generator.

    The paper's text says 100 and 20 in all: ``train_per_class=50, test_per_class=10``. `holdout_per_class` sizes
    a fresh sample that tells methods apart where 40 test points cannot.
    """

    name: Literal["two_moons"] = "two_moons"
    train_per_class: Count = 100
    test_per_class: Count = 20
    holdout_per_class: Annotated[int, Field(ge=0, lt=2**31)] = 2000
    noise: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.1
    seed: Seed = 0


class DigitsConfig(Frozen):
    """scikit-learn's 1,797 digits of 8 x 8 pixels, split by class; needs no download."""

    name: Literal["digits"] = "digits"
    test_fraction: Fraction = 0.2
    seed: Seed = 0


class MnistConfig(Frozen):
    """The official MNIST archives: 60,000 and 10,000 images of 28 x 28 pixels."""

    name: Literal["mnist"] = "mnist"


class FashionMnistConfig(Frozen):
    """The official Fashion-MNIST archives, in the form of MNIST."""

    name: Literal["fashion_mnist"] = "fashion_mnist"


class FileConfig(Frozen):
    """What the user's own files share; a file is known by its content, not by its path."""

    path: Annotated[str, Field(min_length=1)]
    sha256: str | None = None
    scaling: Literal["standard", "none"] = "standard"


class NpzConfig(FileConfig):
    """The user's arrays ``X_train, y_train, X_test, y_test`` in one ``.npz``."""

    name: Literal["npz"] = "npz"


class CsvConfig(FileConfig):
    """The user's table with a label column, split by class into train and test."""

    name: Literal["csv"] = "csv"
    label: str = "label"
    test_fraction: Fraction = 0.2
    seed: Seed = 0


DatasetConfig = TwoMoonsConfig | DigitsConfig | MnistConfig | FashionMnistConfig | NpzConfig | CsvConfig
_DATASETS: dict[str, type[DatasetConfig]] = {
    "two_moons": TwoMoonsConfig,
    "digits": DigitsConfig,
    "mnist": MnistConfig,
    "fashion_mnist": FashionMnistConfig,
    "npz": NpzConfig,
    "csv": CsvConfig,
}
DATASET_NAMES = tuple(_DATASETS)


class Protocol(Frozen):
    """How a run is trained: Adam with AMSGrad, cross-entropy, a learning rate that may follow a cosine per epoch."""

    epochs: Count
    batch_size: Count
    # Adam's first step divides it by 0.1, in float32.
    learning_rate: Annotated[float, Field(gt=0, le=3e37, allow_inf_nan=False)]
    optimizer: Literal["adam_amsgrad"] = "adam_amsgrad"
    schedule: Literal["cosine", "constant"] = "cosine"


_PROTOCOLS = {
    "two_moons": Protocol(epochs=25, batch_size=10, learning_rate=0.01),
    "mnist": Protocol(epochs=50, batch_size=4, learning_rate=0.001),
    "fashion_mnist": Protocol(epochs=50, batch_size=4, learning_rate=0.001),
}
_OTHER_PROTOCOL = Protocol(epochs=50, batch_size=16, learning_rate=0.01)


def default_protocol(dataset_name: str) -> Protocol:
    """Return the paper's protocol for a data set of the paper (arXiv 2310.18805, section 3), ours for others."""
    return _PROTOCOLS.get(dataset_name, _OTHER_PROTOCOL)


class RunConfig(Frozen):
    """One training, wholly determined.

    `parameters` holds every parameter of the method, defaults included; `plugin_sha256` the checksum of the
    plugin that brought the method, if one did.
    """

    dataset: Annotated[DatasetConfig, Field(discriminator="name")]
    method: str
    parameters: dict[str, ParameterValue]
    prototypes: Count
    protocol: Protocol
    seed: Seed
    plugin_sha256: str | None = None

    @property
    def dataset_label(self) -> str:
        """The name that reports and the database use: the data set's, or the file's for the user's own data."""
        return Path(self.dataset.path).name if isinstance(self.dataset, FileConfig) else self.dataset.name

    def canonical_json(self) -> str:
        """Return the run as JSON with sorted keys and no spaces; a file's path is left out, its checksum stays."""
        content = self.model_dump(mode="json")
        content["dataset"].pop("path", None)
        return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=True)

    @property
    def run_key(self) -> str:
        """SHA-256, in hexadecimal, of the version and the canonical JSON."""
        return hashlib.sha256(f"{RUN_KEY_VERSION}\n{self.canonical_json()}".encode()).hexdigest()


def dataset_identity(dataset: DatasetConfig) -> str:
    """Return the data set as JSON; a file's path is left out, since its checksum says what it is."""
    return dataset.model_dump_json(exclude={"path"})


def dataset_mapping(name: str) -> dict[str, Any]:
    """Return ``{"name": name}``; a name ending in .npz or .csv is the path of a file."""
    suffix = Path(name).suffix.lower()
    return {"name": suffix[1:], "path": name} if suffix in (".npz", ".csv") else {"name": name}


def parse_dataset(content: Any) -> DatasetConfig:
    """Return the data set that a name or a mapping describes; a name ending in .npz or .csv is a file.

    Raises:
        ConfigError: unknown data set, unknown key, or a value of the wrong type; `location` names the key.
    """
    if isinstance(content, str):
        content = dataset_mapping(content)
    if not isinstance(content, dict):
        raise ConfigError(f"expected a name or a mapping, got {content!r}")
    name = content.get("name")
    if name is None:
        raise ConfigError("'name' is missing" + did_you_mean("", DATASET_NAMES))
    if not isinstance(name, str) or name not in _DATASETS:
        hint = did_you_mean(str(name), DATASET_NAMES)
        raise ConfigError(f"unknown data set {name!r}" + hint, location=("name",))
    return _validate(_DATASETS[name], content)


def parse_protocol(content: Any, base: Protocol) -> Protocol:
    """Return `base` with the settings of the mapping `content` in place of its own.

    Raises:
        ConfigError: unknown key, or a value of the wrong type or out of range; `location` names the key.
    """
    if not isinstance(content, dict):
        raise ConfigError(f"expected a mapping, got {content!r}")
    return _validate(Protocol, {**base.model_dump(), **content})


def parse_run(
    dataset: DatasetConfig,
    method: str,
    prototypes: int,
    protocol: Protocol,
    seed: int,
    parameters: dict[str, Any] | None = None,
) -> RunConfig:
    """Return the run, its method looked up and its parameters completed.

    Raises:
        ConfigError: unknown method, a parameter it does not take, or a value out of range; `location` names it.
    """
    found = get_method(method)
    return _validate(
        RunConfig,
        {
            "dataset": dataset,
            "method": method,
            "parameters": resolve_parameters(found, parameters or {}),
            "prototypes": prototypes,
            "protocol": protocol,
            "seed": seed,
            "plugin_sha256": found.sha256,
        },
    )


_Model = TypeVar("_Model", bound=BaseModel)


def _validate(model: type[_Model], content: dict[str, Any]) -> _Model:
    try:
        return model.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        location = tuple(first["loc"])
        raise ConfigError(_explain(first, model), location=location) from None


def _explain(error: Any, model: type[BaseModel]) -> str:
    key = str(error["loc"][-1]) if error["loc"] else ""
    if error["type"] == "extra_forbidden":
        return "unknown key" + did_you_mean(key, model.model_fields)
    if error["type"] == "missing":
        return f"'{key}' is missing"
    text = str(error["msg"])
    return f"{text[:1].lower()}{text[1:]}, got {error['input']!r}"

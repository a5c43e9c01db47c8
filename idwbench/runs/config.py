"""`RunConfig`: one run, wholly determined by data set, model, protocol and seed.

The *run key* is the SHA-256 of a run's canonical JSON with a version in front. The same configuration has the same key,
whatever sweep, order, worker or engine it comes from. A setting that was added later is left out of the JSON while it
has its default, and the settings of a prototype network stand beside data set and protocol, as they did in version
0.1.0: so keys do not change when the project grows.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import PlainValidator, SerializeAsAny, SerializerFunctionWrapHandler, model_serializer, model_validator

from idwbench.errors import ConfigError, UnknownSettingError, did_you_mean
from idwbench.runs.datasets import DatasetConfig, FileConfig, parse_dataset
from idwbench.runs.models import ModelConfig, PrototypesConfig, model_setting_names, parse_model
from idwbench.runs.protocol import Protocol, default_protocol, parse_protocol
from idwbench.runs.settings import Seed, Settings, validated

__all__ = ["RunConfig", "run_config"]

RUN_KEY_VERSION = "idwbench-run-1"


def _dataset(content: Any) -> Any:
    try:
        return content if isinstance(content, Settings) else parse_dataset(content)
    except ConfigError as error:
        raise error.at("dataset") from None


if TYPE_CHECKING:
    _DatasetField = DatasetConfig
else:
    # For pydantic not a union: that would compile the classes of all data sets, and a command uses one.
    _DatasetField = Annotated[SerializeAsAny[Settings], PlainValidator(_dataset)]


class RunConfig(Settings):
    """One training or evaluation, wholly determined."""

    dataset: _DatasetField
    model: ModelConfig
    protocol: Protocol
    seed: Seed

    @model_validator(mode="before")
    @classmethod
    def _nest_prototypes(cls, content: Any) -> Any:
        if not isinstance(content, dict) or "model" in content:
            return content
        known = PrototypesConfig.model_fields
        fields = {name: content[name] for name in content if name in known}
        return {"model": fields, **{name: value for name, value in content.items() if name not in fields}}

    @model_serializer(mode="wrap")
    def _flatten_prototypes(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        content: dict[str, Any] = handler(self)
        if content["model"].get("kind") == "prototypes":
            content.update(content.pop("model"))
            del content["kind"]
        return content

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


def run_config(dataset: Any, *, seed: int = 0, **settings: Any) -> RunConfig:
    """Return a run on `dataset` with flat settings of model and protocol; what is left out has its default.

    ``run_config("two_moons", method="idw", prototypes=16, power=2.0, epochs=25)``. The protocol's defaults are those of
    the data set, `method` is ``idw`` and `prototypes` 16.

    Args:
        dataset: The name of a data set, the path of a ``.csv`` or ``.npz`` file, a mapping with ``name`` and settings,
            or a `DatasetConfig`.
        seed: Seed of initialisation and batch order.
        settings: Settings of the model (`method`, `prototypes`, `initialisation`, parameters of the method) and of the
            protocol (`epochs`, `learning_rate`, …).

    Raises:
        ConfigError: an unknown word, a value of the wrong type or out of range; `location` names it.
    """
    data: DatasetConfig = _dataset(dataset)
    known = {*model_setting_names(), *Protocol.model_fields}
    for name in settings:
        if name not in known:
            raise UnknownSettingError("unknown setting", location=(name,), hint=did_you_mean(name, known))
    chosen = {name: value for name, value in settings.items() if name in Protocol.model_fields}
    protocol = parse_protocol(chosen, default_protocol(data.name))
    others = {name: value for name, value in settings.items() if name not in chosen}
    model = parse_model({"method": "idw", "prototypes": 16, **others})
    return validated(RunConfig, {"dataset": data, "model": model, "protocol": protocol, "seed": seed})

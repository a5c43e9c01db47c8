"""`RunConfig`: one run, determined by data set, model, protocol and seed.

The *run key* is the SHA-256 of a version and the run's canonical JSON; it does not depend on sweep, order, thread or
engine. So that keys stay stable, the JSON omits settings that were added later while they have their default, and
holds the settings of a prototype network beside data set and protocol, as in version 0.1.0.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import PlainValidator, SerializeAsAny, SerializerFunctionWrapHandler, model_serializer, model_validator

from idwbench.errors import ConfigError, UnknownSettingError, did_you_mean
from idwbench.runs.datasets import DatasetConfig, SequenceConfig, dataset_label, parse_dataset
from idwbench.runs.models import MODELS, ModelConfig, PrototypesConfig, model_setting_names, parse_model
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
    # A union would make pydantic compile the classes of all data sets.
    _DatasetField = Annotated[SerializeAsAny[Settings], PlainValidator(_dataset)]


class RunConfig(Settings):
    """The settings of one run."""

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
        fields["kind"] = "prototypes"
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
        """The label in reports and the database: the name of the data set, or of the file of the user's own data."""
        return dataset_label(self.dataset)

    def canonical_json(self) -> str:
        """Return the run as JSON with sorted keys and no spaces, with the checksum but not the path of a file."""
        content = self.model_dump(mode="json")
        content["dataset"].pop("path", None)
        return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=True)

    @property
    def network(self) -> PrototypesConfig:
        """The settings of the prototype network that this run trains; raises `ValueError` for a run of another kind."""
        if not isinstance(self.model, PrototypesConfig) or self.model.kind != "prototypes":
            raise ValueError(f"a run of kind {self.model.kind} trains no prototype network")
        return self.model

    @property
    def n_epochs(self) -> int:
        """Number of epochs that are trained: those of the protocol, in a sequence for each of its parts."""
        return self.protocol.epochs * (len(self.dataset.of) if isinstance(self.dataset, SequenceConfig) else 1)

    @property
    def required(self) -> RunConfig | None:
        """The run whose result this run needs, or None."""
        studied = self.model.studied
        return None if studied is None else self.model_copy(update={"model": studied})

    @property
    def run_key(self) -> str:
        """SHA-256, in hexadecimal, of the version and the canonical JSON."""
        return hashlib.sha256(f"{RUN_KEY_VERSION}\n{self.canonical_json()}".encode()).hexdigest()


def run_config(dataset: Any, *, seed: int = 0, **settings: Any) -> RunConfig:
    """Return a run, such as ``run_config("two_moons", method="idw", prototypes=16, power=2.0, epochs=25)``.

    Args:
        dataset: The name of a data set, the path of a ``.csv`` or ``.npz`` file, a mapping with ``name`` and settings,
            or a `DatasetConfig`.
        seed: Seed of initialisation and batch order.
        settings: Settings of the model (default: 16 prototypes of ``idw``), parameters of the method or kernel, and
            settings of the protocol (default: those of the data set).

    Raises:
        ConfigError: unknown setting, a value of the wrong type or out of range, or a model that does not support the
            data set; `location` is the setting.
    """
    data: DatasetConfig = _dataset(dataset)
    known = {*model_setting_names(), *Protocol.model_fields}
    for name in settings:
        if name not in known:
            raise UnknownSettingError("unknown setting", location=(name,), hint=did_you_mean(name, known))
    chosen = {name: value for name, value in settings.items() if name in Protocol.model_fields}
    protocol = parse_protocol(chosen, default_protocol(data.name))
    others = {name: value for name, value in settings.items() if name not in chosen}
    kind = others.get("kind", "prototypes")
    defaults = MODELS[kind].defaults if isinstance(kind, str) and kind in MODELS else {}
    model = parse_model({**defaults, **others})
    model.check_dataset(data)
    return validated(RunConfig, {"dataset": data, "model": model, "protocol": protocol, "seed": seed})

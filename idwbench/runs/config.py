"""`RunConfig`: one run, determined by data set, model, protocol and seed.

The *run key* is the SHA-256 of a version and the run's canonical JSON; it does not depend on sweep, order, thread or
engine. So that keys stay stable, the JSON omits settings that were added later while they have their default, and
holds the settings of a prototype network beside data set and protocol, as in version 0.1.0.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Union

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from idwbench.errors import ConfigError, UnknownSettingError
from idwbench.runs.dataset_base import DatasetConfig
from idwbench.runs.datasets import DATASETS, PartsConfig, UnknownConfig, dataset_label, parse_dataset
from idwbench.runs.kinds.memory_study import MemoryStudyConfig
from idwbench.runs.kinds.models import MODELS, ModelConfig, check_settings_known, parse_model
from idwbench.runs.kinds.patch_study import PatchStudyConfig
from idwbench.runs.kinds.prototypes import TABLE_DEFAULTS, PrototypesConfig, has_table_defaults
from idwbench.runs.protocol import DEFAULT_PROTOCOLS, Protocol, parse_protocol
from idwbench.runs.settings import Seed, Settings, validated

__all__ = ["RunConfig", "run_config"]

RUN_KEY_VERSION = "idwbench-run-1"
_KEY_START = hashlib.sha256(f"{RUN_KEY_VERSION}\n".encode())

# Past pydantic's own, which are slow for attributes that are missing, and refuse changes.
_get: Callable[[RunConfig, str], Any] = object.__getattribute__
_set = object.__setattr__


if TYPE_CHECKING:
    _AnyDataset = DatasetConfig
else:
    _AnyDataset = Annotated[Union[(*dict.fromkeys(DATASETS.values()), UnknownConfig)], Field(discriminator="name")]


class RunConfig(Settings):
    """The settings of one run.

    The run key is computed once, and what does not depend on the seed once for all runs that `with_seed` returns. They
    are in slots, which `model_copy` and pickled runs do not take over.
    """

    __slots__ = ("_origin", "_run_key", "_texts")

    dataset: _AnyDataset
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
        _, before, after = self._shared_texts()
        return f"{before}{self.seed}{after}"

    @property
    def setting_key(self) -> str:
        """A text that is equal for runs which differ in the seed alone, in memory and not in the database."""
        return self._shared_texts()[0]

    def _shared_texts(self) -> tuple[str, str, str]:
        """Return the setting key, and the canonical JSON before and after the seed; runs of one setting share them."""
        try:
            return _get(self, "_texts")  # type: ignore[no-any-return]
        except AttributeError:
            origin: RunConfig | None = getattr(self, "_origin", None)
        if origin is not None:
            texts = origin._shared_texts()
        else:
            content = self.model_dump(mode="json")
            content["dataset"].pop("path", None)
            before = _json({name: value for name, value in content.items() if name < "seed"})
            after = _json({name: value for name, value in content.items() if name > "seed"})
            texts = (before + after, f'{before[:-1]},"seed":', f",{after[1:]}" if after != "{}" else "}")
        _set(self, "_texts", texts)
        return texts

    def with_seed(self, seed: int) -> RunConfig:
        """Return the run with another seed, which is not checked; it shares all settings with this one."""
        copy = self.model_copy(update={"seed": seed})
        _set(copy, "_origin", self)
        return copy

    def named_settings(self) -> dict[str, Any]:
        """Return the settings by name, defaults included, as the columns of `Results.to_frame`."""
        model = dict(self.model)
        parameters = model.pop("parameters", {})
        return {
            **{f"dataset_{name}": value for name, value in self.dataset},
            "model": model.pop("kind"),
            "method": self.model.method,
            **model,
            **parameters,
            **dict(self.protocol),
            "seed": self.seed,
        }

    @property
    def network(self) -> PrototypesConfig:
        """The settings of the prototype network that this run trains; raises `ValueError` for a run of another kind."""
        if not isinstance(self.model, PrototypesConfig) or self.model.kind != "prototypes":
            raise ValueError(f"a run of kind {self.model.kind} trains no prototype network")
        return self.model

    @property
    def n_epochs(self) -> int:
        """Number of epochs that are trained: those of the protocol, in a sequence for each of its parts."""
        return self.protocol.epochs * (self.dataset.n_passes if isinstance(self.dataset, PartsConfig) else 1)

    @property
    def required(self) -> RunConfig | None:
        """The run whose result this run needs, or None."""
        if not isinstance(self.model, PatchStudyConfig | MemoryStudyConfig):
            return None
        return self.model_copy(update={"model": self.model.network})

    @property
    def run_key(self) -> str:
        """SHA-256, in hexadecimal, of the version and the canonical JSON."""
        try:
            return _get(self, "_run_key")  # type: ignore[no-any-return]
        except AttributeError:
            digest = _KEY_START.copy()
            digest.update(self.canonical_json().encode())
            key = digest.hexdigest()
            _set(self, "_run_key", key)
            return key


def _json(content: dict[str, Any]) -> str:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=True)


def run_config(dataset: Any, *, seed: int = 0, **settings: Any) -> RunConfig:
    """Return a run, such as ``run_config("two_moons", method="idw", prototypes=16, power=2.0, epochs=25)``.

    On data that is not the paper's, prototype networks whose keys are points start at training rows, keep their keys in
    the range of the data, and have a larger learning rate (`TABLE_DEFAULTS`), unless the settings say otherwise.

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
    try:
        data = dataset if isinstance(dataset, DatasetConfig) else parse_dataset(dataset)
    except ConfigError as error:
        raise error.at("dataset") from None
    try:
        check_settings_known(settings, Protocol.model_fields, "unknown setting")
    except UnknownSettingError as error:
        if (name := error.location[-1]) in type(data).model_fields:
            error.hint = f"it is one of the data set: {{'name': '{data.name}', '{name}': …}}"
        raise
    chosen = {name: value for name, value in settings.items() if name in Protocol.model_fields}
    others = {name: value for name, value in settings.items() if name not in chosen}
    kind = others.get("kind", "prototypes")
    defaults = MODELS[kind].defaults if isinstance(kind, str) and kind in MODELS else {}
    if kind in ("prototypes", "patch_study") and has_table_defaults(data, {**defaults, **others}["method"]):
        of_protocol = {name: value for name, value in TABLE_DEFAULTS.items() if name in Protocol.model_fields}
        chosen = {**of_protocol, **chosen}
        others = {**{name: value for name, value in TABLE_DEFAULTS.items() if name not in of_protocol}, **others}
    protocol = parse_protocol(chosen, DEFAULT_PROTOCOLS[data.name])
    model = parse_model({**defaults, **others}, data)
    return validated(RunConfig, {"dataset": data, "model": model, "protocol": protocol, "seed": seed})

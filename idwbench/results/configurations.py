"""Stored configurations, of which one is parsed for all runs that differ only in the seed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from idwbench.errors import ConfigError, ResultsError
from idwbench.runs.config import RunConfig
from idwbench.runs.kinds.models import ModelConfig

__all__ = ["Configurations"]


class Configurations:
    """Reads configurations from JSON text; what runs share is parsed once and is one object."""

    def __init__(self) -> None:
        self._settings: dict[str, RunConfig] = {}
        self._known: dict[tuple[str, str], Any] = {}

    def read(self, run_key: str, text: str, seed: int) -> RunConfig:
        """Return the configuration of a run; see `setting`."""
        setting = self.setting(run_key, text, seed)
        return setting if setting.seed == seed else setting.with_seed(seed)

    def setting(self, run_key: str, text: str, seed: int) -> RunConfig:
        """Return the configuration of a run, or that of one that differs only in the seed.

        Args:
            run_key: The key, for messages.
            text: The stored JSON.
            seed: The stored seed.

        Raises:
            ResultsError: the configuration is not valid.
        """
        setting = _without_seed(text, seed)
        config = self._settings.get(setting)
        if config is None:
            config = self._settings[setting] = self._joined(run_key, text, seed, _parts(setting))
        return config

    def _joined(self, run_key: str, text: str, seed: int, texts: Mapping[str, str]) -> RunConfig:
        """Return a configuration, with the data set, model and protocol of earlier ones if their JSON is equal."""
        known = {name: self._known[name, part] for name, part in texts.items() if (name, part) in self._known}
        if "dataset" in known and "protocol" in known:
            if "model" not in known and (model := _model(text)) is not None:
                known["model"] = self._known["model", texts["model"]] = model
            if "model" in known:
                return RunConfig.model_construct(**known, seed=seed)
        config = _parse(run_key, text)
        if texts and _is_json(texts["dataset"]) and _is_json(texts["protocol"]):
            for name, part in texts.items():
                config.__dict__[name] = self._known.setdefault((name, part), getattr(config, name))
        return config


def _parts(setting: str) -> dict[str, str]:
    """Return the JSON of the data set and of the protocol up to its first brace, and what is left, by name.

    Texts are empty for a run whose JSON has other names. Only JSON that ends at this brace is itself JSON.
    """
    found = {}
    for name in ("dataset", "protocol"):
        before, key, after = setting.partition(f'"{name}":')
        part, brace, after = after.partition("}")
        if key in after:  # a name of two things, or of none
            return {}
        found[name], setting = part + brace, f"{before}{key}{after}"
    return {**found, "model": setting}


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _model(text: str) -> ModelConfig | None:
    """Return the model of a run, or None if its JSON cannot be read alone."""
    content = json.loads(text)
    model = content.pop("model", None)
    for name in ("dataset", "protocol", "seed"):
        content.pop(name, None)
    if model is None:
        model = {**content, "kind": "prototypes"}
    elif content:
        return None
    try:
        return _models().validate_python(model)
    except (ValueError, ConfigError):
        return None


@cache
def _models() -> TypeAdapter[ModelConfig]:
    return TypeAdapter(ModelConfig)


def _without_seed(text: str, seed: int) -> str:
    """Return the JSON of a run without its seed, or unchanged if the seed is not where the database writes it.

    SQLite has the names in alphabetical order, and PostgreSQL the shortest first.
    """
    if text.endswith(end := f'"seed":{seed}}}'):
        return text[: -len(end)]
    if text.startswith(start := f'{{"seed": {seed}, '):
        return text[len(start) :]
    return text


def _parse(run_key: str, text: str) -> RunConfig:
    try:
        return RunConfig.model_validate_json(text)
    except (ValidationError, ConfigError) as error:
        run = f"run {run_key[:12]}"
        raise ResultsError(f"{run}: its stored configuration cannot be read: {_reason(error)}") from None


def _reason(error: ValidationError | ConfigError) -> str:
    if isinstance(error, ConfigError):
        return str(error)
    first = error.errors(include_url=False)[0]
    return ": ".join([*filter(None, [".".join(map(str, first["loc"]))]), first["msg"]])

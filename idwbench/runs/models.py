"""The settings of models, discriminated by kind."""

# No postponed annotations: pydantic would compile each of them again.
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import Field

from idwbench.attention.definitions import ParameterValue
from idwbench.attention.methods import METHODS, all_parameters, get_method, resolve_parameters
from idwbench.errors import ConfigError, did_you_mean
from idwbench.runs.settings import Count, Settings, added, validated

__all__ = ["MODELS", "ModelConfig", "PrototypesConfig", "model_setting_names", "parse_model"]


class PrototypesConfig(Settings):
    """A prototype network with learned keys and values.

    `parameters` holds every parameter of the method, defaults included; `plugin_sha256` is the checksum of the plugin
    that defines the method, or None.
    """

    array_names: ClassVar[tuple[str, ...]] = ("keys", "values")  # the arrays of a complete run

    kind: Literal["prototypes"] = "prototypes"
    method: str
    parameters: dict[str, ParameterValue]
    prototypes: Count = Field(description="Number of prototypes.")
    plugin_sha256: str | None = None
    initialisation: Literal["default", "mean", "samples", "kmeans"] = added(
        "default", "0.2.0", "Initialisation of keys: mean, samples or kmeans of the data; default: that of the method."
    )

    @property
    def label(self) -> str:
        """Label of the model: ``idw · 16 prototypes · p=2, ε=0.001``."""
        words = [self.method, f"{self.prototypes} prototype{'s' if self.prototypes > 1 else ''}", self.parameters_label]
        return " · ".join(word for word in words if word)

    @property
    def parameters_label(self) -> str:
        """Label of the parameters in tables: ``p=2, ε=0.001``."""
        method = METHODS.get(self.method)
        words = [method.label(self.parameters) if method else ", ".join(f"{k}={v}" for k, v in self.parameters.items())]
        if self.initialisation != "default":
            words.append(f"initialisation {self.initialisation}")
        if self.plugin_sha256 is not None:
            words.append(f"plugin {self.plugin_sha256[:8]}")
        return ", ".join(word for word in words if word)

    def replace_parameters(self, values: Mapping[str, ParameterValue]) -> Self:
        """Return a copy with other values of the method's parameters."""
        return self.model_copy(update={"parameters": dict(values)})


ModelConfig = PrototypesConfig
MODELS: dict[str, type[ModelConfig]] = {"prototypes": PrototypesConfig}
_DERIVED = ("kind", "parameters", "plugin_sha256")


def model_setting_names() -> list[str]:
    """Return the names of all flat settings of a model: fields, and parameters of methods."""
    return [*(name for name in PrototypesConfig.model_fields if name not in _DERIVED), *all_parameters()]


def parse_model(settings: Mapping[str, Any]) -> ModelConfig:
    """Return the model for flat settings: ``method``, ``prototypes``, parameters of the method, ….

    Raises:
        ConfigError: unknown method or parameter, or a value out of range; `location` is the setting.
    """
    fields = {name: value for name, value in settings.items() if name in PrototypesConfig.model_fields}
    name = fields.get("method")
    if name is None:
        raise ConfigError("'method' is missing", hint=did_you_mean("", METHODS))
    if not isinstance(name, str):
        raise ConfigError(f"expected the name of a method, got {name!r}", location=("method",))
    method = get_method(name)
    given = {name: value for name, value in settings.items() if name not in fields}
    parameters = resolve_parameters(method, given)
    return validated(PrototypesConfig, {**fields, "parameters": parameters, "plugin_sha256": method.sha256})

"""The settings of prototype networks."""

# No postponed annotations: pydantic would compile each of them again.
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import Field

from idwbench.attention.definitions import ParameterValue
from idwbench.attention.methods import METHODS, resolve_parameters
from idwbench.runs.kinds.base import ModelSettings, given_method
from idwbench.runs.settings import Count, added, validated

__all__ = ["PrototypesConfig"]


class PrototypesConfig(ModelSettings):
    """A prototype network with learned keys and values.

    `parameters` holds every parameter of the method, defaults included; `plugin_sha256` is the checksum of the plugin
    that defines the method, or None.
    """

    array_names: ClassVar[tuple[str, ...]] = ("keys", "values")  # the arrays of a complete run
    defaults: ClassVar[Mapping[str, Any]] = {"method": "idw", "prototypes": 16}  # of a run from Python

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

    def numbers_in_memory(self, n_features: int, n_outputs: int, n_rows: int, batch_size: int) -> int:
        """Parameters, their gradients and the state of the optimizer, and scores and weights of a batch."""
        return self.prototypes * (5 * (n_features + n_outputs) + 2 * min(batch_size, n_rows))

    @classmethod
    def parse(cls, settings: Mapping[str, Any]) -> Self:
        """Return the model for flat settings."""
        fields = {name: value for name, value in settings.items() if name in cls.model_fields}
        method = given_method(fields)
        given = {name: value for name, value in settings.items() if name not in fields}
        parameters = resolve_parameters(method, given)
        return validated(cls, {**fields, "parameters": parameters, "plugin_sha256": method.sha256})

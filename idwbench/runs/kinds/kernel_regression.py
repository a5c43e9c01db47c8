"""The settings of kernel regression."""

# No postponed annotations: pydantic would compile each of them again.
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from idwbench.attention.kernels import KERNELS, get_kernel
from idwbench.attention.records import ParameterValue, parameters_label
from idwbench.errors import ConfigError, did_you_mean
from idwbench.runs.kinds.base import ModelSettings, NoPlugin, NoPrototypes
from idwbench.runs.settings import added_in_0_2

__all__ = ["KernelRegressionConfig"]


class KernelRegressionConfig(NoPrototypes, NoPlugin, ModelSettings):
    """Kernel regression, whose memory is the training data.

    `parameters` holds every parameter of the kernel, defaults included: ``bandwidth``, a number in scaled units,
    ``scott`` or ``loo``; or ``power``, a number or ``loo``, and ``epsilon``.
    """

    defaults: ClassVar[Mapping[str, Any]] = {"kernel": "gaussian"}
    is_deterministic: ClassVar[bool] = True

    kind: Literal["kernel_regression"] = "kernel_regression"
    kernel: str
    parameters: dict[str, ParameterValue]
    order: Literal[0, 1] = added_in_0_2(0, description="0: weighted means of values; 1: local linear regression.")

    @property
    def method(self) -> str:
        """The name in tables: ``gaussian_kernel``, which is not the method ``gaussian``."""
        return f"{self.kernel}_kernel"

    @property
    def label(self) -> str:
        """Label of the model: ``gaussian kernel · h=0.5``."""
        return f"{self.kernel} kernel · {self.parameters_label}"

    @property
    def parameters_label(self) -> str:
        """Label of the parameters in tables: ``h=0.5``, ``h=loo``, ``p=2, ε=0`` or ``h=loo, order 1``."""
        words = [parameters_label(get_kernel(self.kernel), self.parameters), "order 1" if self.order else ""]
        return ", ".join(filter(None, words))

    @classmethod
    def completed(cls, fields: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
        """Return the fields with all parameters of the kernel."""
        if "kernel" not in fields:
            raise ConfigError("'kernel' is missing", hint=did_you_mean("", KERNELS))
        return {**fields, "parameters": get_kernel(fields["kernel"]).resolve(given)}

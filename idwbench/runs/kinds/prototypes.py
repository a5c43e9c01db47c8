"""The settings of prototype networks."""

# No postponed annotations: pydantic would compile each of them again.
from collections.abc import Collection, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from idwbench.attention.records import Method, ParameterValue, parameters_label
from idwbench.attention.scores import METHODS, get_method
from idwbench.errors import ConfigError
from idwbench.runs.dataset_base import DatasetConfig
from idwbench.runs.kinds.base import ModelSettings, given_method, weighted_method
from idwbench.runs.settings import Count, NonNegative, added_in_0_2

__all__ = ["TABLE_DEFAULTS", "PrototypesConfig", "has_table_defaults"]

# Of runs from Python and of estimators on data that is not the paper's; chosen by ``python -m benchmarks defaults``.
TABLE_DEFAULTS: Mapping[str, Any] = {"initialisation": "samples", "key_bounds": "data", "learning_rate": 0.05}
# The protocol of the paper and its initialisation belong to its data, and to images like it.
_OTHER_DATA = ("two_moons", "mnist", "fashion_mnist", "joint", "sequence", "lookup", "unknown")


def has_table_defaults(dataset: DatasetConfig, method: Any) -> bool:
    """Return whether `TABLE_DEFAULTS` hold: for methods whose keys are points, on data that is not the paper's."""
    if dataset.name in _OTHER_DATA or dataset.task not in ("classification", "regression"):
        return False
    return isinstance(method, str) and get_method(method).has_points


class PrototypesConfig(ModelSettings):
    """A prototype network with learned keys and values.

    `parameters` holds every parameter of the method and of its weighting, defaults included; `plugin_sha256` is the
    checksum of the plugin that defines the method, or None.
    """

    array_names: ClassVar[tuple[str, ...]] = ("keys", "values")  # the arrays of a complete run
    defaults: ClassVar[Mapping[str, Any]] = {"method": "idw", "prototypes": 16}  # of a run from Python

    kind: Literal["prototypes"] = "prototypes"
    method: str
    parameters: dict[str, ParameterValue]
    prototypes: Count = Field(description="Number of prototypes.")
    plugin_sha256: str | None = None
    initialisation: Literal["default", "mean", "samples", "kmeans", "kaiming"] = added_in_0_2(
        "default",
        description="Initialisation of keys: mean, samples or kmeans of the data, or kaiming; default: the method's.",
    )
    initial_values: Literal["default", "zero", "random"] = added_in_0_2(
        "default", description="Initial values: zero or random; default: those of the initialisation."
    )
    key_bounds: Literal["none", "data"] = added_in_0_2(
        "none", description="Bounds of keys: none, or data, the range of each feature in the training data."
    )
    key_penalty: NonNegative = added_in_0_2(
        0.0,
        description="Penalty λ: this times the mean distance of a key to the nearest input of its class in the batch.",
    )
    weighting: str | None = added_in_0_2(
        None, description="How scores become weights, such as sparsemax; by default the method's own."
    )
    label_smoothing: Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)] = added_in_0_2(
        0.0, description="Label smoothing of the loss: this share of each label is divided among all classes."
    )
    slope_rank: Annotated[int, Field(ge=0, lt=2**16)] = added_in_0_2(
        0, description="Rank of the slope of values, v + A (x − k); 0: values without a slope."
    )

    @property
    def method_record(self) -> Method:
        """The method with the weighting; raises `ConfigError` if it is that of a plugin that is not loaded."""
        return get_method(self.method, self.weighting)

    @property
    def parameters_label(self) -> str:
        """Label of the parameters in tables: ``p=2, ε=0.001``."""
        record = METHODS.get(self.method)  # None for a method of a plugin that is not loaded
        if record is not None and self.weighting is not None:
            record = self.method_record
        words = [self.weighting or "", parameters_label(record, self.parameters)]
        if self.initialisation != "default":
            words.append(f"initialisation {self.initialisation}")
        if self.initial_values != "default":
            words.append(f"initial values {self.initial_values}")
        if self.key_bounds != "none":
            words.append(f"key bounds {self.key_bounds}")
        if self.key_penalty:
            words.append(f"key penalty {self.key_penalty:g}")
        if self.label_smoothing:
            words.append(f"label smoothing {self.label_smoothing:g}")
        if self.slope_rank:
            words.append(f"slope rank {self.slope_rank}")
        return ", ".join(filter(None, words))

    @classmethod
    def completed(cls, fields: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
        """Return the fields with all parameters of the method and of a weighting that is not its own."""
        method, weighting = weighted_method(given_method(fields), fields)
        parameters = method.resolve(given)
        return {**fields, "weighting": weighting, "parameters": parameters, "plugin_sha256": method.sha256}

    def check_dataset(self, dataset: DatasetConfig) -> None:
        """Check that the model supports a data set; raises `ConfigError` for smoothed labels of a regression, too."""
        super().check_dataset(dataset)
        if self.label_smoothing and dataset.task != "classification":
            raise ConfigError("only for classes, and the targets are numbers", location=("label_smoothing",))

    def check_given(self, given: Collection[str]) -> None:
        """Raise `ConfigError` for slopes without a softmax, and for distances to data of keys that are no points."""
        if self.slope_rank and self.method_record.weighting != "softmax":
            problem = f"the weights of {self.method_record.title} are not a softmax, as values with a slope need"
            raise ConfigError(problem, location=("slope_rank",))
        if self.key_penalty and not self.method_record.has_points:
            problem = f"the keys of {self.method_record.title} are no points, which have a distance to data"
            raise ConfigError(problem, location=("key_penalty",))

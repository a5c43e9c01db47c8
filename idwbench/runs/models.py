"""The settings of models, discriminated by kind."""

# No postponed annotations: pydantic would compile each of them again.
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field

from idwbench.attention.definitions import ParameterValue
from idwbench.attention.kernels import KERNELS, get_kernel, kernel_parameters
from idwbench.attention.methods import METHODS, all_parameters, resolve_parameters
from idwbench.attention.weighting_functions import WEIGHTINGS
from idwbench.errors import ConfigError, did_you_mean
from idwbench.runs.datasets import DatasetConfig
from idwbench.runs.hash_tables import HashTableConfig
from idwbench.runs.language_models import LanguageModelConfig
from idwbench.runs.lstm import LstmConfig
from idwbench.runs.mlp import MlpConfig
from idwbench.runs.model_settings import ModelSettings, given_method
from idwbench.runs.networks import ATTENTION_PREFIX, NetworkConfig
from idwbench.runs.scikit_learn import ScikitLearnConfig
from idwbench.runs.scikit_learn_methods import SCIKIT_LEARN_METHODS
from idwbench.runs.settings import Count, added, validated

__all__ = [
    "MODELS",
    "BaselineConfig",
    "HashTableConfig",
    "KernelRegressionConfig",
    "LanguageModelConfig",
    "LstmConfig",
    "MlpConfig",
    "ModelConfig",
    "NetworkConfig",
    "PatchStudyConfig",
    "PrototypesConfig",
    "ScikitLearnConfig",
    "model_setting_names",
    "parse_model",
]


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


class PatchStudyConfig(PrototypesConfig):
    """A study of patches of a trained prototype network, which has the same settings.

    ``special``: the points (−1, 1), (0, 1) and (1, 0) of Two Moons, each with target label 0 and 1 (Figures 3 and 6 of
    arXiv 2310.18805). ``wrong``: the first misclassified test inputs, with their true label.
    """

    array_names: ClassVar[tuple[str, ...]] = ("inputs", "labels", "labels_before", "eta")

    kind: Literal["patch_study"] = "patch_study"  # type: ignore[assignment]  # the tag of the union
    cases: Literal["special", "wrong"] = Field(default="special", description="Inputs to patch: special or wrong.")
    n_cases: Count = Field(default=200, description="Largest number of wrong test inputs to patch.")

    @property
    def label(self) -> str:
        """Label of the study: ``patches of idw · 16 prototypes · p=2, ε=0.001, special cases``."""
        return f"patches of {super().label}"

    @property
    def parameters_label(self) -> str:
        """Label of the parameters in tables: ``p=2, ε=0.001, special cases``, or ``…, 200 wrong inputs``."""
        wrong = f"{self.n_cases} wrong input{'s' if self.n_cases > 1 else ''}"
        return f"{super().parameters_label}, {wrong if self.cases == 'wrong' else 'special cases'}"

    @classmethod
    def parse(cls, settings: Mapping[str, Any]) -> Self:
        """Return the study for flat settings.

        Raises:
            ConfigError: only ``idw`` networks with epsilon above 0 can be patched, and ``n_cases`` is a setting of
                wrong inputs.
        """
        study = super().parse(settings)
        if study.method != "idw":
            raise ConfigError(f"only idw networks can be patched, not {study.method}", location=("method",))
        if study.parameters["epsilon"] == 0:
            raise ConfigError("expected a number above 0 for patches, got 0", location=("epsilon",))
        if study.cases != "wrong" and "n_cases" in settings:
            raise ConfigError("only wrong inputs have a number of cases", location=("n_cases",))
        return study

    def check_dataset(self, dataset: DatasetConfig) -> None:
        """Raise `ConfigError` for a regression or a text, and for special cases on other data than Two Moons."""
        super().check_dataset(dataset)
        if dataset.task != "classification":
            raise ConfigError("patches need classes, not a regression", location=("kind",))
        if self.cases == "special" and dataset.name != "two_moons":
            problem = f"the special cases belong to the data set two_moons, not to {dataset.name}"
            raise ConfigError(problem, location=("cases",), hint="choose wrong")

    @property
    def studied(self) -> PrototypesConfig:
        """The network that is patched."""
        shared = {name: getattr(self, name) for name in PrototypesConfig.model_fields if name != "kind"}
        return PrototypesConfig(**shared)


class BaselineConfig(ModelSettings):
    """Prototypes that are not learned by gradient descent; a prediction is the value of the nearest key.

    ``kmeans``: the centres of k-means of the training inputs, with the class frequencies (or the mean target) of their
    clusters as values. ``kmeans_per_class``: the centres of k-means of each class with its label; the prototypes are
    divided equally among the classes, as those of the initialisation ``kmeans``. ``samples``: random training inputs
    with their labels or targets.
    """

    array_names: ClassVar[tuple[str, ...]] = ("keys", "values")
    defaults: ClassVar[Mapping[str, Any]] = {"prototypes": 16}

    kind: Literal["baseline"] = "baseline"
    method: Literal["kmeans", "kmeans_per_class", "samples"]
    prototypes: Count

    @property
    def parameters(self) -> dict[str, ParameterValue]:
        """None: a baseline has no parameters."""
        return {}

    @property
    def plugin_sha256(self) -> None:
        """None: no plugin defines a baseline."""

    @property
    def label(self) -> str:
        """Label of the model: ``kmeans · 16 prototypes``."""
        return f"{self.method} · {self.prototypes} prototype{'s' if self.prototypes > 1 else ''}"

    @property
    def parameters_label(self) -> str:
        """Label of the parameters in tables."""
        return "nearest key"

    def replace_parameters(self, values: Mapping[str, ParameterValue]) -> Self:
        """Return the same settings."""
        return self

    def check_dataset(self, dataset: DatasetConfig) -> None:
        """Raise `ConfigError` for a text, a sequence, and for k-means of each class on a regression."""
        super().check_dataset(dataset)
        if self.method == "kmeans_per_class" and dataset.task != "classification":
            problem = f"kmeans_per_class needs classes, and {dataset.name} has none"
            raise ConfigError(problem, location=("method",), hint="choose kmeans")

    @classmethod
    def parse(cls, settings: Mapping[str, Any]) -> Self:
        """Return the model for flat settings."""
        return validated(cls, dict(settings))


class KernelRegressionConfig(ModelSettings):
    """Kernel regression, whose memory is the training data.

    `parameters` holds every parameter of the kernel, defaults included: ``bandwidth``, a number in scaled units,
    ``scott`` or ``loo``; or ``power``, a number or ``loo``, and ``epsilon``.
    """

    defaults: ClassVar[Mapping[str, Any]] = {"kernel": "gaussian"}

    kind: Literal["kernel_regression"] = "kernel_regression"
    kernel: str
    parameters: dict[str, ParameterValue]

    @property
    def is_deterministic(self) -> bool:
        """True: only the data may be random."""
        return True

    @property
    def method(self) -> str:
        """The name in tables: ``gaussian_kernel``, which is not the method ``gaussian``."""
        return f"{self.kernel}_kernel"

    @property
    def prototypes(self) -> int:
        """Number of learned prototypes: 0, since the memory is the training data."""
        return 0

    @property
    def plugin_sha256(self) -> None:
        """None: no plugin defines a kernel."""

    @property
    def label(self) -> str:
        """Label of the model: ``gaussian kernel · h=0.5``."""
        return f"{self.kernel} kernel · {self.parameters_label}"

    @property
    def parameters_label(self) -> str:
        """Label of the parameters in tables: ``h=0.5``, ``h=loo`` or ``p=2, ε=0``."""
        return get_kernel(self.kernel).label(self.parameters)

    @classmethod
    def parse(cls, settings: Mapping[str, Any]) -> Self:
        """Return the model for flat settings."""
        if "kernel" not in settings:
            raise ConfigError("'kernel' is missing", hint=did_you_mean("", KERNELS))
        fields = {name: value for name, value in settings.items() if name in ("kind", "kernel")}
        given = {name: value for name, value in settings.items() if name not in fields}
        parameters = kernel_parameters(get_kernel(settings["kernel"]), given)
        return validated(cls, {**fields, "parameters": parameters})


_AnyConfig = (
    PrototypesConfig
    | PatchStudyConfig
    | BaselineConfig
    | KernelRegressionConfig
    | ScikitLearnConfig
    | HashTableConfig
    | NetworkConfig
    | LanguageModelConfig
    | LstmConfig
    | MlpConfig
)
ModelConfig = Annotated[_AnyConfig, Field(discriminator="kind")]
MODELS: dict[str, type[_AnyConfig]] = {
    "prototypes": PrototypesConfig,
    "patch_study": PatchStudyConfig,
    "baseline": BaselineConfig,
    "kernel_regression": KernelRegressionConfig,
    "scikit_learn": ScikitLearnConfig,
    "hash_table": HashTableConfig,
    "network": NetworkConfig,
    "transformer_lm": LanguageModelConfig,
    "lstm_lm": LstmConfig,
    "mlp": MlpConfig,
}
_DERIVED = ("parameters", "plugin_sha256")


def model_setting_names() -> list[str]:
    """Return the names of all flat settings of models: fields, and parameters of methods, kernels and weightings.

    Those of scikit-learn's methods are among them.
    """
    fields = [name for kind in MODELS.values() for name in kind.model_fields if name not in _DERIVED]
    of_kernels = [parameter.name for kernel in KERNELS.values() for parameter in kernel.parameters]
    of_weightings = [parameter.name for weighting in WEIGHTINGS.values() for parameter in weighting.parameters]
    of_attention = [f"{ATTENTION_PREFIX}{name}" for name in all_parameters()]
    of_scikit_learn = [parameter.name for method in SCIKIT_LEARN_METHODS.values() for parameter in method.parameters]
    names = [*fields, *all_parameters(), *of_kernels, *of_weightings, *of_attention, *of_scikit_learn]
    return [*dict.fromkeys(names)]


def parse_model(settings: Mapping[str, Any]) -> ModelConfig:
    """Return the model for flat settings: ``kind``, ``method``, ``prototypes``, parameters of the method, ….

    Raises:
        ConfigError: unknown kind, method or setting, or a value out of range; `location` is the setting.
    """
    kind = settings.get("kind", "prototypes")
    if not isinstance(kind, str) or kind not in MODELS:
        hint = did_you_mean(str(kind), MODELS)
        raise ConfigError(f"unknown kind of model {kind!r}", location=("kind",), hint=hint)
    parsed: ModelConfig = MODELS[kind].parse(settings)
    return parsed

"""The settings of models, discriminated by kind."""

# No postponed annotations: pydantic would compile each of them again.
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import Field

from idwbench.attention.kernels import KERNELS
from idwbench.attention.scores import all_parameters, get_method
from idwbench.attention.weightings import WEIGHTINGS
from idwbench.errors import ConfigError, UnknownSettingError, did_you_mean
from idwbench.runs.dataset_base import DatasetConfig
from idwbench.runs.kinds.baseline import BaselineConfig
from idwbench.runs.kinds.hash_table import HashTableConfig
from idwbench.runs.kinds.kernel_regression import KernelRegressionConfig
from idwbench.runs.kinds.lstm_lm import LstmConfig
from idwbench.runs.kinds.memory_study import MemoryStudyConfig
from idwbench.runs.kinds.mlp import MlpConfig
from idwbench.runs.kinds.network import ATTENTION_PREFIX, NetworkConfig
from idwbench.runs.kinds.patch_study import PatchStudyConfig
from idwbench.runs.kinds.prototypes import PrototypesConfig
from idwbench.runs.kinds.scikit_learn import SCIKIT_LEARN_METHODS, ScikitLearnConfig
from idwbench.runs.kinds.sequence_to_sequence import ADDITIVE, SequenceToSequenceConfig
from idwbench.runs.kinds.transformer_lm import LanguageModelConfig
from idwbench.runs.settings import validated

__all__ = ["MODELS", "ModelConfig", "check_settings_known", "model_setting_names", "parse_model"]

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
    | SequenceToSequenceConfig
    | MemoryStudyConfig
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
    "sequence_to_sequence": SequenceToSequenceConfig,
    "memory_study": MemoryStudyConfig,
}
# Fields that follow from flat settings.
_DERIVED = {"parameters", "plugin_sha256"}


def model_setting_names() -> list[str]:
    """Return the names of all flat settings of models: fields, and parameters of methods, kernels and weightings.

    Those of scikit-learn's methods are among them.
    """
    fields = [name for kind in MODELS.values() for name in kind.model_fields if name not in _DERIVED]
    kernels = [parameter.name for kernel in KERNELS.values() for parameter in kernel.parameters]
    weightings = [parameter.name for weighting in WEIGHTINGS.values() for parameter in weighting.parameters]
    attention = [f"{ATTENTION_PREFIX}{name}" for name in all_parameters()]
    scikit_learn = [parameter.name for method in SCIKIT_LEARN_METHODS.values() for parameter in method.parameters]
    additive = [parameter.name for parameter in ADDITIVE.parameters]
    names = [*fields, *all_parameters(), *additive, *kernels, *weightings, *attention, *scikit_learn]
    return [*dict.fromkeys(names)]


def check_settings_known(settings: Mapping[str, Any], names: Iterable[str], problem: str) -> None:
    """Check that settings are among `names` or those of models, once methods that are looked for are registered.

    Raises:
        ConfigError: a setting is unknown, with the text `problem`; or the method is, which may have that parameter.
    """
    known = {*model_setting_names(), *names}
    if settings.keys() <= known:
        return
    if settings.get("kind", "prototypes") == "prototypes":
        methods = settings.get("method", ())
        for method in methods if isinstance(methods, list | tuple) else [methods]:
            try:
                get_method(method)  # it may load the plugin that defines it
            except ConfigError as error:
                error.hint = "if a plugin defines it, load the plugin first"
                raise
        known = {*model_setting_names(), *names}
    for name in settings:
        if name not in known:
            raise UnknownSettingError(problem, location=(name,), hint=did_you_mean(name, known))


def parse_model(settings: Mapping[str, Any], *datasets: DatasetConfig) -> ModelConfig:
    """Return the model for flat settings: ``kind``, ``method``, ``prototypes``, parameters of the method, ….

    Raises:
        ConfigError: unknown kind, method or setting, a value out of range, or one of `datasets` is not supported;
            `location` is the setting.
    """
    kind = settings.get("kind", "prototypes")
    if not isinstance(kind, str) or kind not in MODELS:
        hint = did_you_mean(str(kind), MODELS)
        raise ConfigError(f"unknown kind of model {kind!r}", location=("kind",), hint=hint)
    settings_class = MODELS[kind]
    names = settings_class.model_fields.keys() - _DERIVED
    fields = {name: value for name, value in settings.items() if name in names}
    given = {name: value for name, value in settings.items() if name not in fields}
    model: ModelConfig = validated(settings_class, settings_class.completed(fields, given))
    model.check_given(settings.keys())
    for dataset in datasets:
        model.check_dataset(dataset)
    return model

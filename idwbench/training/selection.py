"""Selection of the engine: for networks fused on the CPU, for methods with a kernel, torch for others."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from idwbench.attention.scores import METHODS
from idwbench.errors import ConfigError
from idwbench.machine import check_memory
from idwbench.runs.config import RunConfig
from idwbench.runs.kinds.models import ModelConfig
from idwbench.runs.kinds.network import ATTENTION_PREFIX
from idwbench.runs.kinds.prototypes import PrototypesConfig
from idwbench.training.engine import Context, Engine, EngineName

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from idwbench.data.dataset import Dataset

__all__ = [
    "check_engine",
    "check_plugin_scores",
    "check_run",
    "check_run_memory",
    "engine_of",
    "prepare_engines",
    "useful_threads",
]

# The module with the `ENGINE` of networks of prototypes by its name, and of other runs by their kind.
_MODULES = {
    "torch": "torch_engine",
    "fused": "fused_engine",
    "baseline": "direct_engines",
    "kernel_regression": "direct_engines",
    "scikit_learn": "direct_engines",
    "hash_table": "hash_table_engine",
    "network": "network_engine",
    "transformer_lm": "language_model_engine",
    "lstm_lm": "language_model_engine",
    "mlp": "network_engine",
    "sequence_to_sequence": "sequence_to_sequence_engine",
    "patch_study": "patch_study_engine",
    "memory_study": "memory_study_engine",
}
# Settings of models that are sizes: each stands for at least one vector of parameters.
_SIZES = ("prototypes", "width", "depth", "embedding", "hidden")
# A parameter, its gradient, and the state of the optimizer.
_NUMBERS_OF_PARAMETER = 4
_FLOAT_BYTES = 4
# Of the evaluation of a plugin's score before the training; they differ, so that the axes cannot be confused.
_QUERIES, _KEYS = 3, 2


def check_engine(name: EngineName, device: str = "cpu") -> None:
    """Check an engine and its device.

    Raises:
        ConfigError: the fused engine on another device than the CPU, or the device is not available.
    """
    if name == "fused" and device != "cpu":
        problem = f"'fused' runs on the CPU only, not on device '{device}'"
        raise ConfigError(problem, location=("engine",), hint="choose torch")
    if device != "cpu":
        from idwbench.training.torch_engine import resolve_device

        resolve_device(device)


def engine_of(config: RunConfig, context: Context) -> Engine:
    """Return the engine for a run; torch or Numba is imported if it needs them.

    Raises:
        ConfigError: `fused` is required and has no kernel for the method.
    """
    key: str = config.model.kind
    if key == "prototypes":
        key = "torch"
        if context.engine != "torch" and context.device == "cpu":
            from idwbench.training.fused_engine import has_kernel

            if has_kernel(config):
                key = "fused"
            elif context.engine == "fused":
                weighting = f" with {name}" if (name := _own_weighting(config)) else ""
                problem = f"'fused' has no kernel for method '{config.model.method}'{weighting}"
                raise ConfigError(problem, location=("engine",), hint="choose auto or torch")
    engine: Engine = import_module(f"idwbench.training.{_MODULES[key]}").ENGINES[key]
    return engine


def _own_weighting(config: RunConfig) -> str | None:
    """Return the weighting that replaces that of the method of prototypes, or None."""
    return config.model.weighting if isinstance(config.model, PrototypesConfig) else None


def check_run(config: RunConfig, dataset: Dataset, context: Context) -> None:
    """Check what a run needs before it is planned; of a run that needs another, that one.

    Raises:
        ConfigError: the data does not support the run, the score of a plugin gives no scores, or memory is too small.
    """
    trained = config.required or config
    engine_of(trained, context).check(trained.model, dataset)
    if trained.model.plugin_sha256 is not None:
        check_plugin_scores(trained.model, dataset.train.inputs)
    if context.device == "cpu":
        check_run_memory(trained, dataset)


def check_plugin_scores(model: ModelConfig, inputs: NDArray[np.float32]) -> None:
    """Evaluate the scores of a plugin in a model once, on three of the training inputs and two as keys.

    Raises:
        ConfigError: a score does not return a tensor of scores (3, 2). One that fails is not refused here.
    """
    import numpy as np
    import torch

    queries, keys = (torch.from_numpy(np.resize(inputs, (n, inputs.shape[1]))) for n in (_QUERIES, _KEYS))
    for setting, prefix in (("method", ""), ("head", ""), ("attention", ATTENTION_PREFIX)):
        method = METHODS.get(getattr(model, setting, None) or "")
        if method is None or method.sha256 is None:
            continue
        parameters = {p.name: model.parameters[f"{prefix}{p.name}"] for p in method.parameters}
        shapes = f"inputs {tuple(queries.shape)} and keys {tuple(keys.shape)}"
        try:
            scores = method.score(queries, keys, **parameters)
        except Exception:  # the run fails with this error and is stored, and others are trained
            continue
        if not isinstance(scores, torch.Tensor) or scores.shape != (_QUERIES, _KEYS):
            got = f"shape {tuple(scores.shape)}" if isinstance(scores, torch.Tensor) else repr(type(scores).__name__)
            problem = f"the score of {method.name} must have the shape {(_QUERIES, _KEYS)} for {shapes}, got {got}"
            raise ConfigError(problem, location=(setting,))


def check_run_memory(config: RunConfig, dataset: Dataset) -> None:
    """Raise `ConfigError` if a size of the model or of a batch is absurd for the memory of this machine.

    This is a lower bound. What does not fit all the same fails when it is allocated, see `idwbench.machine`.
    """
    given = {**config.model.parameters, **dict(config.model)}
    largest = int(max(given.get(name) or 0 for name in _SIZES)) * (1 + getattr(config.model, "slope_rank", 0))
    numbers = _NUMBERS_OF_PARAMETER * largest * (dataset.n_features + dataset.n_outputs)
    numbers += getattr(config.model, "context", 0) * config.protocol.batch_size
    check_memory(_FLOAT_BYTES * numbers, config.model.label, ConfigError)


def prepare_engines(configs: Sequence[RunConfig], context: Context) -> str:
    """Import the engines for runs and compile kernels; return a line with the engines, and raise as `engine_of`."""
    models = {
        (config.model.kind, config.model.method, _own_weighting(config), config.model.plugin_sha256): config
        for config in configs
    }
    methods: dict[str, list[str]] = {}
    for (kind, method, *_), config in models.items():
        engine = engine_of(config, context)
        methods.setdefault(engine.name if kind == "prototypes" else kind, []).append(method)
    if "fused" in methods:
        from idwbench.training import fused_engine

        fused_engine.prepare()
    if len(methods) == 1:
        return f"engine: {next(iter(methods))}"
    return "engine: " + "; ".join(f"{name} for {', '.join(dict.fromkeys(names))}" for name, names in methods.items())


def useful_threads(config: RunConfig, dataset: Dataset, context: Context) -> int:
    """Return the number of threads for a run that trains alone, not beside others: one, unless it is large."""
    if engine_of(config, context).name != "fused":
        return 1
    from idwbench.training import kernel_runs

    return kernel_runs.useful_threads(config, dataset)

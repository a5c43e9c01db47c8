"""Selection of the engine: for networks fused on the CPU, for methods with a kernel, torch for others."""

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from idwbench.data.dataset import Dataset
from idwbench.errors import ConfigError
from idwbench.machine import check_memory
from idwbench.results.store import Results
from idwbench.runs.config import RunConfig
from idwbench.training.engine import AbstractEngine

if TYPE_CHECKING:
    from idwbench.dual.recordings import Recordings
    from idwbench.training.checkpoints import Checkpoints

__all__ = ["EngineName", "EngineSelector", "check_run_memory"]

EngineName = Literal["auto", "fused", "torch"]

# Module and class of each engine: of networks of prototypes by its name, of other runs by their kind.
_CLASSES = {
    "torch": ("torch_engine", "TorchEngine"),
    "fused": ("fused_engine", "FusedEngine"),
    "baseline": ("baseline_engine", "BaselineEngine"),
    "kernel_regression": ("kernel_regression_engine", "KernelRegressionEngine"),
    "scikit_learn": ("scikit_learn_engine", "ScikitLearnEngine"),
    "hash_table": ("hash_table_engine", "HashTableEngine"),
    "network": ("network_engine", "NetworkEngine"),
    "transformer_lm": ("language_model_engine", "LanguageModelEngine"),
    "lstm_lm": ("lstm_engine", "LstmEngine"),
    "mlp": ("mlp_engine", "MlpEngine"),
    "patch_study": ("patch_study_engine", "PatchStudyEngine"),
}


# Settings of models that are sizes: each stands for at least one vector of parameters.
_SIZES = ("prototypes", "width", "depth", "embedding")
# A parameter, its gradient, and the state of the optimizer.
_NUMBERS_OF_PARAMETER = 4


def check_run_memory(config: RunConfig, dataset: Dataset) -> None:
    """Raise `ConfigError` if a size of the model or of a batch is absurd for the memory of this machine.

    This is a lower bound. What does not fit all the same fails when it is allocated, see `idwbench.machine`.
    """
    largest = max(getattr(config.model, name, None) or 0 for name in _SIZES)
    numbers = _NUMBERS_OF_PARAMETER * largest * (dataset.n_features + dataset.n_outputs)
    numbers += getattr(config.model, "context", 0) * config.protocol.batch_size
    check_memory(np.dtype(np.float32).itemsize * numbers, config.model.label, ConfigError)


class EngineSelector:
    """Selects the engine of each run; engines are created, and torch or Numba imported, when needed.

    `results` has the trained runs that studies of patches read, and the folders for checkpoints and recordings.

    Raises:
        ConfigError: the fused engine on another device than the CPU, or the device is not available.
    """

    def __init__(self, name: EngineName = "auto", device: str = "cpu", results: Results | None = None) -> None:
        if name == "fused" and device != "cpu":
            problem = f"'fused' runs on the CPU only, not on device '{device}'"
            raise ConfigError(problem, location=("engine",), hint="choose torch")
        self.name, self.device, self.results = name, device, results
        self.report: Callable[[str], None] = lambda line: None
        self.reported = ""  # the last line on engines
        self.checkpoint_folder: Path | None = None  # in place of that of `results`
        self._engines: dict[str, AbstractEngine] = {}
        if device != "cpu":
            self._engine("torch")

    def __call__(self, config: RunConfig) -> AbstractEngine:
        """Return the engine for a run.

        Raises:
            ConfigError: `fused` is required and has no kernel for the method.
        """
        return self._engine(self._name_for(config))

    def check(self, config: RunConfig, dataset: Dataset) -> None:
        """Raise `ConfigError` if the data does not support a run, or the run that it needs, or memory is too small."""
        trained = config.required or config
        _engine_class(self._name_for(trained)).check(trained, dataset)
        if self.device == "cpu":
            check_run_memory(trained, dataset)

    def prepare(self, configs: Sequence[RunConfig], report: Callable[[str], None]) -> None:
        """Create the engines for `configs`, report them, and compile kernels; raises as `__call__`."""
        self.report = report
        methods: dict[str, list[str]] = {}
        for config in configs:
            of_engine = methods.setdefault(self._name_for(config), [])
            if config.model.method not in of_engine:
                of_engine.append(config.model.method)
        for name in methods:
            self._engine(name)
        line = f"engine: {next(iter(methods))}"
        if len(methods) > 1:
            line = "engine: " + "; ".join(f"{name} for {', '.join(names)}" for name, names in methods.items())
        if line != self.reported:  # a search prepares batch by batch
            report(line)
            self.reported = line
        if "fused" in methods:
            from idwbench.training.fused_engine import FusedEngine

            if FusedEngine.needs_compiling():
                report("compiling kernels: some seconds, once")
            FusedEngine.prepare()

    def threads(self, config: RunConfig, dataset: Dataset) -> int:
        """Return the number of threads for a run that trains alone, not beside others: one, unless it is large."""
        if self._name_for(config) != "fused":
            return 1
        from idwbench.training.kernel_runs import useful_threads

        return useful_threads(config, dataset)

    def _name_for(self, config: RunConfig) -> str:
        if config.model.kind != "prototypes":
            return config.model.kind
        if self.name == "torch" or self.device != "cpu":
            return "torch"
        from idwbench.training.fused_engine import FusedEngine

        if FusedEngine.supports(config):
            return "fused"
        if self.name == "fused":
            problem = f"'fused' has no kernel for method '{config.model.method}'"
            raise ConfigError(problem, location=("engine",), hint="choose auto or torch")
        return "torch"

    def _engine(self, name: str) -> AbstractEngine:
        if name not in self._engines:
            self._engines[name] = self._new_engine(name)
        return self._engines[name]

    def _new_engine(self, name: str) -> AbstractEngine:
        engine: Callable[..., AbstractEngine] = _engine_class(name)
        if name == "torch":
            return engine(self.device)
        if name in ("network", "transformer_lm", "lstm_lm", "mlp"):
            return engine(self.device, self._checkpoints(), self._recordings())
        if name == "patch_study":
            if self.results is None:
                raise ValueError("a study of patches needs the database of the trained runs")
            return engine(self.results)
        return engine()

    def _checkpoints(self) -> "Checkpoints":
        from idwbench.training.checkpoints import Checkpoints

        folder = self.checkpoint_folder or (None if self.results is None else self.results.checkpoint_folder)
        return Checkpoints(folder, self.report)

    def _recordings(self) -> "Recordings":
        from idwbench.dual.recordings import Recordings

        return Recordings(None if self.results is None else self.results.recording_folder, self.report)


def _engine_class(name: str) -> type[AbstractEngine]:
    """Import and return a class of engines, by its name or the kind of its runs."""
    module, class_name = _CLASSES[name]
    found: type[AbstractEngine] = getattr(import_module(f"idwbench.training.{module}"), class_name)
    return found

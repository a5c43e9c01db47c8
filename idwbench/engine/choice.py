"""Which engine trains a run: the fused one on the CPU for every method it has a kernel for, torch for the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from idwbench.config import RunConfig
from idwbench.engine.base import AbstractEngine
from idwbench.errors import ConfigError

__all__ = ["EngineChoice", "EngineName"]

EngineName = Literal["auto", "fused", "torch"]


class EngineChoice:
    """Gives each run its engine; engines are made, and torch or Numba loaded, when first asked for."""

    def __init__(self, name: EngineName = "auto", device: str = "cpu") -> None:
        """Check the choice.

        Raises:
            ConfigError: the fused engine on another device than the CPU, or a device that is not there.
        """
        if name == "fused" and device != "cpu":
            raise ConfigError(f"--engine fused: runs on the CPU only, --device is '{device}'; take --engine torch")
        self.name, self.device = name, device
        self._engines: dict[str, AbstractEngine] = {}
        if device != "cpu":
            self._engine("torch")

    def __call__(self, config: RunConfig) -> AbstractEngine:
        """Return the engine for a run.

        Raises:
            ConfigError: `fused` was asked for and has no kernel for the method.
        """
        return self._engine(self._name_for(config))

    def prepare(self, configs: Sequence[RunConfig], say: Callable[[str], None]) -> None:
        """Make all engines that `configs` need, and say which trains what, and if kernels must be compiled first.

        Raises:
            ConfigError: `fused` was asked for and has no kernel for a method.
        """
        methods: dict[str, list[str]] = {}
        for config in configs:
            taken = methods.setdefault(self._name_for(config), [])
            if config.method not in taken:
                taken.append(config.method)
        for name in methods:
            self._engine(name)
        if len(methods) == 1:
            say(f"engine: {next(iter(methods))}")
        else:
            say("engine: " + "; ".join(f"{name} for {', '.join(taken)}" for name, taken in methods.items()))
        if "fused" in methods:
            from idwbench.engine.fused_engine import FusedEngine

            if FusedEngine.needs_compiling():
                say("compiling kernels: some seconds, once")
            FusedEngine.prepare()

    def _name_for(self, config: RunConfig) -> str:
        if self.name == "torch" or self.device != "cpu":
            return "torch"
        from idwbench.engine.fused_engine import FusedEngine

        if FusedEngine.supports(config):
            return "fused"
        if self.name == "fused":
            raise ConfigError(f"--engine fused: no kernel for method '{config.method}'; take --engine auto or torch")
        return "torch"

    def _engine(self, name: str) -> AbstractEngine:
        if name not in self._engines:
            if name == "torch":
                from idwbench.engine.torch_engine import TorchEngine

                self._engines[name] = TorchEngine(self.device)
            else:
                from idwbench.engine.fused_engine import FusedEngine

                self._engines[name] = FusedEngine()
        return self._engines[name]

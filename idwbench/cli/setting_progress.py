"""The settings of a sweep while it runs: which runs each has, their metric so far, and a label."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from idwbench.report.labels import setting_label, value_label
from idwbench.runs.metrics import headline_metric
from idwbench.runs.protocol import Protocol

if TYPE_CHECKING:
    from idwbench.runs.config import RunConfig
    from idwbench.runs.datasets import DatasetConfig
    from idwbench.runs.results import RunResult

__all__ = ["RunLabels", "SettingProgress", "settings_of_plan"]


class RunLabels:
    """Labels of runs without their seed: data set if there are several, model, and the protocol's varying settings."""

    def __init__(
        self, configs: Sequence[RunConfig] = (), dataset_labels: Mapping[DatasetConfig, str] | None = None
    ) -> None:
        protocols = {config.setting_key: config.protocol for config in configs}.values()
        self.varying = [
            name for name in Protocol.model_fields if len({getattr(protocol, name) for protocol in protocols}) > 1
        ]
        self.dataset_labels = dataset_labels or {}

    def __call__(self, config: RunConfig) -> str:
        """Return a label such as ``idw · 16 prototypes · p=2, ε=0.001 · learning rate 0.01``."""
        words = [self.dataset_labels.get(config.dataset, ""), config.model.label]
        words += [setting_label(name, getattr(config.protocol, name)) for name in self.varying]
        return " · ".join(filter(None, words))


@dataclass
class SettingProgress:
    """One setting: its runs, one for each seed, and what is known of them.

    Attributes:
        config: Any run of the setting.
        run_keys: Its runs in the sweep.
        to_do: The runs among them that are still to be trained by this process.
        values: The headline metric of the test data by run key, also of runs that were stored before.
        seconds: Training time of the runs that this process has trained.
    """

    config: RunConfig
    run_keys: list[str] = field(default_factory=list)
    to_do: set[str] = field(default_factory=set)
    values: dict[str, float] = field(default_factory=dict)
    n_diverged: int = 0
    n_failed: int = 0
    seconds: float = 0.0

    def include(self, key: str, result: RunResult) -> None:
        """Add the result of a run."""
        self.to_do.discard(key)
        self.seconds += result.seconds
        value = result.metric(headline_metric(result.config.dataset.task).name)
        if result.state == "diverged":
            self.n_diverged += 1
        elif value is not None:
            self.values[key] = value

    def describe(self) -> str:
        """Return ``test accuracy 97.51 ± 0.42 % (5 of 5 seeds) · 3.2 s``."""
        seeds = f"{len(self.values)} of {len(self.run_keys)} seed{'s' if len(self.run_keys) > 1 else ''}"
        parts = [f"{self._mean()} ({seeds})" if self.values else ""]
        parts += [f"{n} {word}" for n, word in ((self.n_diverged, "diverged"), (self.n_failed, "failed")) if n]
        return " · ".join([*filter(None, parts), f"{self.seconds:.1f} s"])

    def _mean(self) -> str:
        from idwbench.report.statistics import statistic

        metric = headline_metric(self.config.dataset.task)
        found = statistic(dict(enumerate(self.values.values())))
        if found is None:
            return f"test {metric.name} not finite"
        return f"test {metric.name} {value_label(metric.name, found.mean, found.std)}{' %' if metric.percent else ''}"


def settings_of_plan(
    configs: Sequence[RunConfig],
    run_keys: Sequence[str],
    to_do: Collection[str],
    stored_values: Callable[[Sequence[str], str], Mapping[str, float]],
) -> dict[str, SettingProgress]:
    """Return the setting of each run by key, for the settings that have runs to do.

    `stored_values` returns a metric of stored runs; it is called for those of settings that are begun.
    """
    to_do = set(to_do)
    found: dict[str, SettingProgress] = {}
    for config, key in zip(configs, run_keys, strict=True):
        setting = found.get(config.setting_key)
        if setting is None:
            setting = found[config.setting_key] = SettingProgress(config)
        setting.run_keys.append(key)
        if key in to_do:
            setting.to_do.add(key)
    begun: dict[str, list[SettingProgress]] = {}
    for setting in found.values():
        if 0 < len(setting.to_do) < len(setting.run_keys):
            begun.setdefault(headline_metric(setting.config.dataset.task).name, []).append(setting)
    for metric, settings in begun.items():
        values = stored_values([key for one in settings for key in one.run_keys if key not in one.to_do], metric)
        for one in settings:
            one.values = {key: values[key] for key in one.run_keys if key in values}
    return {key: setting for setting in found.values() if setting.to_do for key in setting.run_keys}

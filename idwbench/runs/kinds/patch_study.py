"""The settings of studies of patches."""

# No postponed annotations: pydantic would compile each of them again.
from collections.abc import Collection
from typing import ClassVar, Literal

from pydantic import Field

from idwbench.errors import ConfigError
from idwbench.runs.datasets import DatasetConfig
from idwbench.runs.kinds.prototypes import PrototypesConfig
from idwbench.runs.settings import Count

__all__ = ["PatchStudyConfig"]


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

    def check_given(self, given: Collection[str]) -> None:
        """Raise `ConfigError` for networks that cannot be patched, and for ``n_cases`` without wrong inputs."""
        if self.method != "idw":
            raise ConfigError(f"only idw networks can be patched, not {self.method}", location=("method",))
        if self.parameters["epsilon"] == 0:
            raise ConfigError("expected a number above 0 for patches, got 0", location=("epsilon",))
        if self.cases != "wrong" and "n_cases" in given:
            raise ConfigError("only wrong inputs have a number of cases", location=("n_cases",))

    def check_dataset(self, dataset: DatasetConfig) -> None:
        """Raise `ConfigError` for a regression or a text, and for special cases on other data than Two Moons."""
        super().check_dataset(dataset)
        if dataset.task != "classification":
            raise ConfigError("patches need classes, not a regression", location=("kind",))
        if self.cases == "special" and dataset.name != "two_moons":
            problem = f"the special cases belong to the data set two_moons, not to {dataset.name}"
            raise ConfigError(problem, location=("cases",), hint="choose wrong")

    @property
    def network(self) -> PrototypesConfig:
        """The network that is patched, by a run with the same data, protocol and seed."""
        shared = {name: getattr(self, name) for name in PrototypesConfig.model_fields if name != "kind"}
        return PrototypesConfig(**shared)

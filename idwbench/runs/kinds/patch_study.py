"""The settings of studies of patches."""

# No postponed annotations: pydantic would compile each of them again.
from collections.abc import Collection
from typing import ClassVar, Literal

from pydantic import Field

from idwbench.errors import ConfigError
from idwbench.runs.dataset_base import DatasetConfig
from idwbench.runs.kinds.base import check_softmax
from idwbench.runs.kinds.prototypes import PrototypesConfig
from idwbench.runs.settings import Count, added_in_0_2

__all__ = ["PatchStudyConfig"]


class PatchStudyConfig(PrototypesConfig):
    """A study of patches of a trained prototype network, which has the same settings.

    ``special``: the points (−1, 1), (0, 1) and (1, 0) of Two Moons, each with target label 0 and 1 (Figures 3 and 6 of
    arXiv 2310.18805). ``wrong``: the first misclassified test inputs, with their true label. With ``compare`` these are
    mended in all ways, and with ``retrain`` also by a training with all of them.
    """

    array_names: ClassVar[tuple[str, ...]] = ("inputs", "labels", "labels_before")

    kind: Literal["patch_study"] = "patch_study"  # type: ignore[assignment]  # the tag of the union
    cases: Literal["special", "wrong"] = Field(default="special", description="Inputs to patch: special or wrong.")
    n_cases: Count = Field(default=200, description="Largest number of wrong test inputs to patch.")
    compare: bool = added_in_0_2(
        False, description="Compare patches with local ones, and with fine-tuning and retraining."
    )
    retrain: bool = added_in_0_2(False, description="Compare with a training on these inputs, too.")

    @property
    def label(self) -> str:
        """Label of the study: ``patches of idw · 16 prototypes · p=2, ε=0.001, special cases``."""
        return f"patches of {super().label}"

    @property
    def parameters_label(self) -> str:
        """Label of the parameters in tables: ``p=2, ε=0.001, special cases``, or ``…, 200 wrong inputs``."""
        wrong = f"{self.n_cases} wrong input{'s' if self.n_cases > 1 else ''}{', compared' if self.compare else ''}"
        words = [super().parameters_label, wrong if self.cases == "wrong" else "special cases"]
        return ", ".join([*filter(None, words), *(["retrained"] if self.retrain else [])])

    def check_given(self, given: Collection[str]) -> None:
        """Raise `ConfigError` for networks that cannot be patched, and for ``n_cases`` without wrong inputs."""
        super().check_given(given)
        if self.slope_rank:
            raise ConfigError("patches of values with a slope are not studied", location=("slope_rank",))
        if self.compare:
            check_softmax(self.method_record, "method")
        elif (self.method, self.weighting) != ("idw", None):
            problem = f"only idw networks have the patches of the paper, not {self.method_record.title}"
            raise ConfigError(problem, location=("method",), hint="compare: true")
        if self.parameters.get("epsilon") == 0:
            raise ConfigError("expected a number above 0 for patches, got 0", location=("epsilon",))
        if self.cases != "wrong" and "n_cases" in given:
            raise ConfigError("only wrong inputs have a number of cases", location=("n_cases",))
        if self.compare and self.cases != "wrong":
            raise ConfigError("only patches of wrong inputs are compared", location=("compare",), hint="cases: wrong")
        if self.retrain and not self.compare:
            raise ConfigError("only with compare: true", location=("retrain",))

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

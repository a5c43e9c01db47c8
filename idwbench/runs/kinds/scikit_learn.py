"""The settings of runs with scikit-learn's methods."""

# No postponed annotations: pydantic would compile each of them again.
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import Field

from idwbench.attention.records import ParameterValue
from idwbench.errors import ConfigError
from idwbench.runs.datasets import DatasetConfig
from idwbench.runs.kinds.base import ModelSettings, NoPlugin, NoPrototypes
from idwbench.runs.scikit_learn_methods import ScikitLearnMethod, get_scikit_learn_method
from idwbench.runs.settings import validated

__all__ = ["ScikitLearnConfig"]


class ScikitLearnConfig(NoPrototypes, NoPlugin, ModelSettings):
    """A classifier or regressor of scikit-learn, fitted to the scaled inputs of the data set.

    `parameters` holds every parameter of the method that is used, defaults included.
    """

    defaults: ClassVar[Mapping[str, Any]] = {"method": "knn"}

    kind: Literal["scikit_learn"] = "scikit_learn"
    method: str = Field(description="Method of scikit-learn.")
    parameters: dict[str, ParameterValue]
    standardise: bool = Field(
        default=False, description="Whether each feature is standardised, after the scaling of the data set."
    )
    evaluate_train: bool = Field(
        default=True, description="Whether there are metrics of training rows; with many neighbours they take long."
    )

    @property
    def definition(self) -> ScikitLearnMethod:
        """The record of the method."""
        return get_scikit_learn_method(self.method)

    @property
    def is_deterministic(self) -> bool:
        """Whether the seed does not affect the result."""
        return self.definition.is_deterministic

    @property
    def usual_parameters(self) -> dict[str, ParameterValue]:
        """The defaults of parameters that labels leave out."""
        method = self.definition
        return {p.name: p.default for p in method.parameters if p.name not in (method.labelled or ())}

    @property
    def parameters_label(self) -> str:
        """Label of the parameters in tables: the main ones, and those that differ from their default."""
        words = [self.definition.label(self.parameters), "standardised" if self.standardise else ""]
        return ", ".join(filter(None, words))

    def check_dataset(self, dataset: DatasetConfig) -> None:
        """Raise `ConfigError` for a text, a sequence, or a task that the method does not support."""
        super().check_dataset(dataset)
        if dataset.task not in self.definition.tasks:
            known = {"classification": "has classes", "regression": "is a regression", "lookup": "is a lookup"}
            problem = f"{self.method} supports {' and '.join(self.definition.tasks)}, and {dataset.name} "
            hint = f"choose {self.definition.counterpart}" if self.definition.counterpart else ""
            raise ConfigError(
                problem + known[dataset.task], location=("method",), hint="" if dataset.task == "lookup" else hint
            )

    @classmethod
    def parse(cls, settings: Mapping[str, Any]) -> Self:
        """Return the model for flat settings.

        Raises:
            ConfigError: unknown method or parameter, a value that is not valid, or inputs that are standardised for a
                method that they do not affect.
        """
        fields, given = cls.divided(settings)
        method = get_scikit_learn_method(fields.get("method"))
        model = validated(cls, {**fields, "parameters": method.resolve(given)})
        if model.standardise and method.scale_free:
            problem = f"the predictions of {method.name} do not depend on the scale of the features"
            raise ConfigError(problem, location=("standardise",), hint="give it a block of its own")
        return model

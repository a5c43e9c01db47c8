"""The settings of softened hash tables."""

# No postponed annotations: pydantic would compile each of them again.
from collections.abc import Collection, Mapping
from typing import Any, Literal

from pydantic import Field

from idwbench.attention.records import Method, Parameter, ParameterValue, Record, parameters_label
from idwbench.attention.scores import get_method
from idwbench.attention.weightings import WEIGHTINGS, get_weighting
from idwbench.errors import ConfigError, did_you_mean
from idwbench.runs.dataset_base import DatasetConfig
from idwbench.runs.kinds.base import ModelSettings, NoPlugin, NoPrototypes
from idwbench.runs.settings import added_in_0_2

__all__ = ["EQUALITY", "SIMILARITIES", "HashTableConfig"]

# The method whose score each similarity is; `fc_relu` has the plain x·k.
SIMILARITIES: Mapping[str, str] = {
    "inner_product": "fc_relu",
    "cosine": "cosine",
    "additive": "additive",
    "gaussian": "gaussian",
    "idw": "idw",
    "inv_dist": "inv_dist",
    "neg_dist": "neg_dist",
}
# The similarity of the weighting `exact_match`, which compares a query and a key itself.
EQUALITY = "equality"
_SCALING_LABELS = {"none": "", "sqrt_dimensions": "1/√d", "qk_norm": "QK-norm"}


class HashTableConfig(NoPrototypes, NoPlugin, ModelSettings):
    """A table of keys and values that is looked up softly, see `idwbench.models.hash_table`.

    `parameters` holds every parameter of the similarity and of the weighting, defaults included.
    """

    kind: Literal["hash_table"] = "hash_table"
    similarity: str = Field(description="Similarity of a query and a key.")
    scaling: Literal["none", "sqrt_dimensions", "qk_norm"] = Field(
        default="none", description="Scaling of similarities: none, sqrt_dimensions or qk_norm."
    )
    weighting: str = Field(default="softmax", description="How similarities become weights.")
    projections: Literal["none", "linear", "mlp"] = Field(
        default="none", description="Learned projections of queries and keys: none, linear or mlp."
    )
    project_values: bool = added_in_0_2(default=False, description="Whether values have a learned projection too.")
    parameters: dict[str, ParameterValue]

    @property
    def method(self) -> str:
        """The name in tables: that of the similarity."""
        return self.similarity

    @property
    def score(self) -> Method | None:
        """The method whose score the similarity is; None for equality."""
        return None if self.similarity == EQUALITY else get_method(SIMILARITIES[self.similarity])

    @property
    def score_parameters(self) -> dict[str, ParameterValue]:
        """The parameters of the similarity."""
        known = self.score.parameters if self.score else ()
        return {parameter.name: self.parameters[parameter.name] for parameter in known}

    @property
    def weighting_parameters(self) -> dict[str, ParameterValue]:
        """The parameters of the weighting."""
        return {p.name: self.parameters[p.name] for p in get_weighting(self.weighting).parameters}

    @property
    def label(self) -> str:
        """Label of the model: ``idw table · softmax, p=2, ε=0.001``."""
        return f"{self.similarity} table · {self.parameters_label}"

    @property
    def parameters_label(self) -> str:
        """Label of the other settings in tables: ``softmax, QK-norm, p=2, ε=0.001, linear projections``."""
        words = [self.weighting, _SCALING_LABELS[self.scaling]]
        words.append(parameters_label(Record("", "", parameters=self._declared), self.parameters))
        words += [f"{self.projections} projections"] if self.projections != "none" else []
        words += ["also of values"] if self.project_values else []
        return ", ".join(filter(None, words))

    @property
    def _declared(self) -> tuple[Parameter, ...]:
        return (*(self.score.parameters if self.score else ()), *get_weighting(self.weighting).parameters)

    @property
    def projected(self) -> tuple[str, ...]:
        """What has a learned projection of its own."""
        names = ("query", "key", "value") if self.project_values else ("query", "key")
        return names if self.projections != "none" else ()

    @property
    def is_learned(self) -> bool:
        """Whether anything is learned: a projection, or numbers of the score."""
        return bool(self.projected or (self.score and self.score.learned))

    def check_given(self, given: Collection[str]) -> None:
        """Raise `ConfigError` for values that are projected by nothing."""
        if self.project_values and self.projections == "none":
            raise ConfigError("only with projections linear or mlp", location=("project_values",))

    def check_dataset(self, dataset: DatasetConfig) -> None:
        """Raise `ConfigError` unless the data set is ``lookup``."""
        if dataset.name != "lookup":
            problem = f"a hash table needs the data set lookup, not {dataset.name}"
            raise ConfigError(problem, location=("kind",))

    @classmethod
    def completed(cls, fields: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
        """Return the fields with all parameters of the similarity and of the weighting.

        Raises:
            ConfigError: unknown similarity, weighting or parameter, a value out of range, or a similarity, a scaling or
                projections that the weighting does not use.
        """
        weighting = fields.get("weighting", "softmax")
        if not isinstance(weighting, str):
            raise ConfigError(f"expected the name of a weighting, got {weighting!r}", location=("weighting",))
        own_score = get_weighting(weighting).own_score is not None
        if own_score:
            _check_unused(weighting, fields)
            fields["similarity"] = EQUALITY
        elif "similarity" not in fields:
            raise ConfigError("'similarity' is missing", hint=did_you_mean("", SIMILARITIES))
        score = None if own_score else get_method(SIMILARITIES[_known_similarity(fields["similarity"])])
        declared = (*(score.parameters if score else ()), *WEIGHTINGS[weighting].parameters)
        what = f"weighting '{weighting}'" if own_score else f"similarity '{fields['similarity']}' with '{weighting}'"
        return {**fields, "parameters": Record("", "", parameters=declared).resolve(given, what)}


def _check_unused(weighting: str, fields: Mapping[str, Any]) -> None:
    """Refuse settings that change nothing, which would plan the same run many times."""
    for name, nothing in (("similarity", EQUALITY), ("scaling", "none")):
        if fields.get(name, nothing) != nothing:
            problem = f"weighting '{weighting}' compares a query and a key itself and takes no {name}"
            raise ConfigError(problem, location=(name,), hint="give it a block of its own")


def _known_similarity(name: object) -> str:
    if name == EQUALITY:
        problem = "only the weighting exact_match has the similarity 'equality'"
        raise ConfigError(problem, location=("similarity",), hint=did_you_mean("", SIMILARITIES))
    if not isinstance(name, str) or name not in SIMILARITIES:
        hint = did_you_mean(str(name), SIMILARITIES)
        raise ConfigError(f"unknown similarity {name!r}", location=("similarity",), hint=hint)
    return name

"""Records: what has a name, a formula and parameters; those of methods and weightings, and how one is found by name."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeVar, get_args

from idwbench.errors import ConfigError, did_you_mean

__all__ = [
    "LEARNED_NUMBERS",
    "Initialisation",
    "LearnedArray",
    "Method",
    "MethodWeighting",
    "Parameter",
    "ParameterValue",
    "QkNorm",
    "Record",
    "Weighting",
    "check_learned_numbers",
    "find_record",
    "parameters_label",
]

ParameterValue = float | str
Initialisation = Literal["mean", "samples", "kmeans", "kaiming"]
MethodWeighting = Literal["softmax", "relu"]
QkNorm = Literal["none", "rms", "l2"]
# What can be learned of a score, see `idwbench.attention.learned_scores.LearnedScore`, and the values for nothing.
LEARNED_NUMBERS: dict[str, Any] = {"qk_norm": "none", "learned_power": False, "learned_temperature": False}


@dataclass(frozen=True)
class Parameter:
    """A parameter of a record: a number in a range, or one of several words.

    Attributes:
        symbol: Label in tables: ``p`` gives ``p=2``, and for words ``1/√`` gives ``1/√features``.
        minimum: Lower bound of a number, or None.
        exclusive: Whether the lower bound is excluded.
        maximum: Upper bound of the absolute value.
        choices: The valid words; empty for a number.
        words: Words that are valid beside numbers.
        other_words: What messages call `words` together.
        special: Numbers for which the score has a simpler form; such runs have stacks of their own.
        whole: Whether a number must be whole.
    """

    name: str
    default: ParameterValue
    symbol: str = ""
    help: str = ""
    minimum: float | None = None
    exclusive: bool = False
    maximum: float = 1e30
    choices: tuple[str, ...] = ()
    special: tuple[float, ...] = ()
    whole: bool = False
    words: tuple[str, ...] = ()
    other_words: str = "a valid word"

    def parse(self, value: object) -> ParameterValue:
        """Return `value` as a float or a word; ``true``, ``false`` and ``null`` of YAML can be words.

        Raises:
            ConfigError: `value` is of the wrong type, not finite, out of range, or not a valid word.
        """
        word = "none" if value is None else str(value).lower() if isinstance(value, bool) else value
        if word in self.choices or word in self.words:
            return str(word)
        if self.choices:
            hint = did_you_mean(str(value), self.choices)
            raise ConfigError(f"{value!r} is not valid", location=(self.name,), hint=hint)
        if self.words and isinstance(value, str):
            hint = did_you_mean(value, self.words)
            raise ConfigError(f"{value!r} is neither a number nor {self.other_words}", location=(self.name,), hint=hint)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ConfigError(f"expected a number, got {value!r}", location=(self.name,))
        number = float(value) if abs(value) < 1e300 else math.inf
        expected = ""
        if not math.isfinite(number):
            expected = "expected a finite number"
        elif self.whole and not number.is_integer():
            expected = "expected a whole number"
        elif self.minimum is not None and (number < self.minimum or (self.exclusive and number == self.minimum)):
            expected = f"must be {'>' if self.exclusive else '>='} {self.minimum:g}"
        elif abs(number) > self.maximum:
            expected = f"must be <= {self.maximum:g}"
        if expected:
            raise ConfigError(f"{expected}, got {value!r}", location=(self.name,))
        return number


@dataclass(frozen=True)
class Record:
    """What has a name and parameters: a method, a weighting or a kernel.

    Attributes:
        formula: What it computes, as text.
        parameters: In the order of labels.
        labelled: Names of parameters that labels show at their default too; None for all.
        needs: For a parameter that is used with some values of another only: the name of that and these values.
    """

    noun: ClassVar[str] = "method"

    name: str
    formula: str
    parameters: tuple[Parameter, ...] = field(default=(), kw_only=True)
    labelled: tuple[str, ...] | None = field(default=None, kw_only=True)
    needs: Mapping[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict, kw_only=True, hash=False)

    def takes(self, name: str) -> bool:
        """Return whether it has a parameter of that name."""
        return any(parameter.name == name for parameter in self.parameters)

    def resolve(self, given: Mapping[str, Any], title: str = "") -> dict[str, ParameterValue]:
        """Return all parameters that are used: the given values, and defaults for the others.

        Messages call the record by its noun and name, or by a `title`.

        Raises:
            ConfigError: it does not have a parameter or does not use it, or a value is not valid; `location` is the
                parameter.
        """
        names = sorted({parameter.name for parameter in self.parameters})
        for name in given:
            if name not in names:
                takes = did_you_mean(name, names).replace("expected one of:", "it takes") or "it takes no parameters"
                owner = title or f"{self.noun} '{self.name}'"
                raise ConfigError(f"{owner} does not take '{name}'", location=(name,), hint=takes)
        values = {p.name: p.parse(given.get(p.name, p.default)) for p in self.parameters}
        for name, (other, needed) in self.needs.items():
            if values[other] not in needed:
                if name in given:
                    problem = f"only with {other} {' or '.join(needed)}, not {values[other]}"
                    raise ConfigError(problem, location=(name,))
                del values[name]
        return values


def parameters_label(record: Record | None, values: Mapping[str, ParameterValue]) -> str:
    """Return ``p=2, ε=0.001``, or ``1/√features``, for values of the parameters of a record, in their order.

    Without a record, as for a method of a plugin that is not loaded, they are shown as they are.
    """
    if record is None:
        return ", ".join(f"{name}={value}" for name, value in values.items())
    known = [p for p in record.parameters if p.name in values]
    unknown = [Parameter(name, 0.0) for name in sorted(values.keys() - {p.name for p in known})]
    if record.labelled is not None:
        known = [p for p in known if p.name in record.labelled or values[p.name] != p.default]
    words = []
    for p in [*known, *unknown]:
        value = values[p.name]
        sign = "" if p.choices and p.symbol and isinstance(value, str) else "="
        words.append(f"{p.symbol or p.name}{sign}{value if isinstance(value, str) else repr(value).removesuffix('.0')}")
    return ", ".join(words)


_R = TypeVar("_R", bound=Record)


def find_record(records: Mapping[str, _R], name: object, noun: str) -> _R:
    """Return the record of that name.

    Raises:
        ConfigError: there is none; `noun` says what it would be.
    """
    if not isinstance(name, str) or name not in records:
        raise ConfigError(f"unknown {noun} {name!r}", location=(noun,), hint=did_you_mean(str(name), records))
    return records[name]


@dataclass(frozen=True)
class LearnedArray:
    """An array that a score learns beside the keys, as its argument of that name.

    Attributes:
        name: The name of the argument, and of the array in stored runs and files.
        axes: What each axis counts: ``features``, or a parameter of the method by its name.
    """

    name: str
    axes: tuple[str, ...]

    def shape(self, n_features: int, parameters: Mapping[str, Any]) -> tuple[int, ...]:
        """Return the shape for inputs with `n_features` features."""
        return tuple(n_features if axis == "features" else int(parameters[axis]) for axis in self.axes)


@dataclass(frozen=True)
class Method(Record):
    """A score with its parameters and a weighting.

    Attributes:
        score: The function ``(inputs, keys, **parameters) -> scores``.
        initialisation: Default initialisation, see `idwbench.models.initialisation`.
        weighting: ``softmax`` over prototypes, or ``relu`` without normalisation; `get_method` gives other ones.
        sha256: Checksum of the plugin file that defines the method; None if built in.
        learned: The arrays that the score learns, which are arguments of it too.
        not_scored: Names of parameters that are no arguments of the score: of the weighting, and sizes of arrays.
    """

    score: Callable[..., Any]
    initialisation: Initialisation = "mean"
    weighting: str = "softmax"
    sha256: str | None = None
    learned: tuple[LearnedArray, ...] = ()
    not_scored: tuple[str, ...] = ()

    @property
    def has_points(self) -> bool:
        """Whether the keys are points among the inputs; those of products are directions, without units."""
        return self.initialisation != "kaiming"

    @property
    def title(self) -> str:
        """The name, with a weighting that is neither ``softmax`` nor ``relu``: ``idw with sparsemax``."""
        return self.name if self.weighting in get_args(MethodWeighting) else f"{self.name} with {self.weighting}"

    def score_arguments(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return those of all parameters and learned arrays that the score takes."""
        return {name: value for name, value in parameters.items() if name not in self.not_scored}

    def numbers_of_pair(self, n_features: int, parameters: Mapping[str, Any]) -> int:
        """Return how many numbers the score of an input and a key takes while it is computed, at most."""
        return max([n_features, *(size for one in self.learned for size in one.shape(n_features, parameters))])

    def scores(self, inputs: Any, keys: Any, parameters: Mapping[str, Any]) -> Any:
        """Return the scores (…, batch, prototypes) for all parameters of the method, and its learned arrays."""
        return self.score(inputs, keys, **self.score_arguments(parameters))


def check_learned_numbers(method: Method | None, settings: Mapping[str, Any], prefix: str = "") -> None:
    """Check that a score can have the learned numbers that settings ask for.

    Args:
        method: The method whose score it is, or None if there is none.
        settings: Settings, among them some of `LEARNED_NUMBERS`.
        prefix: In front of their names.

    Raises:
        ConfigError: there is no method, it has no power, its weights are not a softmax, or it normalises queries and
            keys itself; `location` is the setting.
    """
    names = {f"{prefix}{name}": name for name in LEARNED_NUMBERS}
    for location, name in names.items():
        if (value := settings.get(location, LEARNED_NUMBERS[name])) == LEARNED_NUMBERS[name]:
            continue
        problem, hint = "", ""
        if method is None:
            problem = "there is no score with learned numbers"
        elif name == "qk_norm" and value not in get_args(QkNorm):
            problem, hint = f"unknown normalisation {value!r}", did_you_mean(str(value), get_args(QkNorm))
        elif method.weighting == "relu":
            problem = f"the weights of {method.name} are not a softmax"
        elif method.learned:
            problem = f"{method.name} learns its score already"
        elif name == "learned_power" and not method.takes("power"):
            problem = f"{method.name} has no power"
        elif value == "l2" and method.name == "cosine":
            problem, hint = "cosine divides by the norms itself", "choose rms or none"
        if problem:
            raise ConfigError(problem, location=(location,), hint=hint)


@dataclass(frozen=True)
class Weighting(Record):
    """A function from scores to weights, over the last axis; its parameters have names that no built-in score has.

    Attributes:
        gradient: The derivative of the weights by the scores as text.
        ties: What equal scores do, as text.
        function: The function ``(scores, **parameters) -> weights``; it gets finite scores and −∞.
        source: Where it was published; empty for a definition that needs none.
        own_score: The function ``(inputs, keys) -> scores`` that replaces the score, or None.
    """

    noun: ClassVar[str] = "weighting"

    gradient: str
    ties: str
    function: Callable[..., Any]
    source: str = ""
    own_score: Callable[..., Any] | None = None

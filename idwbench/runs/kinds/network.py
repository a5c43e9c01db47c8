"""The settings of networks: an encoder and a head."""

# No postponed annotations: pydantic would compile each of them again.
import hashlib
from collections.abc import Collection, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from idwbench.attention.records import (
    LEARNED_NUMBERS,
    Method,
    ParameterValue,
    QkNorm,
    check_learned_numbers,
    parameters_label,
)
from idwbench.attention.scores import METHODS, get_method
from idwbench.errors import ConfigError, did_you_mean
from idwbench.runs.kinds.base import (
    ModelSettings,
    check_parameter_names,
    check_softmax,
    learned_label,
    weighted_method,
)
from idwbench.runs.settings import Count, added_in_0_2

__all__ = [
    "ATTENTION_PREFIX",
    "ENCODERS",
    "LINEAR",
    "NetworkConfig",
    "check_encoder",
]

LINEAR = "linear"
ATTENTION_PREFIX = "attention_"
# The default sizes of each encoder; it takes no others.
ENCODERS: dict[str, dict[str, int]] = {
    "mlp": {"width": 64, "depth": 2},
    "conv": {"width": 16, "depth": 3},
    "vit_tiny": {"width": 32, "depth": 2, "heads": 4, "patch": 2},
}
# Settings that a linear head does not have.
_OF_PROTOTYPES = ("prototypes", "initialisation", "patches", "weighting")

# Fields, the method of a part of a network, and all its parameters.
_Part = tuple[dict[str, Any], Method | None, dict[str, ParameterValue]]


class NetworkConfig(ModelSettings):
    """A network: an encoder from inputs to features, and a head from features to outputs.

    `parameters` holds every parameter of the head's method and, with the prefix ``attention_``, of the attention score
    in ``vit_tiny``, defaults included.
    """

    defaults: ClassVar[Mapping[str, Any]] = {"encoder": "mlp"}  # of a run from Python

    kind: Literal["network"] = "network"
    encoder: Literal["mlp", "conv", "vit_tiny"] = Field(description="Encoder: mlp, conv or vit_tiny.")
    width: Count = Field(description="Hidden units of mlp, channels of the first layer of conv, features of a token.")
    depth: Count = Field(description="Number of hidden layers, convolutions or transformer blocks.")
    heads: Count | None = Field(default=None, description="Attention heads of vit_tiny.")
    patch: Count | None = Field(default=None, description="Side of the image patches of vit_tiny, in pixels.")
    attention: str | None = Field(default=None, description="Method whose score the attention of vit_tiny uses.")
    head: str = Field(default=LINEAR, description="linear, or the method of a head of prototypes.")
    prototypes: Annotated[int, Field(ge=0, lt=2**31)] = 0
    parameters: dict[str, ParameterValue]
    initialisation: Literal["default", "mean", "samples", "kmeans"] = Field(
        default="samples",
        description="Initial keys of the head, from features of training inputs: samples, kmeans, mean, or default.",
    )
    patches: Annotated[int, Field(ge=0, lt=2**31)] = Field(
        default=100, description="Largest number of wrong test inputs that are patched at an idw head, one at a time."
    )
    compare: bool = added_in_0_2(
        False, description="Compare patches of an idw head with local ones and with other ways."
    )
    qk_norm: QkNorm = added_in_0_2(
        "none", description="Normalisation of the features and keys of a head of prototypes: none, rms or l2."
    )
    learned_power: bool = added_in_0_2(False, description="Learn the power of the head's score.")
    learned_temperature: bool = added_in_0_2(False, description="Learn a divisor of the head's scores.")
    attention_qk_norm: QkNorm = added_in_0_2(
        "none", description="Normalisation of the queries and keys of vit_tiny: none, rms or l2."
    )
    attention_learned_power: bool = added_in_0_2(
        False, description="Learn the power of the attention score, one for each head."
    )
    attention_learned_temperature: bool = added_in_0_2(
        False, description="Learn a divisor of the attention scores, one for each head."
    )
    statistics: bool = added_in_0_2(
        False, description="Record scores, weights and gradients of each layer at some steps."
    )
    plugin_sha256: str | None = None
    weighting: str | None = added_in_0_2(
        None, description="How the scores of the head become weights, such as sparsemax; by default its method's own."
    )
    attention_weighting: str | None = added_in_0_2(
        None, description="How the scores of the attention of vit_tiny become weights; by default by a softmax."
    )

    @property
    def head_method(self) -> Method:
        """The method of a head of prototypes, with its weighting."""
        return get_method(self.head, self.weighting)

    @property
    def method(self) -> str:
        """The name in tables: ``mlp+idw``, or ``vit_tiny(idw)+linear`` with the attention score in brackets."""
        attention = f"({self.attention})" if self.attention else ""
        return f"{self.encoder}{attention}+{self.head}"

    @property
    def named_by_method(self) -> tuple[str, ...]:
        """The settings that need no columns in tables: parts of the method's name, and patches where there are none."""
        return ("encoder", "attention", "head", *(() if self.is_patched else ("patches",)))

    @property
    def head_parameters(self) -> dict[str, ParameterValue]:
        """The parameters of the head's method."""
        return {k: value for k, value in self.parameters.items() if not k.startswith(ATTENTION_PREFIX)}

    @property
    def attention_parameters(self) -> dict[str, ParameterValue]:
        """The parameters of the attention score, without the prefix."""
        prefix = ATTENTION_PREFIX
        return {k.removeprefix(prefix): value for k, value in self.parameters.items() if k.startswith(prefix)}

    @property
    def head_learned(self) -> dict[str, Any]:
        """What is learned of the head's score, by the names of `LEARNED_NUMBERS`."""
        return {name: getattr(self, name) for name in LEARNED_NUMBERS}

    @property
    def attention_learned(self) -> dict[str, Any]:
        """What is learned of the attention score, by the names of `LEARNED_NUMBERS`."""
        return {name: getattr(self, f"{ATTENTION_PREFIX}{name}") for name in LEARNED_NUMBERS}

    @property
    def is_patched(self) -> bool:
        """Whether patches of the head are studied: an ``idw`` head with epsilon above 0, without normalised keys.

        Its weighting is its own.
        """
        is_plain = self.qk_norm == "none" and not self.learned_temperature and self.weighting is None
        return self.head == "idw" and self.parameters["epsilon"] != 0 and self.patches > 0 and is_plain

    @property
    def parameters_label(self) -> str:
        """Label of all settings in tables: ``width 32, depth 2, heads 4, patch 2, attention p=2, ε=0.001``."""
        words = [f"{name} {getattr(self, name)}" for name in ENCODERS[self.encoder]]
        for name, part, weighting, parameters, learned in (
            ("attention", self.attention, self.attention_weighting, self.attention_parameters, self.attention_learned),
            ("head", self.head, self.weighting, self.head_parameters, self.head_learned),
        ):
            record = get_method(part, weighting) if part in METHODS else None
            labels = [weighting or "", parameters_label(record, parameters), learned_label(learned)]
            label = ", ".join(filter(None, labels))
            words += [f"{name} {label}"] if label else []
        if self.head != LINEAR and self.initialisation != "samples":
            words.append(f"initialisation {self.initialisation}")
        if self.is_patched and self.patches != 100:
            words.append(f"{self.patches} patches")
        if self.compare:
            words.append("compared")
        words += ["statistics"] if self.statistics else []
        return ", ".join(words)

    @classmethod
    def completed(cls, fields: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
        """Return the fields with the sizes of the encoder and all parameters of the head and the attention score.

        Raises:
            ConfigError: an unknown encoder, head or attention score, a setting that they do not have, a parameter out
                of range, or a head of prototypes without their number.
        """
        fields = {**_encoder_sizes(fields), **fields}
        if fields["encoder"] == "vit_tiny":
            fields.setdefault("attention", "scaled_dot")
        fields, attention, attention_parameters = _attention(fields, given)
        own = {name: value for name, value in given.items() if not name.startswith(ATTENTION_PREFIX)}
        fields, head, head_parameters = _head(fields, own)
        check_learned_numbers(head, fields)
        check_learned_numbers(attention, fields, ATTENTION_PREFIX)
        parameters = {**head_parameters, **attention_parameters}
        return {**fields, "parameters": parameters, "plugin_sha256": _plugin_sha256(head, attention)}

    def check_given(self, given: Collection[str]) -> None:
        """Raise `ConfigError` for heads that do not divide the width, and for a comparison without patches."""
        if self.compare and not self.is_patched:
            raise ConfigError("only patches of idw heads with epsilon above 0 are compared", location=("compare",))
        if self.heads is not None and self.width % self.heads:
            where = "heads" if "heads" in given else "width"
            raise ConfigError(f"{self.heads} heads do not divide a width of {self.width}", location=(where,))


def _encoder_sizes(fields: Mapping[str, Any]) -> dict[str, int]:
    """Return the default sizes of the encoder, after the check that it is known and has the settings."""
    encoder = fields.get("encoder")
    if encoder is None:
        raise ConfigError("'encoder' is missing", hint=did_you_mean("", ENCODERS))
    if not isinstance(encoder, str) or encoder not in ENCODERS:
        hint = did_you_mean(str(encoder), ENCODERS)
        raise ConfigError(f"unknown encoder {encoder!r}", location=("encoder",), hint=hint)
    sizes = ENCODERS[encoder]
    for name in ("heads", "patch", "attention"):
        if name in fields and "heads" not in sizes:
            raise ConfigError(f"encoder '{encoder}' has no {name}: only vit_tiny has", location=(name,))
    return sizes


def check_encoder(model: NetworkConfig, image_shape: tuple[int, int] | None) -> None:
    """Check that the encoder supports inputs of a data set, whose images have the shape (height, width), or None.

    Raises:
        ConfigError: it needs images, or its patches do not divide them.
    """
    if model.encoder == "mlp":
        return
    if image_shape is None:
        problem = f"encoder '{model.encoder}' needs images, and the inputs of this data set are not images"
        raise ConfigError(problem, location=("encoder",), hint="choose mlp")
    rows, columns = image_shape
    if model.patch is not None and (rows % model.patch or columns % model.patch):
        problem = f"patches of {model.patch} x {model.patch} pixels do not divide images of {rows} x {columns}"
        raise ConfigError(problem, location=("patch",))


def _named(setting: str, name: Any, also: tuple[str, ...] = ()) -> Method:
    """Return the method that a setting names."""
    if not isinstance(name, str):
        raise ConfigError(f"expected the name of a method, got {name!r}", location=(setting,))
    try:
        return get_method(name)
    except ConfigError:
        hint = did_you_mean(name, (*also, *METHODS))
        raise ConfigError(f"unknown {setting} '{name}'", location=(setting,), hint=hint) from None


def _attention(fields: dict[str, Any], given: Mapping[str, Any]) -> _Part:
    """Return the fields, and the method of the attention score with all its parameters, with the prefix."""
    prefixed = [key for key in given if key.startswith(ATTENTION_PREFIX)]
    if fields.get("attention") is None:
        for setting in (*prefixed, *(["attention_weighting"] if fields.get("attention_weighting") else [])):
            raise ConfigError("only vit_tiny has attention", location=(setting,))
        return fields, None, {}
    method = _named("attention", fields["attention"])
    check_softmax(method, "attention")
    method, weighting = weighted_method(method, fields, "attention_weighting")
    fields = {**fields, "attention_weighting": weighting}
    try:
        parameters = method.resolve({key.removeprefix(ATTENTION_PREFIX): given[key] for key in prefixed})
    except ConfigError as error:
        where = (f"{ATTENTION_PREFIX}{error.location[0]}",)
        raise ConfigError(error.problem, location=where, hint=error.hint) from None
    return fields, method, {f"{ATTENTION_PREFIX}{key}": value for key, value in parameters.items()}


def _head(fields: dict[str, Any], given: Mapping[str, Any]) -> _Part:
    """Return the fields, and the method of the head with all its parameters."""
    name = fields.get("head", LINEAR)
    if name == LINEAR:
        for setting in (*given, *(key for key in _OF_PROTOTYPES if fields.get(key))):
            raise ConfigError(f"a linear head has no {setting.replace('_', ' ')}", location=(setting,))
        return fields, None, {}
    method = _named("head", name, (LINEAR,))
    check_parameter_names(method, NetworkConfig.model_fields, "head")
    method, weighting = weighted_method(method, fields)
    if not fields.get("prototypes"):
        raise ConfigError("'prototypes' is missing: a head of prototypes needs their number")
    if fields.get("patches") and (method.name, weighting) != ("idw", None):
        problem = f"only idw heads can be patched, not {' with '.join(filter(None, (method.name, weighting)))}"
        raise ConfigError(problem, location=("patches",))
    return {**fields, "weighting": weighting}, method, method.resolve(given)


def _plugin_sha256(*methods: Method | None) -> str | None:
    """Return the checksum of the plugin that defines the methods, or one of several checksums."""
    checksums = sorted({method.sha256 for method in methods if method is not None and method.sha256 is not None})
    if len(checksums) < 2:
        return checksums[0] if checksums else None
    return hashlib.sha256("".join(checksums).encode()).hexdigest()

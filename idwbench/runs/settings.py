"""The base class of settings: frozen, strict, with one-line errors."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache, partial
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, ValidationError, model_serializer

from idwbench.errors import ConfigError, UnknownSettingError, did_you_mean, near_word

__all__ = ["Count", "Fraction", "NonNegative", "Seed", "Settings", "added_in_0_2", "is_storable", "validated"]

Seed = Annotated[int, Field(ge=0, lt=2**32)]
Count = Annotated[int, Field(ge=1, lt=2**31)]
Fraction = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, le=1e30, allow_inf_nan=False)]

_SINCE = "since"
# A field that was added in this version; JSON omits it at its default, so that older run keys stay valid.
added_in_0_2: Callable[..., Any] = partial(Field, json_schema_extra={_SINCE: "0.2.0"})


def is_storable(text: str) -> bool:
    """Return whether all databases can store a text: it has neither a NUL nor a lone surrogate."""
    return re.search("[\0\ud800-\udfff]", text) is None


class Settings(BaseModel):
    """Frozen settings that refuse unknown names and values of another type."""

    __slots__ = ("_identities",)  # a cache that copies do not have

    # Classes are compiled when first used: a command uses few of them.
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)

    @model_serializer(mode="wrap")
    def _serialise(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        content: dict[str, Any] = handler(self)
        for name, default in _added_fields(type(self)):
            if name in content and getattr(self, name) == default:
                del content[name]
        return content

    def identity(self, *without: str) -> str:
        """Return JSON that is equal for equal settings but those in `without`; it is computed once for an object."""
        try:
            known: dict[tuple[str, ...], str] = object.__getattribute__(self, "_identities")
        except AttributeError:
            known = {}
            object.__setattr__(self, "_identities", known)
        text = known.get(without)
        if text is None:
            text = known[without] = json.dumps(self.model_dump(mode="json", exclude=set(without)), sort_keys=True)
        return text


@cache
def _added_fields(settings: type[BaseModel]) -> tuple[tuple[str, Any], ...]:
    return tuple(
        (name, field.default)
        for name, field in settings.model_fields.items()
        if isinstance(field.json_schema_extra, dict) and _SINCE in field.json_schema_extra
    )


_Model = TypeVar("_Model", bound=BaseModel)


def validated(model: type[_Model], content: Any) -> _Model:
    """Return `content` as settings of class `model`.

    Raises:
        ConfigError: unknown key, or a value of the wrong type or out of range; `location` is the key.
    """
    if not isinstance(content, dict):
        raise ConfigError(f"expected a mapping, got {content!r}")
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise _config_error(error, model) from None


def _config_error(error: ValidationError, model: type[BaseModel]) -> ConfigError:
    # A misspelt key is often also reported as missing; the former has a useful hint.
    errors = error.errors()
    first = next((e for e in errors if e["type"] == "extra_forbidden"), errors[0])
    *parents, key = first["loc"] or ("",)  # of a key that is no valid text there is no place
    # Pydantic adds the names of union members to the path.
    path = tuple(step for step in parents if isinstance(step, int) or _is_key(step))
    if first["type"] == "extra_forbidden":
        hint = did_you_mean(str(key), () if parents else model.model_fields)
        return UnknownSettingError("unknown key", location=(*path, key), hint=hint)
    if first["type"] == "missing":
        return ConfigError(f"'{key}' is missing", location=path)
    location = (*path, key) if isinstance(key, int) or _is_key(key) else path
    if isinstance(raised := first.get("ctx", {}).get("error"), ConfigError):
        return raised
    text = str(first["msg"])
    words = re.findall(r"'([^']+)'", str(first["ctx"]["expected"])) if first["type"] == "literal_error" else ()
    return ConfigError(
        f"{text[:1].lower()}{text[1:]}, got {first['input']!r}",
        location=location,
        hint=near_word(str(first["input"]), words),  # the text already lists the words
    )


def _is_key(step: str) -> bool:
    return step.isidentifier() and step not in ("int", "float", "str", "bool")

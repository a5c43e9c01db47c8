"""YAML 1.2 files as plain values with line and column; reading runs no code."""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.constructor import ConstructorError
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.reader import ReaderError

from idwbench.errors import ConfigError, Location, SpecError, UnknownSettingError, dotted
from idwbench.files import read_file

__all__ = ["YamlSource", "read_yaml"]

_MAX_VALUES = 200_000
_TEXTS = ("!!str", "!!timestamp", "!!value", "!!merge")  # in YAML 1.2 dates, "=" and "<<" are text
_SCALARS = ("!!null", "!!bool", "!!int", "!!float", *_TEXTS)
_KINDS = {"!!map": "mapping", "!!seq": "sequence", **dict.fromkeys(_SCALARS, "scalar")}


@dataclass(frozen=True)
class YamlSource:
    """One YAML document: its `content` as plain values, and ruamel's node of it, which has the positions."""

    file: Path
    text: str
    content: Any
    root: Any

    def error(self, error: ConfigError) -> SpecError:
        """Return the error with the position of its value or, if unknown, of its key or the mapping that lacks it.

        The location is without steps that the file does not have: one value may stand for a list.
        """
        key = value = self.root
        location = []
        for step in error.location:
            for name, *nodes in _items(value):
                if name == step:
                    key, value = nodes
                    location.append(step)
        mark = (key if isinstance(error, UnknownSettingError) else value).start_mark
        position = (mark.line + 1, mark.column + 1)
        return SpecError(error.problem, location=tuple(location), hint=error.hint, file=self.file, position=position)


def read_yaml(file: Path, content: bytes | None = None) -> YamlSource:
    """Read one YAML 1.2 document, of the file or in the `content` that stands for it.

    Raises:
        SpecError: the file does not exist, is not UTF-8 or YAML, is empty, or has several documents, other tags than
            the core types, equal keys, or aliases that stand for too many values.
    """
    content = read_file(file, SpecError) if content is None else content
    text, position = "", (1, 1)
    yaml = YAML(typ="safe", pure=True)
    try:
        text = content.decode("utf-8-sig")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an anchor may be defined twice
            root = yaml.compose(text)
        value = None if root is None else _Builder(yaml.constructor).value(root)
        if value is not None:
            return YamlSource(file, text, value, root)
        problem = "the file is empty"
    except UnicodeDecodeError as error:
        problem, position = "not UTF-8 text", _end(error.object[: error.start].decode())
    except RecursionError:
        problem = "nested too deeply"
    except ReaderError as error:
        problem, position = f"not valid YAML: {str(error).splitlines()[0]}", _end(text[: error.position])
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = ", ".join(part for part in (error.context, error.problem) if part).splitlines()[0]
        problem = problem if isinstance(error, ConstructorError) else f"not valid YAML: {problem}"
        position = (mark.line + 1, mark.column + 1) if mark else position
    raise SpecError(problem, file=file, position=position)


def _end(text: str) -> tuple[int, int]:
    return text.count("\n") + 1, len(text) - text.rfind("\n")


def _items(node: Any) -> list[tuple[str | int, Any, Any]]:
    """Return name or index, node of the key, and node of the value for each item."""
    if node.id == "mapping":
        return [(key.value, key, value) for key, value in node.value]
    return [(index, item, item) for index, item in enumerate(node.value)] if node.id == "sequence" else []


class _Builder:
    """Builds plain values of YAML's core types and refuses all other tags."""

    def __init__(self, constructor: Any) -> None:
        self.constructor, self.n_values = constructor, 0

    def value(self, node: Any, location: Location = (), parents: tuple[Any, ...] = ()) -> Any:
        tag = str(node.tag).replace("tag:yaml.org,2002:", "!!")
        self.n_values += 1  # aliases count as often as they are used
        if tag not in _KINDS:
            raise _refusal(node, f"the tag {tag} is refused: a sweep file is data and runs no code")
        if node.id != _KINDS[tag]:
            raise _refusal(node, f"expected a {_KINDS[tag]} node, but found {node.id}")
        if node in parents[:-1]:
            raise _refusal(node, f"{dotted(location)}: contains itself")
        if self.n_values > _MAX_VALUES:
            raise _refusal(node, f"more than {_MAX_VALUES:,} values")
        if node in parents:
            return None  # for ruamel too the only item of `&a [*a]` is null
        if node.id == "scalar":
            try:
                return node.value if tag in _TEXTS else getattr(self.constructor, f"construct_yaml_{tag[2:]}")(node)
            except (ValueError, KeyError, IndexError):  # `!!int abc`, or an integer of thousands of digits
                raise _refusal(node, f"cannot read {node.value[:40]!r}") from None
        lines: dict[str, int] = {}
        for key in (key for key, _ in node.value) if node.id == "mapping" else ():
            if not isinstance(self.value(key), str):
                raise _refusal(key, "expected a word as key")
            if key.value in lines:
                raise _refusal(key, f"the key '{key.value}' is already in line {lines[key.value]}")
            lines[key.value] = key.start_mark.line + 1
        content = {step: self.value(item, (*location, step), (*parents, node)) for step, _, item in _items(node)}
        return content if node.id == "mapping" else list(content.values())


def _refusal(node: Any, problem: str) -> ConstructorError:
    return ConstructorError(None, None, problem, node.start_mark)

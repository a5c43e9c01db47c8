"""`YamlSource`: a YAML file as plain values, and where in the file each of them stands.

The file is composed to nodes and read by hand: nothing is constructed from tags, so no code can run, two equal
keys are seen, and every key and value keeps its line and column.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode

from idwbench.errors import SpecError

__all__ = ["Location", "Position", "YamlSource", "dotted", "read_yaml"]

Location = tuple[str | int, ...]
Position = tuple[int, int]

_CORE = "tag:yaml.org,2002:"
_NUMBERS_AND_WORDS = {f"{_CORE}{name}" for name in ("int", "float", "bool", "null")}
# YAML 1.2 knows neither dates nor "=" nor "<<": they are text.
_TEXT = {f"{_CORE}{name}" for name in ("str", "timestamp", "value", "merge")}
# A few nested aliases can stand for billions of values, and a file of this size is no sweep anyway.
_MAX_VALUES = 200_000
_MAX_INTEGER = 2**63


@dataclass(frozen=True)
class YamlSource:
    """One YAML document.

    Attributes:
        file: As the user typed it.
        text: The whole file.
        content: Plain dicts (with text keys), lists, text, numbers, booleans and None.
        keys: Line and column, from 1, of each key by its location, such as ``("grid", 1, "method")``.
        values: The same of each value; ``()`` is the document.
    """

    file: Path
    text: str
    content: Any
    keys: Mapping[Location, Position]
    values: Mapping[Location, Position]

    def error(self, location: Location, message: str, *, at_key: bool = False) -> SpecError:
        """Return the error ``file:line:column: location: message``; what is not in the file stands at its parent.

        Args:
            location: Of the offending key or value.
            message: What is wrong and what was expected.
            at_key: Point at the key, not at its value.
        """
        while location not in self.values:
            location = location[:-1]
        position = self.keys.get(location) if at_key else None
        return _error(self.file, position or self.values[location], message, location)


def dotted(location: Location) -> str:
    """Return a location as users write it: ``grid[1].power[0]``."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in location)
    return "".join(steps).removeprefix(".")


def read_yaml(file: Path) -> YamlSource:
    """Read one YAML 1.2 document.

    Raises:
        SpecError: no such file, not UTF-8, not YAML, empty, several documents, a custom tag, equal keys.
    """
    text = _read_text(file)
    try:
        root = _compose(file, text)
        if root is None:
            raise _error(file, (1, 1), "the file is empty")
        reader = _Reader(file)
        content = reader.read(root, ())
    except RecursionError:
        raise _error(file, (1, 1), "nested too deeply") from None
    return YamlSource(file, text, content, reader.keys, reader.values)


def _error(file: Path, position: Position, message: str, location: Location = ()) -> SpecError:
    where = f"{dotted(location)}: " if location else ""
    return SpecError(f"{file}:{position[0]}:{position[1]}: {where}{message}", location=location)


def _read_text(file: Path) -> str:
    try:
        return file.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise SpecError(f"{file}: no such file") from None
    except IsADirectoryError:
        raise SpecError(f"{file}: is a folder, expected a YAML file") from None
    except (OSError, ValueError) as error:
        if isinstance(error, UnicodeDecodeError):
            line = error.object[: error.start].count(b"\n") + 1
            column = error.start - error.object.rfind(b"\n", 0, error.start)
            raise _error(file, (line, column), "not UTF-8 text") from None
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise SpecError(f"{file}: cannot be read ({reason})") from None


def _compose(file: Path, text: str) -> Node | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an anchor defined twice is legal: the later one counts
            node: Node | None = YAML(typ="safe", pure=True).compose(text)
            return node
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        position = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
        raise _error(file, position, _problem(str(error.problem or error.context))) from None
    except YAMLError as error:  # a character that YAML does not allow
        start = getattr(error, "position", 0)
        line, column = text[:start].count("\n") + 1, start - text.rfind("\n", 0, start)
        raise _error(file, (line, column), _problem(str(error))) from None


def _problem(text: str) -> str:
    if "another document" in text:
        return "a second document begins here, expected one"
    if r"'\t'" in text:
        return "not valid YAML: a tab cannot indent, use spaces"
    return f"not valid YAML: {text.splitlines()[0]}"


@dataclass
class _Reader:
    """Turns nodes into plain values and writes down where they stand."""

    file: Path
    keys: dict[Location, Position] = field(default_factory=dict)
    values: dict[Location, Position] = field(default_factory=dict)
    _open: set[int] = field(default_factory=set)
    _constructor: Any = field(default_factory=lambda: YAML(typ="safe", pure=True).constructor)

    def read(self, node: Node, location: Location) -> Any:
        self.values[location] = _position(node)
        if len(self.values) > _MAX_VALUES:
            raise _error(self.file, _position(node), f"more than {_MAX_VALUES:,} values")
        if isinstance(node, ScalarNode):
            return self._scalar(node, location)
        if id(node) in self._open:
            raise _error(self.file, _position(node), "contains itself", location)
        self._open.add(id(node))
        is_mapping = isinstance(node, MappingNode)
        content = self._mapping(node, location) if is_mapping else self._list(node, location)
        self._open.remove(id(node))
        return content

    def _mapping(self, node: Node, location: Location) -> dict[str, Any]:
        self._check_tag(node, location, "map")
        content: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, ScalarNode) or key_node.tag not in _TEXT:
                raise _error(self.file, _position(key_node), "expected a word as key", location)
            here = (*location, str(key_node.value))
            if here[-1] in content:
                first = self.keys[here][0]
                raise _error(self.file, _position(key_node), f"the key is already in line {first}", here)
            self.keys[here] = _position(key_node)
            content[str(key_node.value)] = self.read(value_node, here)
        return content

    def _list(self, node: Node, location: Location) -> list[Any]:
        self._check_tag(node, location, "seq")
        return [self.read(item, (*location, index)) for index, item in enumerate(node.value)]

    def _scalar(self, node: ScalarNode, location: Location) -> str | int | float | bool | None:
        if node.tag in _TEXT:
            return str(node.value)
        if node.tag not in _NUMBERS_AND_WORDS:
            self._check_tag(node, location, "str")
        try:
            value = self._constructor.construct_object(node)
        except (ValueError, KeyError, YAMLError):  # `!!int abc`, or an integer of thousands of digits
            raise _error(self.file, _position(node), f"cannot read {node.value[:40]!r}", location) from None
        if isinstance(value, int) and abs(value) >= _MAX_INTEGER:
            raise _error(self.file, _position(node), "the number is too large", location)
        return value if value is None or isinstance(value, bool) else _plain(value)

    def _check_tag(self, node: Node, location: Location, expected: str) -> None:
        if node.tag != f"{_CORE}{expected}":
            tag = str(node.tag).replace(_CORE, "!!")
            message = f"the tag {tag} is refused: a sweep file is data and runs no code"
            raise _error(self.file, _position(node), message, location)


def _plain(value: int | float) -> int | float:
    return float(value) if isinstance(value, float) else int(value)


def _position(node: Node) -> Position:
    return node.start_mark.line + 1, node.start_mark.column + 1

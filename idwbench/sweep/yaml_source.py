"""YAML 1.2 files as plain values with line and column; reading runs no code."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.constructor import ConstructorError, RoundTripConstructor, SafeConstructor
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.reader import ReaderError

from idwbench.errors import ConfigError, Location, SpecError, UnknownSettingError
from idwbench.files import read_file

__all__ = ["YamlSource", "read_yaml"]

_MAX_VALUES = 200_000


@dataclass(frozen=True)
class YamlSource:
    """One YAML document; `content` has ruamel's mappings and lists, with the positions of their items in ``.lc``."""

    file: Path
    text: str
    content: Any

    def error(self, error: ConfigError) -> SpecError:
        """Return the error with the position of its value or, if unknown, of its key or the mapping that lacks it."""
        node, lines = self.content, getattr(self.content, "lc", None)
        position = (lines.line, lines.col) if lines else (0, 0)
        for step in error.location:
            # Line and column of an item of a list; of a key of a mapping, then of its value.
            places = (lines.data or {}).get(step) if lines else None
            if places is None:
                break
            at_key = isinstance(error, UnknownSettingError) and step == error.location[-1]
            position = places[:2] if at_key else places[-2:]
            node = node[step]
            lines = getattr(node, "lc", None)
        place = (position[0] + 1, position[1] + 1)
        return SpecError(error.problem, location=error.location, hint=error.hint, file=self.file, position=place)


class _Constructor(RoundTripConstructor):
    """Constructs plain values of YAML's core types with positions, and refuses all other tags."""

    yaml_constructors = {}  # noqa: RUF012  # those of the base class support dates, sets and objects
    yaml_multi_constructors = {}  # noqa: RUF012

    def check_mapping_key(self, node: Any, key_node: Any, mapping: Any, key: Any, value: Any) -> bool:
        if not isinstance(key, str):
            raise ConstructorError(None, None, "expected a word as key", key_node.start_mark)
        if key in mapping:
            line = mapping.lc.key(key)[0] + 1
            raise ConstructorError(None, None, f"the key '{key}' is already in line {line}", key_node.start_mark)
        return True

    def flatten_mapping(self, node: Any) -> None:
        """Do nothing: YAML 1.2 has no merge keys."""

    def text(self, node: Any) -> str:
        return str(SafeConstructor.construct_scalar(self, node))

    def scalar(self, node: Any) -> Any:
        try:
            return _SCALARS[node.tag](self, node)
        except (ValueError, KeyError, IndexError):  # `!!int abc`, or an integer of thousands of digits
            raise ConstructorError(None, None, f"cannot read {node.value[:40]!r}", node.start_mark) from None

    def refuse(self, node: Any) -> None:
        tag = str(node.tag).replace(_CORE, "!!")
        problem = f"the tag {tag} is refused: a sweep file is data and runs no code"
        raise ConstructorError(None, None, problem, node.start_mark)


_CORE = "tag:yaml.org,2002:"
_SCALARS = {
    f"{_CORE}null": SafeConstructor.construct_yaml_null,
    f"{_CORE}bool": SafeConstructor.construct_yaml_bool,
    f"{_CORE}int": SafeConstructor.construct_yaml_int,
    f"{_CORE}float": SafeConstructor.construct_yaml_float,
}
_CONSTRUCTORS: dict[str | None, Any] = {
    **dict.fromkeys(_SCALARS, _Constructor.scalar),
    # In YAML 1.2 dates, "=" and "<<" are text.
    **dict.fromkeys((f"{_CORE}{name}" for name in ("str", "timestamp", "value", "merge")), _Constructor.text),
    f"{_CORE}seq": RoundTripConstructor.construct_yaml_seq,
    f"{_CORE}map": RoundTripConstructor.construct_yaml_map,
    None: _Constructor.refuse,
}
for _tag, _function in _CONSTRUCTORS.items():
    _Constructor.add_constructor(_tag, _function)


def read_yaml(file: Path) -> YamlSource:
    """Read one YAML 1.2 document.

    Raises:
        SpecError: the file does not exist, is not UTF-8 or YAML, is empty, or has several documents, other tags than
            the core types, equal keys, or aliases that stand for too many values.
    """
    content = read_file(file, SpecError)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        read = error.object[: error.start]
        position = (read.count(b"\n") + 1, len(read) - read.rfind(b"\n"))
        raise SpecError("not UTF-8 text", file=file, position=position) from None
    source = YamlSource(file, text, _load(file, text))
    if source.content is None:
        raise SpecError("the file is empty", file=file, position=(1, 1))
    try:
        if _count(source.content, (), {}) > _MAX_VALUES:
            raise ConfigError(f"more than {_MAX_VALUES:,} values")
    except ConfigError as error:
        raise source.error(error) from None
    return source


def _load(file: Path, text: str) -> Any:
    yaml = YAML(typ="safe", pure=True)
    yaml.Constructor = _Constructor
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an anchor may be defined twice
            return yaml.load(text)
    except RecursionError:
        raise SpecError("nested too deeply", file=file, position=(1, 1)) from None
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = ", ".join(part for part in (error.context, error.problem) if part).splitlines()[0]
        problem = problem if isinstance(error, ConstructorError) else f"not valid YAML: {problem}"
        raise SpecError(problem, file=file, position=(mark.line + 1, mark.column + 1) if mark else (1, 1)) from None
    except ReaderError as error:
        read = text[: error.position]
        position = (read.count("\n") + 1, len(read) - read.rfind("\n"))
        problem = f"not valid YAML: {str(error).splitlines()[0]}"
        raise SpecError(problem, file=file, position=position) from None


def _count(node: Any, location: Location, counts: dict[int, int | None]) -> int:
    """Return the number of values after expansion of aliases."""
    if not isinstance(node, dict | list):
        return 1
    if id(node) not in counts:
        counts[id(node)] = None
        items = node.items() if isinstance(node, dict) else enumerate(node)
        counts[id(node)] = 1 + sum(_count(value, (*location, step), counts) for step, value in items)
    count = counts[id(node)]
    if count is None:
        raise ConfigError("contains itself", location=location)
    return count

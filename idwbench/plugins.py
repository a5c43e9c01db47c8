"""A user's own methods: from a file (`load_plugin`), from installed packages (`load_entry_points`), or at once.

The checksum of the code that brings a method goes into the key of its runs: change the code, and they are other
runs. A sweep file never names a plugin, so reading one runs no code.
"""

from __future__ import annotations

import hashlib
import inspect
import keyword
import math
import re
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from idwbench.errors import IdwbenchError, PluginError
from idwbench.methods import METHODS, Initialisation, Method, Parameter, Weighting, register_method

__all__ = ["ENTRY_POINT_GROUP", "RESERVED_NAMES", "load_entry_points", "load_plugin", "register"]

ENTRY_POINT_GROUP = "idwbench.methods"

# Words that a sweep file or a run already uses. Written out, because this module stands beside `config`, not on it.
RESERVED_NAMES = frozenset(
    {
        *("name", "description", "dataset", "protocol", "seeds", "grid"),
        *("method", "prototypes", "parameters", "seed", "plugin_sha256"),
        *("epochs", "batch_size", "learning_rate", "optimizer", "schedule"),
        *("inputs", "keys", "values"),
    }
)

_Score = TypeVar("_Score", bound=Callable[..., Any])
_NAME = re.compile(r"[a-z][a-z0-9_]*")

# While a file is being loaded: its checksum, and the methods that it has registered so far.
_loading: tuple[str, list[Method]] | None = None


def register(
    name: str,
    *,
    formula: str = "",
    parameters: Mapping[str, float | str | Sequence[str]] | None = None,
    initialisation: Initialisation = "data",
    weighting: Weighting = "softmax",
) -> Callable[[_Score], _Score]:
    """Return a decorator that makes a score function a method.

    The function is called as ``score(inputs, keys, **parameters)`` with tensors: inputs (…, batch, features), keys
    (…, prototypes, features), and gives scores (…, batch, prototypes). Leading axes stack runs. A number among the
    parameters arrives as a number, or, for stacked runs, as a tensor (…, 1, 1) that broadcasts against the scores; a
    word arrives as text.

    Args:
        name: Used in YAML, tables and the database; lower case.
        formula: The score, for humans.
        parameters: Each parameter's default: a number, or the words it may be, the default first.
        initialisation: ``data`` or ``kaiming``, see `Method`.
        weighting: ``softmax`` over prototypes, or ``relu`` without normalisation.

    Raises:
        PluginError: the name is taken or not a plain word, or the function does not take these parameters.
    """

    def decorate(function: _Score) -> _Score:
        _check_word("method", name)
        _check_choice("initialisation", initialisation, ("data", "kaiming"))
        _check_choice("weighting", weighting, ("softmax", "relu"))
        parsed = tuple(_parameter(key, default) for key, default in (parameters or {}).items())
        _check_signature(name, function, parsed)
        checksum = _loading[0] if _loading else _source_sha256(function)
        method = Method(name, formula, function, parsed, initialisation, weighting, checksum)
        if _loading:
            _loading[1].append(method)
        else:
            _add(method)
        return function

    return decorate


def load_plugin(path: Path) -> list[str]:
    """Run a Python file and register its methods, all of them or none; return their names.

    Only this file's content counts for the run key, so what decides a score belongs in it.

    Raises:
        PluginError: no such file, not Python, it fails, or it registers nothing or a name that is taken.
    """
    global _loading
    try:
        code = path.read_bytes()
    except OSError as error:
        reason = "no such file" if isinstance(error, FileNotFoundError) else error.strerror
        raise PluginError(f"plugin {path}: {reason}") from None
    sha256 = hashlib.sha256(code).hexdigest()
    found: list[Method] = []
    _loading = (sha256, found)
    try:
        _run(path, code, f"idwbench_plugin_{sha256[:16]}")
    finally:
        _loading = None
    if not found:
        raise PluginError(f"plugin {path}: registers no method (decorate a score with @register('name'))")
    for method in found:
        _check_free(method, f"plugin {path}: ")
        if sum(other.name == method.name for other in found) > 1:
            raise PluginError(f"plugin {path}: registers '{method.name}' twice")
    for method in found:
        _add(method)
    return [method.name for method in found]


def load_entry_points() -> list[str]:
    """Register the methods of installed packages and return their names.

    A package announces each method in its ``pyproject.toml``, under ``[project.entry-points."idwbench.methods"]``,
    as ``method_name = "package.module"``; the module registers it when it is imported.

    Raises:
        PluginError: a module cannot be imported, or registers no method of the announced name.
    """
    from importlib.metadata import entry_points  # 15 ms that a notebook need not pay

    names = []
    for point in entry_points(group=ENTRY_POINT_GROUP):
        origin = f"entry point '{point.name} = {point.value}'"
        try:
            point.load()
        except (Exception, SystemExit) as error:  # a package's own code: anything can come out of it
            raise PluginError(f"{origin}: {_one_line(error)}") from None
        if point.name not in METHODS or METHODS[point.name].sha256 is None:
            raise PluginError(f"{origin}: the module registers no method '{point.name}'")
        names.append(point.name)
    return names


def _run(path: Path, code: bytes, module_name: str) -> None:
    module = ModuleType(module_name)
    module.__file__ = str(path)
    sys.modules[module_name] = module  # dataclasses and the like look their module up
    try:
        exec(compile(code, str(path), "exec", dont_inherit=True), module.__dict__)
    except (Exception, SystemExit) as error:  # the user's own code: anything can come out of it
        sys.modules.pop(module_name, None)
        line = _line_in(path, error)
        raise PluginError(f"plugin {path}{line}: {_one_line(error)}") from None


def _line_in(path: Path, error: BaseException) -> str:
    """Return ``:line`` of the plugin's own line that failed, or nothing if none did."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f":{error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f":{lines[-1]}" if lines else ""


def _one_line(error: BaseException) -> str:
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    first = text.strip().splitlines()[0] if text.strip() else ""
    if isinstance(error, IdwbenchError):
        return first
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def _add(method: Method) -> None:
    _check_free(method, "")
    METHODS.pop(method.name, None)
    register_method(method)


def _check_free(method: Method, origin: str) -> None:
    present = METHODS.get(method.name)
    if present is None or present.sha256 == method.sha256 or _is_second_try(present, method):
        return
    owner = "a built-in method" if present.sha256 is None else "a method of another plugin"
    raise PluginError(f"{origin}method '{method.name}': the name is taken by {owner}")


def _is_second_try(present: Method, method: Method) -> bool:
    """Whether a file or a notebook's cell was changed and run again: then the new function takes the name."""
    return present.sha256 is not None and _home(present) == _home(method)


def _home(method: Method) -> str:
    module = str(getattr(method.score, "__module__", ""))
    code = getattr(method.score, "__code__", None)
    return module if module == "__main__" or code is None else str(code.co_filename)


def _check_word(kind: str, word: object) -> None:
    if not isinstance(word, str) or not _NAME.fullmatch(word) or keyword.iskeyword(word):
        raise PluginError(f"{kind} {word!r}: expected a lower-case name of letters, digits and _")


def _check_choice(key: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise PluginError(f"{key} {value!r}: expected one of {', '.join(choices)}")


def _parameter(name: str, default: float | str | Sequence[str]) -> Parameter:
    _check_word("parameter", name)
    if name in RESERVED_NAMES:
        raise PluginError(f"parameter '{name}': sweep files already use that name")
    if isinstance(default, int | float) and not isinstance(default, bool) and math.isfinite(default):
        return Parameter(name, float(default))
    words = (default,) if isinstance(default, str) else default
    if isinstance(words, list | tuple) and words and all(isinstance(word, str) and word for word in words):
        return Parameter(name, words[0], choices=tuple(words))
    raise PluginError(f"parameter '{name}': expected a finite number or words as default, got {default!r}")


def _check_signature(name: str, function: Callable[..., Any], parameters: Sequence[Parameter]) -> None:
    names = [parameter.name for parameter in parameters]
    try:
        inspect.signature(function).bind(None, None, **dict.fromkeys(names))
    except (TypeError, ValueError):
        wanted = ", ".join(["inputs", "keys", *(["*", *names] if names else [])])
        raise PluginError(f"method '{name}': its score must take ({wanted})") from None


def _source_sha256(function: Callable[..., Any]) -> str:
    """Return the checksum of the file that holds the function, or, in a notebook, of the function's text."""
    try:
        file = inspect.getsourcefile(inspect.unwrap(function))
        if file is not None and Path(file).is_file():
            return hashlib.sha256(Path(file).read_bytes()).hexdigest()
        return hashlib.sha256(inspect.getsource(function).encode()).hexdigest()
    except (OSError, TypeError):
        name = getattr(function, "__name__", repr(function))
        raise PluginError(f"score '{name}': its source cannot be read, so its runs could not be told apart") from None

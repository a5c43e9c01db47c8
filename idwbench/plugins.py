"""Plugins: methods from a file (`load_plugin`), from installed packages (`load_entry_points`), or from a notebook.

The checksum of the code that defines a method is part of the key of its runs. A sweep file cannot name a plugin, so
reading one runs no code.
"""

import hashlib
import inspect
import keyword
import math
import re
import sys
import tomllib
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, TypeVar, get_args

from idwbench.attention.records import Initialisation, Method, MethodWeighting, Parameter
from idwbench.attention.scores import METHODS, register_method
from idwbench.errors import IdwbenchError, PluginError, did_you_mean, error_summary
from idwbench.files import file_sha256, read_file
from idwbench.runs.config import RunConfig
from idwbench.runs.kinds.patch_study import PatchStudyConfig
from idwbench.runs.protocol import Protocol

__all__ = [
    "ENTRY_POINT_GROUP",
    "RESERVED_NAMES",
    "load_entry_points",
    "load_plugin",
    "load_project_plugins",
    "plugin_file",
    "register",
]

ENTRY_POINT_GROUP = "idwbench.methods"

# Names of settings of prototype networks, and of keys of a sweep file. Other kinds of runs check their own names.
RESERVED_NAMES = frozenset({"name", "description", "grid", "seeds", "inputs", "keys", "values"}).union(
    RunConfig.model_fields, Protocol.model_fields, PatchStudyConfig.model_fields
)

_Score = TypeVar("_Score", bound=Callable[..., Any])
_NAME = re.compile(r"[a-z][a-z0-9_]*")

# While a file is being loaded: its checksum, and the methods registered so far.
_loading: tuple[str, list[Method]] | None = None


def register(
    name: str,
    *,
    formula: str = "",
    parameters: Mapping[str, float | str | Sequence[str]] | None = None,
    initialisation: Initialisation | Literal["data"] = "mean",
    weighting: MethodWeighting = "softmax",
) -> Callable[[_Score], _Score]:
    """Return a decorator that registers a score function as a method.

    The function is called as ``score(inputs, keys, **parameters)`` with tensors inputs (…, batch, features) and keys
    (…, prototypes, features), and returns scores (…, batch, prototypes). Leading axes stack runs. A numeric parameter
    is a number or, in a stack, a tensor (…, 1, 1) that broadcasts against the scores; other parameters are strings.

    Args:
        name: Lower-case name for YAML, tables and the database.
        formula: The score as text.
        parameters: The default of each parameter: a number, or the valid words, the default first.
        initialisation: See `idwbench.models.initialisation`; ``data`` is the name of ``mean`` in version 0.1.
        weighting: ``softmax`` over prototypes, or ``relu`` without normalisation.

    Raises:
        PluginError: the name is taken or not valid, or the function does not accept these parameters.
    """

    def decorate(function: _Score) -> _Score:
        _check_word("method", name)
        initial: Initialisation = "mean" if initialisation == "data" else initialisation
        _check_choice("initialisation", initial, get_args(Initialisation))
        _check_choice("weighting", weighting, get_args(MethodWeighting))
        parsed = tuple(_parameter(key, default) for key, default in (parameters or {}).items())
        _check_signature(name, function, parsed)
        checksum = _loading[0] if _loading else _source_sha256(function)
        method = Method(name, formula, function, initial, weighting, checksum, parameters=parsed)
        if _loading:
            _loading[1].append(method)
        else:
            _add(method)
        return function

    return decorate


def load_plugin(path: Path) -> list[str]:
    """Run a Python file, register all of its methods (none after an error) and return their names.

    Raises:
        PluginError: the file does not exist, fails, or registers no method or a name that is taken.
    """
    global _loading
    code = read_file(path, PluginError)
    sha256 = hashlib.sha256(code).hexdigest()
    methods: list[Method] = []
    _loading = (sha256, methods)
    try:
        _run(path, code, f"idwbench_plugin_{sha256[:16]}")
    finally:
        _loading = None
    if not methods:
        raise PluginError("registers no method", hint="decorate a score with @register('name')", file=path)
    for method in methods:
        _check_free(method, path)
        if sum(other.name == method.name for other in methods) > 1:
            raise PluginError(f"registers '{method.name}' twice", file=path)
    for method in methods:
        _add(method)
    return [method.name for method in methods]


def load_entry_points() -> list[str]:
    """Register the methods of installed packages and return their names.

    A package declares ``method_name = "package.module"`` under ``[project.entry-points."idwbench.methods"]`` in its
    ``pyproject.toml``; the module registers the method when it is imported.

    Raises:
        PluginError: a module cannot be imported, or does not register the declared method.
    """
    from importlib.metadata import entry_points  # takes 15 ms

    names = []
    for point in entry_points(group=ENTRY_POINT_GROUP):
        origin = f"entry point '{point.name} = {point.value}'"
        try:
            point.load()
        except (Exception, SystemExit) as error:  # the code of a package can raise any exception
            raise PluginError(f"{origin}: {_reason(error)}") from None
        if point.name not in METHODS or METHODS[point.name].sha256 is None:
            raise PluginError(f"{origin}: the module registers no method '{point.name}'")
        names.append(point.name)
    return names


def load_project_plugins(folder: Path | None = None) -> list[str]:
    """Register the methods of a project and return their names.

    The plugins are the files that ``plugins`` lists under ``[tool.idwbench]`` in the ``pyproject.toml`` of the folder,
    by default the current one, or of the nearest folder above that has one; their paths start there.

    Raises:
        PluginError: that file cannot be read, ``plugins`` is no list of paths, or a plugin fails.
    """
    start = (folder or Path()).absolute()
    found = next((file for one in (start, *start.parents) if (file := one / "pyproject.toml").is_file()), None)
    if found is None:
        return []
    try:
        settings = tomllib.loads(read_file(found, PluginError).decode()).get("tool", {}).get("idwbench", {})
    except ValueError as error:  # of TOML, or of the encoding
        raise PluginError(error_summary(error), file=found) from None
    paths = settings.get("plugins", [])
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise PluginError(f"expected a list of paths, got {paths!r}", location=("tool.idwbench.plugins",), file=found)
    return [name for path in paths for name in load_plugin(found.parent / path)]


def _run(path: Path, code: bytes, module_name: str) -> None:
    module = ModuleType(module_name)
    module.__file__ = str(path)
    sys.modules[module_name] = module  # dataclasses look up their module
    try:
        exec(compile(code, str(path), "exec", dont_inherit=True), module.__dict__)
    except (Exception, SystemExit) as error:  # the user's code can raise any exception
        sys.modules.pop(module_name, None)
        position = _position_in(path, error)
        if isinstance(error, IdwbenchError):
            raise PluginError(
                error.problem, location=error.location, hint=error.hint, file=path, position=position
            ) from None
        raise PluginError(error_summary(error), file=path, position=position) from None


def _reason(error: BaseException) -> str:
    return str(error) if isinstance(error, IdwbenchError) else error_summary(error)


def _position_in(path: Path, error: BaseException) -> tuple[int, int] | None:
    """Return line and column of the plugin's code that failed, or None if it did not fail there."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return error.lineno or 1, error.offset or 1
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return (frames[-1].lineno or 1, (frames[-1].colno or 0) + 1) if frames else None


def _add(method: Method) -> None:
    _check_free(method, None)
    METHODS.pop(method.name, None)
    register_method(method)


def _check_free(method: Method, file: Path | None) -> None:
    present = METHODS.get(method.name)
    if present is None or present.sha256 == method.sha256:
        return
    # A changed file or notebook cell that is run again replaces its method.
    if present.sha256 is None or _home(present) != _home(method):
        owner = "a built-in method" if present.sha256 is None else "a method of another plugin"
        raise PluginError(f"the name '{method.name}' is taken by {owner}", file=file)


def plugin_file(method: Method) -> str | None:
    """Return the name of the file that defines the method of a plugin; None if it is built in, or not in a file."""
    file = Path(getattr(getattr(method.score, "__code__", None), "co_filename", ""))
    return file.name if method.sha256 is not None and file.suffix == ".py" else None


def _home(method: Method) -> str:
    module = str(getattr(method.score, "__module__", ""))
    code = getattr(method.score, "__code__", None)
    return module if module == "__main__" or code is None else str(code.co_filename)


def _check_word(kind: str, word: object) -> None:
    if not isinstance(word, str) or not _NAME.fullmatch(word) or keyword.iskeyword(word):
        raise PluginError(f"expected a lower-case name of letters, digits and _, got {word!r}", location=(kind,))


def _check_choice(key: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise PluginError(f"{value!r} is not valid", location=(key,), hint=did_you_mean(str(value), choices))


def _parameter(name: str, default: float | str | Sequence[str]) -> Parameter:
    _check_word("parameter", name)
    if name in RESERVED_NAMES:
        raise PluginError("settings already use that name", location=("parameters", name))
    if isinstance(default, int | float) and not isinstance(default, bool) and math.isfinite(default):
        return Parameter(name, float(default))
    words = (default,) if isinstance(default, str) else default
    if isinstance(words, list | tuple) and words and all(isinstance(word, str) and word for word in words):
        return Parameter(name, words[0], choices=tuple(words))
    raise PluginError(f"expected a finite number or words as default, got {default!r}", location=("parameters", name))


def _check_signature(name: str, function: Callable[..., Any], parameters: Sequence[Parameter]) -> None:
    names = [parameter.name for parameter in parameters]
    try:
        inspect.signature(function).bind(None, None, **dict.fromkeys(names))
    except (TypeError, ValueError):
        expected = ", ".join(["inputs", "keys", *(["*", *names] if names else [])])
        raise PluginError(f"the score must take ({expected})", location=("method", name)) from None


def _source_sha256(function: Callable[..., Any]) -> str:
    """Return the checksum of the file that defines the function or, in a notebook, of the function's source."""
    try:
        file = inspect.getsourcefile(inspect.unwrap(function))
        if file is not None and Path(file).is_file():
            return file_sha256(Path(file), PluginError)
        return hashlib.sha256(inspect.getsource(function).encode()).hexdigest()
    except (OSError, TypeError):
        name = getattr(function, "__name__", repr(function))
        raise PluginError(f"the source of score '{name}' cannot be read, so its runs would have no key") from None

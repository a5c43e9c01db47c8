"""Options generated from the declarations of settings."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

import typer

from idwbench.attention.scores import METHODS, all_parameters
from idwbench.cli.options import DATA, MODEL, PROTOCOL
from idwbench.runs.datasets import TableFileConfig
from idwbench.runs.kinds.prototypes import PrototypesConfig
from idwbench.runs.protocol import Protocol

__all__ = ["DATASET_SETTINGS", "number", "with_parameters", "with_settings"]

# Settings of data sets with an option of their own; the others are given as KEY=VALUE.
DATASET_SETTINGS = ("validation", "task")

_Command = TypeVar("_Command", bound=Callable[..., None])


def with_settings(command: _Command) -> _Command:
    """Replace the ``**settings`` argument of a command by one option for each setting."""
    return _with_options(command, [*_parameters(), *_options()], after="seed")


def with_parameters(command: _Command) -> _Command:
    """Replace the ``**parameters`` argument of a command by one option for each parameter of the methods."""
    return _with_options(command, list(_parameters()), after="method")


def _with_options(command: _Command, made: list[inspect.Parameter], after: str) -> _Command:
    signature = inspect.signature(command, eval_str=True)
    fixed = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    names = {p.name for p in made}

    def run(**arguments: Any) -> None:
        given = {name: arguments.pop(name) for name in list(arguments) if name in names}
        command(**arguments, **{name: value for name, value in given.items() if value is not None})

    place = [p.name for p in fixed].index(after) + 1
    parameters = [*fixed[:place], *made, *fixed[place:]]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    return run  # type: ignore[return-value]


def _parameters() -> Iterator[inspect.Parameter]:
    for name, parameter in all_parameters().items():
        yield _option(name, str if parameter.choices else float, f"{parameter.help} Of {_methods(name)}.", MODEL)


def _options() -> Iterator[inspect.Parameter]:
    for settings, names, panel in (
        (PrototypesConfig, ("initialisation",), MODEL),
        (Protocol, tuple(Protocol.model_fields), PROTOCOL),
        (TableFileConfig, DATASET_SETTINGS, DATA),
    ):
        for name in names:
            field = settings.model_fields[name]
            yield _option(name, field.annotation, field.description or "", panel)


def _option(name: str, annotation: Any, text: str, panel: str) -> inspect.Parameter:
    kinds = set(_plain_types(annotation))
    kind: Any = float if float in kinds else int if kinds == {int} else str
    parser = number if kinds == {int, float} else None
    names = [f"--{name.replace('_', '-')}"]
    option = typer.Option(*names, help=text, show_default=False, parser=parser, rich_help_panel=panel)
    return inspect.Parameter(
        name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=Annotated[kind | None, option]
    )


def number(text: str) -> int | float:
    """Return a whole number as it is and any other as a float: 1 is one row, 1.0 is no fraction below 1."""
    return int(text) if text.strip().isdigit() else float(text)


def _methods(parameter: str) -> str:
    names = [m.name for m in METHODS.values() if parameter in {p.name for p in m.parameters}]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _plain_types(annotation: Any) -> Iterable[Any]:
    if get_origin(annotation) is Annotated:
        return _plain_types(get_args(annotation)[0])
    if get_origin(annotation) is Literal:
        return [str]
    arguments = get_args(annotation)
    return [kind for part in arguments for kind in _plain_types(part)] if arguments else [annotation]

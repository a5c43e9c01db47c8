"""The `idwbench` application and its errors.

Exit codes: 0 success; 1 failure (of a run, the data, the database); 2 invalid input (an option, a sweep file, a model
file, an impossible patch); 3 runs that other processes have not ended; 129, 130 or 143 by SIGHUP, Ctrl-C or SIGTERM.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException

import idwbench
from idwbench.cli.options import DATASET_SETTINGS, ONLY_WITH, OPTIONS, Refused, model_option, option
from idwbench.cli.output import echo
from idwbench.errors import (
    ConfigError,
    DatasetError,
    IdwbenchError,
    OutputExistsError,
    SpecError,
    did_you_mean,
    dotted,
    printable,
    shortened,
)

__all__ = ["COMMANDS", "RUNS", "OneLineCommand", "OneLineGroup", "app", "declared", "number"]

_RUNS_HELP = "List, show, watch, compare, tag, measure, remove, export and repeat the runs of a results database."
# The function of each command as MODULE.FUNCTION of this package, whose module is imported when it is used; of `runs`,
# a group, its help.
COMMANDS = {
    "train": "models.train",
    **{name: f"{name}.{name}" for name in ("sweep", "report")},
    "figure": "publish.figure",
    "runs": _RUNS_HELP,
    **{name: f"{name}.{name}" for name in ("explain", "patch")},
    **{"card": "models.card", "export": "models.export_model", "import": "models.import_model"},
    **{name: f"publish.{name}" for name in ("claims", "page", "publish")},
    "list": "listing.list_names",
}
RUNS = {
    **{name: f"stored_runs.runs_{name}" for name in ("list", "show")},
    "watch": "runs_watch.runs_watch",
    **{name: f"runs.runs_{name}" for name in ("diff", "tag", "note", "measure", "rm", "export", "replay")},
}
# Settings of a table that have an option of their own.
_OF_TABLES = ("task", "label", "drop")
# Options of `idwbench report` in version 0.1.0 that are commands now.
_FORMER = {
    **{f"--{name}": f"publish {name}" for name in ("paper", "family", "dual")},
    **{"--figure": "figure NAME", "--claims": "claims", "--html": "page FILE", "--measure": "runs measure"},
}


class _PlainFlags:
    """Help of a command or group that names no type of flags."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help."""
        for parameter in self.get_params(ctx):  # type: ignore[attr-defined]
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
        super().format_help(ctx, formatter)  # type: ignore[misc]


class OneLineCommand(_PlainFlags, TyperCommand):
    """A command whose errors are one line on stderr, without a traceback, and that refuses what does not belong."""

    refused: Sequence[Refused] = ()

    def invoke(self, ctx: Any) -> Any:
        """Run the command; the exit code follows the error's class."""
        options = {str(p.name): max(p.opts, key=len) for p in self.params if p.param_type_name == "option"}
        sources = {name: ctx.get_parameter_source(name) for name in ctx.params}
        given, by_variable = (
            {name for name, source in sources.items() if source is not None and source.name == place}
            for place in ("COMMANDLINE", "ENVIRONMENT")
        )
        try:
            for reason, others, names in self.refused:
                is_wrong = given.isdisjoint(others.split()) == (reason == ONLY_WITH)
                for name in (name for name in names.split() if is_wrong and name in given):
                    problem = f"{reason} {' or '.join(options[other] for other in others.split())}"
                    raise ConfigError(problem, location=(name if name in options else name.upper(),))
            return super().invoke(ctx)
        except IdwbenchError as error:
            if "plugin" in by_variable and Path(error.file or "") in ctx.params["plugin"]:
                error.hint = "; ".join(filter(None, ("IDWBENCH_PLUGIN names it", error.hint)))
            echo(_error_line(error, options), err=True)
            raise typer.Exit(error.exit_code) from None
        except EOFError as error:  # which Typer would take for the end of a user's input, and so for Ctrl-C
            echo(f"idwbench: a file ends before its content does ({str(error) or 'EOFError'})", err=True)
            raise typer.Exit(1) from None


class OneLineGroup(_PlainFlags, TyperGroup):
    """A group of commands, each imported when it is used, whose usage errors are one line on stderr."""

    places: Mapping[str, str] = COMMANDS

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands."""
        return [*self.places]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, or None if there is none of this name."""
        if cmd_name not in self.commands and (place := self.places.get(cmd_name)):
            if place == _RUNS_HELP:
                runs = self.commands[cmd_name] = OneLineGroup(name=cmd_name, help=place, no_args_is_help=True)
                runs.places = RUNS
            else:
                module_name, _, function = place.partition(".")
                module = import_module(f"idwbench.cli.{module_name}")
                command = declared(getattr(module, function), cmd_name, getattr(module, "OPTIONS", {}))
                parser = typer.Typer(add_completion=False)
                parser.command(cmd_name, cls=OneLineCommand)(command)
                made = self.commands[cmd_name] = typer.main.get_command(parser)
                made.refused = getattr(module, "REFUSED", {}).get(cmd_name, ())  # type: ignore[attr-defined]
        return self.commands.get(cmd_name)

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run the command line."""
        problem = ""
        try:
            code = super().main(*args, **{**extra, "standalone_mode": False})
        except TyperException as error:
            context, code = getattr(error, "ctx", None), error.exit_code
            commands = getattr(context.command, "places", ()) if context is not None else ()
            problem = _usage_line(error.format_message(), commands)
        except typer.Abort:
            code = 130
        except OSError as error:  # but that of a reader that has closed the pipe, as of `… | head`: Typer ends quietly
            code, problem = 1, f"{error.filename}: " if error.filename else ""
            problem += error.strerror or str(error)
        except MemoryError as error:
            code, problem = 1, f"out of memory{f' ({error})' if str(error) else ''}"
        if problem:
            echo(f"idwbench: {problem}", err=True)
        sys.exit(code if isinstance(code, int) else 0)


app = typer.Typer(
    name="idwbench",
    epilog="Every command that reads data takes two more options. --data-dir: the folder of image archives and texts; "
    "if not given IDWBENCH_DATA, or the user's cache folder. --plugin, which may be repeated: a Python file that "
    "registers methods; also IDWBENCH_PLUGIN, or the list 'plugins' of tool.idwbench in pyproject.toml.",
    cls=OneLineGroup,
    no_args_is_help=True,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def options(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Train, sweep, report, explain and patch prototype attention: small models that can be read and repaired."""
    if version:
        echo(f"idwbench {idwbench.__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        context.fail("Missing command.")


_GIVEN_BY_NAME = inspect.Parameter.POSITIONAL_OR_KEYWORD
_PLUGINS = Annotated[list[Path] | None, OPTIONS["plugin"]]


def declared(command: Callable[..., None], name: str, own: Mapping[str, Any]) -> Callable[..., None]:
    """Return a command as Typer reads it, with the declarations in `own` and `OPTIONS` in its annotations.

    In `own`, ``name.parameter`` goes before ``parameter``, if a module has several commands.
    A command that reads data also takes plugins, whose methods are registered before it is called.
    ``**parameters`` in its signature stands for an option of each parameter of the methods, and ``**settings`` for one
    of each setting of a training. The command receives those that are given.
    """
    signature, known = inspect.signature(command, eval_str=True), {**OPTIONS, **own}
    parameters: list[inspect.Parameter] = []
    generated: set[str] = set()
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            options = [*_parameters(), *(_settings() if parameter.name == "settings" else ())]
            parameters += options
            generated = {one.name for one in options}
            continue
        if declaration := known.get(f"{name}.{parameter.name}", known.get(parameter.name)):
            parameter = parameter.replace(annotation=Annotated[parameter.annotation, declaration])
        parameters.append(parameter)  # without a declaration it is Typer's own, such as the context
        if parameter.name == "data_dir":
            parameters.append(inspect.Parameter("plugin", _GIVEN_BY_NAME, default=None, annotation=_PLUGINS))

    def run(**arguments: Any) -> None:
        if "data_dir" in arguments:
            from idwbench.attention.scores import FINDERS
            from idwbench.plugins import load_entry_points, load_plugin, load_project_plugins

            FINDERS.extend((load_entry_points, load_project_plugins))  # if a method is unknown
            for path in arguments.pop("plugin") or ():
                load_plugin(path)
        command(**{name: value for name, value in arguments.items() if value is not None or name not in generated})

    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    # Help would keep the line ends of a docstring.
    paragraphs = (command.__doc__ or "").split("\n\n")
    run.__doc__ = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    return run


def _parameter(name: str, kind: Any, declaration: Any) -> inspect.Parameter:
    return inspect.Parameter(name, _GIVEN_BY_NAME, default=None, annotation=Annotated[kind | None, declaration])


def _parameters() -> Iterator[inspect.Parameter]:
    """Yield an option for each parameter of the methods and of the weightings."""
    from idwbench.attention.scores import METHODS
    from idwbench.attention.weightings import WEIGHTINGS

    records = [*METHODS.values(), *WEIGHTINGS.values()]
    for name, parameter in {one.name: one for record in records for one in record.parameters}.items():
        *others, last = (record.name for record in records if record.takes(name))
        text = f"{parameter.help} For {', '.join(others)}{' and ' if others else ''}{last}."
        yield _parameter(name, str if parameter.choices else float, model_option(help=text))


def _settings() -> Iterator[inspect.Parameter]:
    """Yield an option for each setting of a training."""
    from idwbench.runs.datasets import CsvConfig
    from idwbench.runs.kinds.prototypes import PrototypesConfig
    from idwbench.runs.protocol import Protocol

    of_model = ["initialisation", "key_bounds", "key_penalty", "weighting", "label_smoothing", "slope_rank"]
    places: tuple[tuple[Any, Iterable[str], str], ...] = (
        (PrototypesConfig, of_model, "Model"),
        (Protocol, Protocol.model_fields, "Protocol"),
        (CsvConfig, DATASET_SETTINGS, "Data"),
    )
    for settings, names, panel in places:
        properties = settings.model_json_schema()["properties"]
        for name in names:
            field = properties[name]
            kinds = {one["type"] for one in field.get("anyOf", [field])}
            kind: Any = float if "number" in kinds else int if "integer" in kinds else str
            kind = list[str] if "array" in kinds else kind
            parser = number if {"integer", "number"} <= kinds else None
            yield _parameter(name, kind, option(help=field["description"], rich_help_panel=panel, parser=parser))


def number(text: str) -> int | float:
    """Return a whole number as it is and any other as a float: 1 is one row, 1.0 is no fraction below 1."""
    return int(text) if text.strip().isdigit() else float(text)


def _error_line(error: IdwbenchError, options: dict[str, str]) -> str:
    """Return the error as one line, with the options of a command in place of settings."""
    if isinstance(error, OutputExistsError) and "force" in options:
        error.hint = "--force replaces it"
    if "plugin" in options:
        error.hint = error.hint.replace("load the plugin first", "give its file with --plugin")
    error.hint = error.hint.replace("`measure_runs`", "'idwbench runs measure'")
    for name in (name for name in _OF_TABLES if name in options):  # as in YAML: `task: regression`
        error.hint = error.hint.replace(f"{name}: ", f"{options[name]} ")
    if isinstance(error, SpecError):
        return printable(error.render(dotted(error.location)), kept="")
    return f"idwbench: {printable(error.render(_option(error, options) or dotted(error.location)), kept='')}"


def _usage_line(message: str, commands: Iterable[str] = ()) -> str:
    """Return Typer's message on a command line that it cannot parse as one line, with the nearest valid word."""
    line = shortened(printable(" ".join(message.split()).replace("Value error, ", ""), kept=""))
    hint = ""
    if choice := re.search("'([^']*)' is not one of (.*)\\.$", line):  # the line lists the valid words
        hint = did_you_mean(choice[1], re.findall("'([^']*)'", choice[2]))
        hint = hint if hint.startswith("did") else ""
    elif (option := re.match(r"No such option: (--\w+)", line)) and option[1] in _FORMER:
        return f"No such option: {option[1]}. It is a command: idwbench {_FORMER[option[1]]}"
    elif command := re.search(r"No such command '(.*)'\.$", line):
        hint = did_you_mean(command[1], commands)
    return f"{line} {hint[:1].upper()}{hint[1:]}" if hint else line


def _option(error: IdwbenchError, options: dict[str, str]) -> str:
    location = error.location
    if isinstance(error, DatasetError) and location:  # the location is a setting of the data set
        location = ("dataset", *location)
    first, *rest = location or ("",)
    key = str(rest[-1]) if first in ("dataset", "protocol", "parameters") and rest else str(first)
    if key in options and (first != "dataset" or key in ("validation", *_OF_TABLES)):
        return options[key]
    if first == "dataset":
        is_pair = rest and key != "name" and "dataset_option" in options
        return f"{options['dataset_option']} {key}" if is_pair else options.get(first, "")
    if len(location) == 1 and "parameter" in options and key.isidentifier():
        return f"{options['parameter']} {key}"
    return ""

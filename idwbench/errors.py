"""The errors that a user can cause: one tree, each printed as one line. The exit code is 1 unless another is named.

IdwbenchError
├── ConfigError       a setting is wrong: unknown, of the wrong type, out of range (exit code 2)
│   ├── UnknownSettingError  there is no setting of that name (exit code 2)
│   └── SpecError     the same in a sweep file, with file, line and column (exit code 2)
├── DatasetError      data is missing, altered, or not of the expected form
├── PluginError       a plugin cannot be loaded, or registers something unusable (exit code 2)
├── TrainingError     a run failed, or gave no model
├── ResultsError      the results database cannot be opened, read or upgraded
├── ModelFileError    a model file cannot be read, or is not one (exit code 2)
├── OutputError       a file cannot be written (exit code 2)
│   └── OutputExistsError  it exists, and overwriting was not allowed (exit code 2)
└── PatchError        a patch is impossible, or would not answer as requested (exit code 2)
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from os import PathLike, fspath

__all__ = [
    "ConfigError",
    "DatasetError",
    "IdwbenchError",
    "Location",
    "ModelFileError",
    "OutputError",
    "OutputExistsError",
    "PatchError",
    "PluginError",
    "ResultsError",
    "SpecError",
    "TrainingError",
    "UnknownSettingError",
    "did_you_mean",
    "dotted",
]

Location = tuple[str | int, ...]


class IdwbenchError(Exception):
    """Base of everything a user can cause; its text is ``file:line:column: location: problem (hint)`` in one line.

    Attributes:
        problem: What is wrong and what was expected.
        location: Path of the setting or argument, such as ``("protocol", "epochs")``; empty if none is to blame.
        hint: What may help, such as the nearest valid word; empty if nothing is known.
        file: The file that is wrong, if one is.
        position: Line and column in it, from 1.
    """

    exit_code = 1
    # A setting stands in its file; an argument, such as the input of a patch, names its file.
    file_first = True

    def __init__(
        self,
        problem: str,
        *,
        location: Location = (),
        hint: str = "",
        file: str | PathLike[str] | None = None,
        position: tuple[int, int] | None = None,
    ) -> None:
        """Keep the parts of the message as fields, so that callers can build their own."""
        super().__init__(problem)
        self.problem, self.location, self.hint = problem, location, hint
        self.file, self.position = None if file is None else fspath(file), position

    def __str__(self) -> str:
        return self.render(dotted(self.location))

    def render(self, location: str) -> str:
        """Return the line with other words for the location, such as the name of an option."""
        place = "" if self.file is None else ":".join(map(str, [self.file, *(self.position or ())]))
        parts = (place, location, self.problem) if self.file_first else (location, place, self.problem)
        return ": ".join(part for part in parts if part) + (f" ({self.hint})" if self.hint else "")

    def at(self, *location: str | int) -> IdwbenchError:
        """Return the same error with `location` in front of its own."""
        return type(self)(
            self.problem,
            location=(*location, *self.location),
            hint=self.hint,
            file=self.file,
            position=self.position,
        )


class ConfigError(IdwbenchError):
    """A setting is unknown, of the wrong type, or out of range."""

    exit_code = 2


class UnknownSettingError(ConfigError):
    """There is no setting of that name; `location` ends with it."""


class SpecError(ConfigError):
    """A sweep file is wrong."""


class DatasetError(IdwbenchError):
    """Data is missing, altered, or not of the expected form."""


class PluginError(IdwbenchError):
    """A plugin cannot be loaded, or registers something unusable."""

    exit_code = 2


class TrainingError(IdwbenchError):
    """A run failed, or gave no model."""


class ResultsError(IdwbenchError):
    """The results database cannot be opened, read, or upgraded."""


class ModelFileError(IdwbenchError):
    """A model file cannot be read, or is not one."""

    exit_code = 2


class OutputError(IdwbenchError):
    """A file cannot be written."""

    exit_code = 2


class OutputExistsError(OutputError):
    """A file exists, and overwriting was not allowed."""


class PatchError(IdwbenchError):
    """A patch is impossible as requested; nothing was written."""

    exit_code = 2
    file_first = False


def dotted(location: Location) -> str:
    """Return a location as users write it: ``grid[1].power[0]``."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in location)
    return "".join(steps).removeprefix(".")


def did_you_mean(word: str, valid: Iterable[str]) -> str:
    """Return ``did you mean 'x'?`` for the nearest valid word, or the list of valid words."""
    words = sorted(valid)
    near = get_close_matches(word, words, n=1, cutoff=0.6)
    if not near:  # only the case differs
        near = [valid_word for valid_word in words if valid_word.casefold() == word.casefold()]
    if near:
        return f"did you mean '{near[0]}'?"
    return f"expected one of: {', '.join(words)}" if words else ""

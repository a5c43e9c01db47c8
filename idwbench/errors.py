"""What a user can cause: one tree of errors, each told in one line. The exit code is 1 unless another is named.

IdwbenchError
├── ConfigError       a setting is wrong: an option, a YAML value, a parameter, an unknown method (exit code 2)
│   └── SpecError     the same in a sweep file, with file, line and column (exit code 2)
├── DatasetError      data is missing, altered, or not of the expected form
├── PluginError       a plugin cannot be loaded, or registers something unusable (exit code 2)
├── TrainingError     a run failed, or gave no model
├── ResultsError      the results database cannot be opened, read or upgraded
├── ModelFileError    a model file cannot be read, or is none (exit code 2)
├── OutputError       a file cannot be written, or would be overwritten (exit code 2)
└── PatchError        a patch is impossible or would not answer as asked (exit code 2)
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = [
    "ConfigError",
    "DatasetError",
    "IdwbenchError",
    "ModelFileError",
    "OutputError",
    "PatchError",
    "PluginError",
    "ResultsError",
    "SpecError",
    "TrainingError",
    "did_you_mean",
]


class IdwbenchError(Exception):
    """Base of everything a user can cause; its text is one line that a terminal can show."""

    exit_code = 1


class ConfigError(IdwbenchError):
    """A setting is unknown, of the wrong type, or out of range."""

    exit_code = 2

    def __init__(self, message: str, *, location: tuple[str | int, ...] = ()) -> None:
        """Keep the path of the setting (``("protocol", "epochs")``) beside the message."""
        super().__init__(message)
        self.location = location


class SpecError(ConfigError):
    """A sweep file is wrong; the text begins with ``file:line:column``."""


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
    """A model file cannot be read, or is none."""

    exit_code = 2


class OutputError(IdwbenchError):
    """A file cannot be written, or exists already and nobody said to replace it."""

    exit_code = 2


class PatchError(IdwbenchError):
    """A patch is impossible as asked; nothing was written."""

    exit_code = 2


def did_you_mean(word: str, valid: Iterable[str]) -> str:
    """Return `` (did you mean 'x'?)`` for the nearest valid word, or the list of valid words."""
    words = sorted(valid)
    near = get_close_matches(word, words, n=1, cutoff=0.6)
    if near:
        return f" (did you mean '{near[0]}'?)"
    return f" (expected one of: {', '.join(words)})" if words else ""

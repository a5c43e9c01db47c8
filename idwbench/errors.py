"""The errors that a user can cause, each printed as one line; texts of errors, files and names as they may be printed.

The exit code is 1 unless the class has another.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from os import PathLike, fspath

__all__ = [
    "ClusterError",
    "ConfigError",
    "DatabaseFullError",
    "DatasetError",
    "ExplanationError",
    "FullDiskError",
    "IdwbenchError",
    "Location",
    "ModelFileError",
    "NoNeighboursWarning",
    "NoResultsError",
    "OldResultsError",
    "OutputError",
    "OutputExistsError",
    "PatchConflictError",
    "PatchError",
    "PluginError",
    "RecordingError",
    "ResultsError",
    "RunElsewhereError",
    "SpecError",
    "TrainingError",
    "UnknownSettingError",
    "did_you_mean",
    "dotted",
    "error_summary",
    "first_line",
    "last_line",
    "near_word",
    "printable",
    "shortened",
]

Location = tuple[str | int, ...]

# Line ends, tabs, spaces of other widths, and what joins or parts letters in some scripts.
_PRINTED = "\n\t\u00a0\u200c\u200d\u202f\u3000"

# Of a part of a message, of a word that is compared with valid ones, and of valid words that are all listed.
_MOST_CHARACTERS, _MOST_LETTERS, _MOST_LISTED = 1000, 100, 40


class IdwbenchError(Exception):
    """Base of all errors that a user can cause; the text is ``file:line:column: location: problem (hint)``.

    Attributes:
        problem: What is wrong and what was expected.
        location: Path of the setting or argument, such as ``("protocol", "epochs")``; may be empty.
        hint: A suggestion, such as the nearest valid word; may be empty.
        file: The file that the error is in, or None.
        position: Line, and column if known, in the file, from 1, or None.
    """

    exit_code = 1
    file_first = True  # whether the file precedes the location in the text

    def __init__(
        self,
        problem: str,
        *,
        location: Location = (),
        hint: str = "",
        file: str | PathLike[str] | None = None,
        position: tuple[int, ...] | None = None,
    ) -> None:
        """Store the parts of the message."""
        super().__init__(problem)
        self.problem, self.location, self.hint = problem, location, hint
        self.file, self.position = None if file is None else fspath(file), position

    def __str__(self) -> str:
        return self.render(dotted(self.location))

    def render(self, location: str) -> str:
        """Return the text with `location` in place of the error's own location."""
        place = "" if self.file is None else ":".join(map(str, [shortened(self.file), *(self.position or ())]))
        first = (place, shortened(location)) if self.file_first else (shortened(location), place)
        text = ": ".join(part for part in (*first, shortened(self.problem)) if part)
        return text + (f" ({shortened(self.hint)})" if self.hint else "")

    def at(self, *location: str | int) -> IdwbenchError:
        """Return the same error with `location` in front of its own."""
        return type(self)(
            self.problem, location=(*location, *self.location), hint=self.hint, file=self.file, position=self.position
        )


class ConfigError(IdwbenchError):
    """A setting is unknown, of the wrong type, or out of range."""

    exit_code = 2


class UnknownSettingError(ConfigError):
    """No setting has that name; `location` ends with the name."""


class SpecError(ConfigError):
    """A setting in a sweep file is wrong; has file, line and column."""


class DatasetError(IdwbenchError):
    """Data is missing, altered, or not of the expected form."""


class PluginError(IdwbenchError):
    """A plugin cannot be loaded, or registers something unusable."""

    exit_code = 2


class TrainingError(IdwbenchError):
    """A run failed, or has no model."""


class ClusterError(IdwbenchError):
    """A Dask cluster cannot be reached, or its workers cannot train the runs."""


class ResultsError(IdwbenchError):
    """The results database cannot be opened, read, or upgraded."""


class NoResultsError(ResultsError):
    """There is no database yet, or it is empty."""


class RunElsewhereError(ResultsError):
    """Another process trains the run."""

    exit_code = 3


class OldResultsError(ResultsError):
    """The database has tables of an older version, which are upgraded when it is opened for writing."""


class RecordingError(ResultsError):
    """The recording of a training is missing, incomplete, cut, or of another model."""


class ModelFileError(IdwbenchError):
    """A model file cannot be read, or is not one."""

    exit_code = 2


class OutputError(IdwbenchError):
    """A file cannot be written."""

    exit_code = 2


class FullDiskError(OutputError):
    """A file cannot be written, since the disk is full or the user's share of it is used up."""

    exit_code = 1


class DatabaseFullError(FullDiskError, ResultsError):
    """The disk of the results database is full; what was stored before is kept."""


class OutputExistsError(OutputError):
    """A file exists, and overwriting was not allowed."""


class PatchError(IdwbenchError):
    """A patch is impossible as requested; nothing was written."""

    exit_code = 2
    file_first = False


class PatchConflictError(PatchError):
    """No values make all patches hold.

    Attributes:
        conflicts: Pairs of patches with different labels or targets that are near each other: both names, and their
            distance in scaled units; nearest first, and empty if none are near.
    """

    def __init__(self, conflicts: Iterable[tuple[str, str, float]], *, wishes: str = "labels", listed: int = 3) -> None:
        """Describe the first `listed` pairs, which have different `wishes`."""
        self.conflicts = tuple(conflicts)
        problem = "the patches cannot hold together: no values make every input get what is wanted"
        if self.conflicts:
            pairs = [f"{one} and {other} (distance {near:.3g})" for one, other, near in self.conflicts[:listed]]
            more = f"; and {len(self.conflicts) - listed} more" if len(self.conflicts) > listed else ""
            problem = f"the patches conflict: different {wishes} for {'; '.join(pairs)}{more}"
        super().__init__(problem)

    def at(self, *location: str | int) -> IdwbenchError:
        """Return the same error: it belongs to no single argument."""
        return self


class ExplanationError(IdwbenchError):
    """An answer cannot be explained as requested."""

    exit_code = 2
    file_first = False


class NoNeighboursWarning(UserWarning):
    """A kernel gives all keys the weight 0 for some queries, so that their estimate is NaN."""


def dotted(location: Location) -> str:
    """Return a location as text: ``grid[1].power[0]``."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in location)
    return "".join(steps).removeprefix(".")


def did_you_mean(word: str, valid: Iterable[str]) -> str:
    """Return ``did you mean 'x'?`` for the nearest valid word, or the valid words; of many, the five nearest."""
    words = sorted(valid)
    if hint := near_word(word, words):
        return hint
    if len(words) > _MOST_LISTED:
        nearest = get_close_matches(word[:_MOST_LETTERS], words, n=5, cutoff=0.0)
        return f"the nearest valid words: {', '.join(nearest)}"
    return f"expected one of: {', '.join(words)}" if words else ""


def near_word(word: str, valid: Iterable[str]) -> str:
    """Return ``did you mean 'x'?`` for the nearest valid word; empty if none is near."""
    words, word = sorted(valid), word[:_MOST_LETTERS]
    folded = {valid_word.casefold(): valid_word for valid_word in reversed(words)}
    near = get_close_matches(word, words, n=1, cutoff=0.6)
    # A word of which the case differs is nearer than any other spelling.
    if word not in words and word.casefold() in folded:
        near = [folded[word.casefold()]]
    elif not near:
        near = [folded[match] for match in get_close_matches(word.casefold(), folded, n=1, cutoff=0.6)]
    return f"did you mean '{near[0]}'?" if near else ""


def shortened(text: str, most: int = _MOST_CHARACTERS) -> str:
    """Return a text without its middle if it is long, as a file that is one word, or an argument of many characters."""
    if len(text) <= most:
        return text
    return f"{text[: most // 2]} … {text[-most // 4 :]}"


def first_line(error: BaseException | None) -> str:
    """Return the first line of the text of an error; empty if it has none, or if there is no error."""
    try:
        text = "" if error is None else str(error)
    except Exception:  # the class of a user's error can raise any exception here
        text = "<exception str() failed>"  # as in tracebacks
    return (text.strip().splitlines() or [""])[0]


def error_summary(error: BaseException) -> str:
    """Return class and first line of an error, such as ``ValueError: no such word``, or its class if it has no text."""
    text = error.msg if isinstance(error, SyntaxError) else first_line(error)
    return ": ".join(filter(None, (type(error).__name__, text)))


def last_line(text: str | None) -> str:
    """Return the last line of a stored error, or an empty text: of a traceback it is the message."""
    return (text or "").strip().rpartition("\n")[2]


def printable(text: str, kept: str = _PRINTED) -> str:
    r"""Return a text whose control characters are escaped, such as ``\x1b``, or ``\u202e`` for a change of direction.

    The escapes from U+007F are valid in JSON too.

    Args:
        text: Any text.
        kept: Characters that are not escaped, though Python does not count them as printable.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in kept else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    if char < " ":
        return repr(char)[1:-1]
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[place : place + 2].hex()}" for place in range(0, len(units), 2))

"""Selection of runs by an expression such as ``prototypes == 16 and test_accuracy > 0.95``, which pandas evaluates.

pandas' own expressions may call functions and read attributes; what is not a comparison, arithmetic, ``and``, ``or``,
``not`` or membership is refused first, by looking at the parsed expression.
"""

from __future__ import annotations

import ast
import math
import operator as operators
from collections.abc import Callable, Collection
from functools import cache
from typing import Any, Literal, get_args

import pandas

from idwbench.errors import ConfigError, did_you_mean

__all__ = ["LISTED_STATES", "ListedState", "in_states", "matching", "sorted_runs", "value_hint"]

ListedState = Literal["planned", "running", "stale", "retraining", "complete", "diverged", "failed"]
LISTED_STATES: tuple[ListedState, ...] = get_args(ListedState)

_EXAMPLE = 'such as "prototypes == 16 and test_accuracy > 0.95"'
_LONGEST = 10_000
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod)
_ORDER = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_TIMES: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    **{ast.Lt: operators.lt, ast.LtE: operators.le, ast.Gt: operators.gt, ast.GtE: operators.ge},
    **{ast.Eq: operators.eq, ast.NotEq: operators.ne},
}
_EQUALITY = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot)
_MEMBERSHIP = (ast.In, ast.NotIn)


def matching(frame: pandas.DataFrame, where: str) -> pandas.DataFrame:
    """Return the rows of a table of runs for which an expression holds.

    Names are columns. Constants are numbers, texts, True and False, and None for a missing value; ``in`` finds a value
    in a list, or a text in the texts of a column. Missing values meet only ``!=`` and ``== None``.

    Raises:
        ConfigError: no such expression or column, or text is compared with numbers; `location` is ``("where",)``.
    """
    tree = _parsed(where)
    if not len(frame):
        return frame
    chosen = _Expression(frame)
    expression = ast.unparse(chosen.visit(tree))
    try:
        holds = chosen.frame.eval(expression, engine="python")
    except (TypeError, ValueError, KeyError, AttributeError, NotImplementedError, OverflowError) as error:
        raise _refused(f"'{_shortened(where)}' cannot be compared: {_first_line(error)}") from None
    if not isinstance(holds, pandas.Series) or holds.dtype != bool:
        raise _refused(f"'{_shortened(where)}' is not a condition on a column", _EXAMPLE)
    return frame[holds]


def value_hint(frame: pandas.DataFrame, where: str) -> str:
    """Return the nearest value to the first text in an expression that no run has in the column; or an empty text."""
    for node in ast.walk(_parsed(where)):
        if not (isinstance(node, ast.Compare) and isinstance(node.left, ast.Name) and len(node.ops) == 1):
            continue
        [right], column = node.comparators, frame.get(node.left.id, ())
        known = {value for value in column if isinstance(value, str)}
        for constant in right.elts if isinstance(right, ast.List | ast.Tuple) else [right]:
            value = constant.value if isinstance(constant, ast.Constant) else None
            if known and isinstance(value, str) and value not in known:
                return f"no {node.left.id} is '{_shortened(value)}' ({did_you_mean(value, known)})"
    return ""


def in_states(frame: pandas.DataFrame, states: Collection[str]) -> pandas.DataFrame:
    """Return the runs in one of some states; ``stale`` runs lost their process, ``retraining`` ones keep a result.

    Raises:
        ConfigError: unknown state; `location` is ``("state",)``.
    """
    for state in states:
        if state not in LISTED_STATES:
            hint = did_you_mean(state, LISTED_STATES)
            raise ConfigError(f"no state is called '{_shortened(state)}'", location=("state",), hint=hint)
    in_work = (frame["state"] == "running") | frame["retraining"]
    words = {
        "stale": frame["stale"],
        "running": in_work & ~frame["stale"],
        "retraining": frame["retraining"] & ~frame["stale"],
    }
    holds = frame["state"].isin({*states} - {*words})
    for word in words.keys() & {*states}:
        holds |= words[word]
    return frame[holds]


def sorted_runs(frame: pandas.DataFrame, column: str | None) -> pandas.DataFrame:
    """Return a table of runs in the order of a column, with ``-`` in front of it the largest first; else newest first.

    Raises:
        ConfigError: no such column; `location` is ``("sort",)``.
    """
    if column is None:
        newest = frame[["created_at", "started_at", "finished_at"]].max(axis=1)
        return frame.loc[newest[::-1].sort_values(ascending=False, kind="stable").index]
    name = column.removeprefix("-")
    if name not in frame.columns:
        raise ConfigError(f"no column is called '{_shortened(name)}'", location=("sort",), hint=_nearest(name, frame))
    by = frame[name] if frame[name].dtype != object else frame[name].map(_sortable)
    return frame.loc[by.sort_values(ascending=name == column, kind="stable").index]


def _sortable(value: Any) -> str | None:
    return None if value is None or value != value else str(value)


def _parsed(where: str) -> ast.Expression:
    if len(where) > _LONGEST:
        raise _refused(f"the expression has {len(where):,} characters, more than {_LONGEST:,}")
    try:
        return ast.parse(where.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        problem = f"'{_shortened(where)}' is no expression"
        hint = "use == for equality, and quotes for text: method == 'idw'" if "=" in where else _EXAMPLE
        raise _refused(problem, hint) from None


def _refused(problem: str, hint: str = "") -> ConfigError:
    return ConfigError(problem, location=("where",), hint=hint)


def _nearest(name: str, frame: pandas.DataFrame) -> str:
    hint = did_you_mean(name, map(str, frame.columns))
    return hint if hint.startswith("did you mean") else "names are those of the columns of a table of runs"


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:60]}…"


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


class _Expression(ast.NodeTransformer):
    """Checks an expression, and replaces what pandas does not say as Python does by columns of its own.

    Attributes:
        frame: The table, with these columns.
    """

    def __init__(self, frame: pandas.DataFrame) -> None:
        self.frame = frame

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Refuse every other kind of expression."""
        problem = "an expression compares columns by ==, !=, <, <=, >, >=, in, and, or, not, and arithmetic"
        raise _refused(f"{problem}, got '{_shortened(ast.unparse(node))}'", _EXAMPLE)

    def visit_Expression(self, node: ast.Expression) -> ast.AST:
        """Check the whole expression."""
        return self.visit(node.body)  # type: ignore[no-any-return]

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        """Check ``and`` and ``or``."""
        return ast.BoolOp(node.op, [self.visit(value) for value in node.values])

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        """Check ``not`` and a sign."""
        if isinstance(node.op, ast.Not):
            return ast.UnaryOp(node.op, self.visit(node.operand))
        return ast.UnaryOp(node.op, self._number(node.operand))

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """Check arithmetic, which has numbers only."""
        if not isinstance(node.op, _ARITHMETIC):
            return self.generic_visit(node)
        return ast.BinOp(self._number(node.left), node.op, self._number(node.right))

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """Check that a column has the name."""
        if node.id not in self.frame.columns and node.id in _known_names():  # of runs that are not stored
            self.frame = self.frame.assign(**{node.id: math.nan})
        if node.id not in self.frame.columns:
            raise _refused(f"no column is called '{_shortened(node.id)}'", _nearest(node.id, self.frame))
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        """Check that a constant is a number, text, or a truth value."""
        return node if isinstance(node.value, int | float | str) else self.generic_visit(node)

    def visit_List(self, node: ast.List | ast.Tuple) -> ast.AST:
        """Check the values of a list."""
        if not all(isinstance(one, ast.Constant | ast.UnaryOp) for one in node.elts):
            return self.generic_visit(node)
        return ast.List([self.visit(one) for one in node.elts], ast.Load())

    visit_Tuple = visit_List

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """Check a comparison; a chain such as ``2 < prototypes < 9`` becomes comparisons of two."""
        operands = [node.left, *node.comparators]
        pairs = [self._compared(operands[i], operator, operands[i + 1]) for i, operator in enumerate(node.ops)]
        return pairs[0] if len(pairs) == 1 else ast.BoolOp(ast.And(), pairs)

    def _compared(self, left: ast.expr, operator: ast.cmpop, right: ast.expr) -> ast.expr:
        if isinstance(operator, _EQUALITY) and _is_none(right):
            missing = self._series(left).isna()
            return self._column(missing if isinstance(operator, ast.Eq | ast.Is) else ~missing)
        if isinstance(operator, _MEMBERSHIP) and isinstance(left, ast.Constant) and isinstance(left.value, str):
            found = self._series(right).map(lambda value: isinstance(value, str) and left.value in value).astype(bool)
            return self._column(found if isinstance(operator, ast.In) else ~found)
        if isinstance(operator, _MEMBERSHIP) and not isinstance(right, ast.List | ast.Tuple):
            raise _refused("'in' needs a list, such as method in ['idw', 'neg_dist'], or a text on its left")
        if type(operator) in _TIMES and self._is_moment(left) and isinstance(right, ast.Constant):
            return self._column(_TIMES[type(operator)](self._series(left), _moment(right.value)))
        if isinstance(operator, _ORDER):
            left, right = self._number(left), self._number(right)
        return ast.Compare(self.visit(left), [operator], [self.visit(right)])

    def _is_moment(self, node: ast.expr) -> bool:
        """Return whether an operand is a column of times."""
        is_column = isinstance(node, ast.Name) and node.id in self.frame.columns
        return is_column and isinstance(self.frame[node.id].dtype, pandas.DatetimeTZDtype)  # type: ignore[attr-defined]

    def _series(self, node: ast.expr) -> Any:
        if not isinstance(node, ast.Name):
            return self.generic_visit(node)
        self.visit(node)
        return self.frame[node.id]

    def _number(self, node: ast.expr) -> ast.expr:
        """Return an operand of arithmetic or of an order; of a column with numbers and words only the numbers count."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            raise _refused(f"'{_shortened(node.value)}' is not a number: only == and != compare text")
        if not isinstance(node, ast.Name):
            return self.visit(node)  # type: ignore[no-any-return]
        series = self._series(node)
        if pandas.api.types.is_numeric_dtype(series.dtype):
            return node
        numbers = pandas.to_numeric(series.where(series.map(lambda value: isinstance(value, int | float))), "coerce")
        if series.notna().any() and not numbers.notna().any():
            raise _refused(f"{node.id} is not a number: only == and != compare it")
        return self._column(numbers.astype(float))

    def _column(self, values: pandas.Series[Any]) -> ast.expr:
        """Return the name of a new column."""
        name = f"__{len(self.frame.columns)}"
        self.frame = self.frame.assign(**{name: values})
        return ast.Name(name, ast.Load())


def _moment(text: object) -> pandas.Timestamp:
    """Return a time, in UTC if it has no zone."""
    try:
        moment = pandas.Timestamp(str(text))
    except ValueError:
        problem = f"expected a date or time such as 2026-01-31T12:00, got '{_shortened(str(text))}'"
        raise _refused(problem) from None
    return moment.tz_localize("UTC") if moment.tzinfo is None else moment.tz_convert("UTC")


@cache
def _known_names() -> frozenset[str]:
    """Return the names of metrics and settings that stored runs may not have yet."""
    from idwbench.runs.kinds.models import model_setting_names
    from idwbench.runs.metrics import METRICS, SPLITS

    return frozenset({f"{split}_{name}" for split in SPLITS for name in METRICS} | {*model_setting_names()})


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None

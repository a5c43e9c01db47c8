"""Selection of runs by an expression such as ``prototypes == 16 and test_accuracy > 0.95``.

Python parses it, and each operator is that of pandas on columns. There are comparisons, arithmetic, ``and``, ``or``,
``not`` and membership, and nothing that could call a function.
"""

from __future__ import annotations

import ast
import math
import operator as operators
from collections.abc import Callable, Collection
from functools import partial, reduce
from itertools import pairwise
from typing import Any

import pandas

from idwbench.errors import ConfigError, did_you_mean, near_word, shortened
from idwbench.results.records import RUN_STATES
from idwbench.runs.kinds.models import model_setting_names
from idwbench.runs.metrics import METRICS, SPLITS

__all__ = ["in_states", "matching", "sorted_runs", "value_hint"]

_shortened = partial(shortened, most=60)
_EXAMPLE = 'such as "prototypes == 16 and test_accuracy > 0.95"'
_LONGEST = 10_000
_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    **{ast.Add: operators.add, ast.Sub: operators.sub, ast.Mult: operators.mul, ast.Div: operators.truediv},
    **{ast.FloorDiv: operators.floordiv, ast.Mod: operators.mod, ast.USub: operators.neg, ast.UAdd: operators.pos},
    **{ast.Lt: operators.lt, ast.LtE: operators.le, ast.Gt: operators.gt, ast.GtE: operators.ge},
    **{ast.Eq: operators.eq, ast.NotEq: operators.ne},
}


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
    try:
        return frame[_condition(frame, tree.body)]
    except RecursionError:
        raise _refused(f"'{_shortened(where)}' is no expression", _EXAMPLE) from None
    except (TypeError, ValueError, AttributeError, ArithmeticError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise _refused(f"'{_shortened(where)}' cannot be compared: {reason}") from None


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
    is_stale, is_again = frame["stale"], frame["retraining"]
    holds: dict[str, Any] = {state: frame["state"] == state for state in RUN_STATES}
    in_work = holds["running"] | is_again
    holds |= {"running": in_work & ~is_stale, "stale": is_stale, "retraining": is_again & ~is_stale}
    for state in states:
        if state not in holds:
            hint = did_you_mean(state, holds)
            raise ConfigError(f"no state is called '{_shortened(state)}'", location=("state",), hint=hint)
    return frame[reduce(operators.or_, (holds[state] for state in states), pandas.Series(False, frame.index))]


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
    by = frame[name] if frame[name].dtype != object else frame[name].map(str, na_action="ignore")
    return frame.loc[by.sort_values(ascending=name == column, kind="stable").index]


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
    return near_word(name, map(str, frame.columns)) or "names are those of the columns of a table of runs"


def _value(frame: pandas.DataFrame, node: ast.expr) -> Any:
    """Return the value of an expression, a column or a constant; what is no such expression is refused."""
    match node:
        case ast.Constant(int() | float() | str() as constant):
            return constant
        case ast.Name(name):
            return _column(frame, name)
        case ast.BoolOp(operator, parts):
            conditions = [_condition(frame, part) for part in parts]
            return reduce(operators.and_ if isinstance(operator, ast.And) else operators.or_, conditions)
        case ast.UnaryOp(ast.Not(), operand):
            return ~_condition(frame, operand)
        case ast.UnaryOp(operator, operand) if type(operator) in _OPERATORS:
            return _OPERATORS[type(operator)](_numbers(_value(frame, operand)))
        case ast.BinOp(one, operator, other) if type(operator) in _OPERATORS:
            return _OPERATORS[type(operator)](_numbers(_value(frame, one)), _numbers(_value(frame, other)))
        case ast.Compare(first, compared, others):  # a chain such as 2 < prototypes < 9 are comparisons of two
            pairs = zip(pairwise([first, *others]), compared, strict=True)
            return reduce(operators.and_, [_compared(frame, *pair, operator) for pair, operator in pairs])
    problem = "an expression compares columns by ==, !=, <, <=, >, >=, in, and, or, not, and arithmetic"
    raise _refused(f"{problem}, got '{_shortened(ast.unparse(node))}'", _EXAMPLE)


def _column(frame: pandas.DataFrame, name: str) -> pandas.Series[Any]:
    if name in frame.columns:
        return frame[name]
    if name not in {f"{split}_{metric}" for split in SPLITS for metric in METRICS} | {*model_setting_names()}:
        raise _refused(f"no column is called '{_shortened(name)}'", _nearest(name, frame))
    return pandas.Series(math.nan, index=frame.index)  # of runs that are not stored


def _condition(frame: pandas.DataFrame, node: ast.expr) -> pandas.Series[bool]:
    holds = _value(frame, node)
    if not isinstance(holds, pandas.Series) or holds.dtype != bool:
        raise _refused(f"'{_shortened(ast.unparse(node))}' is not a condition on a column", _EXAMPLE)
    return holds


def _compared(frame: pandas.DataFrame, one: ast.expr, other: ast.expr, operator: ast.cmpop) -> Any:
    match operator, other:
        case ((ast.Eq() | ast.Is()), ast.Constant(None)):
            return _value(frame, one).isna()
        case ((ast.NotEq() | ast.IsNot()), ast.Constant(None)):
            return _value(frame, one).notna()
        case ((ast.Is() | ast.IsNot()), _):
            raise _refused(f"'{_shortened(ast.unparse(other))}' is not None, which alone 'is' compares: use == or !=")
        case (ast.In(), _) | (ast.Eq(), ast.List() | ast.Tuple()):
            return _contained(frame, one, other)
        case (ast.NotIn(), _) | (ast.NotEq(), ast.List() | ast.Tuple()):
            return ~_contained(frame, one, other)
    left, compare = _value(frame, one), _OPERATORS[type(operator)]
    if isinstance(getattr(left, "dtype", None), pandas.DatetimeTZDtype) and isinstance(other, ast.Constant):
        return compare(left, _moment(other.value))
    right = _value(frame, other)
    return (
        compare(left, right) if isinstance(operator, ast.Eq | ast.NotEq) else compare(_numbers(left), _numbers(right))
    )


def _contained(frame: pandas.DataFrame, one: ast.expr, other: ast.expr) -> Any:
    """Return whether a value is in a list, or a text in those of a column."""
    match one, other:
        case _, ast.List(elements) | ast.Tuple(elements):
            return _value(frame, one).isin([_value(frame, element) for element in elements])
        case ast.Constant(str() as part), ast.Name(name):
            return _column(frame, name).map(lambda text: isinstance(text, str) and part in text).astype(bool)
    raise _refused("'in' needs a list, such as method in ['idw', 'neg_dist'], or a text on its left")


def _numbers(value: Any) -> Any:
    """Return an operand of arithmetic or of an order; of a column with numbers and words only the numbers count."""
    if isinstance(value, str):
        raise _refused(f"'{_shortened(value)}' is not a number: only == and != compare text")
    if not isinstance(value, pandas.Series) or pandas.api.types.is_numeric_dtype(value.dtype):
        return value
    numbers = pandas.to_numeric(value.where(value.map(lambda one: isinstance(one, int | float))), "coerce")
    if value.notna().any() and not numbers.notna().any():
        raise _refused(f"{value.name} is not a number: only == and != compare it")
    return numbers.astype(float)


def _moment(text: object) -> pandas.Timestamp:
    """Return a time, in UTC if it has no zone."""
    try:
        moment = pandas.Timestamp(str(text))
    except ValueError:
        problem = f"expected a date or time such as 2026-01-31T12:00, got '{_shortened(str(text))}'"
        raise _refused(problem) from None
    return moment.tz_localize("UTC") if moment.tzinfo is None else moment.tz_convert("UTC")

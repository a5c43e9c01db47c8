"""The claims of `claims.yaml`, and the rules of them that are data, whose entries are explained there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from importlib.resources import files
from itertools import product
from operator import sub, truediv
from typing import Any

from ruamel.yaml import YAML

from idwbench.claims.definitions import Claim, Series, combine
from idwbench.claims.evidence import Evidence
from idwbench.claims.findings import Comparison, other_verdict, remark

__all__ = ["read_claims"]

Entry = Mapping[str, Any]
# What an entry says of the comparison; all else are settings of its runs.
_WORDS = ("label", "of", "less", "over", "above", "below", "unit", "remark", "show", "signed", "aside")
_BETWEEN: dict[str, Callable[[float, float], float]] = {"less": sub, "over": truediv}


def read_claims() -> list[Claim]:
    """Return the claims of the file, in its order."""
    content = YAML(typ="safe", pure=True).load(files("idwbench.claims").joinpath("claims.yaml"))
    return [_claim(**facts) for facts in content["claims"]]


def _claim(
    *, rule: str = "", compare: Sequence[Entry] = (), test: str, sweeps: Sequence[str] = (), **facts: Any
) -> Claim:
    """Return a claim whose rule is the name of a function, ``formulas.gradients``, or data.

    A name in braces in the test stands for a constant of the function's module.
    """
    if not rule:
        return Claim(rule=partial(_judged, compare), test=test, sweeps=tuple(sweeps), **facts)
    module, _, function = rule.partition(".")
    members = vars(import_module(f"idwbench.claims.{module}"))
    return Claim(rule=members[function], test=test.format_map(members), sweeps=tuple(sweeps), **facts)


def _judged(entries: Sequence[Entry], evidence: Evidence) -> list[Comparison | str]:
    """Return the comparisons and the remarks of a rule."""
    return [item for entry in entries for item in _items(entry, evidence)]


def _items(entry: Entry, evidence: Evidence) -> Iterator[Comparison | str]:
    """Yield the comparisons of an entry; or its remarks, one for each of its titles."""
    remarks: dict[str, dict[str, Series]] = defaultdict(dict)
    asides: dict[str, list[Comparison]] = defaultdict(list)
    for one in _combinations(entry):
        series = _series(one, evidence)
        bounds = {name: one[name] for name in ("above", "below", "unit") if name in one}
        if "remark" in one:
            remarks[one["remark"]][one["label"]] = series
        elif "aside" in one:
            asides[one["aside"]].append(Comparison(series, **bounds))
        else:
            yield Comparison(series, **bounds)
    for title, means in remarks.items():
        yield from remark(title, entry.get("show", "{name} {mean}"), means, sign=entry.get("signed", False))
    for title, comparisons in asides.items():
        yield from other_verdict(title, comparisons)


def _combinations(entry: Entry) -> Iterator[dict[str, Any]]:
    """Yield an entry for each combination of the values of `each`, with these in the places of their names."""
    common = {name: value for name, value in entry.items() if name not in ("each", "show")}
    each = entry.get("each", {})
    for values in product(*each.values()):
        names = dict(zip(each, values, strict=True))
        chosen = [each[name][value] for name, value in names.items() if isinstance(each[name], Mapping)]
        yield {name: _filled(value, names) for one in (common, *chosen) for name, value in one.items()}


def _filled(value: Any, names: Mapping[str, Any]) -> Any:
    """Return a value with the names in braces replaced; a text that is one name becomes the value itself."""
    if isinstance(value, Mapping):
        return {key: _filled(own, names) for key, own in value.items()}
    if not isinstance(value, str):
        return value
    is_name = value.startswith("{") and value[1:-1] in names
    return names[value[1:-1]] if is_name else value.format_map(names)


def _series(entry: Entry, evidence: Evidence) -> Series:
    """Return the series of an entry, or the difference or ratio of its two."""
    settings = {name: value for name, value in entry.items() if name not in _WORDS}
    for word, function in _BETWEEN.items():
        if word in entry:
            pair = (evidence.series(**{**settings, **entry[which]}) for which in ("of", word))
            return combine(entry["label"], function, *pair)
    return evidence.series(**settings, name=entry.get("label", ""))

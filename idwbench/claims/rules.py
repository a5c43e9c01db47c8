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
from idwbench.claims.idw import rank_correlation

__all__ = ["read_claims"]

Entry = Mapping[str, Any]
# What an entry says of the comparison; all else are settings of its runs.
_WORDS = ("label", "of", "less", "over", "above", "below", "unit", "remark", "show", "signed", "aside", "correlate")
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
    members, function = _members(rule)
    return Claim(rule=function, test=test.format_map(members), sweeps=tuple(sweeps), **facts)


def _judged(entries: Sequence[Entry], evidence: Evidence) -> list[Comparison | str]:
    """Return the comparisons and the remarks of a rule; those on what does not count for the verdict are the last."""
    judged: list[Comparison | str] = []
    asides: dict[str, list[Comparison]] = defaultdict(list)
    for entry in entries:
        remarks: dict[str, dict[str, Series]] = defaultdict(dict)
        for one, series in _measured(entry, evidence):
            if "remark" in one:
                remarks[one["remark"]][one["label"]] = series
                continue
            bounds = {name: one[name] for name in ("above", "below", "unit") if name in one}
            place = asides[one["aside"]] if "aside" in one else judged
            place.append(Comparison(series, **bounds))
        for title, means in remarks.items():
            judged += remark(title, entry.get("show", "{name} {mean}"), means, sign=entry.get("signed", False))
    return judged + [text for title, compared in asides.items() for text in other_verdict(title, compared)]


def _measured(entry: Entry, evidence: Evidence) -> Iterator[tuple[dict[str, Any], Series]]:
    """Yield each combination with its series; those that are correlated with a number are one for all its values."""
    correlated: dict[str, list[tuple[dict[str, Any], Series]]] = defaultdict(list)
    for one in _combinations(entry):
        if "correlate" in one:
            correlated[one.get("aside", "")].append((one, _series(one, evidence)))
        else:
            yield one, _series(one, evidence)
    for pairs in correlated.values():
        numbers, first = [one["correlate"] for one, _ in pairs], pairs[0][0]
        parts = [series for _, series in pairs]
        yield first, combine(first["label"], lambda *values, by=numbers: rank_correlation(by, values), *parts)


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
            pair = (_one_series({**settings, **entry[which]}, evidence) for which in ("of", word))
            return combine(entry["label"], function, *pair)
    if "arrays" in entry:
        return combine(entry["label"], float, _one_series(settings, evidence))
    return _one_series({"name": entry.get("label", ""), **settings}, evidence)


def _one_series(settings: dict[str, Any], evidence: Evidence) -> Series:
    """Return a quantity of columns of the table of runs, or of their arrays."""
    options = {name: settings.pop(name) for name in ("size", "split") if name in settings}
    if "arrays" not in settings:
        return evidence.series(**settings)
    function, lack, dataset = (settings.pop(name) for name in ("arrays", "lack", "dataset"))
    return evidence.from_arrays(dataset, lack, partial(_members(function)[1], **options), **settings)


def _members(name: str) -> tuple[Mapping[str, Any], Callable[..., Any]]:
    """Return the content of a file of this folder, and the function of it of that name: ``formulas.gradients``."""
    module, _, function = name.partition(".")
    members = vars(import_module(f"idwbench.claims.{module}"))
    return members, members[function]

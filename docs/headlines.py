"""Write the numbers of published tables and claims into the pages of the documentation.

A number in a page stands between `<!--NAME-->` and `<!--/-->`, and `headlines.yaml` says where it is published.
`python docs/headlines.py` writes all of them anew.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pandas
import yaml

FOLDER = Path(__file__).parent
PUBLISHED = FOLDER.parent / "results" / "published"
NUMBER = re.compile(r"<!--(?P<name>[a-z]\w*)-->(?P<text>[^<]*)<!--/-->")


@cache
def sources() -> dict[str, dict[str, Any]]:
    """Return the place of each number: a column and the values of its row in a table, or a finding of a claim.

    Or which claims have a verdict.
    """
    places = yaml.safe_load((FOLDER / "headlines.yaml").read_text(encoding="utf-8"))
    return {name: group | place for group in places for name, place in group.pop("numbers").items()}


def tabled(table: str, column: str, where: dict[str, Any], minus: dict[str, Any] | None = None) -> float:
    """Return the number of the only row of a published table that has the given values, minus that of another row."""
    rows = pandas.read_csv(PUBLISHED / f"{table}.csv", dtype=str)
    for name, value in where.items():
        rows = rows[rows[name] == str(value)]
    values = {*rows[column].dropna()}  # tables of layers repeat what does not depend on them
    if len(values) != 1:
        raise LookupError(f"{table}.csv: {len(values)} values of {column} for {where}, expected one")
    return float(values.pop()) - (tabled(table, column, minus) if minus else 0)


def claimed(claims: str, number: int, finding: str) -> float:
    """Return the effect of a finding of a published claim, or the number beside its name in a remark."""
    [claim] = [one for one in json.loads((PUBLISHED / f"{claims}.json").read_text("utf-8")) if one["number"] == number]
    effects = {one["label"]: one["effect"] for one in claim["findings"]}
    if finding in effects:
        return float(effects[finding])
    label = re.escape(finding)
    [found] = re.findall(rf"([−\d.]+) {label}(?=[,.](?: |$))|{label}: ([−\d.]+)", " ".join(claim["remarks"]))
    return float("".join(found).replace("−", "-"))


def judged(claims: str, verdict: str) -> str:
    """Return the numbers of the published claims that have a verdict, such as ``25, 29 and 31``."""
    judgements = json.loads((PUBLISHED / f"{claims}.json").read_text("utf-8"))
    *first, last = [str(one["number"]) for one in judgements if one["verdict"] == verdict]
    return " and ".join([*([", ".join(first)] if first else []), last])


def published(name: str) -> str:
    """Return a number, or the numbers of claims, as they are written in the pages."""
    place = dict(sources()[name])
    if "verdict" in place:
        return judged(**place)
    form, scale = place.pop("form"), place.pop("scale", 1)
    value = tabled(**place) if "table" in place else claimed(**place)
    return format(value * scale, form).replace("-", "−")


def written(page: str) -> str:
    """Return the text of a page with the published numbers."""
    return NUMBER.sub(lambda match: f"<!--{match['name']}-->{published(match['name'])}<!--/-->", page)


if __name__ == "__main__":
    for path in sorted(FOLDER.glob("*.md")):
        before = path.read_text(encoding="utf-8")
        if (after := written(before)) != before:
            path.write_text(after, encoding="utf-8")
            print(path)

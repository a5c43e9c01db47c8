"""`write_page`: a results database as one HTML file, by Jinja2, which escapes every text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any

import idwbench
from idwbench.claims.verdicts import claims_table, judge_claims
from idwbench.errors import ConfigError
from idwbench.figures.style import CLASS_COLOURS
from idwbench.files import check_output, write_file
from idwbench.page.groups import RunGroup, choose_grid, choose_runs, find_groups, leaderboard_part, rank_settings
from idwbench.page.parts import Part, sentences, size_of, table_data
from idwbench.results.store import Results

__all__ = ["TOP", "with_sections", "write_page"]

TOP = 500  # rows of a leaderboard
_MOST_RUNS_FOR_CLAIMS = 50_000
_BUDGET = 3_600_000  # characters of the sections of all groups, so that a page stays below 5 MB
_HEAD = 20  # rows of the leaderboards beyond it
# Kinds of runs with a section of their own, which has few of them.
_OTHERS, _MOST_OTHERS = ("patch_study", "mlp"), 500
# For each colour of the figures one of the same hue that has enough contrast on a dark background.
_CLASSES_ON_DARK = (
    *("#58A6E0", "#F0883E", "#3FC08F", "#E29BC2", "#E3B341"),
    *("#8CCBF2", "#E07A55", "#B392F0", "#A8A8A8", "#6CC27A"),
)
_ON_DARK = {**dict(zip(CLASS_COLOURS, _CLASSES_ON_DARK, strict=True)), "#1F2933": "#D5DCE4", "#D9DEE4": "#313B46"}


def write_page(
    results: Results,
    path: str | PathLike[str],
    name: str | None = None,
    *,
    methods: Collection[str] = (),
    prototypes: Collection[int] = (),
    metric: str | None = None,
    top: int = TOP,
    data_dir: Path | None = None,
    overwrite: bool = False,
) -> Path:
    """Write one HTML file with the leaderboards, curves, heat maps, prototypes, patches and claims of a database.

    The file needs no network and no other file. What the database has no runs for is left out.

    Args:
        results: The database.
        path: The file to write.
        name: A sweep or data set; all of the database if not given.
        methods: Only runs of these methods, if any are given.
        prototypes: Only runs with these numbers of prototypes, if any are given.
        metric: The metric of leaderboards; that of the task if not given.
        top: The largest number of rows of a leaderboard.
        data_dir: Folder of the image archives, for the training images that are nearest to keys.
        overwrite: Whether the file may be replaced.

    Returns:
        The path of the file.

    Raises:
        ConfigError: unknown name, method or metric, or no run is left.
        OutputError: the file exists and may not be overwritten, or it cannot be written.
    """
    target = Path(path)
    check_output(target, overwrite=overwrite)
    groups = find_groups(results, name, methods, prototypes)
    shown = [*with_sections(results, groups, metric, top, data_dir)]
    is_whole = name is None and not methods and not prototypes
    claims = _claims(results, sum(len(group.runs) for group in groups)) if is_whole else (None, ())
    write_file(target, _html(name or "Results", shown, *claims).encode(), overwrite=overwrite)
    return target


def with_sections(
    results: Results,
    groups: Sequence[RunGroup],
    metric: str | None = None,
    top: int = TOP,
    data_dir: Path | None = None,
) -> Iterator[tuple[RunGroup, tuple[Part, ...]]]:
    """Yield each group with its sections.

    Of several, those from the first beyond `_BUDGET` have the head of their leaderboard alone.
    """
    used = 0
    for group in groups:
        parts = tuple(_parts(results, group, metric, top, data_dir)) if used < _BUDGET else ()
        used += sum(map(size_of, parts))
        if used >= _BUDGET and len(groups) > 1:
            parts = (leaderboard_part(group, metric, min(top, _HEAD)), Part("more"))
        yield group, parts


def _claims(results: Results, n_runs: int) -> tuple[list[dict[str, str]] | None, tuple[str, ...]]:
    """Return the claims as texts by column, None if no run bears on one, and lines below them or on why they lack."""
    if n_runs > _MOST_RUNS_FOR_CLAIMS:
        return None, (f"Claims are judged here for at most {_MOST_RUNS_FOR_CLAIMS:,} runs.",)
    judgements = judge_claims(results)
    if not any(judgement.n and judgement.claim.sweeps for judgement in judgements):
        return None, ()
    table = claims_table(judgements)
    columns = [[(column.name, text) for text in column.texts] for column in table.columns]
    return [*map(dict, zip(*columns, strict=True))], sentences(table.notes)


def _parts(results: Results, group: RunGroup, metric: str | None, top: int, data_dir: Path | None) -> Iterator[Part]:
    # These import packages of the extra.
    from idwbench.figures.runs import Selection
    from idwbench.page.charts import curves_part, heat_maps_part, search_part
    from idwbench.page.pictures import attention_part, patches_part, prototypes_part

    yield leaderboard_part(group, metric, top)
    ranked = rank_settings(group.runs)
    is_other = [config.model.kind in _OTHERS for config in group.runs.config]
    studies = group.runs.run_key[is_other].tolist()[:_MOST_OTHERS]

    def selection(keys: Sequence[str], left_out: Sequence[str] = ()) -> Selection:
        return Selection(results, results.load_runs(keys), data_dir, [*left_out])

    sections: tuple[Callable[[], Part], ...] = (
        lambda: search_part(group.runs if results.is_search(group.title) else group.runs[:0], metric),
        lambda: curves_part(selection(*choose_runs(ranked))),
        lambda: heat_maps_part(selection(*choose_grid(ranked))),
        lambda: prototypes_part(selection([]), ranked),
        lambda: patches_part(selection(studies)),
        lambda: attention_part(selection(studies)),
    )
    for section in sections:
        try:
            found = section()
        except ConfigError:  # no run has what it shows
            continue
        yield found


def _html(
    title: str,
    groups: Sequence[tuple[RunGroup, Sequence[Part]]],
    claims: Sequence[Mapping[str, str]] | None,
    claims_notes: Sequence[str],
) -> str:
    """Return the page with its styles, its scripts and the libraries that draw its charts."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("idwbench.page")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    # In the order of the data, without spaces, and with ± and ε as they are.
    environment.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "separators": (",", ":"), "allow_nan": False}
    environment.filters["table_data"] = table_data
    # What the script of a page reads, by the ID of the element that shows it.
    data: dict[str, dict[str, Any]] = defaultdict(dict)

    def add(kind: str, item: Any) -> str:
        """Add what an element shows and return the ID of the element."""
        name = f"{kind}-{len(data[kind])}"
        data[kind][name] = item
        return name

    content = {"title": title, "groups": groups, "claims": claims, "claims_notes": claims_notes}
    body = environment.get_template("body.html.j2").render(content, add=add)
    return environment.get_template("page.html.j2").render(
        title=title,
        version=idwbench.__version__,
        body=body,
        data={kind: data[kind] for kind in ("chart", "table", "keys")} | {"onDark": _ON_DARK},
        style=loader.get_source(environment, "page.css")[0],
        script=loader.get_source(environment, "page.js")[0],
        libraries=_libraries() if data["chart"] else "",
    )


@cache
def _libraries() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script, which must not end the element that holds it."""
    import vl_convert

    bundle = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return bundle.replace("</script", "<\\/script").replace("<!--", "<\\!--")

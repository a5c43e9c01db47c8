"""Stored runs on the data set ``lookup`` by model, number of items and dimensions; and their capacities.

The capacity of one seed at d dimensions is the number of items at which its recall falls below a threshold t (0.99),
by linear interpolation of recall against log(items) between the last number above and the first below. A seed whose
recall is below t at the smallest number of items, or at least t at the largest, has no capacity: it is *censored*.

Two laws are fitted by least squares to log(capacity) of all seeds: C = a · d^b (``power``) and C = a · exp(b·d)
(``exponential``). The one with the larger R² is chosen. The interval of b is the 95 % percentile bootstrap over seeds.
The *slope* is the b of the power law below and above the middle dimension, the geometric mean of the outer ones.

For a softmax of `idw` without scaling theory says: a query is at the squared distance σ_q²·d from its own key and at
about (2σ² + σ_q²)·d from each other, where σ is the standard deviation of keys and σ_q that of noise. So the weight of
its own key is about R = ((2σ² + σ_q²)/σ_q²)^(p/2) times that of each other, whatever d is. With values v_j ~ N(0, I)
the answer is nearest to its own value if ‖v_i‖²·(1 − 2(R − 1)/(R + n − 1)) < ‖v_j‖² for all other j, up to the
products of different values, which are smaller. The squared norms are χ² with d degrees of freedom; the capacity is
the largest n for which this has the probability of the threshold. They spread by √(2d), and the own value is ahead by
about 2Rd/n, so that the capacity grows as √d but for a logarithm.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean
from typing import Any, Literal

import numpy as np
import pandas
from numpy.typing import NDArray

from idwbench.errors import ConfigError
from idwbench.report.frame import Runs
from idwbench.report.labels import plain_value, range_label, setting_label
from idwbench.report.tables import MISSING, Column, Table, nonempty
from idwbench.results.frame import runs_frame
from idwbench.runs.datasets import LookupConfig
from idwbench.runs.kinds.hash_table import HashTableConfig
from idwbench.runs.kinds.models import ModelConfig

__all__ = [
    "Capacities",
    "Capacity",
    "CapacityFit",
    "capacity",
    "capacity_table",
    "capacity_tables",
    "expected_capacity",
    "fit_capacity",
    "law_label",
    "lookup_capacities",
    "lookup_runs",
    "predicted_capacity",
    "slopes_table",
]

_Law = Literal["power", "exponential"]
_LAW_HEADERS = ("law", "95 % interval of b", "R² (power, exponential)")
_RESAMPLES = 2000
_FEWEST_DIMENSIONS = 3
# Points of the distribution of the norm of a value.
_QUANTILES = 400
_MOST_ITEMS = 1e9


@dataclass(frozen=True)
class Capacity:
    """The capacity of one seed; if it is ``below`` or ``above`` what was measured, `items` is that bound."""

    items: float
    censored: Literal["", "below", "above"] = ""


@dataclass(frozen=True)
class CapacityFit:
    """A law of capacity C against dimensions d.

    Attributes:
        law: ``power``, C = factor · d^exponent, or ``exponential``, C = factor · exp(exponent · d).
        interval: 95 % bootstrap interval of the exponent over seeds.
        r_squared: R² of log C by law: 1 − Σ residual² / Σ deviation² over all seeds, and 1 if all are equal.
        dimensions: The dimensions that were fitted: those at which no seed is censored.
        n_seeds: Number of seeds.
    """

    law: _Law
    factor: float
    exponent: float
    interval: tuple[float, float]
    r_squared: Mapping[_Law, float]
    dimensions: tuple[int, ...]
    n_seeds: int


def capacity(recalls: Mapping[int, float], threshold: float = 0.99) -> Capacity:
    """Return the capacity for the recall by number of items.

    Raises:
        ValueError: no recall, or a threshold that is not between 0 and 1.
    """
    if not recalls or not 0 < threshold <= 1:
        raise ValueError("expected at least one recall, and a threshold above 0 and at most 1")
    items = sorted(recalls)
    for place, n in enumerate(items):
        if recalls[n] >= threshold:
            continue
        if place == 0:
            return Capacity(float(n), "below")
        before = items[place - 1]
        share = (recalls[before] - threshold) / (recalls[before] - recalls[n])
        return Capacity(before * (n / before) ** share)
    return Capacity(float(items[-1]), "above")


def fit_capacity(
    capacities: Mapping[int, Mapping[int, Capacity]], laws: Sequence[_Law] = ("power", "exponential")
) -> CapacityFit | None:
    """Return the better of some laws for capacities by dimensions and seed; None with fewer than 3 dimensions to fit.

    Only seeds that exist at every dimension are used, and dimensions at which none of them is censored.
    """
    seeds = sorted(set.intersection(*(set(found) for found in capacities.values()))) if capacities else []
    fitted = [d for d in sorted(capacities) if seeds and not any(capacities[d][seed].censored for seed in seeds)]
    if len(fitted) < _FEWEST_DIMENSIONS:
        return None
    logs = np.array([[math.log(capacities[d][seed].items) for d in fitted] for seed in seeds])
    total = float(((logs - logs.mean()) ** 2).sum())
    abscissas = {"power": np.log(fitted), "exponential": np.array(fitted, float)}
    fits, r_squared = {}, {}
    for law in laws:
        fits[law] = np.polyfit(abscissas[law], logs.mean(0), 1)
        residual = float(((logs - np.polyval(fits[law], abscissas[law])) ** 2).sum())
        r_squared[law] = 1 - residual / total if total > 1e-20 * logs.size else 1.0  # equal but for rounding
    law = max(laws, key=lambda name: r_squared[name])
    slope, intercept = map(float, fits[law])
    chosen = np.random.default_rng(0).integers(len(logs), size=(_RESAMPLES, len(logs)))
    centred = abscissas[law] - abscissas[law].mean()
    low, high = np.percentile(logs[chosen].mean(1) @ centred / (centred @ centred), (2.5, 97.5)).tolist()
    return CapacityFit(law, math.exp(intercept), slope, (low, high), r_squared, tuple(fitted), len(seeds))


def predicted_capacity(fit: CapacityFit, dimensions: Sequence[float] | NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the capacity of a fit at other dimensions."""
    d = np.asarray(dimensions, np.float64)
    return fit.factor * (d**fit.exponent if fit.law == "power" else np.exp(fit.exponent * d))


def law_label(fit: CapacityFit) -> str:
    """Return ``2.31 · d^1.82`` or ``0.5 · exp(0.210 d)``."""
    growth = f"d^{fit.exponent:.2f}" if fit.law == "power" else f"exp({fit.exponent:.3f} d)"
    return f"{fit.factor:.3g} · {growth}"


@dataclass(frozen=True)
class Capacities:
    """The capacities of one model on tables that differ in items, dimensions and seed alone.

    Attributes:
        label: Of the model.
        dataset: Any of the data.
        data: Label of their other settings: ``noise 0.2 · mean 0 · queries 256``.
        by_dimensions: By dimensions and seed.
        fit: Their law; None if there are too few to fit.
    """

    model: HashTableConfig
    label: str
    dataset: LookupConfig
    data: str
    threshold: float
    by_dimensions: Mapping[int, Mapping[int, Capacity]]
    fit: CapacityFit | None


def lookup_runs(runs: Runs) -> pandas.DataFrame:
    """Return the complete runs on lookups, one row for each model, data, dimensions, items and seed.

    Columns: ``identity`` of the model, and of the protocol if it learns, ``model`` with its ``label``, ``dataset`` with
    ``data``, the label of its settings but dimensions and items (``noise 0.2 · mean 0 · queries 256``), all settings of
    both by name, the ``seed`` of the run, and the metrics on the test data by name, NaN where a run lacks one.

    Raises:
        ConfigError: there is no complete run on ``lookup``.
    """
    table = runs if isinstance(runs, pandas.DataFrame) else runs_frame(runs)
    is_lookup = table.config.map(lambda config: isinstance(config.dataset, LookupConfig)).astype(bool)
    table = table[(table.state == "complete") & is_lookup]
    if table.empty:
        raise ConfigError("no run on the data set lookup is complete", hint="run the sweep hash_table_capacity")
    first, rows = table.drop_duplicates("setting"), []
    for config in first.config:
        dataset, model = config.dataset, config.model
        names = ("noise", "mean", *(["std"] if dataset.std != 1 else []), "queries")
        data = " · ".join(setting_label(name, getattr(dataset, name)) for name in names)
        label, identity = " ".join(filter(None, (model.method, model.versioned_label))), model.identity()
        if model.is_learned:
            label += f", {setting_label('learning_rate', config.protocol.learning_rate)}"
            identity += config.protocol.identity()
        facts = {"identity": identity, "model": model, "label": label, "dataset": dataset, "data": data}
        rows.append({**dict(model), **dict(dataset), **facts})
    settings = pandas.DataFrame(rows, first.setting).drop(columns="seed")
    of_test = [name for name in table.columns if isinstance(name, tuple) and name[0] == "test"]
    measured = table[of_test].set_axis([name for _, name in of_test], axis="columns")
    found = table[["setting", "seed"]].join(settings, on="setting").join(measured)
    return found.drop_duplicates(["identity", "data", "dimensions", "items", "seed"])


def lookup_capacities(runs: Runs, threshold: float = 0.99) -> list[Capacities]:
    """Return the capacity of each model at each number of dimensions, for every seed, and its law.

    Dimensions and seeds that lack some of the numbers of items are left out.

    Raises:
        ConfigError: there is no complete run on ``lookup``.
    """
    found = []
    for _, table in lookup_runs(runs).groupby(["identity", "data"], sort=False):
        # With fewer numbers of items, in an unfinished sweep, recall would be interpolated over a gap.
        sizes = table.groupby("dimensions")["items"].nunique()
        by_dimensions = {}
        for d in sizes.index[sizes == sizes.max()].tolist():
            by_seed = table[table.dimensions == d].pivot(index="seed", columns="items", values="recall").dropna()
            by_dimensions[d] = {seed: capacity(own, threshold) for seed, own in by_seed.to_dict("index").items()}
        facts = table.iloc[0][["model", "label", "dataset", "data"]]
        fit = fit_capacity(by_dimensions)
        found.append(Capacities(**facts, threshold=threshold, by_dimensions=by_dimensions, fit=fit))
    return found


def capacity_table(capacities: Sequence[Capacities]) -> Table:
    """Return the table of laws and of capacities by dimensions, at least one, for `idwbench.report.render.render`."""
    dimensions = sorted({d for each in capacities for d in each.by_dimensions})
    records = [{d: _record(each, d, own) for d, own in each.by_dimensions.items()} for each in capacities]
    columns = []
    for d in dimensions:
        cells = [_cell(by_dimensions[d]) if d in by_dimensions else MISSING for by_dimensions in records]
        columns.append(Column(f"d={d}", f"d={d}", cells, numeric=True))
    laws = zip(_LAW_HEADERS, *(_law_cells(each.fit) for each in capacities), strict=True)
    columns += [Column(header, header, own) for header, *own in laws]
    counts = {len(own) for each in capacities for own in each.by_dimensions.values()}
    return _table(
        f"Capacity at {100 * capacities[0].threshold:g} % recall",
        [(each.label, each.data) for each in capacities],
        columns,
        caption=f"Items, geometric mean over seeds (smallest to largest); {range_label(counts)} seeds.",
        groups=tuple(each.data for each in capacities),
        notes=(
            "< and >: some seeds are below at the smallest, or not below at the largest number of items that was run.",
            "The law is fitted to all seeds at the dimensions without < or >.",
        ),
        records=lambda: [record for by_dimensions in records for record in by_dimensions.values()],
    )


def _table(title: str, models: Sequence[tuple[str, str]], columns: Iterable[Column], **others: Any) -> Table:
    """Return a table with the labels of models and of their data, which are in the title if they are the same."""
    names, data = ([*column] for column in zip(*models, strict=True)) if models else ([], [])
    is_one = len({*data}) == 1
    first = [Column("model", "model", names), *([] if is_one else [Column("data", "data", data)])]
    return Table(f"{title} · {data[0]}" if is_one else title, (*first, *columns), **others)


def _record(each: Capacities, dimensions: int, own: Mapping[int, Capacity]) -> dict[str, Any]:
    """Return the capacities of one model at some dimensions with full precision; the mean is geometric."""
    items, sides = [one.items for one in own.values()], [one.censored for one in own.values()]
    return {
        **{"model": each.label, "data": each.data, "dimensions": dimensions, "n": len(items)},
        **{"items_mean": geometric_mean(items), "items_low": min(items), "items_high": max(items)},
        **{"below": sides.count("below"), "above": sides.count("above")},
    }


def _cell(record: Mapping[str, Any]) -> str:
    """Return ``28 (21 to 35)``; a bound as ``<2`` or ``>2048``."""
    mark = "<" if record["below"] else ">" if record["above"] else ""
    mean, low, high = (_items_label(record[f"items_{name}"]) for name in ("mean", "low", "high"))
    return f"{mark}{low}" if record["n"] in (record["below"], record["above"]) else f"{mark}{mean} ({low} to {high})"


def _law_cells(fit: CapacityFit | None) -> tuple[str, str, str]:
    """Return a law, the interval of its exponent, and the R² of both laws."""
    if fit is None:
        return MISSING, MISSING, MISSING
    interval = " to ".join(f"{bound:.{2 if fit.law == 'power' else 3}f}" for bound in fit.interval)
    return law_label(fit), interval, ", ".join(f"{value:.3f}" for value in fit.r_squared.values())


def _items_label(value: float) -> str:
    """Return a number of items in words: ``12.8``, or ``1,376`` from ten on."""
    return f"{value:,.0f}" if value >= 10 else plain_value(round(value, 1))


_SLOPE_NOTES = (
    "A law is fitted at the dimensions at which no seed is below the smallest or above the largest number of items "
    "that was run, at least 3. 95 % interval: bootstrap over seeds.",
    "by theory: for a softmax of idw, if all weights had the ratio of mean distances. b is that between both ends; it "
    "tends to ½ as d grows.",
)
# By header: the numbers of a slope, and how each is shown.
_SLOPE_COLUMNS: tuple[tuple[str, tuple[str, ...], Callable[[Any], str]], ...] = (
    ("dimensions", ("from_dimensions", "to_dimensions"), str),
    ("items", ("from_items", "to_items"), _items_label),
    ("slope b", ("slope",), "{:.2f}".format),
    ("95 % interval", ("slope_low", "slope_high"), "{:.2f}".format),
    ("items by theory", ("expected_from_items", "expected_to_items"), _items_label),
    ("b by theory", ("expected_slope",), "{:.2f}".format),
)


def capacity_tables(runs: Runs, threshold: float = 0.99) -> tuple[Table, Table]:
    """Return the tables of the capacities of lookups and of their slopes.

    Raises:
        ConfigError: there is no complete run on ``lookup``.
    """
    capacities = lookup_capacities(runs, threshold)
    return capacity_table(capacities), slopes_table(capacities)


def slopes_table(capacities: Sequence[Capacities]) -> Table:
    """Return the table of power laws below and above the middle dimension, the geometric mean of the outer ones."""
    slopes = [slope for each in capacities for slope in _slopes(each)]
    columns = []
    for header, names, label in _SLOPE_COLUMNS:
        known = [[slope[name] for name in names] for slope in slopes]
        texts = [MISSING if None in values else " to ".join(map(label, values)) for values in known]
        columns.append(Column(header, header, texts, numeric=header != "dimensions"))
    counts = {slope["n"] for slope in slopes} - {None}
    over = f" over {range_label(counts)} seeds" if counts else ""
    models = [(slope["model"], slope["data"]) for slope in slopes]
    return _table(
        "Slopes of the capacity",
        models,
        nonempty(columns),
        groups=tuple(models),
        caption=f"Power laws a · d^b{over}, and the items at both ends.",
        notes=_SLOPE_NOTES,
        records=lambda: slopes,
    )


def expected_capacity(model: ModelConfig, data: LookupConfig, dimensions: int, threshold: float = 0.99) -> float | None:
    """Return the capacity that theory says, see above; None for other models than a softmax of ``idw``."""
    from scipy.optimize import brentq  # slow to import
    from scipy.stats import chi2

    if not isinstance(model, HashTableConfig) or not data.noise:
        return None
    if (model.similarity, model.scaling, model.weighting, model.projections) != ("idw", "none", "softmax", "none"):
        return None
    ratio = ((2 * data.std**2 + data.noise**2) / data.noise**2) ** (float(model.parameters["power"]) / 2)
    norms = chi2(dimensions).ppf((np.arange(_QUANTILES) + 0.5) / _QUANTILES)

    def missing(log_items: float) -> float:
        items = math.exp(log_items)
        ahead = 2 * (ratio - 1) / (ratio + items - 1)
        return float((chi2(dimensions).sf(norms * (1 - ahead)) ** (items - 1)).mean()) - threshold

    ends = math.log(2), math.log(_MOST_ITEMS)
    return math.exp(brentq(missing, *ends)) if missing(ends[0]) > 0 > missing(ends[1]) else None


def _slopes(each: Capacities) -> Iterator[dict[str, Any]]:
    """Yield the laws of one model below and above the middle of its dimensions, which belongs to both parts.

    The dimensions are the outer ones of those that are fitted, or of the part, of which one alone has no slope. What
    too few dimensions can be fitted for, and what the theory does not say, is None.
    """
    dimensions = sorted(each.by_dimensions)
    middle = min(dimensions, key=lambda d: abs(math.log(d * d / (dimensions[0] * dimensions[-1]))), default=0)
    parts = [d for d in dimensions if d <= middle], [d for d in dimensions if d >= middle]
    for part in (part for part in parts if len(part) > 1):
        fit = fit_capacity({d: each.by_dimensions[d] for d in part}, ("power",))
        low, *_, high = part if fit is None else fit.dimensions
        items = (None, None) if fit is None else predicted_capacity(fit, (low, high)).tolist()
        bounds = (None, None) if fit is None else fit.interval
        first, last = (expected_capacity(each.model, each.dataset, d, each.threshold) for d in (low, high))
        is_expected = first is not None and last is not None
        yield {
            **{"model": each.label, "data": each.data, "n": fit and fit.n_seeds},
            **{"from_dimensions": low, "to_dimensions": high, "from_items": items[0], "to_items": items[1]},
            **{"slope": fit and fit.exponent, "slope_low": bounds[0], "slope_high": bounds[1]},
            "expected_from_items": first if is_expected else None,
            "expected_to_items": last if is_expected else None,
            "expected_slope": math.log(last / first) / math.log(high / low) if first and last else None,
        }

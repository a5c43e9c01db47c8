"""Tables of comparisons of patches with what else mends a wrong prediction: a row for each way."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from idwbench.report.frame import Row, Runs, rows, run_table
from idwbench.report.labels import count_label
from idwbench.report.statistics import Statistic
from idwbench.report.tables import MISSING, Column, Line, Table, line_records, nonempty
from idwbench.runs.metrics import METRICS, PATCH_MEASURES, PATCH_WAYS

__all__ = ["TOGETHER", "WAY_LABELS", "Compared", "compared_models", "repair_tables"]

WAY_LABELS = {
    "unpatched": "unpatched",
    "exact": "exact",
    "margin_1": "margin 1",
    "confidence_50": "confidence 0.5",
    "confidence_90": "confidence 0.9",
    "authors": "authors' η",
    "local": "local",
    "local_half": "local, half of r",
    "local_s8": "local, s = 8",
    "local_s2": "local, s = 2",
    "override": "override within r",
    "fine_tuning": "fine-tuning",
    "retraining": "retraining",
}
_HEADERS = {
    "success": "right (%)",
    "probability": "probability (%)",
    "noise_kept": "noise (%)",
    "shift_kept": "shift (%)",
    "neighbours_right": "neighbours (%)",
    "calibration_error": "calibration",
    "logit_change": "logit",
    "relative_radius": "r / nearest",
}
# The suffix of measures of all inputs in one network, see `idwbench.models.patch_comparison`.
TOGETHER = "_together"
_NOTES = (
    "Mean ± sample standard deviation over seeds of means over wrong test inputs.",
    "probability: of the right label. noise, shift: copies that get it, with noise and moved by a pixel. neighbours: "
    "right answers among the ten nearest test inputs of the class. better, worse: other test predictions that become "
    "right and wrong. calibration: expected error. logit: largest change at other test inputs. r / nearest: radius by "
    "the distance of the nearest training row.",
)

# A model and its statistics by measure, with its suffix, and way.
Compared = tuple[Row, Mapping[str, Mapping[str, Statistic]]]


def compared_models(runs: Runs) -> list[Compared]:
    """Return each model of the complete runs that compare ways to mend predictions, in the order of its first run."""
    table = run_table(runs)
    is_compared = table.config.map(lambda config: getattr(config.model, "compare", False)).astype(bool)
    table = table[is_compared & (table.state == "complete")]
    measures = [*PATCH_MEASURES, "relative_radius", *(f"{name}{TOGETHER}" for name in PATCH_MEASURES)]
    by_measure = {name: {row.number: row.statistics for row in rows(table, name)} for name in [*measures, "patched"]}
    return [(row, {name: by_measure[name][row.number] for name in by_measure}) for row in rows(table, "patched")]


def repair_tables(runs: Runs) -> tuple[Table, ...]:
    """Return two tables for each model that was compared: its wrong inputs mended one at a time, and in one network."""
    return tuple(_table(model, suffix) for model in compared_models(runs) for suffix in ("", TOGETHER))


def _table(model: Compared, suffix: str) -> Table:
    row, statistics = model
    words = "in one network" if suffix else "one at a time"
    measures = PATCH_MEASURES if suffix else (*PATCH_MEASURES, "relative_radius")
    ways = [way for way in PATCH_WAYS if way in statistics[f"success{suffix}"]]
    known = {measure: [statistics[f"{measure}{suffix}"].get(way) for way in ways] for measure in measures}
    columns = [Column("way", "way", [WAY_LABELS[way] for way in ways])]
    columns += [Column(name, _HEADERS.get(name, name), _texts(name, own), numeric=True) for name, own in known.items()]
    cases = statistics["patched"]["cases"].mean
    title = f"{row.config.dataset_label} · {row.model.label} · {cases:g} wrong inputs {words}"
    notes = (f"{count_label(row.n, 'seed')}. {_NOTES[0]}", *_NOTES[1:])
    lines = [
        Line(row, {"mended": words, "way": way}, {name: own[place] for name, own in known.items()})
        for place, way in enumerate(ways)
    ]
    return Table(title, nonempty(columns), (0,) * len(ways), notes=notes, records=partial(line_records, lines))


def _texts(measure: str, known: list[Statistic | None]) -> list[str]:
    """Return means with their spread, in few digits: nine columns stand side by side."""
    form, factor = (".1f", 100) if METRICS[measure].percent else (".3g", 1)
    numbers = [[] if one is None else [one.mean, *([] if one.std is None else [one.std])] for one in known]
    return [" ± ".join(f"{factor * number:{form}}" for number in own) or MISSING for own in numbers]

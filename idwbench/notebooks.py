"""What a notebook asks of stored results and shows of them: figures, runs, models, explanations and patches.

`Results` has these calls as methods, and objects that a notebook displays call `html`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import singledispatch
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from idwbench.explanations.explanation import Explanation
from idwbench.models.array_weights import AnswerTerms
from idwbench.models.model_card import readable_card, saved_model_card
from idwbench.models.patched_network import PatchedNetwork
from idwbench.models.saved_model import SavedModel, stored_model
from idwbench.report.labels import cell_label
from idwbench.report.render import html_notes, html_rows
from idwbench.report.reports import select_runs
from idwbench.results.records import StoredRun
from idwbench.results.store import Results

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

__all__ = ["Run", "draw_figure", "find_run", "html"]

_MOST_FEATURES = 30  # of prototypes that are drawn as lines


@dataclass(frozen=True)
class Run:
    """A stored run with the database that it is in; it has the attributes of its record, a `StoredRun`."""

    record: StoredRun
    results: Results = field(repr=False)

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "record"), name)

    def model(self, data_dir: Path | None = None) -> SavedModel:
        """Return the model that the run learned; raises `TrainingError` if it is of a kind without one."""
        return stored_model(self.results, self.record, data_dir)

    def curve(self) -> pandas.DataFrame:
        """Return what was measured in training by epoch, in columns such as ``train_loss``."""
        import pandas

        points = self.results.load_curve(self.record.run_key)
        measured = ({"_".join(pair): number for pair, number in point.values.items()} for point in points)
        return pandas.DataFrame(measured, index=pandas.Index([point.epoch for point in points], name="epoch"))

    def arrays(self) -> dict[str, Any]:
        """Return the stored arrays by name, such as ``keys`` and ``values``."""
        return self.results.load_arrays(self.record.run_key)

    def _repr_html_(self) -> str:
        return html(self.record)


def draw_figure(
    results: Results,
    figure: str,
    name: str | None = None,
    *,
    methods: Sequence[str] = (),
    prototypes: Sequence[int] = (),
    data_dir: Path | None = None,
) -> Figure:
    """Return a figure of the runs of a sweep or data set, such as ``curves`` or ``keys``.

    The names are those of `idwbench.figures.stored.FIGURES`. Arguments are as for `idwbench.table`; it raises
    `ConfigError` also if the figure does not support these runs.
    """
    from idwbench.figures.stored import check_figure_name, draw_stored

    check_figure_name(figure)
    runs = select_runs(results, name, methods, prototypes)
    return draw_stored(figure, results, results.load_runs([*runs.run_key]), data_dir)


def find_run(results: Results, run_key: str) -> Run:
    """Return the run with this key or beginning of a key; raises `ResultsError` if there is none or several."""
    return Run(results.find_run(run_key), results)


@singledispatch
def html(shown: Any) -> str:
    """Return an object of this package as HTML for a notebook, with its pictures.

    Raises:
        TypeError: an object of another type.
    """
    raise TypeError(f"there is no HTML for {type(shown).__name__}")


@html.register
def _results_html(shown: Results) -> str:
    sweeps, datasets = shown.names()
    states = ("total", "complete", "failed", "running")
    rows = [(name, *(getattr(shown.sweep_status(name), state) for state in states)) for name in sweeps]
    return html_rows(("sweep", *states), rows) + f"<p>Data sets: {escape(', '.join(datasets)) or 'none'}</p>"


@html.register
def _run_html(shown: StoredRun) -> str:
    facts = {
        "run": shown.run_key[:12],
        "model": shown.label,
        "state": shown.state,
        "seed": shown.seed,
        "learned parameters": shown.n_parameters,
        "engine": shown.engine,
        "seconds": shown.seconds and f"{shown.seconds:.3g}",
        "tags": shown.tags,
        "note": shown.note,
    }
    return _facts_html(facts) + _metrics_html(shown.metrics)


@html.register
def _model_html(shown: SavedModel) -> str:
    from idwbench.estimators.drawing import prototypes_html

    keys, values = shown.scaling.invert(shown.keys), shown.values
    drawing = prototypes_html(keys, values, shown.class_names, shown.image_shape, ())
    return _facts_html(readable_card(saved_model_card(shown))) + drawing


@html.register
def _network_html(shown: PatchedNetwork) -> str:
    return html(shown.head)


@html.register
def _explanation_html(shown: Explanation) -> str:
    from idwbench.figures.explanations import draw_explanation
    from idwbench.figures.style import picture_html

    parts = [picture_html(draw_explanation(shown), f"explanation of an answer of {shown.model}")]
    for layer in shown.layers:
        columns = shown.table(layer)
        parts += [f"<h4>{escape(layer.name)}</h4>", html_rows([*columns], zip(*columns.values(), strict=True))]
    return "".join(parts) + html_notes(shown.warnings)


@html.register
def _terms_html(shown: AnswerTerms) -> str:
    from idwbench.estimators.drawing import prototypes_html

    drawing = ""
    if not hasattr(shown.keys, "columns") and shown.keys.shape[1] <= _MOST_FEATURES:  # others: a data frame, or pixels
        labels = {} if shown.labels is None else dict(zip(shown.values.argmax(1).tolist(), shown.labels, strict=True))
        names = [str(labels.get(place, "")) for place in range(shown.values.shape[1])] if labels else []
        drawing = prototypes_html(shown.keys, shown.values, names, None, ())
    table = html_rows(shown.header, shown.rows()) + html_notes([shown.rest])
    return f"<p>prediction: {escape(str(shown.prediction))}</p>{table}{drawing}"


def _metrics_html(metrics: Mapping[tuple[str, str], float]) -> str:
    """Return a row for each metric and a column for each split."""
    splits, names = (list(dict.fromkeys(pair[place] for pair in metrics)) for place in (0, 1))
    rows = [(name, *(cell_label(metrics.get((split, name))) for split in splits)) for name in names]
    return html_rows(("metric", *splits), rows) if rows else ""


def _facts_html(facts: Mapping[str, object]) -> str:
    return html_rows(("", ""), [(name, fact) for name, fact in facts.items() if fact not in (None, "")])

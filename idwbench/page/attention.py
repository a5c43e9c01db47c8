"""The dual form of gradient descent: to which class the layers of a perceptron attend, and how much."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from idwbench.errors import IdwbenchError
from idwbench.page.charts import bar_chart
from idwbench.page.parts import Case, Chart, Panels, Part, Picture, sentences
from idwbench.page.pictures import image_picture
from idwbench.results.records import StoredRun

if TYPE_CHECKING:
    from idwbench.explanations.explanation import Explanation
    from idwbench.results.store import Results

__all__ = ["attention_part"]

_TEXT = (
    "A linear layer attends to all inputs of its training by unnormalised dot products. The table shows how often the "
    "class with the largest total attention is the target or the output."
)
_IMAGES = 6  # training images with the largest attention


def attention_part(results: Results, runs: Sequence[StoredRun], data_dir: Path | None) -> Part | None:
    """Return the section of the dual form; None without complete runs of kind ``mlp``."""
    from idwbench.figures.attention_by_class import collect_attention
    from idwbench.figures.runs import Selection
    from idwbench.report.dual_form import dual_form

    perceptrons = [run for run in runs if run.config.model.kind == "mlp" and run.state == "complete"]
    if not perceptrons:
        return None
    selection = Selection(results, perceptrons, data_dir)
    try:
        found, _ = collect_attention(selection, _IMAGES)
        left_out = selection.left_out
    except IdwbenchError as error:
        found, left_out = [], [f"no recorded training is drawn: {error.problem}"]
    panels, cases = tuple(map(_panels, found)), tuple(map(_images, found))
    tables = dual_form(perceptrons)
    return Part("attention", "Attention to the training", _TEXT, sentences(left_out), tables, panels, cases=cases)


def _panels(explained: Explanation) -> Panels:
    target, answer = (explained.class_name(one.label) for one in (explained.query, explained.answer))
    charts = []
    for layer in explained.layers:
        totals = dict(zip(explained.class_names, map(float, layer.totals), strict=True))
        spec = bar_chart(totals, answer, "total attention")
        charts.append(Chart(layer.name, f"Total attention of {layer.name} to each class", spec))
    return Panels(f"{explained.model} · {explained.query.text}: target {target}, answer {answer}", tuple(charts))


def _images(explained: Explanation) -> Case:
    """Return the test image, and the training images that the last layer attends to most."""
    shape = explained.image_shape
    assert shape is not None  # checked when it was collected
    shown = [Picture(image_picture(explained.query.picture.reshape(shape)), "test image", explained.query.text)]
    layer = explained.layers[-1]
    for item in layer.items[:_IMAGES]:
        text = f"attention {item.weight:.3g}, class {explained.class_name(item.label)}"
        shown.append(Picture(image_picture(item.picture.reshape(shape)), item.source, text))
    return Case(f"What {layer.name} attends to most", tuple(shown), small=True)

"""The dual form of gradient descent: to which class the layers of a perceptron attend, and how much."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from idwbench.errors import IdwbenchError
from idwbench.page.charts import bar_chart
from idwbench.page.parts import Chart, Panels, Part, PatchCase, PatchState, sentences
from idwbench.page.pictures import image_picture
from idwbench.results.records import StoredRun

if TYPE_CHECKING:
    from idwbench.figures.attention_by_class import AttentionPanel
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
    from idwbench.report.dual_form import dual_form

    perceptrons = [run for run in runs if run.config.model.kind == "mlp" and run.state == "complete"]
    if not perceptrons:
        return None
    tables = dual_form(perceptrons)
    try:
        found, _, left_out = collect_attention(results, perceptrons, data_dir, _IMAGES)
    except IdwbenchError as error:
        left_out = (f"no recorded training is drawn: {error.problem}",)
        found = []
    return Part(
        "attention",
        "Attention to the training",
        _TEXT,
        sentences(left_out),
        tables=tables,
        panels=tuple(_panels(panel) for panel in found),
        patches=tuple(_images(panel) for panel in found),
    )


def _panels(panel: AttentionPanel) -> Panels:
    explained = panel.explained
    answer = explained.class_name(explained.answer.label)
    charts = tuple(
        Chart(
            layer.name,
            f"Total attention of {layer.name} to each class",
            bar_chart(
                dict(zip(explained.class_names, map(float, layer.totals), strict=True)), answer, "total attention"
            ),
        )
        for layer in explained.layers
    )
    target = explained.class_name(explained.query.label)
    return Panels(f"{panel.title} · {explained.query.text}: target {target}, answer {answer}", charts)


def _images(panel: AttentionPanel) -> PatchCase:
    """Return the test image, and the training images that the last layer attends to most."""
    explained = panel.explained
    shape = explained.image_shape
    assert shape is not None  # checked when it was collected
    states = [PatchState(image_picture(explained.query.picture.reshape(shape)), "test image", explained.query.text)]
    layer = explained.layers[-1]
    for item in layer.items[:_IMAGES]:
        text = f"attention {item.weight:.3g}, class {explained.class_name(item.label)}"
        states.append(PatchState(image_picture(item.picture.reshape(shape)), item.source, text))
    return PatchCase(f"What {layer.name} attends to most", tuple(states), small=True)

from dataclasses import replace
from itertools import pairwise

import matplotlib
import numpy as np
import pytest
from made import SCALING, Store, assert_no_words_overlap, made_dataset, made_run, use_dataset, words
from matplotlib.collections import PathCollection

from idwbench.figures.patches import (
    PatchPanel,
    PatchPicture,
    collect_patches,
    draw_patches,
)
from idwbench.figures.plane import PlanePicture, plane_data, plane_picture
from idwbench.figures.runs import Selection
from idwbench.figures.stored import stored_drawing
from idwbench.figures.style import class_colour
from idwbench.report.statistics import statistic
from idwbench.results.records import StoredRun
from idwbench.runs.config import run_config
from idwbench.runs.kinds.patch_study import PatchStudyConfig

KEYS = np.array([[-0.6, 0.1], [0.7, -0.2]], np.float32)
VALUES = np.eye(2, dtype=np.float32)


def panel(label: int = 1, prototypes: int = 2, **changes: object) -> PatchPanel:
    before, after = statistic({0: 0.9, 1: 1.0}), statistic({0: 0.8, 1: 0.9})
    assert before and after
    grid = np.tile(np.linspace(0, 1, 8), (6, 1))
    picture = PatchPicture(PlanePicture(KEYS, VALUES, grid), grid**2)
    made = PatchPanel((-1.0, 1.0), label, prototypes, 2, 2, (before, after), (before, before), picture)
    return replace(made, **changes)  # type: ignore[arg-type]


def draw(*panels: PatchPanel, source: str = ""):
    return draw_patches(panels, plane_data(made_dataset()), source)


def test_a_panel_has_accuracies_before_and_after_and_the_patch() -> None:
    figure = draw(panel())
    assert {"train 95.0 ± 7.1 → 85.0 ± 7.1", "test 95.0 ± 7.1 → 95.0 ± 7.1", "(−1, 1)", "→ class lower"} <= set(
        words(figure)
    )
    (axes,) = figure.axes
    star = [collection for collection in axes.collections if type(collection) is PathCollection][-1]
    np.testing.assert_array_equal(star.get_offsets(), [[-1, 1]])
    assert matplotlib.colors.to_hex(star.get_facecolor()[0]) == class_colour(1).lower()
    assert "mean ± std over the seeds that needed it, of 2 seeds" in " ".join(words(figure)).replace("\n", " ")


def test_a_label_that_was_right_already_needs_no_patch() -> None:
    grid = np.tile(np.linspace(0, 1, 8), (6, 1))
    right = panel(0, n_patched=0, picture=PatchPicture(PlanePicture(KEYS, VALUES, grid), None))
    some = panel(1, n_patched=1)
    figure = draw(right, some)
    assert {"no patch needed", "test 95.0 ± 7.1", "patched in 1 of 2"} <= set(words(figure))
    assert sum(text.startswith("patched in") or text == "no patch needed" for text in words(figure)) == 2


@pytest.mark.slow
def test_no_words_overlap_in_a_full_and_in_a_narrow_figure() -> None:
    full = [panel(label, count) for label in (0, 1) for count in (2, 16, 128)]
    assert_no_words_overlap(draw(*full[:-1], source="two_moons · epochs 25"))
    assert_no_words_overlap(draw(full[0]))


def study(seed: int, prototypes: int = 2, **settings: object) -> StoredRun:
    """A study of the network with the same settings."""
    run = made_run(run_config("two_moons", prototypes=prototypes, seed=seed, **settings))
    model = PatchStudyConfig(**run.config.model.model_dump(exclude={"kind"}))
    metrics = {("train", "accuracy_before"): 0.5 + seed / 10, ("test", "accuracy_before"): 0.75}
    config = run.config.model_copy(update={"model": model})
    return replace(run, config=config, run_key=f"study {seed} {prototypes} {settings}", metrics=metrics)


def arrays_of(eta: list[float]) -> dict[str, np.ndarray]:
    """A point at (−1, 1) in the data's own units, asked for each label."""
    inputs = np.repeat(((np.array([[-1.0, 1.0]]) - SCALING.mean) / SCALING.std).astype(np.float32), 2, axis=0)
    accuracy = np.full((3, 2), 0.25)
    return {
        "inputs": inputs,
        "labels": np.array([0, 1]),
        "eta": np.array([eta, [np.nan] * 2, [np.nan] * 2]),
        "accuracy_train": accuracy,
        "accuracy_test": accuracy,
    }


@pytest.fixture(autouse=True)
def _data(monkeypatch):
    use_dataset(monkeypatch, made_dataset())


def trained_network(run: StoredRun) -> str:
    return run.config.required.run_key  # type: ignore[union-attr]


def test_accuracies_are_over_the_seeds_that_needed_the_patch() -> None:
    studies = [study(seed) for seed in (2, 0, 1)]
    eta = {0: [np.nan, np.nan], 1: [np.nan, 0.5], 2: [np.nan, 2.0]}
    arrays = {run.run_key: arrays_of(eta[run.config.seed]) for run in studies}
    network = {"keys": KEYS, "values": VALUES}
    networks = {trained_network(run): network for run in studies}
    # A network is that of the study's settings; that of seed 2 is not asked for, since seed 1 was patched.
    assert trained_network(study(3, power=4)) == run_config("two_moons", prototypes=2, seed=3, power=4).run_key
    selection = Selection(Store(arrays | networks, default=None), studies)  # type: ignore[arg-type]
    (unpatched, patched), _, _ = collect_patches(selection)
    assert not selection.left_out
    assert (unpatched.n, unpatched.n_patched, unpatched.point) == (3, 0, (-1.0, 1.0))
    assert unpatched.train[0].mean == pytest.approx(0.6)
    assert unpatched.picture.after is None
    assert (patched.n_patched, patched.label) == (2, 1)
    assert patched.train[0].mean == pytest.approx(0.65)
    assert patched.train[1].mean == 0.25
    inputs = SCALING.apply(np.array([[-1.0, 1.0]]))
    data, model = plane_data(made_dataset()), run_config("two_moons", prototypes=2).model
    np.testing.assert_array_equal(
        patched.picture.before.probability, plane_picture(model, KEYS, VALUES, data).probability
    )
    values = np.concatenate([VALUES, [[0, 0.5]]]).astype(np.float32)
    after = plane_picture(model, np.concatenate([KEYS, inputs]).astype(np.float32), values, data)
    np.testing.assert_array_equal(patched.picture.after, after.probability)


def test_a_network_that_is_not_stored_leaves_its_panel_without_a_picture() -> None:
    run = study(0)
    drawing = stored_drawing("patches", Store({run.run_key: arrays_of([np.nan, 1.0])}, default=None), [run])  # type: ignore[arg-type]
    assert words(drawing.figure).count("the trained model is not stored") == 2


def test_one_setting_is_drawn_and_the_others_are_counted() -> None:
    studies = [study(0), study(0, 4), study(0, power=4), study(1, power=4)]
    arrays = {run.run_key: arrays_of([np.nan, 1.0]) for run in studies}
    selection = Selection(Store(arrays, default=None), studies)  # type: ignore[arg-type]
    panels, _, _ = collect_patches(selection)
    (line,) = selection.left_out
    assert [each.prototypes for each in panels] == [2, 4, 2, 4]
    assert line.startswith("not drawn: 2 other patch studies (drawn: idw · p=2, ε=0.001, special cases · two_moons")
    assert all(upper <= lower for upper, lower in pairwise(each.label for each in panels))

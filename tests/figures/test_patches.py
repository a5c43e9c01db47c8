"""Figures of patch studies: predictions after a patch, and how far it reaches."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from case_tables import case_table
from made import SCALING, Store, assert_no_words_overlap, caption, draw, made_dataset, made_run, use_dataset, words
from matplotlib.collections import PathCollection
from matplotlib.colors import to_hex

from idwbench.figures.patches import collect_patches, draw_patches
from idwbench.figures.plane import plane_picture
from idwbench.figures.runs import Selection
from idwbench.figures.style import class_colour
from idwbench.runs.config import run_config
from idwbench.runs.kinds.patch_study import PatchStudyConfig

KEYS = np.array([[-0.6, 0.1], [0.7, -0.2]], np.float32)
VALUES = np.eye(2, dtype=np.float32)


def special(seed, prototypes=2, **settings):
    """A study of the network with the same settings."""
    run = made_run(run_config("two_moons", prototypes=prototypes, seed=seed, **settings))
    model = PatchStudyConfig(**run.config.model.model_dump(exclude={"kind"}))
    metrics = {("train", "accuracy_before"): 0.5 + seed / 10, ("test", "accuracy_before"): 0.75}
    config = run.config.model_copy(update={"model": model})
    return replace(run, config=config, run_key=f"study {seed} {prototypes} {settings}", metrics=metrics)


def eta_arrays(eta):
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


@pytest.fixture
def _data(monkeypatch):
    use_dataset(monkeypatch, made_dataset())


def trained_network(run):
    return run.config.required.run_key  # type: ignore[union-attr]


@pytest.mark.usefixtures("_data")
def test_a_panel_has_the_patch_and_accuracies_before_and_after_over_the_seeds_that_needed_it():
    studies = [special(seed) for seed in (2, 0, 1)]
    eta = {0: [np.nan, np.nan], 1: [np.nan, 0.5], 2: [np.nan, 2.0]}
    arrays = {run.run_key: eta_arrays(eta[run.config.seed]) for run in studies}
    networks = {trained_network(run): {"keys": KEYS, "values": VALUES} for run in studies}
    # A network is that of the study's settings; that of seed 2 is not asked for, since seed 1 was patched.
    assert trained_network(special(3, power=4)) == run_config("two_moons", prototypes=2, seed=3, power=4).run_key
    selection = Selection(Store(arrays | networks, default=None), studies)  # type: ignore[arg-type]
    panels, data, _ = collect_patches(selection)
    unpatched, patched = panels
    assert not selection.left_out
    assert (unpatched.n, unpatched.n_patched, unpatched.point) == (3, 0, (-1.0, 1.0))
    assert unpatched.train[0].mean == pytest.approx(0.6) and unpatched.after is None
    assert (patched.n_patched, patched.label) == (2, 1)
    assert [one.mean for one in patched.train] == pytest.approx([0.65, 0.25])
    inputs, model = SCALING.apply(np.array([[-1.0, 1.0]])), run_config("two_moons", prototypes=2).model
    values = np.concatenate([VALUES, [[0, 0.5]]]).astype(np.float32)
    after = plane_picture(model, {"keys": np.concatenate([KEYS, inputs]).astype(np.float32), "values": values}, data)
    before = plane_picture(model, {"keys": KEYS, "values": VALUES}, data)
    np.testing.assert_array_equal(patched.before.probability, before.probability)
    np.testing.assert_array_equal(patched.after.probability, after.probability)

    figure = draw_patches(panels, data)
    texts = {"train 65.0 ± 7.1 → 25.0 ± 0.0", "test 75.0 ± 0.0", "(−1, 1)", "→ class lower"}
    assert texts | {"no patch needed", "patched in 2 of 3"} <= set(words(figure))
    star = [each for each in figure.axes[1].collections if type(each) is PathCollection][-1]
    np.testing.assert_array_equal(star.get_offsets(), [[-1, 1]])
    assert to_hex(star.get_facecolor()[0]) == class_colour(1).lower()
    assert "mean ± std over the seeds that needed it, of 3 seeds" in caption(figure)
    assert_no_words_overlap(figure)


@pytest.mark.usefixtures("_data")
def test_one_setting_is_drawn_the_others_are_counted_and_a_network_that_is_not_stored_has_no_picture():
    studies = [special(0), special(0, 4), special(0, power=4), special(1, power=4)]
    arrays = {run.run_key: eta_arrays([np.nan, 1.0]) for run in studies}
    selection = Selection(Store(arrays, default=None), studies)  # type: ignore[arg-type]
    panels, _, _ = collect_patches(selection)
    (line,) = selection.left_out
    assert [each.prototypes for each in panels] == [2, 4, 2, 4]
    assert line == "not drawn: 2 other patch studies"
    assert all(upper <= lower for upper, lower in pairwise(each.label for each in panels))
    figure = draw("patches", studies[:1], arrays=arrays, default=None).figure
    assert words(figure).count("the trained model is not stored") == 2


EDGES = np.array([0.0, 0.5, 1.0, 2.0])


def study(seed=0, **settings):
    given = {"prototypes": 16} | settings
    return made_run(run_config("two_moons", kind="patch_study", seed=seed, **given))  # type: ignore[arg-type]


def arrays_of(influence, patches=(0, 1, 5), error=0.1):
    """The sizes η have 1, 2 and 3 times the influence and the calibration error."""
    sizes = np.array([[1.0], [2.0], [3.0]])
    return {
        "influence_edges": EDGES,
        "influence": sizes * influence,
        "calibration_patches": np.array(patches),
        "calibration_error": sizes * np.linspace(error, 2 * error, len(patches)),
        "patches_held": np.tile(patches, (3, 1)) - np.array([[1], [0], [0]]),
        "changed_test": np.array([[0, -1, 2], [3, -1, 5], [2000, -1, 500]]),
    }


def drawn(studies, arrays):
    return draw("patch_influence", studies, arrays={run.run_key: one for run, one in zip(studies, arrays, strict=True)})


def lines(axes):
    return {to_hex(str(line.get_color())).upper(): np.asarray(line.get_ydata()) for line in axes.lines}


def test_influence_is_the_median_over_seeds_the_calibration_error_the_mean_over_those_with_that_many_patches():
    few, many = ((0, 1, 5), 0.1), ((0, 1, 5, 20), 0.3)
    given = [arrays_of([0.2, top, 0.01], *patches) for top, patches in ((0.1, few), (0.3, many), (0.15, few))]
    figure = drawn([study(seed) for seed in range(3)], given).figure
    one, two, three = figure.axes
    blue, orange, green = map(class_colour, range(3))
    np.testing.assert_allclose(lines(one)[blue], [0.2, 0.15, 0.01])
    np.testing.assert_allclose(one.lines[0].get_xdata(), np.sqrt([0.25 * 0.5, 0.5 * 1, 1 * 2]))
    np.testing.assert_allclose(lines(two)[green], [0.6, 0.45, 0.03])
    for colour, size in ((blue, 1), (orange, 2)):
        np.testing.assert_allclose(lines(three)[colour], size * np.array([0.5 / 3, 0.7 / 3, 0.9 / 3, 0.6]))
    band = one.collections[0].get_paths()[0].vertices
    assert {0.125, 0.225} <= set(np.round(band[:, 1], 6)), "quartiles"
    assert one.get_ylim() == two.get_ylim() and one.get_ylim()[1] > 0.6, "the panels share an axis"
    assert list(three.get_xticks()) == [0, 1, 5, 20]
    texts = " ".join(words(figure))
    assert "median over 3 seeds" in texts
    assert "calibration error: line: mean over 1 to 3 seeds; band: mean ± sample standard deviation" in texts
    changed = "other predictions that one patch changes, mean: 1 (exact η), 4 (logit margin 1), 1,250 (authors' η)"
    assert changed in texts
    assert "right labels after 20 patches, mean: 19 (exact η), 20 (logit margin 1), 20 (authors' η)" in texts


@pytest.mark.parametrize(("settings", "default", "shown", "title", "left_out"), case_table("patch_studies"))
def test_lines_are_epsilons_or_else_prototypes_at_the_setting_that_has_most_in_common_with_others(
    settings, default, shown, title, left_out
):
    studies = [study(**one) for one in settings]
    tops = [place / 10 if "seed" not in one else 0.1 for place, one in enumerate(settings)]
    drawing = drawn(studies, [arrays_of([top] * 3) for top in tops])
    one, two, _ = drawing.figure.axes
    assert [float(line.get_ydata()[0]) for line in one.lines] == pytest.approx([tops[place] for place in shown])
    np.testing.assert_allclose(lines(two)[class_colour(0)], [tops[default]] * 3)
    assert one.get_title() == title and drawing.left_out == tuple(left_out)
    source = "patches of idw · 16 prototypes · p=2, ε=0.001, special cases · two_moons"
    assert any(source in text for text in words(drawing.figure))


def test_one_seed_without_patches_has_no_spread_and_no_line():
    empty = arrays_of([np.nan] * 3, (0,)) | {"changed_test": np.full((3, 2), -1)}
    figure = drawn([study()], [empty]).figure
    assert np.isnan(lines(figure.axes[0])[class_colour(0)]).all()
    texts = " ".join(words(figure))
    assert "one seed: no spread" in texts and "right labels" not in texts and "changes, mean" not in texts

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from made import assert_no_words_overlap, words

import idwbench
from idwbench.data.loading import load_dataset
from idwbench.errors import ConfigError
from idwbench.figures.collected.key_history import key_history_figure
from idwbench.figures.key_history import KeyRow, Picture, PictureGroup, SharesByEpoch, draw_key_history
from idwbench.figures.key_history_plane import PlanePanel, draw_key_history_plane
from idwbench.results.store import Results
from idwbench.runs.config import run_config
from idwbench.training.replay import key_history


def group(heading: str, n: int, name: str = "7") -> PictureGroup:
    generator = np.random.default_rng(n)
    return PictureGroup(heading, tuple(Picture(generator.normal(size=12), 1, f"{name}\n+12.3 %") for _ in range(n)))


def row(name: str = "7", epochs: int = 3, *, memories: bool = True) -> KeyRow:
    curve = SharesByEpoch("sum by epoch: own\nclass, others (dashed)", np.full(epochs, -12.0), np.full(epochs, 13.0), 1)
    first = group("key: class of its\nvalue, distance", 2, name), group("moved it", 4, name), group("against", 3, name)
    last = (group("nearest\ntest image", 1, name), group("layer_0", 4, name), group("layer_2", 4, name))
    return KeyRow((*first, curve, *(last if memories else last[:1])))


@pytest.mark.parametrize("name", ["7", "Ankle boot", "T-shirt/top"])
@pytest.mark.parametrize("memories", [True, False])
def test_no_words_overlap(name, memories):
    figure = draw_key_history([row(name, memories=memories)] * 3, (4, 3), "idw · p=2", captions=["digits"])
    assert_no_words_overlap(figure)
    assert words(figure).count("sum by epoch: own\nclass, others (dashed)") == 1


def test_a_row_has_all_its_pictures_and_both_lines():
    axes = draw_key_history([row()], (4, 3), "idw").axes
    assert len(axes[0].images) == 2 + 4 + 3 + 1 + 4 + 4
    [inset] = axes[0].child_axes
    assert [line.get_ydata()[-1] for line in inset.lines[1:]] == [13.0, -12.0]


def test_a_single_epoch_is_a_pair_of_points():
    [inset] = draw_key_history([row(epochs=1)], (4, 3), "idw").axes[0].child_axes
    assert {line.get_marker() for line in inset.lines[1:]} == {"o"}


def test_rows_of_different_groups_are_refused():
    with pytest.raises(ConfigError, match="at least one key"):
        draw_key_history([], (4, 3), "idw")
    with pytest.raises(ConfigError, match="different groups"):
        draw_key_history([row(), row(memories=False)], (4, 3), "idw")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    db = tmp_path_factory.mktemp("key_history") / "results.db"
    settings = {"epochs": 2, "batch_size": 128}
    for method in ("neg_dist", "idw"):
        idwbench.train(run_config("digits", method=method, prototypes=4, **settings), db, engine="torch")
    network = run_config("digits", kind="mlp", width=5, depth=1, record=True, optimizer="sgd", **settings)
    idwbench.train(network, db)
    return db


@pytest.mark.slow
def test_the_pictures_are_the_training_images_with_the_largest_shares_and_attention(trained):
    results = Results(trained, read_only=True)
    runs = results.find_runs()
    drawing = key_history_figure(results, runs)
    assert [line.split(" · ")[0] for line in drawing.left_out] == [
        "not drawn: 1 run of kind 'mlp'",
        "not drawn: neg_dist",
    ]
    idw = next(run for run in runs if run.config.model.method == "idw")
    dataset, history = load_dataset(idw.config.dataset), key_history(results, idw.run_key)
    key = min(range(4), key=lambda key: (history.classes[key], key))
    axes = drawing.figure.axes[0]
    pictures = [image.get_array().ravel() for image in axes.images]
    invert = dataset.scaling.invert
    np.testing.assert_allclose(pictures[1], invert(history.keys[key]))
    for place, image in enumerate(history.top(key, 4)):
        np.testing.assert_allclose(pictures[2 + place], invert(dataset.train.inputs[image]))
    for place, image in enumerate(history.top(key, 3, against=True)):
        np.testing.assert_allclose(pictures[6 + place], invert(dataset.train.inputs[image]))
    distances = np.linalg.norm(dataset.test.inputs.astype(float) - history.keys[key], axis=1)
    query = dataset.test.inputs[distances.argmin()]
    np.testing.assert_allclose(pictures[9], invert(query))
    # Each epoch visits each training image once: the total attention of the first layer is 2 (x_i · x + 1).
    attended = (dataset.train.inputs @ query).argmax()
    np.testing.assert_allclose(pictures[10], invert(dataset.train.inputs[attended]))
    texts = [text.get_text() for text in axes.texts]
    expected = 2 * (dataset.train.inputs[attended] @ query + 1)
    assert f"{dataset.class_names[dataset.train.labels[attended]]}\n{expected:,.0f}" in texts
    assert_no_words_overlap(drawing.figure)


@pytest.mark.slow
def test_without_a_recording_the_figure_says_what_to_train(trained, tmp_path):
    db = tmp_path / "results.db"
    config = run_config("digits", method="scaled_dot", prototypes=2, epochs=1, batch_size=512)
    idwbench.train(config, db, engine="torch")
    results = Results(db, read_only=True)
    figure = key_history_figure(results, results.find_runs()).figure
    assert len(figure.axes[0].images) == 2 * (2 + 4 + 3 + 1)
    line = "recorded memories are not drawn: the database has no run of kind 'mlp' with record: true on digits"
    assert line in " ".join(reversed(words(figure)))


def test_points_in_the_plane_are_sized_by_their_shares_and_the_key_moves_along_an_arrow(tmp_path):
    db = tmp_path / "results.db"
    idwbench.train(run_config("two_moons", prototypes=3, epochs=2), db, engine="torch")
    network = {"kind": "mlp", "width": 4, "depth": 1, "record": True, "optimizer": "sgd"}
    idwbench.train(run_config("two_moons", **network, epochs=2), db)
    results = Results(db, read_only=True)
    figure = key_history_figure(results, results.find_runs()).figure
    assert len(figure.axes) == 3 * 3
    history = key_history(results, results.find_runs()[0].run_key)
    key = min(range(3), key=lambda key: (history.classes[key], key))
    areas = np.concatenate(
        [np.broadcast_to(dots.get_sizes(), len(dots.get_offsets())) for dots in figure.axes[0].collections]
    )
    assert areas.max() == pytest.approx(80)
    largest = np.abs(history.shares[:, key]).argmax()
    [dots] = [dots for dots in figure.axes[0].collections if dots.get_sizes().max(initial=0) == pytest.approx(80)]
    place = dots.get_offsets()[dots.get_sizes().argmax()]
    inputs = load_dataset(results.find_runs()[0].config.dataset).train.inputs
    np.testing.assert_allclose(place, inputs[largest], rtol=1e-6)
    [arrow] = figure.axes[0].texts
    np.testing.assert_allclose(arrow.xy, history.keys[key], rtol=1e-6)
    np.testing.assert_allclose(arrow.xyann, history.initial[key], rtol=1e-6)
    assert_no_words_overlap(figure)


def test_rows_of_panels_of_different_lengths_are_refused():
    panel = PlanePanel("key 0", np.ones(2), np.zeros(2))
    with pytest.raises(ConfigError, match="as many keys in each row"):
        draw_key_history_plane([("one", [panel]), ("two", [panel, panel])], np.eye(2), np.arange(2), "idw")
    with pytest.raises(ConfigError, match="as many keys in each row"):
        draw_key_history_plane([], np.eye(2), np.arange(2), "idw")


def test_other_inputs_are_refused(tmp_path):
    db = tmp_path / "results.db"
    idwbench.train(run_config("sine", prototypes=2, epochs=1), db, engine="torch")
    results = Results(db, read_only=True)
    with pytest.raises(ConfigError, match="needs classes, and images or two features; sine"):
        key_history_figure(results, results.find_runs())

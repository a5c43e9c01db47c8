from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from made import assert_no_words_overlap, words

import idwbench
from idwbench.data.loading import load_dataset
from idwbench.figures.stored import stored_drawing
from idwbench.results.store import Results
from idwbench.runs.config import run_config
from idwbench.training.replay import key_history


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
    drawing = stored_drawing("key_history", results, runs)
    assert [line.split(" · ")[0] for line in drawing.left_out] == [
        "not drawn: 1 run of kind 'mlp'",
        "not drawn: neg_dist",
    ]
    idw = next(run for run in runs if run.config.model.method == "idw")
    dataset, history = load_dataset(idw.config.dataset), key_history(results, idw.run_key)
    key = min(range(4), key=lambda key: (history.classes[key], key))
    # The groups are columns of tiles, between which the shares by epoch have an axes for each key.
    groups = [axes for axes in drawing.figure.axes if axes.images]
    pictures = [image.get_array().ravel() for axes in groups for image in axes.images[: len(axes.images) // 4]]
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
    texts = [text.get_text() for text in groups[4].texts]
    expected = 2 * (dataset.train.inputs[attended] @ query + 1)
    assert texts[:2] == [dataset.class_names[dataset.train.labels[attended]], f"{expected:,.0f}"]
    shares = [axes for axes in drawing.figure.axes if not axes.images]
    own, others = history.own_class_shares()
    assert len(shares) == 4
    assert [line.get_ydata()[-1] for line in shares[0].lines[1:]] == [others[:, key].sum(), own[:, key].sum()]
    assert_no_words_overlap(drawing.figure)


@pytest.mark.slow
def test_without_a_recording_the_figure_says_what_to_train(trained, tmp_path):
    db = tmp_path / "results.db"
    config = run_config("digits", method="scaled_dot", prototypes=2, epochs=1, batch_size=512)
    idwbench.train(config, db, engine="torch")
    results = Results(db, read_only=True)
    figure = stored_drawing("key_history", results, results.find_runs()).figure
    assert sum(len(axes.images) for axes in figure.axes) == 2 * (2 + 4 + 3 + 1)
    line = "recorded memories are not drawn: the database has no run of kind 'mlp' with record: true on digits"
    assert line in " ".join(words(figure)).replace("\n", " ")


def test_points_in_the_plane_are_sized_by_their_shares_and_the_key_moves_along_an_arrow(tmp_path):
    db = tmp_path / "results.db"
    idwbench.train(run_config("two_moons", prototypes=3, epochs=2), db, engine="torch")
    network = {"kind": "mlp", "width": 4, "depth": 1, "record": True, "optimizer": "sgd"}
    idwbench.train(run_config("two_moons", **network, epochs=2), db)
    results = Results(db, read_only=True)
    figure = stored_drawing("key_history", results, results.find_runs()).figure
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

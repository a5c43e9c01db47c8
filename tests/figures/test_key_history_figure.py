import numpy as np
import pytest
from made import assert_no_words_overlap, words

import idwbench
from idwbench.data.loading import load_dataset
from idwbench.figures.stored import stored_drawing
from idwbench.results.store import Results
from idwbench.runs.config import run_config
from idwbench.training.replay import key_history

NETWORK = {"kind": "mlp", "width": 4, "depth": 1, "record": True, "optimizer": "sgd", "epochs": 2, "batch_size": 128}


@pytest.mark.slow
def test_the_pictures_are_the_training_images_with_the_largest_shares_and_attention(tmp_path):
    settings = {"epochs": 2, "batch_size": 128, "prototypes": 4}
    for method in ("neg_dist", "idw"):
        idwbench.train(run_config("digits", method=method, **settings), tmp_path / "results.db", engine="torch")
    idwbench.train(run_config("digits", **NETWORK), tmp_path / "results.db")
    results = Results(tmp_path / "results.db", read_only=True)
    runs = results.find_runs()
    figure, left_out = stored_drawing("key_history", results, runs)
    lines = ["not drawn: 1 run of kind 'mlp'", "not drawn: neg_dist"]
    assert [line.split(" · ")[0] for line in left_out] == lines
    idw = next(run for run in runs if run.config.model.method == "idw")
    dataset, history = load_dataset(idw.config.dataset), key_history(results, idw.run_key)
    train, invert = dataset.train, dataset.scaling.invert
    key = min(range(4), key=lambda key: (history.classes[key], key))
    query = dataset.test.inputs[np.linalg.norm(dataset.test.inputs - history.keys[key], axis=1).argmin()]
    # Each epoch visits each training image once: the total attention of the first layer is 2 (x_i · x + 1).
    attended = (train.inputs @ query).argmax()
    rows = [*history.top(key, 4), *history.top(key, 3, against=True)]
    # The groups are columns of tiles, between which the shares by epoch have an axes for each key.
    groups = [axes for axes in figure.axes if axes.images]
    pictures = [image.get_array().ravel() for axes in groups for image in axes.images[: len(axes.images) // 4]]
    expected = [history.initial[key], history.keys[key], *train.inputs[rows], query, train.inputs[attended]]
    np.testing.assert_allclose(pictures[:11], invert(np.stack(expected)))
    texts = [text.get_text() for text in groups[4].texts]
    attention = 2 * (train.inputs[attended] @ query + 1)
    assert texts[:2] == [dataset.class_names[train.labels[attended]], f"{attention:,.0f}"]
    shares = [axes for axes in figure.axes if not axes.images]
    own, others = history.own_class_shares()
    assert len(shares) == 4
    assert [line.get_ydata()[-1] for line in shares[0].lines[1:]] == [others[:, key].sum(), own[:, key].sum()]
    assert_no_words_overlap(figure)


def test_points_in_the_plane_are_sized_by_their_shares_and_without_a_recording_the_figure_says_what_to_train(
    tmp_path, monkeypatch
):
    idwbench.train(run_config("two_moons", prototypes=3, epochs=2), tmp_path / "results.db", engine="torch")
    idwbench.train(run_config("two_moons", **NETWORK), tmp_path / "results.db")
    results = Results(tmp_path / "results.db", read_only=True)
    runs = results.find_runs()
    figure = stored_drawing("key_history", results, runs).figure
    assert len(figure.axes) == 3 * 3
    history = key_history(results, runs[0].run_key)
    key = min(range(3), key=lambda key: (history.classes[key], key))
    [largest] = [dots for dots in figure.axes[0].collections if dots.get_sizes().max(initial=0) == pytest.approx(80)]
    place = largest.get_offsets()[largest.get_sizes().argmax()]
    inputs = load_dataset(runs[0].config.dataset).train.inputs
    np.testing.assert_allclose(place, inputs[np.abs(history.shares[:, key]).argmax()], rtol=1e-6)
    assert max(dots.get_sizes().max(initial=0) for dots in figure.axes[0].collections) == pytest.approx(80)
    [arrow] = figure.axes[0].texts  # the key moves along it
    np.testing.assert_allclose([arrow.xyann, arrow.xy], [history.initial[key], history.keys[key]], rtol=1e-6)
    assert_no_words_overlap(figure)
    monkeypatch.setattr(Results, "find_runs", lambda self, **filters: [])
    figure = stored_drawing("key_history", results, runs).figure
    assert len(figure.axes) == 3
    line = "recorded memories are not drawn: the database has no run of kind 'mlp' with record: true on two_moons"
    assert line in " ".join(words(figure)).replace("\n", " ")

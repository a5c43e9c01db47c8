from __future__ import annotations

import numpy as np
from made import Store, assert_no_words_overlap, words

from idwbench.figures.stored import stored_drawing
from idwbench.results.records import StoredRun
from idwbench.runs.config import run_config


def stored(test: float, validation: float | None, data_seed: int, **settings) -> StoredRun:
    config = run_config({"name": "digits", "seed": data_seed, "validation": 0.1}, **settings)
    metrics = {("test", "accuracy"): test}
    metrics |= {} if validation is None else {("validation", "accuracy"): validation}
    return StoredRun(config.run_key, config, "digits", "complete", metrics)


def runs(validated: bool = True) -> list[StoredRun]:
    """Two rates, of which validation data prefer 0.1 and test data 0.01; two kernels likewise."""
    found = []
    for seed in range(3):
        for count, test in ((4, 0.5), (8, 0.8), (16, 0.95)):
            for rate, better in ((0.01, 0.0), (0.1, 0.1)):
                for method, less in (("idw", 0.0), ("neg_dist", 0.2)):
                    settings = {"method": method, "prototypes": count, "learning_rate": rate}
                    value = test - less - better + seed / 100
                    found.append(stored(value, test + better if validated else None, seed, **settings))
        for kernel, test, validation in (("gaussian", 0.7, 0.9), ("boxcar", 0.99, 0.1)):
            accuracy = test + seed / 100
            found.append(
                stored(accuracy, validation if validated else None, seed, kind="kernel_regression", kernel=kernel)
            )
    return found


def lines(figure) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    (axes,) = figure.axes
    return {
        str(bars.get_label()): (bars[0].get_xdata(), bars[0].get_ydata())
        for bars in axes.containers  # the error bars of each line
    }


def test_means_over_the_seeds_of_the_data_are_chosen_by_validation_data() -> None:
    drawing = stored_drawing("prototypes_needed", Store(), runs())  # type: ignore[arg-type]
    found = lines(drawing.figure)
    assert set(found) == {"idw", "neg_dist"}
    np.testing.assert_allclose(found["idw"][0], [4, 8, 16], rtol=0.05)
    np.testing.assert_allclose(found["idw"][1], [41, 71, 86])
    text = " ".join(words(drawing.figure))
    assert "all data: gaussian kernel, h=1" in text
    assert "idw: 8" in text and "neg_dist: none of these" in text
    assert "over 3 seeds of the data" in text
    assert drawing.left_out == ()
    assert_no_words_overlap(drawing.figure)


def test_without_validation_data_the_first_settings_are_drawn() -> None:
    drawing = stored_drawing("prototypes_needed", Store(), runs(validated=False))  # type: ignore[arg-type]
    np.testing.assert_allclose(lines(drawing.figure)["idw"][1], [51, 81, 96])


def test_parameters_that_differ_are_in_the_labels() -> None:
    more = [
        stored(0.6, 0.6, seed, method="idw", prototypes=4, power=power, learning_rate=0.1)
        for seed in range(3)
        for power in (2.0, 8.0)
    ]
    kernels = [run for run in runs() if run.config.model.kind == "kernel_regression"]
    drawing = stored_drawing("prototypes_needed", Store(), more + kernels)  # type: ignore[arg-type]
    assert set(lines(drawing.figure)) == {"idw p=2", "idw p=8"}

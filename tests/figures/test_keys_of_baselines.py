"""The figure of keys for baselines: class means and centres as images, if there are no networks."""

from __future__ import annotations

import numpy as np
import pytest

from idwbench.errors import ConfigError
from idwbench.figures.keys import collect_keys
from idwbench.figures.stored import stored_drawing
from idwbench.results.store import Results
from idwbench.sweep.execution import run_sweep

SWEEP = """\
name: images
dataset: digits
seeds: 1
protocol: {epochs: 1}
grid:
  - {kind: scikit_learn, method: [nearest_centroid, knn]}
  - {kind: baseline, method: kmeans_per_class, prototypes: 20}
  - {method: idw, prototypes: 3}
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    folder = tmp_path_factory.mktemp("images")
    (folder / "images.yaml").write_text(SWEEP)
    run_sweep(folder / "images.yaml", folder / "results.db", engine="torch", jobs=1)
    return Results(folder / "results.db", read_only=True)


def test_class_means_and_centres_are_drawn_in_the_units_of_the_data(results):
    runs = [run for run in results.find_runs() if run.config.model.kind != "prototypes"]
    (means, centres), _, _, left_out = collect_keys(results, runs)
    assert left_out == ("not drawn: 1 run of kind 'scikit_learn'",)
    assert means.title.startswith("nearest_centroid · 10 prototypes · seed 0 · test accuracy ")
    assert centres.title.startswith("kmeans_per_class · 20 prototypes · seed 0 · test accuracy ")
    assert np.asarray(means.keys).min() >= -1e-4 and np.asarray(means.keys).max() <= 16 + 1e-4  # pixels
    assert stored_drawing("keys_nearest", results, runs).figure is not None


def test_networks_are_drawn_alone(results):
    panels, _, _, left_out = collect_keys(results, results.find_runs())
    assert [panel.title.split(" ·")[0] for panel in panels] == ["idw"]
    assert "not drawn: 1 run of kind 'baseline'" in left_out


def test_runs_without_keys_have_no_figure(results):
    runs = [run for run in results.find_runs() if run.config.model.method == "knn"]
    with pytest.raises(ConfigError, match="no run of kind 'prototypes' is complete"):
        stored_drawing("keys", results, runs)

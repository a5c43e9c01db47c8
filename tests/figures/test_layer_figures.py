"""Statistics of layers against the step: what is drawn of which runs."""

import numpy as np
import pytest
from made import draw, made_run

from idwbench.errors import ConfigError
from idwbench.runs.config import run_config
from idwbench.runs.metrics import LAYER_STATISTICS

STEPS = np.array([0, 1, 10])


def stored(seed=0, layers=("embedding", "block 1", "block 2", "head"), scored=(1, 2), **settings):
    """A run, and statistics that are 2 to the power of step number and seed times the number of the layer."""
    given = {"encoder": "vit_tiny", "depth": 2, "statistics": True, **settings}
    given |= {"attention": "idw"} if given["encoder"] == "vit_tiny" and "attention" not in settings else {}
    run = made_run(run_config("digits", kind="network", seed=seed, **given))
    values = 2.0 ** (np.arange(3)[:, None] + seed) * (1 + np.arange(len(layers)))
    of_scores = np.where(np.isin(np.arange(len(layers)), scored), values, np.nan)
    names = np.frombuffer("\n".join(layers).encode(), np.uint8)
    tables = {f"statistics.{name}": values if name == "gradient_norm" else of_scores for name in LAYER_STATISTICS}
    return run, {"statistics.steps": STEPS, "statistics.layers": names, **tables}


def drawn(*pairs):
    return draw("layer_statistics", [run for run, _ in pairs], arrays={run.run_key: arrays for run, arrays in pairs})


def panels(drawing):
    return [axes for part in drawing.figure.subfigs for own in part.subfigs for axes in own.axes]


def test_each_statistic_has_a_row_and_each_layer_with_scores_a_panel_with_means_over_seeds():
    pairs = [stored(seed) for seed in range(3)] + [stored(attention="scaled_dot")]
    axes = panels(drawn(*pairs))
    assert len(axes) == 2 * len(LAYER_STATISTICS)
    assert [one.get_title() for one in axes[:2]] == ["block 1", "block 2"]
    first, second = axes[0].lines
    np.testing.assert_array_equal(first.get_xdata(), STEPS)
    by_method = {line.get_label().split(" ")[0]: line.get_ydata() for line in (first, second)}
    np.testing.assert_allclose(by_method["vit_tiny(idw)+linear"], [4, 8, 16])  # the geometric mean of 2, 4 and 8, …
    np.testing.assert_allclose(by_method["vit_tiny(scaled_dot)+linear"], [2, 4, 8])
    entropy = next(one for one in axes if one.get_ylabel().startswith("entropy"))
    np.testing.assert_allclose(entropy.lines[0].get_ydata(), np.array([14, 28, 56]) / 3)


def test_networks_without_scores_show_the_gradients_of_all_layers_and_more_models_are_named():
    axes = panels(drawn(stored(layers=("layer 1", "head"), scored=(), encoder="mlp", depth=1)))
    assert [one.get_title() for one in axes] == ["layer 1", "head"]
    pairs = [stored(attention_power=power) for power in range(1, 13)]
    assert drawn(*pairs).left_out == ("not drawn: 2 other models",)
    deep = drawn(stored(layers=tuple(f"block {n}" for n in range(1, 8)), scored=range(7), depth=7))
    assert deep.left_out == ("not drawn: layers block 6, block 7",)


def test_runs_without_statistics_are_refused_in_one_line():
    run, _ = stored(statistics=False)
    with pytest.raises(ConfigError, match="no complete run has statistics of layers"):
        draw("layer_statistics", [run])

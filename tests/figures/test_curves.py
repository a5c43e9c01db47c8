"""Lines: formulas, learning curves, the metric against the number of prototypes, and lookups of known metrics."""

import math
from functools import partial

import numpy as np
import pandas
import pytest
from made import bars, caption, draw, made_run, words
from matplotlib.colors import to_hex
from stored_runs import stored_run

from idwbench.attention.kernels import KERNELS
from idwbench.errors import ConfigError
from idwbench.figures.formulas import EPSILON
from idwbench.figures.lines import Axis, Look, draw_lines
from idwbench.figures.style import method_colour, save_figure
from idwbench.models.kernel_regression import kernel_weights
from idwbench.report.lookups import lookup_runs
from idwbench.runs.config import run_config
from idwbench.runs.results import CurvePoint

SCORES = ("neg_dist:  −d²", "gaussian:  exp(−{}/2)", "inv_dist:  1/(ε + {})", "idw:  −log(ε + {})")


@pytest.mark.parametrize(("name", "of"), [("weights", "d²"), ("weights_p1", "d")])
def test_each_weight_is_the_softmax_of_two_scores_by_the_formula_of_its_label(name, of):
    figure = draw(name, []).figure
    lines = [line for line in figure.axes[0].get_lines() if len(line.get_xdata()) > 2]
    assert [line.get_label() for line in lines] == [label.format(of) for label in SCORES]
    for line in lines:
        code = line.get_label().split(":")[1].strip().replace("−", "-").replace("²", "**2").replace("ε", "EPSILON")
        score = partial(eval, code, {"EPSILON": EPSILON, "exp": np.exp, "log": np.log})
        d = np.asarray(line.get_xdata(), np.float64)
        np.testing.assert_allclose([d[0], d[-1]], [0, 5])
        with np.errstate(over="ignore"):  # far from a tie the weight is 0 or 1
            expected = 1 / (1 + np.exp(score({"d": 1.0}) - score({"d": d})))  # the second key is at distance 1
        np.testing.assert_allclose(line.get_ydata(), expected, rtol=0, atol=1e-12)
        assert line.get_ydata()[np.flatnonzero(d == 1.0)[0]] == pytest.approx(0.5, abs=1e-15)
    assert any("ε = 0.001" in text for text in words(figure))


def test_each_line_is_its_kernel():
    figure = draw("kernels", []).figure
    for line, (name, kernel) in zip(figure.axes[0].get_lines(), KERNELS.items(), strict=True):
        d, drawn = line.get_xydata()[1:].T
        shares = kernel_weights(np.zeros((1, 1)), d[:, None], name, 1.0)[0]
        np.testing.assert_allclose(drawn / drawn.sum(), shares, rtol=1e-12, atol=1e-15)
        assert line.get_ydata()[0] == (1 if kernel.has_bandwidth else 1e6)
        assert line.get_label() == f"{name}:  {kernel.formula}"


def test_the_estimates_are_the_weights_below_times_the_data(tmp_path):
    figure = draw("kernel_regression", []).figure
    above, below = figure.axes[: len(KERNELS)], figure.axes[len(KERNELS) :]
    for name, top, bottom in zip(KERNELS, above, below, strict=True):
        assert top.get_title().startswith(name)
        data, truth, estimate = top.get_lines()
        weights = np.asarray(bottom.collections[0].get_array())
        np.testing.assert_allclose(weights.sum(0), 1, rtol=1e-12)
        np.testing.assert_allclose(data.get_ydata() @ weights, estimate.get_ydata(), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(truth.get_ydata(), np.sin(2 * truth.get_xdata()))
    assert {"data", "truth", "estimate", "query", "key, in order"} <= set(words(figure))
    save_figure(figure, tmp_path / "a.svg")
    assert (tmp_path / "a.svg").stat().st_size < 1_000_000  # weights are an image, not a shape each


def stored(seeds=(0, 1), **settings):
    return [made_run(run_config("two_moons", seed=seed, **{"prototypes": 2, **settings})) for seed in seeds]


def curves(runs, epochs=3, without=()):
    """The curves of runs, but some, whose test accuracy is 0.5, and 0.6 for the second seed."""
    points = {
        run.run_key: [
            CurvePoint(epoch, {("train", "loss"): 1 / epoch, ("test", "accuracy"): 0.5 + run.config.seed / 10})
            for epoch in range(1, epochs + 1)
        ]
        for run in runs
        if run.config.model.kind != "baseline" and run not in without
    }
    return draw("curves", runs, curves=points)


@pytest.mark.slow
def test_a_row_for_each_metric_a_column_for_each_number_and_a_colour_for_each_method():
    scales = [run for scale in ("features", "prototypes") for run in stored(method="scaled_dot", scale=scale)]
    figure, left_out = curves([*stored(), *stored(prototypes=16), *stored(method="inv_dist"), *scales])
    assert len(figure.axes) == 4 and left_out == ()
    lines = [(to_hex(line.get_color()).lower(), line.get_linestyle()) for line in figure.axes[0].get_lines()]
    names = ("scaled_dot", "scaled_dot", "inv_dist", "idw")
    assert lines == [(method_colour(name).lower(), "--" if place == 1 else "-") for place, name in enumerate(names)]
    np.testing.assert_allclose(figure.axes[0].get_lines()[3].get_ydata(), 55)
    assert {"test accuracy in %", "training loss", "2 prototypes", "16 prototypes"} <= set(words(figure))
    assert any("mean over 2 seeds" in text for text in words(figure))


def test_the_settings_of_a_single_method_have_colours_and_then_dashes():
    figure, left_out = curves([run for power in range(1, 43) for run in stored((0,), power=power)])
    lines = figure.axes[0].get_lines()
    assert [line.get_linestyle() for line in lines[:11]] == ["-"] * 5 + ["--"] * 5 + ["-."]
    assert len({line.get_color() for line in lines[:10]}) == 10
    assert len({(line.get_color(), line.get_linestyle()) for line in lines}) == len(lines) == 40
    assert left_out == ("not drawn: 2 settings (idw p=41, ε=0.001, …)",)


def test_models_of_other_names_than_methods_have_a_colour_each_and_a_column_if_others_have_prototypes():
    def networks(**settings):
        return [made_run(run_config("two_moons", kind="network", encoder="mlp", **settings))]

    figure = curves([run for width in range(4, 16) for run in networks(width=width)]).figure
    styles = [(line.get_color(), line.get_linestyle()) for line in figure.axes[0].get_lines()]
    assert len(set(styles)) == len(styles) == 12
    assert not any("prototypes" in text for text in words(figure))
    both = curves([*networks(), *networks(head="idw", prototypes=4)]).figure
    assert {"without prototypes", "4 prototypes"} <= set(words(both))


def test_models_of_one_name_have_a_line_each_and_points_of_one_place_are_one():
    (run,) = stored((0,))
    model = run.config.model.model_copy(update={"plugin_sha256": "a" * 64})
    other = made_run(run.config.model_copy(update={"model": model}))
    drawn = [line.get_label() for line in curves([run, other]).figure.axes[0].get_lines()]
    assert drawn == ["idw p=2, ε=0.001", "idw p=2, ε=0.001, plugin aaaaaaaa"]
    (alone,) = curves([other]).figure.axes[0].get_lines()
    assert alone.get_label() == drawn[0]
    points = [("a", 1, 0, 0.5), ("a", 1, 0, 0.7), ("a", 2, 1, 0.1)]
    table = pandas.DataFrame(points, columns=["label", "x", "seed", "value"])
    (line,) = draw_lines(table, {"a": Look("#000000")}, Axis(""), Axis("")).axes[0].lines
    np.testing.assert_array_equal(line.get_ydata(), [0.7, 0.1])


def test_several_protocols_have_a_block_each_and_runs_of_a_kind_without_epochs_are_counted():
    baselines = stored(kind="baseline", method="samples")
    figure, left_out = curves([*stored(epochs=3), *stored(epochs=25), *baselines])
    assert len(figure.axes) == 4
    assert {"two_moons · epochs 3", "two_moons · epochs 25"} <= set(words(figure))
    assert "two_moons · batch size 10 · learning rate 0.01" in caption(figure)
    assert left_out == ("not drawn: 2 runs of kind 'baseline'",)
    other = stored(epochs=25)
    assert len(curves([*stored(epochs=3), *other], without=other).figure.axes) == 2
    with pytest.raises(ConfigError, match="no run to draw has a learning curve"):
        curves(stored(), epochs=1)


def test_curves_are_those_of_validation_rows_where_there_are_any():
    config = run_config({"name": "two_moons", "validation": 0.2}, prototypes=2)
    run = stored_run(0.9, config=config, validation=0.8)
    by_split = {("test", "accuracy"): 0.9, ("validation", "accuracy"): 0.8}
    axes = draw("curves", [run], curves={run.run_key: [CurvePoint(epoch, by_split) for epoch in (1, 2)]}).figure.axes
    assert [one.get_ylabel() for one in axes] == ["validation accuracy in %"]
    np.testing.assert_allclose(axes[0].get_lines()[0].get_ydata(), 80)


def measured(test, validation, data_seed, **settings):
    data = {"name": "digits", "seed": data_seed, "validation": 0.1}
    return stored_run(test, validation=validation, dataset=data, train=None, **settings)


def needed(validated=True):
    """Two rates, of which validation data prefer 0.1 and test data 0.01; two kernels likewise."""
    runs = []
    for seed in range(3):
        for count, test in ((4, 0.5), (8, 0.8), (16, 0.95)):
            for rate, better in ((0.01, 0.0), (0.1, 0.1)):
                for method, less in (("idw", 0.0), ("neg_dist", 0.2)):
                    settings = {"method": method, "prototypes": count, "learning_rate": rate}
                    value = test - less - better + seed / 100
                    runs.append(measured(value, test + better if validated else None, seed, **settings))
        for kernel, test, validation in (("gaussian", 0.7, 0.9), ("boxcar", 0.99, 0.1)):
            settings = {"kind": "kernel_regression", "kernel": kernel}
            runs.append(measured(test + seed / 100, validation if validated else None, seed, **settings))
    return runs


def test_the_prototypes_needed_are_means_over_the_seeds_of_the_data_chosen_by_validation_data():
    figure, left_out = draw("prototypes_needed", needed())
    drawn = bars(*figure.axes)
    assert set(drawn) == {"idw", "neg_dist"} and left_out == ()
    np.testing.assert_allclose(drawn["idw"][:, 0], [4, 8, 16], rtol=0.05)
    np.testing.assert_allclose(drawn["idw"][:, 1], [41, 71, 86])
    text = caption(figure)
    assert "all data: gaussian kernel, h=1" in text
    assert "idw: 8" in text and "neg_dist: none of these" in text
    assert "over 3 seeds" in text and "seeds are those of the data" in text
    first = draw("prototypes_needed", needed(validated=False)).figure
    np.testing.assert_allclose(bars(*first.axes)["idw"][:, 1], [51, 81, 96])
    runs = [measured(0.6, 0.6, 0, method="idw", prototypes=4, power=power) for power in (2.0, 8.0)]
    runs += [run for run in needed() if run.config.model.kind == "kernel_regression"]
    assert set(bars(*draw("prototypes_needed", runs).figure.axes)) == {"idw p=2", "idw p=8"}


ITEMS = (2, 8, 32, 128)


def lookups(metrics, dimensions=(4, 8, 16), items=ITEMS, seeds=3, data=None, **settings):
    """Runs whose metrics are a function of dimensions, items and seed."""
    settings = {"kind": "hash_table", "similarity": "inner_product", **settings}
    runs = []
    for d, n, seed in ((d, n, seed) for d in dimensions for n in items for seed in range(seeds)):
        dataset = {"name": "lookup", "dimensions": d, "items": n, "noise": 0.0, **(data or {})}
        measured = {("test", name): value for name, value in metrics(d, n, seed).items()}
        n_learned = int(settings.get("projections", "none") != "none")
        facts = {"metrics": measured, "n_parameters": n_learned, "train": None}
        runs.append(stored_run(None, dataset=dataset, seed=seed, **facts, **settings))
    return runs


def recall_with_capacity(law):
    def metrics(d, n, seed):
        return {"recall": min(1.0, 0.99 - 0.1 * math.log(n / (law(d) * 1.1**seed)))}

    return metrics


def lines_of(figure, panel=0):
    return [line.get_xydata() for line in figure.axes[panel].get_lines()]


GROWING, CONSTANT = recall_with_capacity(lambda d: d), recall_with_capacity(lambda d: 1e9)


def test_only_models_that_learn_differ_in_their_learning_rate():
    rates = [f", learning rate {rate}" for rate in (0.1, 0.2)]
    for settings, label, expected in (
        ({"projections": "none"}, "inner_product softmax", [""]),
        ({"projections": "linear"}, "inner_product softmax, linear projections", rates),
        ({"similarity": "additive"}, "additive softmax, form=tanh, hidden=16", rates),  # its score learns
    ):
        runs = [run for rate in (0.1, 0.2) for run in lookups(GROWING, learning_rate=rate, **settings)]
        table = lookup_runs(runs)
        assert [*table.label.unique()] == [f"{label}{end}" for end in expected]
        assert len(table) == len({*expected}) * len(runs) // 2


def test_recall_is_drawn_against_the_load_and_names_what_it_leaves_out():
    runs = lookups(lambda d, n, seed: {"recall": 0.5 + 0.1 * seed})
    runs += lookups(lambda d, n, seed: {"recall": 0.2}, similarity="idw", weighting="argmax")
    figure = draw("recall", runs).figure
    assert [axes.get_title() for axes in figure.axes] == ["4 dimensions", "8 dimensions", "16 dimensions"]
    softmax, argmax = lines_of(figure, 1)
    np.testing.assert_allclose(softmax, np.transpose([np.array(ITEMS) / 8, [60] * 4]))
    np.testing.assert_allclose(argmax[:, 1], 20)
    assert any("mean over 3 seeds" in text for text in words(figure))
    runs = lookups(lambda d, n, seed: {"recall": 0.5}, data={"noise": 0.3}, dimensions=(4,), seeds=1)
    for k in range(1, 13):
        runs += lookups(lambda d, n, seed: {"recall": 0.5}, weighting="top_k", k=k, seeds=1, items=(2, 8))
    lines = ("not drawn: noise 0.3 · mean 0 · queries 256", "not drawn: 2 other models")
    assert draw("recall", runs).left_out == lines


def test_capacities_are_drawn_with_their_laws_if_there_are_any():
    figure = draw("capacity", lookups(recall_with_capacity(lambda d: 2 * d))).figure
    assert "inner_product softmax: 4.57 · exp(0.121 d)" in caption(figure)
    with pytest.raises(ConfigError, match="no seed has a recall of 99 %"):
        draw("capacity", lookups(CONSTANT))
    # Of several sweeps a model has one colour in all panels.
    runs = lookups(GROWING, data={"noise": 0.5}) + lookups(GROWING, similarity="idw") + lookups(GROWING)
    left, right = draw("capacity", runs).figure.axes
    assert [axes.get_title().split(" · ")[0] for axes in (left, right)] == ["noise 0", "noise 0.5"]
    colours = [{str(line.get_color()) for line in axes.lines} for axes in (left, right)]
    assert colours[1] < colours[0] and len(colours[0]) == 2


def test_the_entropy_of_softmax_is_drawn_beside_that_of_equal_weights_where_it_was_measured():
    def measured(d, n, seed):
        return {"recall": 1, "weight_entropy": d / 16 + seed}

    runs = lookups(measured, items=(32,), seeds=5) + lookups(measured, items=(32,), weighting="argmax")
    runs += lookups(lambda d, n, seed: {"recall": 1}, items=(32,), dimensions=(32,))
    equal, softmax = lines_of(draw("weight_entropy", runs).figure)
    np.testing.assert_allclose(equal[:, 1], math.log(32))
    np.testing.assert_allclose(softmax, [[4, 2.25], [8, 2.5], [16, 3]])


def test_the_variance_of_scores_is_drawn_with_the_theory_for_each_mean():
    runs = []
    for mean in (0.0, 2.0):
        for scaling in ("none", "sqrt_dimensions", "qk_norm"):
            settings = {"items": (8,), "data": {"mean": mean}, "scaling": scaling}
            runs += lookups(lambda d, n, seed: {"recall": 1, "score_variance": 1.0 + seed}, **settings)
    figure = draw("score_variance", runs).figure
    d = np.array([4, 8, 16])
    for panel, mean in enumerate((0.0, 2.0)):
        theory, divided = lines_of(figure, panel)[:2]
        np.testing.assert_allclose(theory[:, 1], d + 2 * d * mean**2)
        np.testing.assert_allclose(divided[:, 1], 1 + 2 * mean**2)
    legend = words(figure)
    assert "theory: d σ⁴ + 2 σ² ‖μ‖²" in legend and not any("QK-norm" in text for text in legend)

import numpy as np
import pytest
from made import Store, assert_no_words_overlap, made_run, words
from matplotlib.colors import to_hex

from idwbench.errors import ConfigError
from idwbench.figures.stored import stored_drawing
from idwbench.figures.style import method_colour
from idwbench.results.records import StoredRun
from idwbench.runs.config import run_config
from idwbench.runs.results import CurvePoint


def points(epochs: int, accuracy: float) -> list[CurvePoint]:
    return [
        CurvePoint(epoch, {("train", "loss"): 1 / epoch, ("test", "accuracy"): accuracy})
        for epoch in range(1, epochs + 1)
    ]


def stored(**settings: object) -> list[StoredRun]:
    return [made_run(run_config("two_moons", seed=seed, **{"prototypes": 2, **settings})) for seed in (0, 1)]


def drawn(runs: list[StoredRun]):
    curves = {run.run_key: points(3, 0.5 + run.config.seed / 10) for run in runs}
    return stored_drawing("curves", Store(curves=curves), runs)  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_row_for_each_metric_a_column_for_each_number_and_a_colour_for_each_method() -> None:
    scales = [run for scale in ("features", "prototypes") for run in stored(method="scaled_dot", scale=scale)]
    drawing = drawn([*stored(), *stored(prototypes=16), *stored(method="inv_dist"), *scales])
    figure = drawing.figure
    assert len(figure.axes) == 4
    assert drawing.left_out == ()
    lines = [(to_hex(line.get_color()).lower(), line.get_linestyle()) for line in figure.axes[0].get_lines()]
    names = ("scaled_dot", "scaled_dot", "inv_dist", "idw")
    expected = [(method_colour(name).lower(), "--" if place == 1 else "-") for place, name in enumerate(names)]
    assert lines == expected
    np.testing.assert_allclose(figure.axes[0].get_lines()[3].get_ydata(), 55)
    assert {"test accuracy in %", "training loss", "2 prototypes", "16 prototypes"} <= set(words(figure))
    assert any("mean over 2 seeds" in text for text in words(figure))
    assert_no_words_overlap(figure)


def test_the_settings_of_a_single_method_have_colours_and_then_dashes() -> None:
    drawing = drawn([run for power in range(1, 43) for run in stored(power=power)])
    lines = drawing.figure.axes[0].get_lines()
    assert [line.get_linestyle() for line in lines[:11]] == ["-"] * 10 + ["--"]
    assert len({line.get_color() for line in lines[:10]}) == 10 and len(lines) == 40
    assert drawing.left_out == ("not drawn: 2 settings (idw p=41, ε=0.001, …)",)


@pytest.mark.slow
def test_several_protocols_have_a_block_each() -> None:
    drawing = drawn([run for epochs in (3, 25) for run in stored(epochs=epochs)])
    texts = words(drawing.figure)
    assert len(drawing.figure.axes) == 4
    assert sum(text.startswith("two_moons · epochs") for text in texts) == 2
    assert_no_words_overlap(drawing.figure)


def network(**settings: object) -> list[StoredRun]:
    configs = [run_config("two_moons", seed=seed, kind="network", encoder="mlp", **settings) for seed in (0, 1)]
    return [made_run(config) for config in configs]


def test_models_of_other_names_than_methods_of_attention_have_a_colour_each() -> None:
    drawing = drawn([run for width in range(4, 16) for run in network(width=width)])
    lines = drawing.figure.axes[0].get_lines()
    styles = [(line.get_color(), line.get_linestyle()) for line in lines]
    assert len(set(styles)) == len(styles) == 12
    assert {style for _, style in styles[:10]} == {"-"}
    assert drawing.left_out == ()
    assert not any("prototypes" in text for text in words(drawing.figure))


def test_a_column_is_for_networks_without_prototypes_if_others_have_some() -> None:
    figure = drawn([*network(), *network(head="idw", prototypes=4)]).figure
    assert {"without prototypes", "4 prototypes"} <= set(words(figure))


def test_runs_of_a_kind_without_epochs_are_counted() -> None:
    baseline = stored(kind="baseline", method="samples")
    runs = [*stored(), *baseline]
    curves = {run.run_key: points(3, 0.5) for run in runs[:2]}
    drawing = stored_drawing("curves", Store(curves=curves), runs)  # type: ignore[arg-type]
    assert drawing.left_out == (f"not drawn: {len(baseline)} runs of kind 'baseline'",)


@pytest.mark.parametrize("n", [0, 1])
def test_a_curve_has_two_epochs(n: int) -> None:
    runs = stored()
    curves = {run.run_key: points(n, 0.5) for run in runs}
    with pytest.raises(ConfigError, match="no run to draw has a learning curve"):
        stored_drawing("curves", Store(curves=curves), runs)  # type: ignore[arg-type]

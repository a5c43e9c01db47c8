from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure
from numpy.typing import NDArray

from idwbench.data.dataset import Dataset, Scaling, Split
from idwbench.errors import ConfigError
from idwbench.figures import stored
from idwbench.figures.stored import FIGURES, draw_stored
from idwbench.results.records import StoredRun
from idwbench.runs.config import RunConfig, run_config

SCALING = Scaling(np.asarray(10.0), np.asarray(2.0))


class Arrays:
    """What drawing needs of a store: the arrays of a run."""

    def load_arrays(self, run_key: str) -> Mapping[str, NDArray[np.float32]]:
        keys = np.arange(6, dtype=np.float32).reshape(3, 2) / 5
        return {"keys": keys, "values": np.eye(2, dtype=np.float32)[[0, 1, 1]]}


def made_run(config: RunConfig, test: float = 0.9, state: str = "complete") -> StoredRun:
    metrics = {("test", "accuracy"): test, ("train", "accuracy"): 1.0}
    return StoredRun(config.run_key, config, config.dataset_label, state, metrics)  # type: ignore[arg-type]


def made_dataset(features: int = 2, image_shape: tuple[int, int] | None = None) -> Dataset:
    inputs = np.random.default_rng(0).normal(size=(8, features)).astype(np.float32)
    split = Split(inputs, np.arange(8) % 2)
    config = run_config("two_moons").dataset
    return Dataset(config, split, split, None, SCALING, image_shape, ("upper", "lower"), "0" * 64)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Figure]:
    """Draw runs over a data set made here, and keep what the drawing functions are given in `drawn.given`."""

    def draw(name: str, runs: list[StoredRun], dataset: Dataset | None = None) -> Figure:
        made = dataset or made_dataset(image_shape=(1, 2))
        monkeypatch.setattr(stored, "load_dataset", lambda config, data_dir: made)
        for function in ("draw_moons", "draw_keys"):
            original = getattr(stored, function)

            def spy(*args, original=original, **options):
                draw.given = args  # type: ignore[attr-defined]
                return original(*args, **options)

            monkeypatch.setattr(stored, function, spy)
        return draw_stored(name, Arrays(), runs)  # type: ignore[arg-type]

    return draw


def test_moons_are_means_over_seeds_in_the_datas_own_units(drawn) -> None:
    configs = [run_config("two_moons", method="gaussian", prototypes=3, seed=seed) for seed in (3, 1, 2)]
    runs = [made_run(config, 0.9 + config.seed / 100) for config in configs]
    drawn("moons", runs)
    (panel,), train, _, names = drawn.given
    assert (panel.method, panel.setting, panel.prototypes, panel.n) == ("gaussian", "σ²=2", 3, 3)
    assert (panel.test_accuracy, panel.train_accuracy) == (pytest.approx(0.92, rel=1e-12), 1.0)
    assert panel.best
    np.testing.assert_allclose(panel.keys, 10 + 2 * np.arange(6).reshape(3, 2) / 5, rtol=1e-6)
    np.testing.assert_allclose(train.inputs, SCALING.invert(made_dataset().train.inputs))
    assert names == ("upper", "lower")
    assert panel.grid_probability.shape == (stored.GRID, stored.GRID)
    assert ((panel.grid_probability >= 0) & (panel.grid_probability <= 1)).all()


def test_keys_are_in_the_datas_own_units_if_they_are_points(drawn) -> None:
    runs = [made_run(run_config("two_moons", prototypes=3, method=method)) for method in ("idw", "fc_relu")]
    drawn("keys", runs)
    directions, points = drawn.given[0]
    assert directions.title == "fc_relu · seed 0 · test accuracy 90.00 %"
    assert points.title == "idw · p=2, ε=0.001 · seed 0 · test accuracy 90.00 %"
    np.testing.assert_allclose(points.keys, 10 + 2 * np.asarray(directions.keys), rtol=1e-6)


def test_only_the_first_section_is_drawn(drawn) -> None:
    runs = [made_run(run_config("two_moons", prototypes=3, epochs=epochs)) for epochs in (2, 25)]
    drawn("keys", runs)
    assert len(drawn.given[0]) == 1


def test_a_figure_that_cannot_be_drawn_is_refused(drawn) -> None:
    run = made_run(run_config("two_moons", prototypes=3))
    with pytest.raises(ConfigError, match="needs images of classes; two_moons has no such inputs") as caught:
        drawn("keys", [run], made_dataset(2))
    assert caught.value.location == ("figure",)
    with pytest.raises(ConfigError, match="needs 2 features and 2 classes, two_moons has 3 and 2"):
        drawn("moons", [run], made_dataset(3))
    with pytest.raises(ConfigError, match="no run to draw is complete"):
        drawn("moons", [made_run(run.config, state="diverged")])
    with pytest.raises(ConfigError, match="unknown figure 'moon'") as caught:
        drawn("moon", [run])
    assert (caught.value.location, caught.value.hint) == (("figure",), "did you mean 'moons'?")


def test_a_method_must_be_registered_as_it_was_trained(drawn) -> None:
    run = made_run(run_config("two_moons", prototypes=3))
    for changed, problem in (({"method": "gone"}, "not registered"), ({"plugin_sha256": "a" * 64}, "another version")):
        model = run.config.model.model_copy(update=changed)
        other = replace(run, config=run.config.model_copy(update={"model": model}))
        with pytest.raises(ConfigError, match=problem) as caught:
            drawn("moons", [other])
        assert caught.value.location == ("plugin",)


def test_every_figure_is_documented() -> None:
    assert all(function.__doc__ for function in FIGURES.values())

import importlib
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made import SCALING, Store, made_dataset, made_run
from matplotlib.figure import Figure

from idwbench import figures
from idwbench.data.dataset import Dataset
from idwbench.errors import ConfigError
from idwbench.figures import keys, moons, stored
from idwbench.figures.plane import GRID
from idwbench.figures.stored import FIGURES, FORMULAS, draw_stored, stored_drawing
from idwbench.results.records import StoredRun
from idwbench.runs.config import run_config
from idwbench.runs.kinds.patch_study import PatchStudyConfig

ARRAYS = {"keys": np.arange(6, dtype=np.float32).reshape(3, 2) / 5, "values": np.eye(2, dtype=np.float32)[[0, 1, 1]]}


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Figure]:
    """Draw runs over a data set made here, and keep what the drawing functions are given in `drawn.given`."""

    def draw(name: str, runs: list[StoredRun], dataset: Dataset | None = None) -> Figure:
        made = dataset or made_dataset(image_shape=(1, 2))
        for module, function in ((moons, "draw_moons"), (keys, "draw_keys")):
            original = getattr(module, function)
            monkeypatch.setattr(module, "load_dataset", lambda config, data_dir: made)

            def spy(*args, original=original, **options):
                draw.given = args  # type: ignore[attr-defined]
                return original(*args, **options)

            monkeypatch.setattr(module, function, spy)
        return draw_stored(name, Store(default=ARRAYS), runs)  # type: ignore[arg-type]

    return draw


def test_moons_are_means_over_seeds_in_the_datas_own_units(drawn) -> None:
    configs = [run_config("two_moons", method="gaussian", prototypes=3, seed=seed) for seed in (3, 1, 2)]
    runs = [made_run(config, 0.9 + config.seed / 100) for config in configs]
    drawn("moons", runs)
    (given,) = drawn.given
    (panel,), train, names = given.panels, given.data.train, given.data.dataset.class_names
    assert (panel.method, panel.setting, panel.prototypes, panel.n) == ("gaussian", "σ²=2", 3, 3)
    assert (panel.test.mean, panel.train.mean) == (pytest.approx(0.92, rel=1e-12), 1.0)
    assert panel.test.best
    np.testing.assert_allclose(panel.picture.keys, 10 + 2 * np.arange(6).reshape(3, 2) / 5, rtol=1e-6)
    np.testing.assert_allclose(train.inputs, SCALING.invert(made_dataset().train.inputs))
    assert names == ("upper", "lower")
    assert panel.picture.probability.shape == (GRID, GRID)
    assert ((panel.picture.probability >= 0) & (panel.picture.probability <= 1)).all()


def test_keys_are_in_the_datas_own_units_if_they_are_points(drawn) -> None:
    runs = [made_run(run_config("two_moons", prototypes=3, method=method)) for method in ("idw", "fc_relu")]
    drawn("keys", runs)
    directions, points = drawn.given[0]
    assert directions.title == "fc_relu · 3 prototypes · seed 0 · test accuracy 90.00 %"
    assert points.title == "idw · p=2, ε=0.001 · 3 prototypes · seed 0 · test accuracy 90.00 %"
    np.testing.assert_allclose(points.keys, 10 + 2 * np.asarray(directions.keys), rtol=1e-6)


def test_the_first_section_is_drawn_and_the_others_are_named(drawn) -> None:
    configs = [run_config("two_moons", prototypes=3, epochs=epochs) for epochs in (2, 3, 25)]
    drawn("keys", [made_run(config) for config in configs])
    assert len(drawn.given[0]) == 1
    drawing = stored_drawing("moons", Store(default=ARRAYS), [made_run(config) for config in configs])  # type: ignore[arg-type]
    (line,) = drawing.left_out
    assert line.startswith("not drawn: other data sets or protocols (two_moons · epochs 2 ")
    assert "; two_moons · epochs 3 " in line


def test_runs_of_other_kinds_are_left_out_and_counted(drawn) -> None:
    run = made_run(run_config("two_moons", prototypes=3))
    study = replace(
        run,
        config=run.config.model_copy(
            update={"model": PatchStudyConfig(**run.config.model.model_dump(exclude={"kind"}))}
        ),
    )
    drawn("moons", [study, run])
    assert len(drawn.given[0].panels) == 1
    drawing = stored_drawing("moons", Store(default=ARRAYS), [run, study])  # type: ignore[arg-type]
    assert drawing.left_out == ("not drawn: 1 run of kind 'patch_study'",)


def test_a_figure_that_cannot_be_drawn_is_refused(drawn) -> None:
    run = made_run(run_config("two_moons", prototypes=3))
    with pytest.raises(ConfigError, match="needs images of classes; two_moons has no such inputs") as caught:
        drawn("keys", [run], made_dataset(2))
    assert caught.value.location == ("figure",)
    with pytest.raises(ConfigError, match="needs 2 features and 2 classes, two_moons has 3 and 2"):
        drawn("moons", [run], made_dataset(3))
    with pytest.raises(ConfigError, match="no run of kind 'prototypes' is complete"):
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
    page = (Path(__file__).parents[2] / "docs/reports.md").read_text(encoding="utf-8").split("## Figures")[1]
    rows = re.findall(r"^\| `(\w+)` \|", page, flags=re.MULTILINE)
    assert sorted(rows) == sorted(FIGURES)


def test_a_figure_is_one_file_of_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "from matplotlib.figure import Figure\nfrom idwbench.figures.registry import figure_of_formulas\n"
    code += "from idwbench.figures.style import Drawing\n@figure_of_formulas('mine')\ndef mine():\n"
    (tmp_path / "mine_for_a_test.py").write_text(code + "    return Drawing(Figure())\n")
    monkeypatch.setattr(figures, "__path__", [*figures.__path__, str(tmp_path)])
    try:
        importlib.reload(stored)
        assert stored.stored_drawing("mine", Store(), []).left_out == ()  # type: ignore[arg-type]
    finally:
        for registry in (FIGURES, FORMULAS):
            registry.pop("mine", None)
        sys.modules.pop("idwbench.figures.mine_for_a_test", None)

"""Which runs a figure shows, what it names as left out, and what it refuses."""

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from made import Store, draw, made_dataset, made_run, use_dataset, words

from idwbench import figures
from idwbench.errors import ConfigError
from idwbench.figures.stored import FIGURES, collect_figures, draw_stored
from idwbench.runs.config import run_config

RUN = made_run(run_config("two_moons", prototypes=3))
UNFINISHED = replace(RUN, state="diverged", metrics={})
NETWORK = made_run(run_config("two_moons", kind="network", encoder="mlp"))
KNN = made_run(run_config("two_moons", kind="scikit_learn", method="knn"))


def test_the_first_section_is_drawn_and_the_others_are_named(monkeypatch):
    use_dataset(monkeypatch)
    runs = [made_run(run_config("two_moons", prototypes=3, epochs=epochs)) for epochs in (2, 3, 25)]
    for name in ("moons", "keys"):
        (line,) = draw(name, runs).left_out
        assert line.startswith("not drawn: other data sets or protocols (two_moons · epochs 2 ")
        assert "; two_moons · epochs 3 " in line


@pytest.mark.parametrize(
    ("name", "runs", "problem", "hint"),
    [
        ("moon", [RUN], "unknown figure 'moon'", "did you mean 'moons'?"),
        ("keys", [RUN], "needs images of classes; two_moons has no such inputs", ""),
        ("network_keys", [NETWORK], "needs images of classes; two_moons has no such inputs", ""),
        ("moons", [RUN], "needs 2 features and 2 classes, two_moons has 3 and 2", ""),
        ("key_history", [RUN], "needs classes, and images or two features; two_moons has no such", ""),
        ("moons", [UNFINISHED], "no run of kind 'prototypes' is complete", ""),
        ("prototypes_needed", [UNFINISHED], "no run of kind 'prototypes' is complete", ""),
        ("keys", [KNN], "no run of kind 'prototypes' is complete", ""),
        ("network_keys", [RUN], "no run of kind 'network' is complete", ""),
        ("attention_by_class", [RUN], "no run of kind 'mlp' is complete", ""),
        ("power_epsilon", [RUN], "at least two pairs of power and epsilon", "run the sweep paper_power_epsilon"),
        ("prototypes_needed", [RUN], "no run of kernel regression on the same", "run the sweep kernel_regression"),
        ("patches", [RUN], "no complete run of kind 'patch_study'", "run the sweep paper_patches_two_moons"),
        ("patch_influence", [RUN], "no complete run of kind 'patch_study'", "run the sweep paper_patches_two_moons or"),
        ("curves", [RUN], "no run to draw has a learning curve", ""),
        *((name, [], "no ", "") for name in ("recall", "capacity", "weight_entropy", "score_variance")),
    ],
)
def test_what_cannot_be_drawn_is_refused(monkeypatch, name, runs, problem, hint):
    use_dataset(monkeypatch, made_dataset(3))
    with pytest.raises(ConfigError, match=problem) as caught:
        draw(name, runs)
    assert caught.value.location == ("figure",)
    assert (caught.value.hint or "").startswith(hint)


@pytest.mark.parametrize(
    ("model", "problem"), [({"method": "gone"}, "not registered"), ({"plugin_sha256": "a" * 64}, "another version")]
)
def test_a_method_must_be_registered_as_it_was_trained(monkeypatch, model, problem):
    use_dataset(monkeypatch)
    with pytest.raises(ConfigError, match=problem) as caught:
        changed = RUN.config.model.model_copy(update=model)
        draw_stored("moons", Store(), [replace(RUN, config=RUN.config.model_copy(update={"model": changed}))])
    assert caught.value.location == ("plugin",)


def test_every_figure_is_documented():
    assert all(function.__doc__ for function in FIGURES.values())
    page = (Path(__file__).parents[2] / "docs/reports.md").read_text(encoding="utf-8").split("## Figures")[1]
    rows = re.findall(r"^\| `(\w+)` \|", page, flags=re.MULTILINE)
    assert sorted(rows) == sorted(FIGURES)


def test_a_figure_is_one_file_of_the_folder(tmp_path, monkeypatch):
    code = "from __future__ import annotations\nfrom matplotlib.figure import Figure\n"
    code += "def mine_figure() -> Figure:\n    return Figure()\n"
    (tmp_path / "mine_for_a_test.py").write_text(code)
    monkeypatch.setattr(figures, "__path__", [*figures.__path__, str(tmp_path)])
    try:
        figure = collect_figures()["mine"]()
    finally:
        sys.modules.pop("idwbench.figures.mine_for_a_test", None)
    assert not words(figure)

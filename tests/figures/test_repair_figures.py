"""Comparisons of patches: the points of each plane, lines by number, and the tables beside them."""

import json

import numpy as np
import pytest
from made import draw, words
from matplotlib.container import ErrorbarContainer
from stored_runs import run_result, stored_run

from idwbench import Results, run_config
from idwbench.errors import ConfigError
from idwbench.report.render import render
from idwbench.report.reports import select_runs, table
from idwbench.runs.metrics import PATCH_MEASURES, PATCH_WAYS

WAYS = ("unpatched", "local", "fine_tuning")


def compared(seed, dataset="mnist", **settings):
    """A comparison in which each number grows with the seed; one mended input makes 3 + seed right and seed wrong."""
    measures = {name: 0.5 + seed / 10 for name in PATCH_MEASURES} | {"better": 3.0 + seed, "worse": float(seed)}
    metrics = {(way, name): value for way in WAYS for name, value in measures.items()}
    metrics |= {(way, f"{name}_together"): 10 * value for way in WAYS for name, value in measures.items()}
    metrics |= {("cases", "patched"): 40.0, ("local", "relative_radius"): 0.8}
    given = {"kind": "patch_study", "cases": "wrong", "compare": True, "prototypes": 20, **settings}
    given = {name: value for name, value in given.items() if value is not None}
    return stored_run(None, train=None, dataset=dataset, seed=seed, metrics=metrics, **given)


def arrays_of(seed, counts=(1, 5, 20)):
    together = np.full((len(PATCH_WAYS), len(PATCH_MEASURES), len(counts)), np.nan)
    local, better, worse = (PATCH_WAYS.index("local"), *map(PATCH_MEASURES.index, ("better", "worse")))
    together[local] = 0.1
    together[local, better], together[local, worse] = 10 + seed + np.arange(len(counts)), seed
    together[PATCH_WAYS.index("retraining"), :, -1] = 0.3
    return {"counts": np.array(counts), "together": together}


@pytest.mark.parametrize("name", ["repairs", "repairs_together"])
def test_a_plane_has_the_others_made_right_and_wrong_over_seeds_for_each_way_but_the_unpatched(name):
    runs = [compared(seed) for seed in range(3)] + [compared(seed, "digits", prototypes=5) for seed in range(2)]
    figure, left_out = draw(name, [*runs, stored_run(dataset="mnist")])
    one, two = figure.axes
    titles = [axes.get_title() for axes in (one, two)]
    assert titles == [f"{name}\nidw, p=2\n{n} prototypes" for name, n in (("mnist", 20), ("digits", 5))]
    points = {each.get_label(): each.lines for each in one.containers if isinstance(each, ErrorbarContainer)}
    factor = 10 if name.endswith("together") else 1
    assert [*points] == ["local", "fine-tuning"]
    marks, _, (x_bar, _) = points["local"]
    assert (marks.get_xdata(), marks.get_ydata()) == ([factor], [4 * factor])
    np.testing.assert_allclose(x_bar.get_segments()[0][:, 0], [0, 2 * factor])  # within the range of the seeds
    assert two.get_xlim() == one.get_xlim() and two.get_ylim() == one.get_ylim()
    assert {"local", "fine-tuning", "others made wrong", "others made right"} <= set(words(figure))
    assert any("over 2 to 3 seeds" in text for text in words(figure))
    assert left_out == ("not drawn: 1 run that compares nothing",)


def test_lines_show_effects_by_the_numbers_that_all_seeds_have_of_networks_of_prototypes():
    runs = [compared(seed) for seed in range(2)]
    arrays = {runs[0].run_key: arrays_of(0), runs[1].run_key: arrays_of(1, (1, 5, 13))}
    figure = draw("repairs_by_number", runs, arrays=arrays).figure
    first = figure.axes[0]
    (line,) = (each for each in first.lines if each.get_label() == "local")
    np.testing.assert_allclose(line.get_xdata(), [1, 5])
    np.testing.assert_allclose(line.get_ydata(), [10, 11])
    assert "local" in words(figure) and not {"exact", "retraining"} & set(words(figure)), "these have no numbers there"
    assert first.get_yscale() == "symlog" and figure.axes[1].get_yscale() == "linear"
    head = {"kind": "network", "encoder": "mlp", "head": "idw", "cases": None}
    with pytest.raises(ConfigError, match="no complete run of kind 'patch_study' with compare: true"):
        draw("repairs_by_number", [compared(0, "digits", **head)])


def test_a_report_of_comparisons_has_two_tables_of_ways_for_each_model_and_a_metric_that_of_any_metric():
    runs = [compared(seed) for seed in range(3)]
    alone, together = table(runs).tables
    assert alone.title == f"mnist · {runs[0].config.model.label} · 40 wrong inputs one at a time"
    assert together.title.endswith("40 wrong inputs in one network")
    cells = {column.name: column.texts for column in alone.columns}
    assert cells["way"] == ["unpatched", "local", "fine-tuning"]
    assert cells["success"] == ["60.0 ± 10.0"] * 3 and cells["worse"] == ["1 ± 1"] * 3
    assert cells["relative_radius"] == ["–", "0.8 ± 0", "–"]
    assert together.columns[6].texts == ["40 ± 10"] * 3
    record = json.loads(render([alone, together], "json"))
    flat = json.dumps(record)
    assert '"better_mean": 4.0' in flat and '"mended": "in one network"' in flat
    (shown,) = table(runs, metric="better").tables
    assert {"local", "fine_tuning", "unpatched"} <= {column.name for column in shown.columns}


def test_comparisons_of_networks_which_have_an_accuracy_too_are_read_whole(tmp_path):
    config = run_config("digits", kind="network", encoder="mlp", head="idw", prototypes=20, compare=True)
    metrics = {("test", "accuracy"): 0.9} | compared(0).metrics
    results = Results(tmp_path / "results.db")
    results.lease(results.register_sweep("heads", "", "name: heads", [config]))
    results.finish([run_result(config, metrics=metrics)], data_sha256="0" * 64)
    alone, _ = table(select_runs(results, "heads")).tables
    assert alone.title.endswith("40 wrong inputs one at a time")

from __future__ import annotations

from collections import Counter

import pytest

from idwbench.errors import ResultsError
from idwbench.results.contents import ArrayFacts
from idwbench.results.store import results_to_read


@pytest.fixture
def filled(store, make_config, make_result, make_diverged):
    store.register_sweep("moons", "Figure 2", "", [make_config(1), make_config(0), make_config(0, "gaussian")])
    store.finish([make_result(make_config(0)), make_diverged(make_config(1)), make_result(make_config(9))])
    return store


def test_runs_are_found_by_every_condition(filled):
    assert [run.config.seed for run in filled.find_runs(sweep="moons")] == [1, 0, 0]
    assert [run.config.seed for run in filled.find_runs(states=["complete"])] == [0, 9]
    assert len(filled.find_runs(states=[])) == 0
    assert len(filled.find_runs(methods=["gaussian", "neg_dist"])) == 1
    assert len(filled.find_runs(dataset="two_moons")) == 4
    assert filled.find_runs(dataset="mnist") == []
    assert len(filled.find_runs(sweep="moons", states=["complete"], methods=["idw"])) == 1


def test_an_unknown_sweep_is_refused_with_the_nearest_name_as_hint(filled):
    for read in (lambda: filled.find_runs(sweep="moon"), lambda: filled.sweep_status("moon")):
        with pytest.raises(ResultsError) as caught:
            read()
        assert (caught.value.problem, caught.value.hint) == ("no sweep 'moon' is stored", "did you mean 'moons'?")


def test_a_run_is_found_by_the_beginning_of_its_key(filled, make_config):
    key = make_config(9).run_key
    assert filled.find_run(key).config == make_config(9)
    assert filled.find_run(key[:10].upper()).run_key == key


def test_a_beginning_that_fits_several_runs_is_refused(store, make_config):
    keys = store.plan([make_config(seed) for seed in range(40)])
    digit, _ = Counter(key[0] for key in keys).most_common(1)[0]
    with pytest.raises(ResultsError, match=f"several runs have a key that begins with '{digit}'"):
        store.find_run(digit)


def test_results_to_read_are_those_given_or_those_of_a_path(filled, db, tmp_path):
    assert results_to_read(filled) is filled
    read = results_to_read(db)
    assert len(read.find_runs()) == len(filled.find_runs())
    with pytest.raises(ResultsError):
        read.plan([])
    with pytest.raises(ResultsError, match="does not exist"):
        results_to_read(tmp_path / "none.db")
    assert not (tmp_path / "none.db").exists()


@pytest.mark.parametrize("key", ["", "zz", "%", "_", "0" * 64])
def test_a_key_that_fits_no_run_is_refused(filled, key):
    with pytest.raises(ResultsError, match="no run has a key that begins with"):
        filled.find_run(key)


@pytest.mark.parametrize("text", ["a\0", "\ud800", "a\udcff"])
def test_text_that_no_database_holds_is_one_line(filled, text):
    for find in (filled.find_run, filled.load_curve, lambda name: filled.find_runs(sweep=name)):
        with pytest.raises(ResultsError) as caught:
            find(text)
        assert "\n" not in str(caught.value)


def test_curves_and_arrays_of_an_unknown_run_are_refused(filled):
    for read in (filled.load_curve, filled.load_arrays):
        with pytest.raises(ResultsError, match="no run has the key 'ab'"):
            read("ab")


def test_a_planned_run_has_neither_curve_nor_arrays(filled, make_config):
    key = make_config(0, "gaussian").run_key
    assert filled.load_curve(key) == []
    assert filled.load_arrays(key) == {}


def test_the_curves_of_many_runs_are_those_of_each_in_one_query(filled, make_config, statements):
    keys = [make_config(seed).run_key for seed in (9, 1, 0)]
    curves = filled.load_curves([*keys, "ab"])
    assert sum("curves" in statement for statement in statements) == 1
    assert list(curves) == [*keys, "ab"]
    assert curves.pop("ab") == []
    assert [repr(curve) for curve in curves.values()] == [repr(filled.load_curve(key)) for key in keys]
    assert all(curve for key, curve in curves.items() if key != keys[1])


def test_sweeps_and_data_sets_are_listed(filled):
    filled.register_sweep("empty", "", "", [])
    assert [(s.name, s.description) for s in filled.list_sweeps()] == [("empty", ""), ("moons", "Figure 2")]
    assert filled.dataset_labels() == ["two_moons"]


def test_the_states_of_a_sweep_add_up(filled, make_config):
    filled.lease([make_config(0, "gaussian").run_key])
    status = filled.sweep_status("moons")
    assert (status.total, status.complete, status.diverged, status.running) == (3, 1, 1, 1)
    assert (status.planned, status.failed, status.stale) == (0, 0, 0)


def test_each_run_has_its_own_metrics(filled, make_config, make_result):
    filled.finish([make_result(make_config(7), test=0.5, holdout=None)])
    assert filled.find_run(make_config(7).run_key).metrics == {("train", "accuracy"): 0.99, ("test", "accuracy"): 0.5}
    tests = {run.config.seed: run.metric("accuracy") for run in filled.find_runs(states=["complete", "diverged"])}
    assert tests == {0: 0.975, 1: None, 7: 0.5, 9: 0.975}
    assert [run.metric("accuracy", "holdout") for run in filled.find_runs(sweep="moons")] == [None, 0.995, None]


def test_arrays_are_known_without_being_read(filled, make_config, statements):
    statements.clear()
    facts = filled.array_facts(make_config(0).run_key)
    assert facts == {"keys": ArrayFacts("float32", (16, 2)), "values": ArrayFacts("float32", (16, 2))}
    assert not any("arrays.data" in statement for statement in statements)
    assert filled.sweeps_of(make_config(0).run_key) == ["moons"]
    assert filled.sweeps_of(make_config(9).run_key) == []
    for read in (filled.array_facts, filled.sweeps_of):
        with pytest.raises(ResultsError, match="no run has the key"):
            read("0" * 64)


def test_runs_are_loaded_in_the_order_of_their_keys(filled, make_config):
    keys = [make_config(9).run_key, make_config(0).run_key]
    assert [run.run_key for run in filled.load_runs(keys)] == keys
    with pytest.raises(ResultsError, match="no run has the key"):
        filled.load_runs(["0" * 64])

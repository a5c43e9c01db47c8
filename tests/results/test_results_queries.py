from collections import Counter

import pytest

from idwbench.errors import ResultsError
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
    for write in (lambda: read.plan([]), lambda: read.finish([])):
        with pytest.raises(ResultsError, match="was opened read-only"):
            write()
    with pytest.raises(ResultsError, match="does not exist"):
        results_to_read(tmp_path / "none.db")
    assert not (tmp_path / "none.db").exists()


@pytest.mark.parametrize("key", ["", "zz", "%", "_", "0" * 64, "a\0", "\ud800", "a\udcff"])
def test_a_key_that_fits_no_run_is_refused_in_one_line(filled, key):
    for read in (filled.find_run, filled.load_curve, filled.load_arrays, filled.array_facts, filled.sweeps_of):
        with pytest.raises(ResultsError, match=r"no run has|not valid Unicode|cannot be|NUL|surrogate") as caught:
            read(key)
        assert "\n" not in str(caught.value)


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


def test_arrays_are_known_without_being_read(filled, make_config, statements):
    statements.clear()
    facts = filled.array_facts(make_config(0).run_key)
    assert facts == {name: {"dtype": "float32", "shape": (16, 2)} for name in ("keys", "values")}
    assert not any("arrays.data" in statement for statement in statements)
    assert filled.sweeps_of(make_config(0).run_key) == ["moons"]
    assert filled.sweeps_of(make_config(9).run_key) == []


def test_many_runs_are_read_with_as_many_queries_as_few(store, make_config, make_result, statements):
    executed = {}
    for name, seeds in (("few", range(3)), ("many", range(100))):
        configs = [make_config(seed) for seed in seeds]
        keys = store.register_sweep(name, "", "", configs)
        store.finish([make_result(config, curve=()) for config in configs])
        assert [run.run_key for run in store.load_runs(keys[::-1])] == keys[::-1]
        statements.clear()
        store.sweep_status(name)
        assert len(store.find_runs(sweep=name)) == len(store.to_frame(sweep=name)) == len(configs)
        executed[name] = [*statements]
    assert executed["few"] == executed["many"]
    assert not any("arrays" in statement or "curves" in statement for statement in executed["many"])

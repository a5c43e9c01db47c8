from __future__ import annotations

import pytest

from idwbench.errors import ConfigError, ResultsError
from idwbench.results.listing import ArrayFacts
from idwbench.runs.config import run_config


@pytest.fixture
def filled(store, make_config, make_result, make_diverged):
    configs = [make_config(1), make_config(0), make_config(0, "gaussian"), make_config(2)]
    store.register_sweep("moons", "", "", configs)
    store.finish([make_result(configs[1]), make_diverged(configs[0])])
    store.lease([configs[3].run_key])
    store.fail([configs[3].run_key], "Traceback:\n  line 3\nValueError: no such thing\n")
    store.finish([make_result(make_config(9))])
    return store


def test_rows_have_what_a_list_shows_in_the_order_of_the_sweep(filled, make_config):
    rows = filled.list_runs(sweep="moons")
    assert [(row.seed, row.state, row.metric, row.value) for row in rows] == [
        (1, "diverged", None, None),
        (0, "complete", "accuracy", 0.975),
        (0, "planned", None, None),
        (2, "failed", None, None),
    ]
    assert [row.error for row in rows] == ["not finite after epoch 2", None, None, "ValueError: no such thing"]
    assert [row.run_key for row in filled.list_runs()][-1] == make_config(9).run_key
    assert len(filled.list_runs(sweep="moons", limit=2)) == 2
    assert [row.attempts for row in rows] == [run.attempt for run in filled.find_runs(sweep="moons")]


def test_the_label_is_that_of_the_configuration_for_every_kind_of_run(store, make_config):
    configs = [
        make_config(),
        make_config(initialisation="kmeans"),
        run_config("two_moons", kind="baseline", method="kmeans"),
        run_config("two_moons", kind="patch_study", cases="wrong", n_cases=3),
        run_config("sine", kind="kernel_regression", kernel="gaussian", bandwidth=0.5),
        run_config("lookup", kind="hash_table", similarity="idw"),
        run_config("digits", kind="network", encoder="mlp", head="idw", prototypes=5),
        run_config("aesop", kind="transformer_lm"),
        run_config("aesop", kind="lstm_lm"),
        run_config("two_moons", kind="mlp", width=7),
    ]
    store.plan(configs)
    assert [row.label for row in store.list_runs()] == [config.model.label for config in configs]


def test_the_metric_follows_from_the_task(store, make_result):
    configs = [
        run_config("sine"),
        run_config("lookup", kind="hash_table", similarity="idw"),
        run_config("aesop", kind="lstm_lm"),
    ]
    names = ["rmse", "recall", "bits_per_character"]
    for config, name in zip(configs, names, strict=True):
        store.finish([make_result(config, metrics={("test", name): 0.25, ("test", "loss"): 1.0}, arrays={})])
    assert [(row.metric, row.value) for row in store.list_runs()] == [(name, 0.25) for name in names]


def test_the_number_of_queries_does_not_depend_on_the_number_of_runs(filled, make_config, statements):
    filled.list_runs()
    few = len(statements)
    filled.plan([make_config(seed) for seed in range(100, 130)])
    statements.clear()
    assert len(filled.list_runs()) == 35
    assert len(statements) == few
    assert not any("arrays" in statement or "curves" in statement for statement in statements)


def test_states_tell_what_is_in_work(store, make_config, make_result, as_other_process):
    configs = [make_config(seed) for seed in range(4)]
    keys = store.plan(configs)
    store.finish([make_result(configs[0]), make_result(configs[1])])
    store.reset(keys[:2], ["complete"])
    store.lease([keys[0], keys[2]])
    as_other_process("vm", 2**22 + 1)  # no such process
    store.reset(keys[1:2], ["complete"])
    store.lease([keys[1]])
    rows = {row.run_key: row for row in store.list_runs()}
    first, second, third, fourth = (rows[key] for key in keys)
    assert (first.state, first.retraining, first.value) == ("complete", True, 0.975)
    assert (third.state, fourth.state) == ("running", "planned")
    assert second.state == "complete"

    def selected(*states):
        return {row.run_key for row in store.list_runs(states=states)}

    assert selected("complete") == {keys[0], keys[1]}
    assert selected("running") >= {keys[0], keys[2]}
    assert keys[0] in selected("retraining") and keys[2] not in selected("retraining")
    assert selected("planned", "failed") == {keys[3]}


def test_an_unknown_state_or_sweep_is_refused_with_the_nearest_word(filled):
    with pytest.raises(ConfigError, match="no state is called 'fialed' \\(did you mean 'failed'"):
        filled.list_runs(states=["fialed"])
    with pytest.raises(ResultsError, match="did you mean 'moons'"):
        filled.list_runs(sweep="moon")


def test_arrays_are_known_without_being_read(filled, make_config, statements):
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


def test_text_in_a_column_of_numbers_is_refused_in_one_line(filled, backend, make_config):
    if backend == "postgresql":
        return  # its columns hold numbers only
    with filled._database.write() as connection:
        connection.exec_driver_sql("UPDATE runs SET seconds = 'long' WHERE seed = 0")
    with pytest.raises(ResultsError, match=f"text in a column of numbers of run {make_config(0).run_key[:12]}"):
        filled.list_runs()


def test_a_run_whose_settings_cannot_be_read_is_listed_by_its_method(filled):
    with filled._database.write() as connection:
        connection.exec_driver_sql("UPDATE runs SET parameters = '[1]', method = 'mine' WHERE seed = 9")
    assert filled.list_runs()[-1].label == "prototypes · mine"

from __future__ import annotations

import gc
import json

import pytest

from idwbench.report.leaderboard import leaderboard
from idwbench.report.render import render
from idwbench.report.selection import select_reported_runs
from idwbench.report.summaries import section_tables, summarise
from idwbench.results.configurations import Configurations
from idwbench.results.store import Results
from idwbench.runs.datasets import CsvConfig
from idwbench.sweep.spec import plan, read_sweep


@pytest.fixture(scope="module")
def sweeps(tmp_path_factory, new_database):
    """A database with finished sweeps of 10 and 1,000 runs."""
    import shutil

    from idwbench.runs.results import RunResult

    folder = tmp_path_factory.mktemp("many")
    shutil.copy(new_database, folder / "results.db")
    store = Results(folder / "results.db")
    for name, prototypes in (("few", [2]), ("many", [*range(2, 102)])):
        file = folder / f"{name}.yaml"
        file.write_text(
            f"name: {name}\ndataset: two_moons\nseeds: 10\ngrid: {{method: idw, prototypes: {prototypes}}}\n"
        )
        spec = read_sweep(file)
        configs = plan(spec)
        store.register_sweep(name, "", spec.source, configs)
        metrics = {
            (split, metric): 0.5 for split in ("train", "test") for metric in ("accuracy", "coverage", "chamfer")
        }
        store.finish(
            [RunResult(c, "complete", (), metrics, {}, 8, None, 0.1, "torch", "cpu", 1, "AVX2") for c in configs]
        )
    return folder / "results.db"


def executed(statements, read):
    statements.clear()
    read()
    return [*statements]


@pytest.mark.parametrize("metric", [None, "accuracy", "coverage"])
def test_a_table_of_1000_runs_takes_as_many_queries_as_one_of_10_and_reads_no_array(sweeps, statements, metric):
    results = Results(sweeps, read_only=True)

    def table(name):
        return lambda: summarise(select_reported_runs(results, name, metric=metric), metric)

    few, many = (executed(statements, table(name)) for name in ("few", "many"))
    assert few == many
    assert len(many) < 12
    assert not any(word in statement for statement in many for word in ("arrays", "curves", "chamfer"))


@pytest.mark.parametrize(
    "read",
    [
        lambda results, name: results.find_runs(sweep=name),
        lambda results, name: results.sweep_status(name),
        lambda results, name: results.to_frame(sweep=name),
    ],
)
def test_reading_1000_runs_takes_as_many_queries_as_10(sweeps, statements, read):
    results = Results(sweeps, read_only=True)
    few, many = (executed(statements, lambda name=name: read(results, name)) for name in ("few", "many"))
    assert few == many
    assert not any("arrays" in statement or "curves" in statement for statement in many)


@pytest.mark.parametrize("metric", [None, "accuracy", "coverage"])
def test_reported_runs_give_the_tables_of_stored_runs(sweeps, metric):
    results = Results(sweeps, read_only=True)
    stored, reported = results.find_runs(sweep="many"), results.find_reported_runs(sweep="many", metric=metric)
    assert [run.config for run in reported] == [run.config for run in stored]
    assert [run.run_key for run in reported] == [run.config.run_key for run in reported]
    for table_format in ("markdown", "json"):
        for make in (lambda runs: section_tables(summarise(runs, metric)), lambda runs: [leaderboard(runs, metric)]):
            assert render(make(reported), table_format) == render(make(stored), table_format)


def test_a_reported_run_of_another_kind_has_all_its_metrics(store, make_config, make_result):
    study = make_config(kind="patch_study")
    store.finish([make_result(make_config(1)), make_result(study, metrics={("test", "patched"): 3.0}, arrays={})])
    found = store.find_reported_runs(dataset="two_moons")
    assert {name for run in found for _, name in run.metrics} == {"accuracy", "patched"}
    assert {name for run in store.find_reported_runs(metric="patched") for _, name in run.metrics} >= {"patched"}


def test_runs_of_one_setting_share_their_data_set_model_and_protocol(sweeps):
    runs = Results(sweeps, read_only=True).find_runs(sweep="many")
    assert len({id(run.config.model) for run in runs}) == 100
    assert len({id(run.config.dataset) for run in runs}) == len({id(run.config.protocol) for run in runs}) == 1


def test_a_seed_in_an_unexpected_place_is_read(make_config):
    config = make_config(7)
    for text in (config.model_dump_json(), f'{{"seed": 7, {config.model_dump_json(exclude={"seed"})[1:]}'):
        assert Configurations().read(config.run_key, text, 7) == config


def test_a_sweep_that_is_registered_again_changes_no_plan_and_asks_few_questions(sweeps, statements, tmp_path):
    import shutil

    shutil.copy(sweeps, tmp_path / "results.db")
    results, spec = Results(tmp_path / "results.db"), read_sweep(sweeps.with_name("many.yaml"))
    configs = plan(spec)
    found = executed(statements, lambda: results.register_sweep(spec.name, "", spec.source, configs))
    assert len(found) < 10
    assert not any(word in statement for statement in found for word in ("INSERT", "DELETE"))
    keys = [config.run_key for config in configs]
    assert executed(statements, lambda: results.reset(keys, ())) == []
    assert len(executed(statements, lambda: results.pending(keys))) == 2
    assert results.pending(keys) == []


def test_of_many_runs_those_that_are_pending_are_found(store, make_config, make_result, as_other_process):
    configs = [make_config(seed, prototypes=2) for seed in range(1_000)]
    keys = store.plan(configs)
    store.finish([make_result(config, curve=(), arrays={}) for config in configs[:990]])
    store.lease(keys[990:991])
    assert store.pending(keys) == keys[991:]
    store.reset(keys[:2], ["complete"])
    assert store.pending(keys[::-1]) == [*keys[:990:-1], *keys[1::-1]]
    assert store.pending(keys[:995]) == [*keys[:2], *keys[991:995]]


def test_reading_leaves_the_collection_of_garbage_as_it_was(sweeps):
    assert gc.isenabled()
    with pytest.raises(Exception, match="no sweep"):
        Results(sweeps, read_only=True).find_runs(sweep="none")
    assert gc.isenabled()


@pytest.mark.parametrize("path", ["data.csv", 'a},"protocol":{"epochs":1}.csv', 'a}, "model": {}.csv', "{}.csv"])
def test_runs_share_no_part_of_a_configuration_that_differs_beside_braces_in_a_name(make_config, path):
    reader, moons = Configurations(), [make_config(seed, prototypes=n) for seed in (1, 2) for n in (2, 3)]
    files = [CsvConfig(path=found, sha256="0" * 64) for found in (path, f"{path}.csv")]
    configs = [*moons, *(run.model_copy(update={"dataset": file}) for file in files for run in moons)]
    for config in configs:
        text = json.dumps(config.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        assert reader.read(config.run_key, text, config.seed) == config

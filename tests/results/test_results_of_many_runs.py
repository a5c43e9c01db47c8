from __future__ import annotations

import pytest

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


def test_runs_of_one_setting_share_their_data_set_model_and_protocol(sweeps):
    runs = Results(sweeps, read_only=True).find_runs(sweep="many")
    for part in ("dataset", "model", "protocol"):
        assert len({id(getattr(run.config, part)) for run in runs}) == 100


def test_a_sweep_that_is_registered_again_changes_no_plan_and_asks_few_questions(sweeps, statements, tmp_path):
    import shutil

    shutil.copy(sweeps, tmp_path / "results.db")
    results, spec = Results(tmp_path / "results.db"), read_sweep(sweeps.with_name("many.yaml"))
    configs = plan(spec)
    found = executed(statements, lambda: results.register_sweep(spec.name, "", spec.source, configs))
    assert len(found) < 10
    assert [text.split()[:3] for text in found if "INSERT" in text or "DELETE" in text] == [
        ["INSERT", "INTO", "sweeps"]
    ]
    keys = [config.run_key for config in configs]
    assert executed(statements, lambda: results.reset(keys, ())) == []
    assert len(executed(statements, lambda: results.pending(keys))) == 3
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
    assert store.lease(keys[::-1]) == [*keys[:990:-1], *keys[1::-1]]


@pytest.mark.parametrize("path", ["data.csv", 'a},"protocol":{"epochs":1}.csv', 'a}, "seed": 3.csv', "{}.csv"])
def test_runs_share_no_part_of_a_configuration_that_differs_beside_braces_in_a_name(store, make_config, path):
    moons = [make_config(seed, prototypes=n) for seed in (1, 2) for n in (2, 3)]
    files = [CsvConfig(path=name, sha256=digit * 64) for digit, name in (("0", path), ("1", f"{path}.csv"))]
    configs = [*moons, *(run.model_copy(update={"dataset": file}) for file in files for run in moons)]
    store.plan(configs)
    assert [run.config for run in store.find_runs()] == configs
    table = store.run_table()
    assert [config.with_seed(seed) for config, seed in zip(table.config, table.seed, strict=True)] == configs

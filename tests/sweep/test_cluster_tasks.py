"""Addresses of clusters, the size of tasks, and what a worker does with one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from engine_runs import replace_train, train_runs

from idwbench.attention.scores import METHODS
from idwbench.data.loading import load_dataset
from idwbench.errors import ClusterError, ConfigError
from idwbench.models.neighbours import PrototypeQuality
from idwbench.plugins import load_plugin, register
from idwbench.results.provenance import package_versions
from idwbench.runs.config import run_config
from idwbench.sweep import cluster_worker as worker
from idwbench.sweep.cluster_connection import local_workers
from idwbench.sweep.cluster_executor import plugin_sources
from idwbench.training.threads import limited_threads

DATA = {"name": "two_moons", "train_per_class": 10, "test_per_class": 5, "holdout_per_class": 0}


def run(seed=0, **settings):
    return run_config(DATA, **{"method": "idw", "prototypes": 2, "epochs": 2, "seed": seed, **settings})


@pytest.mark.parametrize("text", ["local:2", "tcp://localhost:8786", "tls://node-7.cluster:8786", "tcp://[::1]:8786"])
def test_addresses_of_clusters_are_read(text):
    assert local_workers(text) == (2 if text == "local:2" else 0)


@pytest.mark.parametrize(
    "text",
    ["", "local", "local:0", "local:-1", "local:two", "localhost:8786", "tcp://host", "tcp://:8786", "tcp://host:0",
     "tcp://host:99999", "http://host:80", "tcp://a b:8786", "tcp://host:8786\n", "inproc://x"],
)  # fmt: skip
def test_other_addresses_are_refused(text):
    with pytest.raises(ConfigError, match=r"^dask: .*expected local:N, tcp://host:port or tls://host:port"):
        local_workers(text)


@pytest.fixture
def as_worker(monkeypatch) -> Iterator[None]:
    """Let this process train tasks; Dask tells a worker its address and whether its task was cancelled."""
    monkeypatch.setattr(worker, "_worker", lambda: ("tcp://10.0.0.1:4000", lambda: False))
    monkeypatch.setattr(worker, "_setup", None)
    yield


def task(*configs, **settings):
    return {
        "versions": package_versions(),
        "stack": [config.model_dump_json() for config in configs],
        "engine": "torch",
        "device": "cpu",
        "plugins": plugin_sources(configs),
        "data_dir": "",
        "data_dir_is_given": False,
        "data_sha256": load_dataset(configs[0].dataset).sha256,
        "checkpoints": None,
        **settings,
    }


def test_a_worker_returns_the_bytes_of_a_local_training(as_worker):
    configs = [run(0), run(1)]
    answer = worker.train_task(task(*configs))
    dataset = load_dataset(configs[0].dataset)
    with limited_threads(1):
        own = train_runs(configs, dataset, engine="torch")
    qualities = PrototypeQuality(dataset.splits).stack_metrics(own)
    own = [replace(result, metrics={**result.metrics, **more}) for result, more in zip(own, qualities, strict=True)]
    assert [result.config.run_key for result in answer["results"]] == [config.run_key for config in configs]
    for one, other in zip(answer["results"], own, strict=True):
        assert one.metrics == other.metrics
        assert one.curve == other.curve
        assert set(one.durations) == {"set_up", "training", "metrics"}
        assert all(np.array_equal(one.arrays[name], other.arrays[name]) for name in ("keys", "values"))


def test_a_cancelled_task_ends_with_its_epoch(monkeypatch):
    monkeypatch.setattr(worker, "_worker", lambda: ("tcp://10.0.0.1:4000", lambda: True))
    answer = worker.train_task(task(run(0), run(1)))
    assert (answer["results"], answer["refused"]) == ([], "")


def test_other_versions_are_refused_but_not_other_builds(as_worker):
    versions = package_versions()
    answer = worker.train_task(task(run(0), versions={**versions, "numpy": "1.0.0", "absent": "3.1"}))
    expected = f"numpy {versions['numpy']}, the driver has 1.0.0; absent is missing, the driver has 3.1"
    assert (answer["refused"], answer["results"]) == (expected, [])
    assert worker.version_problem({**versions, "torch": versions["torch"].partition("+")[0] + "+other"}) == ""


def test_other_data_is_refused(as_worker):
    answer = worker.train_task(task(run(0), data_sha256="0" * 64))
    assert answer["refused"].startswith("the data set two_moons differs: its SHA-256 begins with ")
    assert answer["refused"].endswith(f"the driver's with {'0' * 12}")
    assert answer["results"] == []


def test_data_that_a_worker_cannot_read_is_refused_in_one_line(as_worker, tmp_path):
    file = tmp_path / "table.csv"
    file.write_text("a,label\n" + "1,x\n2,y\n" * 20)
    sent = task(run_config({"name": "csv", "path": str(file)}, method="idw", prototypes=2))
    file.unlink()
    answer = worker.train_task(sent)
    assert answer["refused"] == f"{file}: no such file"


def test_a_failure_is_returned_as_text(as_worker, monkeypatch):
    def fail(*arguments):
        raise RuntimeError("no more memory")

    replace_train(monkeypatch, "torch", fail)
    name, message, text = worker.train_task(task(run(0)))["failure"]
    assert (name, message) == ("RuntimeError", "no more memory")
    assert text.startswith("Traceback")


def test_a_full_disk_is_no_failure_of_a_run(as_worker, monkeypatch):
    def fail(*arguments):
        raise RuntimeError("not saved") from OSError(28, "No space left on device")

    replace_train(monkeypatch, "torch", fail)
    answer = worker.train_task(task(run(0)))
    assert (answer["results"], answer["refused"]) == (
        [],
        "a file of the training: cannot be written: No space left on device",
    )


PLUGIN = """
from idwbench import register
@register("{name}")
def score(inputs, keys):
    return -(inputs.unsqueeze(-2) - keys.unsqueeze(-3)).abs().sum(-1){end}
"""


def test_a_plugin_travels_by_content_and_replaces_an_earlier_one_of_its_name(as_worker, tmp_path):
    file = tmp_path / "plugin.py"
    sent = []
    for end in ("", " * 2"):
        file.write_text(PLUGIN.format(name="taxi", end=end))
        load_plugin(file)
        sent.append((METHODS["taxi"].sha256, task(run(0, method="taxi"))))
    file.unlink()
    for sha256, content in sent:
        answer = worker.train_task(content)
        assert answer["refused"] == ""
        assert answer["failure"] is None
        assert METHODS["taxi"].sha256 == sha256


def test_a_method_of_a_module_is_imported_by_name_and_must_be_the_same(as_worker, tmp_path, monkeypatch):
    (tmp_path / "city_distance.py").write_text(PLUGIN.format(name="city", end=""))
    monkeypatch.syspath_prepend(tmp_path)
    __import__("city_distance")
    sent = task(run(0, method="city"))
    assert (sent["plugins"][0]["module"], sent["plugins"][0]["code"]) == ("city_distance", None)
    assert worker.train_task(sent)["refused"] == ""
    monkeypatch.delitem(sys.modules, "city_distance")
    (tmp_path / "city_distance.py").write_text(PLUGIN.format(name="city", end=" * 3"))
    METHODS.pop("city")
    assert "differs from that of the driver" in worker.train_task(sent)["refused"]


def test_a_method_of_a_notebook_is_refused_by_the_driver():
    @register("in_a_cell")
    def score(inputs, keys):
        return inputs @ keys.mT

    score.__module__ = "__main__"
    with pytest.raises(ClusterError, match=r"method 'in_a_cell' is defined in a notebook or script, which workers"):
        plugin_sources([run(0, method="in_a_cell")])


def test_checkpoints_are_kept_only_in_a_folder_that_the_worker_shares(tmp_path: Path):
    folder = tmp_path / "results.db.checkpoints"
    inode = tmp_path.stat().st_ino
    assert worker._checkpoints((str(folder), inode)) == folder
    assert worker._checkpoints((str(folder), inode + 1)) is None
    assert worker._checkpoints(("/no/such/folder/results.db.checkpoints", inode)) is None
    assert worker._checkpoints(None) is None

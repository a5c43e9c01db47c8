"""Clusters: their addresses, connections to real schedulers, and what a worker does with a task."""

import pickle
import socket
import socketserver
import sys
import threading
from unittest.mock import Mock

import dask
import distributed
import pytest
from sweep_specs import sweep_file

from idwbench import run_config, run_sweep
from idwbench.attention.scores import METHODS
from idwbench.data.loading import load_dataset
from idwbench.errors import ClusterError, ConfigError
from idwbench.plugins import load_plugin, register
from idwbench.results.provenance import package_versions
from idwbench.sweep import cluster as connection
from idwbench.sweep import cluster_worker as worker
from idwbench.sweep.cluster import local_workers, sent_methods

DATA = {"name": "two_moons", "train_per_class": 10, "test_per_class": 5, "holdout_per_class": 0}


def run(seed=0, **settings):
    return run_config(DATA, **{"method": "idw", "prototypes": 2, "epochs": 2, "seed": seed, **settings})


def test_addresses_of_clusters_are_read_and_others_refused():
    assert local_workers("local:2") == 2
    assert {local_workers(address) for address in ("tcp://localhost:8786", "tls://a-7.b:8786", "tcp://[::1]:1")} == {0}
    wrong = ["", "local:0", "local:two", "tcp://host", "tcp://:8786", "tcp://host:0", "tcp://host:99999"]
    for address in (*wrong, "http://host:80", "tcp://a b:8786", "tcp://host:8786\n", "inproc://x"):
        with pytest.raises(ConfigError, match=r"^dask: .*expected local:N, tcp://host:port or tls://host:port"):
            local_workers(address)


@pytest.fixture
def as_worker(monkeypatch):
    """Let this process train tasks; Dask tells a worker its address and whether its task was cancelled."""
    monkeypatch.setattr(worker, "_worker", lambda: ("tcp://10.0.0.1:4000", lambda: False))
    monkeypatch.setattr(worker, "_setups", {})
    yield


def task(*configs, **settings):
    return {
        "versions": package_versions(),
        "stack": [config.model_dump_json() for config in configs],
        "engine": "torch",
        "device": "cpu",
        "methods": sent_methods(configs),
        "data_dir": "",
        "data_dir_is_given": False,
        "data_sha256": load_dataset(configs[0].dataset).sha256,
        "checkpoints": None,
        **settings,
    }


def test_a_worker_measures_its_times_and_stops_after_an_epoch_if_asked(as_worker, monkeypatch):
    configs = [run(0), run(1)]
    answer = worker.train_task(task(*configs))
    assert [result.config.run_key for result in answer.results] == [config.run_key for config in configs]
    assert all(set(result.durations) == {"set_up", "training", "metrics"} for result in answer.results)
    monkeypatch.setattr(worker, "_worker", lambda: ("tcp://10.0.0.1:4000", lambda: True))
    cancelled = worker.train_task(task(*configs))
    assert (cancelled.results, cancelled.failure[0]) == ((), "Stopped")


def refused(content):
    """Return the reason why a worker does not train a task."""
    with pytest.raises(ClusterError) as caught:
        worker.train_task(content)
    assert str(caught.value).startswith("worker tcp://10.0.0.1:4000: ")
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)  # it is sent to the driver
    return str(caught.value).removeprefix("worker tcp://10.0.0.1:4000: ")


def test_other_versions_are_refused_but_not_other_builds(as_worker):
    versions = package_versions()
    message = refused(task(run(0), versions={**versions, "numpy": "1.0.0", "absent": "3.1"}))
    assert message == f"numpy {versions['numpy']}, the driver has 1.0.0; absent is missing, the driver has 3.1"
    assert worker.version_problem({**versions, "torch": versions["torch"].partition("+")[0] + "+other"}) == ""


def test_other_data_and_data_that_a_worker_cannot_read_is_refused_in_one_line(as_worker, tmp_path):
    message = refused(task(run(0), data_sha256="0" * 64))
    assert message.startswith("the data set two_moons differs: its SHA-256 begins with ")
    assert message.endswith(f"the driver's with {'0' * 12}")
    file = tmp_path / "table.csv"
    file.write_text("a,label\n" + "1,x\n2,y\n" * 20)
    sent = task(run_config({"name": "csv", "path": str(file)}, method="idw", prototypes=2))
    file.unlink()
    assert refused(sent) == f"{file}: no such file"


PLUGIN = """
from idwbench import register
@register("{name}")
def score(inputs, keys):
    return -(inputs.unsqueeze(-2) - keys.unsqueeze(-3)).abs().sum(-1){end}
"""


def test_methods_of_files_modules_and_notebooks_travel_with_their_code_but_for_what_cannot_be_sent(
    as_worker, tmp_path, monkeypatch
):
    sent = []

    def send(name):
        sent.append((name, METHODS[name].sha256, task(run(0, method=name))))

    for end in ("", " * 2"):  # of which the later replaces the one of its name
        (tmp_path / "plugin.py").write_text(PLUGIN.format(name="taxi", end=end))
        load_plugin(tmp_path / "plugin.py")
        send("taxi")
    (tmp_path / "city_distance.py").write_text(PLUGIN.format(name="city", end=""))
    monkeypatch.syspath_prepend(tmp_path)
    __import__("city_distance")
    send("city")

    @register("in_a_cell")
    def score(inputs, keys):
        return inputs @ keys.mT

    score.__module__ = "__main__"
    send("in_a_cell")
    monkeypatch.delitem(sys.modules, "city_distance")
    for name in ("plugin.py", "city_distance.py"):
        (tmp_path / name).unlink()
    for name in ("taxi", "city", "in_a_cell"):
        del METHODS[name]
    for name, sha256, content in sent:
        assert worker.train_task(content).failure is None
        assert METHODS[name].sha256 == sha256
    assert refused({**sent[0][2], "methods": b"cno_such_package\nscore\n."}).startswith(
        "the methods of plugins cannot be loaded: ModuleNotFoundError: No module named 'no_such_package'"
    )
    lock = threading.Lock()

    @register("locked")
    def locked(inputs, keys):
        with lock:
            return inputs @ keys.mT

    with pytest.raises(ClusterError, match=r"^the methods of plugins cannot be sent to workers: TypeError: "):
        sent_methods([run(0, method="locked")])


def test_checkpoints_are_kept_only_in_a_folder_that_the_worker_shares(tmp_path):
    folder = tmp_path / "results.db.checkpoints"
    inode = tmp_path.stat().st_ino
    assert worker._checkpoints((str(folder), inode)) == folder
    assert worker._checkpoints((str(folder), inode + 1)) is None
    assert worker._checkpoints(("/no/such/folder/results.db.checkpoints", inode)) is None
    assert worker._checkpoints(None) is None


def unreachable(address):
    with pytest.raises(ClusterError) as found, connection.connected(address):
        pass
    return str(found.value)


class WebServer(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 20)


def test_a_port_where_nothing_listens_another_server_and_missing_certificates_are_one_line(monkeypatch):
    monkeypatch.setattr(connection, "CONNECT_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
    messages = [(address, unreachable(address))]  # on a busy machine the connection is too slow to be refused
    with socketserver.TCPServer(("127.0.0.1", 0), WebServer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"tcp://127.0.0.1:{server.server_address[1]}"
        messages.append((address, unreachable(address)))
        server.shutdown()
    for address, message in messages:
        assert message.startswith(f"no Dask scheduler answers at {address} (") and "\n" not in message
    message = unreachable("tls://127.0.0.1:9")
    assert message.startswith("tls://127.0.0.1:9 needs certificates (set DASK_DISTRIBUTED__COMM__TLS__CA_FILE")
    refusal = OSError("Timed out trying to connect")
    refusal.__cause__ = RuntimeError("in <TCPConnector>: ConnectionRefusedError: [Errno 111] Connection refused")
    assert connection._reason(refusal) == "Connection refused"
    assert connection._reason(ValueError("not a message\nof Dask")) == "not a message"


def test_processes_that_cannot_start_are_one_line(monkeypatch):
    monkeypatch.setattr(distributed, "LocalCluster", Mock(side_effect=OSError(24, "Too many open files")))
    assert unreachable("local:3") == "3 processes cannot be started (Too many open files)"


def test_a_sweep_is_trained_on_an_encrypted_scheduler(tmp_path):
    security = distributed.Security.temporary()
    settings = {"distributed.comm.require-encryption": True, "distributed.comm.tls.ca-file": security.tls_ca_file}
    for part in ("key", "cert"):
        settings[f"distributed.comm.tls.client.{part}"] = getattr(security, f"tls_client_{part}")
    path = sweep_file(tmp_path, DATA, "{method: [idw, fc_relu], prototypes: [2, 4]}", protocol="{epochs: 3}")
    place = {"host": "127.0.0.1", "dashboard_address": None, "processes": False}
    with (
        distributed.LocalCluster(1, threads_per_worker=1, protocol="tls://", security=security, **place) as scheduler,
        dask.config.set(settings),
    ):
        assert scheduler.scheduler_address.startswith("tls://")
        status = run_sweep(path, tmp_path / "dask.db", dask=scheduler.scheduler_address)
    assert status.complete == status.total == 8

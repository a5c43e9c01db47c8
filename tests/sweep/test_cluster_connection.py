"""Connections to clusters: real schedulers with TLS, and addresses where none answers."""

from __future__ import annotations

import datetime
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from idwbench.cli.app import app
from idwbench.errors import ClusterError
from idwbench.sweep import cluster_connection as connection
from idwbench.sweep.execution import run_sweep

SWEEP = """
name: small
dataset: {name: two_moons, train_per_class: 20, test_per_class: 5, holdout_per_class: 0}
protocol: {epochs: 3}
seeds: 3
grid: {method: [idw, fc_relu], prototypes: [2, 4]}
"""
CONTENT = "select run_key, name, data from runs join arrays on run_id = id order by 1, 2"


@pytest.fixture(autouse=True)
def _short_wait(monkeypatch):
    monkeypatch.setattr(connection, "CONNECT_SECONDS", 0.5)


@contextmanager
def silent_server(answer: bytes) -> Iterator[int]:
    """Listen on a port and answer each connection with these bytes."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                with client:
                    client.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


def refused(address: str) -> str:
    with pytest.raises(ClusterError) as found, connection.connected(address):
        pass
    return str(found.value)


def test_a_port_where_nothing_listens_is_one_line():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    message = refused(f"tcp://127.0.0.1:{port}")  # on a busy machine the connection is too slow to be refused
    assert message.startswith(f"no Dask scheduler answers at tcp://127.0.0.1:{port} (")
    assert "\n" not in message


def test_the_reason_is_what_the_operating_system_says():
    refusal = OSError("Timed out trying to connect")
    refusal.__cause__ = RuntimeError("in <TCPConnector>: ConnectionRefusedError: [Errno 111] Connection refused")
    assert connection._reason(refusal) == "Connection refused"
    assert connection._reason(OSError(24, "Too many open files")) == "Too many open files"
    assert connection._reason(ValueError("not a message\nof Dask")) == "not a message"


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n" * 20])
def test_a_server_of_another_kind_is_one_line(answer):
    with silent_server(answer) as port:
        message = refused(f"tcp://127.0.0.1:{port}")
    assert message.startswith(f"no Dask scheduler answers at tcp://127.0.0.1:{port} (")
    assert "\n" not in message


def test_an_encrypted_address_without_certificates_is_one_line():
    message = refused("tls://127.0.0.1:9")
    assert message.startswith("tls://127.0.0.1:9 needs certificates (set DASK_DISTRIBUTED__COMM__TLS__CA_FILE")


def test_the_missing_package_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    message = refused("local:2")
    assert message == "dask: needs the Python package 'distributed' (pip install 'idwbench[cluster]')"


def test_processes_that_cannot_start_are_one_line(monkeypatch):
    import distributed

    def fail(**settings):
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(distributed, "LocalCluster", fail)
    assert refused("local:3") == "3 processes cannot be started (Too many open files)"


def test_an_interruption_is_raised_after_what_cannot_be_interrupted(monkeypatch):
    started = threading.Event()
    monkeypatch.setattr(connection, "wait", lambda futures: interrupt(started))

    def interrupt(started):
        if not started.is_set():
            started.set()
            raise KeyboardInterrupt

    result, interruption = connection._uninterrupted(lambda: started.wait(60))
    assert result is True
    assert isinstance(interruption, KeyboardInterrupt)


@pytest.fixture
def tls(tmp_path: Path) -> dict[str, str]:
    """The environment with one self-signed certificate for all sides."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "idwbench")])
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - datetime.timedelta(days=1)).not_valid_after(
        now + datetime.timedelta(days=1)
    )
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    certificate = builder.sign(key, hashes.SHA256())
    cert_file, key_file = tmp_path / "node.pem", tmp_path / "node.key"
    cert_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8
    key_file.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
    prefix = "DASK_DISTRIBUTED__COMM__"
    settings = {f"{prefix}TLS__CA_FILE": str(cert_file), f"{prefix}REQUIRE_ENCRYPTION": "true"}
    for side in ("SCHEDULER", "WORKER", "CLIENT"):
        settings[f"{prefix}TLS__{side}__CERT"] = str(cert_file)
        settings[f"{prefix}TLS__{side}__KEY"] = str(key_file)
    return {**os.environ, **settings}


@contextmanager
def started(*command: str, environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """Run a command of Dask until the end of the block; its first lines of output have to be read."""
    with subprocess.Popen(
        [sys.executable, "-m", "distributed.cli." + command[0], *command[1:]],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGKILL)


def address_in(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    for line in process.stderr:
        if "Scheduler at:" in line:
            return line.split()[-1]
    raise AssertionError("the scheduler has not started")


@pytest.mark.slow
def test_a_sweep_on_an_encrypted_scheduler_has_the_bytes_of_a_local_one(tmp_path, tls):
    sweep = tmp_path / "small.yaml"
    sweep.write_text(SWEEP)
    run_sweep(sweep, tmp_path / "local.db")
    quiet = ("--no-dashboard", "--host", "127.0.0.1")
    with started("dask_scheduler", *quiet, "--protocol", "tls", "--port", "0", environment=tls) as scheduler:
        address = address_in(scheduler)
        with started("dask_worker", address, *quiet, "--nthreads", "1", "--no-nanny", environment=tls):
            command = [sys.executable, "-m", "idwbench", "sweep", str(sweep), "--db", str(tmp_path / "dask.db")]
            done = subprocess.run([*command, "--dask", address], env=tls, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "distributed" not in done.stderr
    contents = []
    for name in ("local.db", "dask.db"):
        with sqlite3.connect(tmp_path / name) as database:
            contents.append(database.execute(CONTENT).fetchall())
    assert contents[0] == contents[1] and len(contents[0]) == 24


def test_a_wrong_address_is_refused_before_the_database_is_created(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    monkeypatch.chdir(tmp_path)
    Path("small.yaml").write_text(SWEEP)
    result = CliRunner().invoke(app, ["sweep", "small.yaml", "--dask", "localhost:8786"])
    assert result.exit_code == 2
    assert result.stderr == (
        "idwbench: --dask: 'localhost:8786' is no address of a cluster "
        "(expected local:N, tcp://host:port or tls://host:port)\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["small.yaml"]

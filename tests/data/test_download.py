"""Downloads, from a server on this machine in place of the mirrors."""

from __future__ import annotations

import hashlib
import importlib.util
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from idwbench.data.folder import download as fetch
from idwbench.data.images import ARCHIVES
from idwbench.errors import DatasetError

CONTENT = b"official content" * 100_000
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class _Mirrors(BaseHTTPRequestHandler):
    """Each folder is a mirror of its own."""

    def do_GET(self) -> None:
        mirror = self.path.split("/")[1]
        if mirror == "missing":
            self.send_error(404)
            return
        if mirror == "moved":
            self.send_response(301)
            self.send_header("Location", self.path.replace("moved", "good"))
            self.end_headers()
            return
        content = {"good": CONTENT, "altered": b"altered" + CONTENT[7:], "cut": CONTENT[:1000]}[mirror]
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture(scope="module")
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), _Mirrors) as served:
        threading.Thread(target=served.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{served.server_port}"
        served.shutdown()


@pytest.fixture
def attempt(server, tmp_path):
    """Return a function that downloads from mirrors, and returns the content and the files in the folder."""
    target = tmp_path / "raw" / "labels.gz"

    def attempt(*mirrors: str) -> tuple[bytes | None, list[str]]:
        try:
            fetch([f"{server}/{mirror}/" for mirror in mirrors], target, SHA256)
        finally:
            names = [path.name for path in target.parent.glob("*")]
        return target.read_bytes(), names

    return attempt


@pytest.mark.parametrize("mirrors", [("good",), ("moved",), ("missing", "good"), ("altered", "good"), ("cut", "good")])
def test_the_first_mirror_with_the_official_file_serves_it(mirrors, attempt, capsys, monkeypatch):
    assert attempt(*mirrors) == (CONTENT, ["labels.gz"])
    output = capsys.readouterr()
    assert output.out == "" and "downloading http://127.0.0.1" in output.err
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    attempt(*mirrors)
    assert capsys.readouterr().err.endswith("\r100%\n")  # a terminal sees how far it is


@pytest.mark.parametrize(
    ("mirrors", "reasons"),
    [
        (("missing",), ["/missing/: HTTP Error 404"]),
        (("altered", "cut"), ["/altered/: sent a file whose SHA-256 begins with", "/cut/: "]),
    ],
)
def test_a_failed_download_gives_one_line_with_each_reason_and_leaves_no_file(mirrors, reasons, attempt, tmp_path):
    with pytest.raises(DatasetError) as caught:
        attempt(*mirrors)
    assert "\n" not in str(caught.value) and all(reason in str(caught.value) for reason in reasons)
    assert not (tmp_path / "raw").exists()


def test_without_a_network_or_a_folder_one_line_names_the_mirror(server, tmp_path):
    with pytest.raises(DatasetError, match=r"^http://127\.0\.0\.1:1/x/: .*refused.*$"):
        fetch(["http://127.0.0.1:1/x/"], tmp_path / "labels.gz", SHA256)
    (tmp_path / "raw").write_text("a file")
    with pytest.raises(DatasetError, match=r"^[^\n]*/good/: [^\n]*raw[^\n]*$"):
        fetch([f"{server}/good/"], tmp_path / "raw" / "labels.gz", SHA256)


def test_the_mirrors_are_those_of_torchvision():
    spec = importlib.util.find_spec("torchvision")
    assert spec is not None and spec.origin is not None
    source = (Path(spec.origin).with_name("datasets") / "mnist.py").read_text(encoding="utf-8")
    assert all(f'"{mirror}"' in source for archives in ARCHIVES.values() for mirror in archives.mirrors)


@pytest.mark.slow
def test_two_moons_loads_no_scikit_learn_and_digits_no_torch():
    script = """
import sys
from idwbench.data.loading import load_dataset
from idwbench.runs.datasets import DigitsConfig, TwoMoonsConfig
load_dataset(TwoMoonsConfig())
assert not {"sklearn", "scipy", "pandas", "torch", "urllib.request"} & {*sys.modules}
load_dataset(DigitsConfig())
assert not {"torch", "torchvision"} & {*sys.modules}
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

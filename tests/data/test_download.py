"""Downloads, from a server on this machine in place of the mirrors."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from idwbench.data.folder import download
from idwbench.data.images import ARCHIVES
from idwbench.errors import DatasetError

CONTENT = b"official content" * 100_000
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class _Mirrors(BaseHTTPRequestHandler):
    """Each folder is a mirror of its own."""

    def do_GET(self) -> None:
        mirror = self.path.split("/")[1]
        content = {"good": CONTENT, "altered": b"altered" + CONTENT[7:], "cut": CONTENT[:1000]}.get(mirror, b"")
        self.send_response({"missing": 404, "moved": 301}.get(mirror, 200))
        self.send_header("Location", self.path.replace("moved", "good"))
        self.send_header("Content-Length", str(len(CONTENT) if content else 0))
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


@pytest.mark.parametrize("mirrors", ["good", "moved", "missing good", "altered good", "cut good"])
def test_the_first_mirror_with_the_official_file_serves_it(mirrors, server, tmp_path, capsys, monkeypatch):
    folder = tmp_path / "raw"
    for is_terminal, end in ((False, ""), (True, "\r100%\n")):  # a terminal sees how far it is
        monkeypatch.setattr(sys.stderr, "isatty", lambda is_terminal=is_terminal: is_terminal, raising=False)
        download([f"{server}/{mirror}/" for mirror in mirrors.split()], folder / "labels.gz", SHA256)
        assert (folder / "labels.gz").read_bytes() == CONTENT and len([*folder.iterdir()]) == 1
        output = capsys.readouterr()
        assert output.out == "" and "downloading http://127.0.0.1" in output.err and output.err.endswith(end)


@pytest.mark.parametrize(
    ("mirrors", "reasons"),
    [
        ("{server}/missing/", ["/missing/: HTTP Error 404"]),
        ("{server}/altered/ {server}/cut/", ["/altered/: sent a file whose SHA-256 begins with", "/cut/: "]),
        ("http://127.0.0.1:1/x/", ["http://127.0.0.1:1/x/: ", "refused"]),
    ],
)
def test_a_failed_download_gives_one_line_with_each_reason_and_leaves_no_file(mirrors, reasons, server, tmp_path):
    with pytest.raises(DatasetError) as caught:
        download(mirrors.format(server=server).split(), tmp_path / "raw" / "labels.gz", SHA256)
    assert "\n" not in str(caught.value) and all(reason in str(caught.value) for reason in reasons)
    assert not (tmp_path / "raw").exists()


def test_a_file_in_the_place_of_the_folder_is_one_line(server, tmp_path):
    (tmp_path / "raw").write_text("a file")
    with pytest.raises(DatasetError, match=r"^[^\n]*/good/: [^\n]*raw[^\n]*$"):
        download([f"{server}/good/"], tmp_path / "raw" / "labels.gz", SHA256)


def test_the_mirrors_are_those_of_torchvision():
    spec = importlib.util.find_spec("torchvision")
    assert spec is not None and spec.origin is not None
    source = (Path(spec.origin).with_name("datasets") / "mnist.py").read_text(encoding="utf-8")
    assert all(f'"{mirror}"' in source for archives in ARCHIVES.values() for mirror in archives.mirrors)

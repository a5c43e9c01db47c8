"""Images of the MNIST family: archives and their download, scaling, validation rows; two of these data sets as one."""

import gzip
import hashlib
import importlib.util
import sys
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from case_tables import case_table

from idwbench.data import images
from idwbench.data.dataset import Scaling, array_sha256
from idwbench.data.folder import download
from idwbench.data.images import ARCHIVES, FILES, UNIT_SCALING
from idwbench.data.loading import LOADERS, load_dataset
from idwbench.data.preparation import RawData, RawSplit
from idwbench.errors import DatasetError
from idwbench.runs.datasets import ImageConfig, parse_dataset

OF = ["mnist", "fashion_mnist"]
CONSTANTS = {"mnist": (0.1307, 0.3081), "fashion_mnist": (0.2860, 0.3530)}
TRAIN_IMAGES = "train-images-idx3-ubyte.gz"


@pytest.fixture
def small(monkeypatch, tmp_path):
    """A data folder with archives of 20 and 10 made-up images, and their checksums in place of the official."""
    random = np.random.default_rng(0)
    shapes = {"train_images": (20, 28, 28), "train_labels": (20,), "test_images": (10, 28, 28), "test_labels": (10,)}
    raw = tmp_path / "data" / "MNIST" / "raw"
    raw.mkdir(parents=True)
    arrays, checksums = {}, {}
    for part, shape in shapes.items():
        array = random.integers(0, 256 if len(shape) == 3 else 10, shape).astype(np.uint8)
        header = bytes((0, 0, 8, len(shape))) + b"".join(size.to_bytes(4, "big") for size in shape)
        content = gzip.compress(header + array.tobytes(), mtime=0)
        (raw / FILES[part]).write_bytes(content)
        arrays[part], checksums[part] = array, hashlib.sha256(content).hexdigest()
    monkeypatch.setitem(ARCHIVES, "mnist", replace(ARCHIVES["mnist"], checksums=checksums))
    return tmp_path / "data", arrays


def test_archives_are_read_in_torchvisions_layout_and_scaled_by_the_constants(small):
    folder, arrays = small
    for name, (mean, std) in CONSTANTS.items():
        scaled = ARCHIVES[name].scaling.apply(np.arange(256, dtype=np.uint8))
        np.testing.assert_array_equal(scaled, ((np.arange(256) / 255 - mean) / std).astype(np.float32))
    data = load_dataset(ImageConfig(name="mnist"), folder)
    parts = load_dataset(ImageConfig(name="mnist", validation=5, seed=2), folder)
    expected = ((arrays["train_images"].reshape(20, -1) / 255 - 0.1307) / 0.3081).astype(np.float32)
    np.testing.assert_array_equal(data.train.inputs, expected)
    np.testing.assert_array_equal(data.test.labels, arrays["test_labels"])
    assert data.image_shape == (28, 28) and data.class_names == tuple("0123456789")
    assert (len(parts.train), len(parts.validation), len(parts.test)) == (15, 5, 10)
    together = np.concatenate([parts.train.inputs, parts.validation.inputs])
    np.testing.assert_array_equal(np.sort(together, axis=0), np.sort(expected, axis=0))
    assert parts.sha256 == data.sha256


def test_training_images_are_followed_by_themselves_shifted_in_four_directions(small):
    clean, shifted = (load_dataset(ImageConfig(name="mnist", validation=6, shifts=n), small[0]) for n in (0, 2))
    background = clean.scaling.apply(np.zeros((), np.uint8))
    framed = np.pad(clean.train.inputs.reshape(-1, 28, 28), ((0, 0), (2, 2), (2, 2)), constant_values=background)
    moves = [(0, 0), (-2, 0), (-1, 0), (1, 0), (2, 0), (0, -2), (0, -1), (0, 1), (0, 2)]
    copies = [np.roll(framed, move, (1, 2))[:, 2:-2, 2:-2].reshape(-1, 784) for move in moves]
    np.testing.assert_array_equal(shifted.train.inputs, np.concatenate(copies))
    np.testing.assert_array_equal(shifted.train.labels.reshape(9, -1), [clean.train.labels] * 9)
    assert all(np.array_equal(shifted.splits[n].inputs, clean.splits[n].inputs) for n in ("validation", "test"))


def test_an_altered_archive_is_refused(small):
    path = small[0] / "MNIST" / "raw" / TRAIN_IMAGES
    content = path.read_bytes()
    for altered in (content[:-100], content[:50] + bytes([content[50] ^ 1]) + content[51:]):
        path.write_bytes(altered)
        seen, expected = (hashlib.sha256(one).hexdigest()[:12] for one in (altered, content))
        message = f"{TRAIN_IMAGES}: truncated or altered: .*{seen}.* expected {expected}.*delete it"
        with pytest.raises(DatasetError, match=message) as caught:
            load_dataset(ImageConfig(name="mnist"), small[0])
        assert "\n" not in str(caught.value)


def test_only_missing_archives_are_fetched_and_without_a_network_one_line_says_what_to_do(small, tmp_path, monkeypatch):
    with pytest.raises(DatasetError) as caught:
        load_dataset(ImageConfig(name="mnist"), tmp_path / "empty")
    places = (*FILES.values(), str(tmp_path / "empty" / "MNIST" / "raw"), "'digits' works offline")
    assert "\n" not in str(caught.value) and all(place in str(caught.value) for place in places)
    path = small[0] / "MNIST" / "raw" / "t10k-labels-idx1-ubyte.gz"
    content, asked = path.read_bytes(), []
    path.unlink()
    with pytest.raises(DatasetError, match=r"mnist: missing t10k-labels-idx1-ubyte\.gz \(download failed"):
        load_dataset(ImageConfig(name="mnist"), small[0])

    def fetch(mirrors, target, sha256):
        asked.append((mirrors, target.name))
        target.write_bytes(content)

    monkeypatch.setattr(images, "download", fetch)
    assert len(load_dataset(ImageConfig(name="mnist"), small[0]).test) == 10
    assert asked == [(ARCHIVES["mnist"].mirrors, path.name)]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "first"), [("mnist", [5, 0, 4, 1, 9]), ("fashion_mnist", [9, 0, 0, 3, 0])])
def test_the_real_archives_give_the_real_images_and_those_that_version_0_1_read(name, first, data_dir):
    data = load_dataset(ImageConfig(name=name), data_dir)
    inputs = data.train.inputs
    assert inputs.shape == (60_000, 784) and data.test.inputs.shape == (10_000, 784) and data.n_outputs == 10
    # The published constants are mean and standard deviation of these very images.
    assert abs(inputs.mean(axis=1).mean(dtype=float)) < 1e-3
    assert abs(np.einsum("ij,ij->i", inputs, inputs).mean(dtype=float) / 784 - 1) < 1e-3
    assert data.train.labels[:5].tolist() == first
    if name == "mnist":
        assert data.sha256 == "4f0b1b7e031471a2e6b7ff1eb267f86acbf9a397723b387b0000df8c8fcc9f59"
        arrays = (array for split in (data.train, data.test) for array in (split.inputs, split.targets))
        assert array_sha256(*arrays) == "25f8809792143246c18f74fe12121ceb0a0ab8d42d3297477e4639c3df347894"


# Two data sets of images as one


def raw(seed, n_train, n_test):
    """Return made-up images of 2 x 3 pixels, of four classes."""
    random = np.random.default_rng(seed)
    sizes = (n_train, n_test)
    train, test = (RawSplit(random.integers(0, 256, (n, 6), np.uint8), np.arange(n, dtype=np.uint8) % 4) for n in sizes)
    return RawData(train, test, None, tuple("abcd" if seed else "0123"), (2, 3), UNIT_SCALING, f"{seed}" * 64)


@pytest.fixture
def parts(monkeypatch):
    made = {"mnist": raw(0, 20, 8), "fashion_mnist": raw(1, 28, 12)}
    monkeypatch.setattr(images, "load_images", lambda config, folder: made[config.name])
    for name in made:
        monkeypatch.setitem(LOADERS, name, lambda config, folder: made[config.name])
    return made


def load(**settings):
    return load_dataset(parse_dataset({"name": "joint", "of": OF, **settings}))


@pytest.mark.parametrize("of", [OF, OF[::-1]])
def test_rows_of_the_parts_follow_each_other_with_their_labels_and_pixels_from_0_to_1(parts, of):
    data = load(of=of)
    for name, split in data.splits.items():
        expected = [getattr(parts[part], name) for part in of]
        inputs = np.concatenate([part.inputs for part in expected])
        np.testing.assert_array_equal(split.inputs, (inputs / 255).astype(np.float32))
        np.testing.assert_array_equal(split.labels, np.concatenate([part.targets for part in expected]))
        np.testing.assert_array_equal(split.tasks, np.repeat([0, 1], [len(part.inputs) for part in expected]))
    assert data.class_names == ("0", "1", "2", "3") and data.image_shape == (2, 3)
    assert data.task == "classification" and data.n_outputs == 4
    sums = "".join(f"{parts[part].sha256}\n" for part in of)[:-1]
    assert data.sha256 == hashlib.sha256(sums.encode()).hexdigest()


def test_standard_scaling_is_by_mean_and_standard_deviation_of_the_pixels_of_both_parts(parts):
    for name, part in parts.items():  # each part has the constants of its own pixels
        train = part.train.rows(np.arange(20))
        pixels = train.inputs.astype(np.float64)
        parts[name] = replace(part, train=train, scaling=Scaling(pixels.mean(), pixels.std()))
    data = load(scaling="standard")
    assert float(data.train.inputs.mean()) == pytest.approx(0, abs=1e-6)
    assert float(data.train.inputs.std()) == pytest.approx(1)
    expected = np.concatenate([part.train.inputs for part in parts.values()])
    np.testing.assert_allclose(data.scaling.invert(data.train.inputs), expected, atol=1e-4)


@pytest.mark.parametrize(("validation", "apart"), [(8, (8, 8)), (0.25, (4, 8))])
def test_validation_rows_are_those_of_each_part_alone_and_a_sequence_has_the_same_rows(parts, validation, apart):
    with pytest.raises(DatasetError, match="validation: expected at most 16 rows"):
        load(validation=17)
    joint, sequence = (load(name=name, validation=validation, seed=3) for name in ("joint", "sequence"))
    assert np.bincount(joint.validation.tasks).tolist() == list(apart)
    assert joint.sha256 == sequence.sha256 and joint.config != sequence.config
    for number, part in enumerate(OF):
        alone = load_dataset(ImageConfig(name=part, scaling="unit", validation=validation, seed=3))
        for name, split in alone.splits.items():
            for together in (joint.splits[name], sequence.splits[name]):
                rows = together.tasks == number
                np.testing.assert_array_equal(together.inputs[rows], split.inputs)
                np.testing.assert_array_equal(together.labels[rows], split.labels)


# Downloads, from a server on this machine in place of the mirrors

CONTENT = b"official content" * 100_000
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class _Mirrors(BaseHTTPRequestHandler):
    """Each folder is a mirror of its own."""

    def do_GET(self):
        mirror = self.path.split("/")[1]
        content = {"good": CONTENT, "altered": b"altered" + CONTENT[7:], "cut": CONTENT[:1000]}.get(mirror, b"")
        self.send_response({"missing": 404, "moved": 301}.get(mirror, 200))
        self.send_header("Location", self.path.replace("moved", "good"))
        self.send_header("Content-Length", str(len(CONTENT) if content else 0))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments):
        pass


@pytest.fixture(scope="module")
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), _Mirrors) as served:
        threading.Thread(target=served.serve_forever, args=(0.01,), daemon=True).start()
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


@pytest.mark.parametrize(("mirrors", "reasons"), case_table("wrong_inputs")["mirrors"])
def test_a_failed_download_gives_one_line_with_each_reason_and_leaves_no_file(mirrors, reasons, server, tmp_path):
    with pytest.raises(DatasetError) as caught:
        download(mirrors.format(server=server).split(), tmp_path / "raw" / "labels.gz", SHA256)
    assert "\n" not in str(caught.value) and all(reason in str(caught.value) for reason in reasons)
    assert not (tmp_path / "raw").exists()


def test_the_mirrors_are_those_of_torchvision():
    spec = importlib.util.find_spec("torchvision")
    assert spec is not None and spec.origin is not None
    source = (Path(spec.origin).with_name("datasets") / "mnist.py").read_text(encoding="utf-8")
    assert all(f'"{mirror}"' in source for archives in ARCHIVES.values() for mirror in archives.mirrors)

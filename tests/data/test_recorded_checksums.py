"""The data of old runs is the same bit for bit: these checksums were recorded with version 0.1.0."""

import numpy as np
import pytest

from idwbench.data.loading import load_dataset
from idwbench.runs.datasets import parse_dataset

TABLE = "width,kind,height\n" + "".join(f"{i / 7:.3f},{'oak' if i % 4 else 'elm'},{i * i}\n" for i in range(20))
SMALL_MOONS = {"name": "two_moons", "seed": 3, "train_per_class": 7, "noise": 0.25, "holdout_per_class": 0}
OWN = {"name": "csv", "path": "own.csv", "label": "kind"}


@pytest.mark.parametrize(
    ("settings", "sha256"),
    [
        ({"name": "two_moons"}, "ebc3c670d9d2923b0e39e709a4ee491520f05a927bf9bfab7dac894c7c6987a1"),
        (SMALL_MOONS, "f1fd81fc4897bd9045ccd8ea0b8015f31963ce9428f0e4063a0ccbf1e36ab9b6"),
        ({"name": "digits"}, "4478e269dfbe049709060ee07fdf8e8d7b26ba6f18c90f00c827e8c73d56aef9"),
        (
            {"name": "digits", "seed": 4, "test_fraction": 0.3},
            "c06d36c91cbe47a84d4f24e0f5caedd5b9bffaadea0bf488791be563087565af",
        ),
        (OWN, "a42652edd18d6c6f26917d2b69300148c77937dab6d2b43256638f56cdc96a8d"),
        ({**OWN, "seed": 5, "scaling": "none"}, "17d260d8db5206c54c5c97a4bf42a2f408d8a3fe1003cb961aa4f5c3b966b77a"),
        ({"name": "rows.npz"}, "f0bf4e53eb628ea3d1d89d857565779250d9a7ef515a7ba51fa4bd93bb6a1c02"),
        ({"name": "images.npz"}, "cc153af505aa6c3aa93d5143afcca62dbff5ae2e9b0c0b1a76bf703de09c1efa"),
    ],
)
def test_data_has_the_recorded_checksum(settings, sha256, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.csv").write_text(TABLE)
    random, names = np.random.RandomState(0), ("X_train", "y_train", "X_test", "y_test")
    train, test = random.normal(5, 3, (40, 3)), random.normal(5, 3, (10, 3))
    np.savez("rows.npz", **dict(zip(names, (train, np.arange(40) % 3, test, np.arange(10) % 3), strict=True)))
    train, test = (random.randint(0, 256, (n, 5, 4)).astype("u1") for n in (40, 8))
    labels = [np.array(list("abcd" * n)) for n in (10, 2)]
    np.savez("images.npz", **dict(zip(names, (train, labels[0], test, labels[1]), strict=True)))
    assert load_dataset(parse_dataset(settings)).sha256 == sha256

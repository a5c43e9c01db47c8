"""The data of old runs is the same bit for bit: these checksums were recorded with version 0.1.0."""

import numpy as np
import pytest

from idwbench.data.loading import load_dataset
from idwbench.runs.datasets import CsvConfig, DigitsConfig, NpzConfig, TwoMoonsConfig

TABLE = "width,kind,height\n" + "".join(f"{i / 7:.3f},{'oak' if i % 4 else 'elm'},{i * i}\n" for i in range(20))


@pytest.mark.parametrize(
    ("config", "sha256"),
    [
        (TwoMoonsConfig(), "ebc3c670d9d2923b0e39e709a4ee491520f05a927bf9bfab7dac894c7c6987a1"),
        (
            TwoMoonsConfig(seed=3, train_per_class=7, noise=0.25, holdout_per_class=0),
            "f1fd81fc4897bd9045ccd8ea0b8015f31963ce9428f0e4063a0ccbf1e36ab9b6",
        ),
        (DigitsConfig(), "4478e269dfbe049709060ee07fdf8e8d7b26ba6f18c90f00c827e8c73d56aef9"),
        (DigitsConfig(seed=4, test_fraction=0.3), "c06d36c91cbe47a84d4f24e0f5caedd5b9bffaadea0bf488791be563087565af"),
    ],
)
def test_built_in_data(config, sha256):
    assert load_dataset(config).sha256 == sha256


@pytest.mark.parametrize(
    ("settings", "sha256"),
    [
        ({}, "a42652edd18d6c6f26917d2b69300148c77937dab6d2b43256638f56cdc96a8d"),
        ({"seed": 5, "scaling": "none"}, "17d260d8db5206c54c5c97a4bf42a2f408d8a3fe1003cb961aa4f5c3b966b77a"),
    ],
)
def test_a_table(settings, sha256, tmp_path):
    (tmp_path / "own.csv").write_text(TABLE)
    assert load_dataset(CsvConfig(path=str(tmp_path / "own.csv"), label="kind", **settings)).sha256 == sha256


def test_arrays_and_images(tmp_path):
    random = np.random.RandomState(0)
    rows = {
        "X_train": random.normal(5, 3, (40, 3)),
        "y_train": np.arange(40) % 3,
        "X_test": random.normal(5, 3, (10, 3)),
        "y_test": np.arange(10) % 3,
    }
    images = {
        "X_train": random.randint(0, 256, (40, 5, 4)).astype("u1"),
        "y_train": np.array(list("abcd" * 10)),
        "X_test": random.randint(0, 256, (8, 5, 4)).astype("u1"),
        "y_test": np.array(list("abcd" * 2)),
    }
    found = []
    for arrays in (rows, images):
        np.savez(tmp_path / "own.npz", **arrays)
        found.append(load_dataset(NpzConfig(path=str(tmp_path / "own.npz"))).sha256)
    assert found == [
        "f0bf4e53eb628ea3d1d89d857565779250d9a7ef515a7ba51fa4bd93bb6a1c02",
        "cc153af505aa6c3aa93d5143afcca62dbff5ae2e9b0c0b1a76bf703de09c1efa",
    ]

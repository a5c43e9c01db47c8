from __future__ import annotations

from pathlib import Path

import numpy as np


def test_a_workload_can_be_cut(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1]))
    from benchmarks.workloads import blobs, cut

    whole = blobs(20, 3, n_test=5)
    part = cut(whole, 4)
    np.testing.assert_array_equal(part.train.inputs, whole.train.inputs[:4])
    assert len(part.train) == 4 and len(part.test) == 1

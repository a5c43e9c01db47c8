import numpy as np

from benchmarks.stored_runs import fill_database, sweep_text
from benchmarks.workloads import blobs, cut
from idwbench.results.store import Results


def test_a_workload_can_be_cut():
    whole = blobs(20, 3, n_test=5)
    part = cut(whole, 4)
    np.testing.assert_array_equal(part.train.inputs, whole.train.inputs[:4])
    assert len(part.train) == 4 and len(part.test) == 1


def test_a_database_of_many_runs_has_the_runs_of_its_sweep_file(tmp_path):
    file, db = tmp_path / "many.yaml", tmp_path / "many.db"
    file.write_text(sweep_text(400, 1), encoding="utf-8")
    assert fill_database(file, db) == 400
    assert Results(db, read_only=True).sweep_status("many").complete == 400

from __future__ import annotations

import pandas
import pytest

from idwbench.errors import OutputError, OutputExistsError
from idwbench.exports.tables import export_table


@pytest.fixture(params=["csv", "parquet"])
def table(request, trained, keys, tmp_path):
    path = tmp_path / f"runs.{request.param}"
    assert export_table(trained, keys, path) == len(keys)
    # Before pandas 3.0 the last digits of a float are read only on demand; since 3.1 the argument is deprecated.
    exact = {"float_precision": "round_trip"} if pandas.__version__ < "3" else {}
    return pandas.read_csv(path, **exact) if request.param == "csv" else pandas.read_parquet(path)


def test_pandas_reads_what_the_data_frame_has(table, trained):
    frame = trained.to_frame()
    assert list(table.columns) == list(frame.columns)
    assert list(table["run_key"]) == list(frame["run_key"])
    for name in ("test_accuracy", "learning_rate", "seconds", "holdout_accuracy"):
        assert table[name].dropna().tolist() == frame[name].dropna().tolist()


def test_whole_numbers_stay_whole_and_a_column_of_numbers_and_words_is_text(table):
    assert table["prototypes"].dropna().astype(str).str.fullmatch(r"4(\.0)?").all()
    assert table["epochs"].dtype.kind == "i"
    assert table["bandwidth"].dropna().tolist() == ["loo", "0.5"]
    assert table["learning_rate"].dtype.kind == "f"


def test_a_parquet_file_has_types_for_missing_values_and_times(trained, keys, tmp_path):
    export_table(trained, keys, tmp_path / "runs.parquet")
    types = pandas.read_parquet(tmp_path / "runs.parquet", dtype_backend="numpy_nullable").dtypes
    assert str(types["prototypes"]) == "Int64" and str(types["state"]) in ("string", "str")
    assert str(types["finished_at"]).startswith("datetime64")


def test_no_curve_and_no_array_is_read(trained, keys, tmp_path):
    from sqlalchemy import Engine, event

    statements: list[str] = []
    event.listen(Engine, "before_cursor_execute", listener := lambda *arguments: statements.append(arguments[2]))
    export_table(trained, keys, tmp_path / "runs.csv")
    event.remove(Engine, "before_cursor_execute", listener)
    assert statements and not any("FROM arrays" in text or "FROM curves" in text for text in statements)


def test_a_file_is_replaced_only_on_request(trained, keys, tmp_path):
    path = tmp_path / "runs.csv"
    path.write_text("mine")
    with pytest.raises(OutputExistsError):
        export_table(trained, keys, path)
    assert path.read_text() == "mine"
    assert export_table(trained, keys[:1], path, overwrite=True) == 1
    assert len(pandas.read_csv(path)) == 1


def test_another_suffix_or_a_missing_package_is_refused(trained, keys, tmp_path, monkeypatch):
    with pytest.raises(OutputError, match=r"ending in \.csv or \.parquet"):
        export_table(trained, keys, tmp_path / "runs.xlsx")
    monkeypatch.setattr("idwbench.machine.find_spec", lambda name: None)
    with pytest.raises(OutputError, match=r"needs the Python package 'pyarrow' \(pip install 'idwbench\[parquet\]'\)"):
        export_table(trained, keys, tmp_path / "runs.parquet")
    assert list(tmp_path.iterdir()) == []

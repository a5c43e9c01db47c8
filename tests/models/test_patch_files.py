from __future__ import annotations

import pytest

from idwbench.errors import PatchError
from idwbench.models.patch_files import PatchLine, read_patch_file


def write(folder, content: str | bytes):
    path = folder / "patches.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    "content",
    [
        'x,label\n"0.0,1.0",upper\nmnist:test:17,5\n',
        '\ufeffx,label\r\n"0.0,1.0",upper\r\nmnist:test:17,5',
        'label, x\nupper, "0.0,1.0"\n5 , mnist:test:17 \n',
        "x;label\n0.0,1.0;upper\nmnist:test:17;5\n",
        "x\tlabel\n0.0,1.0\tupper\nmnist:test:17\t5\n",
    ],
)
def test_rows_are_texts_with_their_line(tmp_path, content):
    rows = read_patch_file(write(tmp_path, content))
    assert rows == [PatchLine("0.0,1.0", "upper", 2), PatchLine("mnist:test:17", "5", 3)]


def test_empty_lines_are_ignored_and_counted(tmp_path):
    assert [row.line for row in read_patch_file(write(tmp_path, "\nx,label\n\na.png,1\n,\nb.png,2\n"))] == [4, 6]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", ": is empty, expected the columns x and label"),
        ("x,label\n", ": has a header but no rows"),
        ("x,lable\n1,1\n", ":1: expected the columns x and label, got x, lable"),
        ("x,label,x\n1,1,1\n", ":1: expected the columns x and label, got x, label, x"),
        ("x,label\n0.0,1.0,upper\n", ':2: expected 2 columns, got 3 (numbers need quotes: "0.0,1.0",label)'),
        ("x,label\na.png,1\nb.png\n", ":3: expected 2 columns, got 1"),
        ("x,label\na.png,\n", ":2: label is missing"),
        ("x,label\n,1\n", ":2: x is missing"),
        ('x,label\na.png,1\n"0.0,1.0\n', ":3: not comma-separated values (unexpected end of data)"),
        (b"\xff\xfe\x00", ": not a text file in UTF-8"),
    ],
)
def test_a_file_that_is_wrong_is_refused_with_the_line(tmp_path, content, message):
    path = write(tmp_path, content)
    with pytest.raises(PatchError) as error:
        read_patch_file(path)
    assert str(error.value) == f"{path}{message}"


def test_a_file_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(PatchError, match=r"absent\.csv: no such file"):
        read_patch_file(tmp_path / "absent.csv")

import struct

import numpy as np
import pytest

from idwbench.data.images import parse_idx
from idwbench.errors import DatasetError


def idx(shape, values, kind=8):
    return bytes((0, 0, kind, len(shape))) + struct.pack(f">{len(shape)}I", *shape) + bytes(values)


def test_sizes_are_big_endian_and_the_last_axis_runs_fastest():
    found = parse_idx(idx((2, 1, 3), range(6)), "x")
    np.testing.assert_array_equal(found, np.arange(6).reshape(2, 1, 3))
    assert found.dtype == np.uint8


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not an IDX file"),
        (b"PK\x03\x04", "not an IDX file"),
        (idx((1,), [0], kind=0x0D), "not an IDX file of unsigned bytes"),
        (idx((2, 3), range(6))[:9], "ends within its header"),
        (idx((2, 3), range(5)), r"holds 5 values, its header has \(2, 3\)"),
        (idx((2, 3), range(7)), "holds 7 values"),
    ],
)
def test_another_content_is_refused_with_the_name_of_the_file(content, message):
    with pytest.raises(DatasetError, match="^images: .*" + message):
        parse_idx(content, "images")

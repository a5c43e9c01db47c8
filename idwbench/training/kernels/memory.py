"""Memory for kernels: aligned arrays, and reading ahead."""

from typing import Any, cast

import numba
import numpy as np
from numpy.typing import NDArray

from idwbench.training.kernels.jit import kernel

__all__ = ["aligned_zeros", "read_ahead"]

# Vector registers are up to 64 bytes wide; reading across the border of a cache line takes twice as long.
LINE_BYTES = 64
LINE_NUMBERS = LINE_BYTES // 4


def aligned_zeros(*shape: int) -> NDArray[np.float32]:
    """Return a new float32 array that starts at a cache line."""
    n_bytes = 4 * int(np.prod(shape))
    memory = np.zeros(n_bytes + LINE_BYTES, np.uint8)
    start = -memory.ctypes.data % LINE_BYTES
    return memory[start : start + n_bytes].view(np.float32).reshape(shape)


if getattr(numba.config, "DISABLE_JIT", False):

    @kernel
    def read_ahead(rows: NDArray[np.float32], row: int) -> None:
        """Do nothing."""

else:
    from llvmlite import ir
    from numba.core import cgutils as _cgutils
    from numba.core import types
    from numba.extending import intrinsic as _intrinsic

    cgutils, intrinsic = cast(Any, _cgutils), cast(Any, _intrinsic)

    def _prefetch(typing_context: Any, array: Any, place: Any) -> Any:
        """Ask for the cache line of a number, in an array seen as flat; nothing happens for a wrong place."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
            address = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(8).as_pointer())
            flag = ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [address.type, flag, flag, flag])
            function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
            # For reading, into the second level of the cache, as data.
            builder.call(function, [address, flag(0), flag(2), flag(1)])
            return context.get_dummy_value()

        return types.void(array, types.intp), generate

    _prefetch_number = intrinsic(_prefetch)

    @kernel
    def read_ahead(rows: NDArray[np.float32], row: int) -> None:
        """Begin to load one row of a C-contiguous array into the cache."""
        n = rows.shape[1]
        for place in range(row * n, (row + 1) * n, LINE_NUMBERS):
            _prefetch_number(rows, place)

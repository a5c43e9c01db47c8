"""Flush denormal numbers to zero while kernels run, since some processors compute with them many times slower.

The moments of Adam decay to denormal numbers where gradients are 0, as for border pixels of images. The setting is in
the control word of each thread: MXCSR on x86-64, FPCR on AArch64. On other processors nothing is set.
"""

import platform
from typing import Any, cast

import numba

from idwbench.training.kernels.jit import kernel

__all__ = ["CAN_FLUSH", "flush_denormals", "restore_denormals"]

_MACHINE = platform.machine().lower()
_IS_X86, _IS_ARM = _MACHINE in ("x86_64", "amd64"), _MACHINE in ("aarch64", "arm64")
# On x86 flush-to-zero (bit 15) is for results, denormals-are-zero (bit 6) for operands; one bit on ARM means both.
_FLAGS = 1 << 15 | 1 << 6 if _IS_X86 else 1 << 24

CAN_FLUSH = (_IS_X86 or _IS_ARM) and not getattr(numba.config, "DISABLE_JIT", False)

if CAN_FLUSH:
    from llvmlite import ir
    from numba.core import cgutils as _cgutils
    from numba.core import types
    from numba.extending import intrinsic as _intrinsic

    cgutils, intrinsic = cast(Any, _cgutils), cast(Any, _intrinsic)
    _WORD = ir.IntType(32) if _IS_X86 else ir.IntType(64)

    def _call_llvm(builder: Any, name: str, result: Any, *arguments: Any) -> Any:
        function_type = ir.FunctionType(result, [argument.type for argument in arguments])
        return builder.call(cgutils.get_or_insert_function(builder.module, function_type, name), arguments)

    def _place_of_word(builder: Any) -> tuple[Any, Any]:
        """Return memory for a control word on x86, and its address."""
        place = cgutils.alloca_once(builder, _WORD)
        return place, builder.bitcast(place, ir.IntType(8).as_pointer())

    def _read(typing_context: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            if not _IS_X86:
                return _call_llvm(builder, "llvm.aarch64.get.fpcr", _WORD)
            place, address = _place_of_word(builder)
            _call_llvm(builder, "llvm.x86.sse.stmxcsr", ir.VoidType(), address)
            return builder.zext(builder.load(place), ir.IntType(64))

        return types.uint64(), generate

    def _write(typing_context: Any, word: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            if _IS_X86:
                place, address = _place_of_word(builder)
                builder.store(builder.trunc(arguments[0], _WORD), place)
                _call_llvm(builder, "llvm.x86.sse.ldmxcsr", ir.VoidType(), address)
            else:
                _call_llvm(builder, "llvm.aarch64.set.fpcr", ir.VoidType(), arguments[0])
            return context.get_dummy_value()

        return types.void(types.uint64), generate

    _read_control_word, _write_control_word = intrinsic(_read), intrinsic(_write)

    @kernel
    def flush_denormals() -> int:
        """Flush denormal numbers to zero in this thread; return the previous control word."""
        before: int = _read_control_word()
        _write_control_word(before | _FLAGS)
        return before

    @kernel
    def restore_denormals(before: int) -> None:
        """Set the control word that `flush_denormals` returned."""
        _write_control_word(before)

else:

    @kernel
    def flush_denormals() -> int:
        """Do nothing."""
        return 0

    @kernel
    def restore_denormals(before: int) -> None:
        """Do nothing."""

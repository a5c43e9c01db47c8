"""An ONNX graph recorded from NumPy expressions.

A `GraphArray` takes part in NumPy's operators and functions, and each adds a node to its graph. All numbers are float64
unless they are cast.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import DTypeLike, NDArray
from onnx import NodeProto, TensorProto, helper, numpy_helper

__all__ = ["Graph", "GraphArray"]

_OPERATORS: dict[Any, str] = {
    np.add: "Add",
    np.subtract: "Sub",
    np.multiply: "Mul",
    np.true_divide: "Div",
    np.matmul: "MatMul",
    np.maximum: "Max",
    np.negative: "Neg",
    np.exp: "Exp",
    np.tanh: "Tanh",
    np.log: "Log",
    np.sqrt: "Sqrt",
    np.absolute: "Abs",
    np.equal: "Equal",
    np.greater: "Greater",
    np.greater_equal: "GreaterOrEqual",
    np.less_equal: "LessOrEqual",
    np.bitwise_or: "Or",
}


class Graph:
    """Nodes and constants of a graph, in the order in which they were added.

    Attributes:
        nodes: The nodes.
        constants: The constants.
    """

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = []
        self._names: dict[tuple[str, tuple[int, ...], bytes], str] = {}

    def add(self, operator: str, *operands: Any, name: str = "", **attributes: Any) -> GraphArray:
        """Add a node and return its result, with a name of its own if none is given; numbers become constants."""
        inputs = [part.name if isinstance(part, GraphArray) else self.constant(part).name for part in operands]
        result = name or f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [result], name=result, **attributes))
        return GraphArray(self, result)

    def constant(self, content: Any, name: str = "") -> GraphArray:
        """Return a constant; equal ones are stored once. Numbers of Python are float64."""
        array = np.asarray(content)
        array = array.astype(object) if array.dtype.kind == "U" else array
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._names:
            self._names[key] = name or f"constant_{len(self.constants)}"
            self.constants.append(numpy_helper.from_array(array.copy(), self._names[key]))  # it is contiguous
        return GraphArray(self, self._names[key], array.shape)


class GraphArray(NDArrayOperatorsMixin):
    """The result of a node, an input or a constant of a graph.

    Attributes:
        graph: The graph.
        name: The name in the graph.
        shape: The shape of a constant; empty for others.
        dtype: The type that numbers of an expression have.
    """

    dtype = np.dtype(np.float64)

    def __init__(self, graph: Graph, name: str, shape: Sequence[int] = ()) -> None:
        self.graph, self.name, self.shape = graph, name, tuple(shape)

    def __array_ufunc__(self, ufunc: Any, method: str, *operands: Any, **options: Any) -> Any:
        if method != "__call__" or options:
            return NotImplemented
        if ufunc is np.square:
            return self.graph.add("Mul", self, self)
        if ufunc is np.log1p:
            return self.graph.add("Log", self + 1.0)
        return self.graph.add(_OPERATORS[ufunc], *operands) if ufunc in _OPERATORS else NotImplemented

    def __array_function__(self, function: Any, types: Any, operands: Any, options: Any) -> Any:
        if function not in _FUNCTIONS:
            return NotImplemented
        return _FUNCTIONS[function](self.graph, *operands, **options)

    def swapaxes(self, axis: int, other: int) -> GraphArray:
        """Return the transpose of a matrix, whose two axes are given."""
        return self.graph.add("Transpose", self, perm=[1, 0])

    def astype(self, dtype: DTypeLike) -> GraphArray:
        """Return the same numbers in another type; the shape of a constant is kept."""
        cast = self.graph.add("Cast", self, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
        return GraphArray(self.graph, cast.name, self.shape)


def _axes(*axes: int) -> NDArray[np.int64]:
    return np.array(axes, np.int64)


_FUNCTIONS: dict[Any, Callable[..., GraphArray]] = {
    np.sum: lambda graph, array, axis, keepdims=False: graph.add(
        "ReduceSum", array, _axes(axis), keepdims=int(keepdims)
    ),
    np.max: lambda graph, array, axis, keepdims=False: graph.add(
        "ReduceMax", array, axes=[axis], keepdims=int(keepdims)
    ),
    np.where: lambda graph, condition, left, right: graph.add("Where", condition, left, right),
    np.expand_dims: lambda graph, array, axis: graph.add("Unsqueeze", array, _axes(axis)),
    np.concatenate: lambda graph, arrays, axis: graph.add("Concat", *arrays, axis=axis),
}

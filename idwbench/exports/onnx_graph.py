"""An ONNX graph recorded from NumPy expressions, and the score of a plugin in it, as PyTorch traces it.

A `GraphArray` takes part in NumPy's operators and functions, and each adds a node to its graph. All numbers are float64
unless they are cast.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import onnx
import torch
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import DTypeLike, NDArray
from onnx import NodeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from torch import nn
from torch.onnx import register_custom_op_symbolic  # type: ignore[attr-defined]

from idwbench.attention.records import Method
from idwbench.errors import OutputError, error_summary

__all__ = ["OPSET", "Graph", "GraphArray", "traced_score"]

OPSET = 17  # of 2022, which the runtimes in use read
# Rows and scale of the inputs that are traced, and of those with which the graph is compared: a loop over rows would
# have been unrolled, and of an ``if`` one branch taken.
_TRACED, _COMPARED = (3, 1.0), ((7, 1.0), (1, 0.01), (40, 100.0))
_OPERATORS = {
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
        return self.__array_function__(ufunc, (), operands, options) if method == "__call__" else NotImplemented

    def __array_function__(self, function: Any, types: Any, operands: Any, options: Any) -> Any:
        if function in _OPERATORS:
            return self.graph.add(_OPERATORS[function], *operands, **options)
        return _FUNCTIONS[function](self.graph, *operands, **options) if function in _FUNCTIONS else NotImplemented

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
    np.square: lambda graph, array: graph.add("Mul", array, array),
    np.log1p: lambda graph, array: graph.add("Log", array + 1.0),
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


class _Score(nn.Module):
    def __init__(self, method: Method, arguments: dict[str, Any]) -> None:
        super().__init__()
        self.method, self.arguments = method, arguments

    def forward(self, inputs: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.method.score(inputs, keys, **self.arguments)
        return scores


def traced_score(method: Method) -> Callable[..., GraphArray]:
    """Return the score of a plugin's method as a function (inputs, keys, **parameters) of arrays of a graph.

    The function adds the operators to the graph that the score applies to tensors (batch, features) and
    (prototypes, features) of float64.

    Raises:
        OutputError: by the function, if PyTorch cannot write the score as ONNX, or the score depends on the values of
            its inputs, or on the number of rows, in another way than by operators, such as an ``if``.
    """

    def score(inputs: GraphArray, keys: GraphArray, **arguments: Any) -> GraphArray:
        traced = _trace(method, arguments, keys.shape)
        return _inlined(inputs.graph, traced, {"inputs": inputs.name, "keys": keys.name})

    return score


def _trace(method: Method, arguments: dict[str, Any], shape: tuple[int, ...]) -> onnx.GraphProto:
    """Return the graph from ``inputs`` and ``keys`` of a shape to the scores."""
    generator = torch.Generator().manual_seed(0)
    inputs, *others = (
        scale * torch.randn(rows, shape[1], generator=generator, dtype=torch.float64)
        for rows, scale in (_TRACED, *_COMPARED)
    )
    keys = torch.randn(shape, generator=generator, dtype=torch.float64)
    module, file = _Score(method, arguments), io.BytesIO()
    try:
        with _silent():
            register_custom_op_symbolic("aten::mT", _transposed, OPSET)
            torch.onnx.export(
                module,
                (inputs, keys),
                file,  # type: ignore[arg-type]  # the exporter by traces takes files too
                input_names=["inputs", "keys"],
                dynamic_axes={"inputs": {0: "batch"}},
                opset_version=OPSET,
                dynamo=False,
            )
        model = onnx.load_from_string(file.getvalue())
        for other in others:
            arrays = {"inputs": other.numpy(), "keys": keys.numpy()}
            names = [one.name for one in model.graph.input]  # without those that the score does not use
            [found] = list(ReferenceEvaluator(model).run(None, {name: arrays[name] for name in names}))
            if not np.allclose(found, module(other, keys).detach().numpy(), rtol=1e-6, atol=1e-9, equal_nan=True):
                raise ValueError("it is no fixed sequence of operators")
    except Exception as error:  # the code of a plugin, and the exporter, can raise any exception
        problem = f"the score of '{method.name}' cannot be written as ONNX: {error_summary(error)}"
        raise OutputError(problem, hint="save the model as .pt or .safetensors") from None
    return model.graph


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Hide what the exporter prints, also from compiled code: graphs, and that another exporter needs more packages."""
    sys.stdout.flush()
    stdout = os.dup(1)
    try:
        with warnings.catch_warnings(), open(os.devnull, "w", encoding="utf-8") as nowhere:
            warnings.simplefilter("ignore")
            os.dup2(nowhere.fileno(), 1)
            yield
    finally:
        os.dup2(stdout, 1)
        os.close(stdout)


def _transposed(context: Any, matrix: Any) -> Any:
    """Swap the last two axes, for which the exporter has no operator."""
    axes = list(range(matrix.type().dim()))
    return context.op("Transpose", matrix, perm_i=[*axes[:-2], axes[-1], axes[-2]])


def _inlined(graph: Graph, traced: onnx.GraphProto, names: dict[str, str]) -> GraphArray:
    """Add the nodes of another graph, whose inputs have other names here, and return its result."""
    for constant in traced.initializer:
        names[constant.name] = graph.constant(numpy_helper.to_array(constant)).name
    for node in traced.node:
        for result in node.output:
            names[result] = f"score_{len(names)}"
        node.input[:] = [names[name] if name else "" for name in node.input]
        node.output[:] = [names[name] for name in node.output]
        node.name = node.output[0]
        graph.nodes.append(node)
    scores = GraphArray(graph, names[traced.output[0].name])
    return scores.astype(np.float64)

"""The score of a plugin in an ONNX graph, as PyTorch traces it."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator
from torch import nn
from torch.onnx import register_custom_op_symbolic  # type: ignore[attr-defined]

from idwbench.attention.records import Method
from idwbench.errors import OutputError, error_summary
from idwbench.exports.onnx_graph import Graph, GraphArray

__all__ = ["OPSET", "traced_score"]

OPSET = 17  # of 2022, which the runtimes in use read
# Rows and scale of the inputs that are traced, and of those with which the graph is compared: a loop over rows would
# have been unrolled, and of an ``if`` one branch taken.
_TRACED, _COMPARED = (3, 1.0), ((7, 1.0), (1, 0.01), (40, 100.0))


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

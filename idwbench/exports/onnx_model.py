"""Trained models as ONNX files: from inputs in the data's own units to labels and probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, ValueInfoProto, checker, helper
from torch import nn

import idwbench
from idwbench.data.dataset import Dataset, Scaling
from idwbench.errors import OutputError
from idwbench.exports.array_model import ArrayModel, network_arrays
from idwbench.exports.onnx_graph import Graph, GraphArray
from idwbench.models.array_weights import softmax
from idwbench.models.model_card import CARD_NAME, card_text
from idwbench.models.modules import PrototypeNetwork
from idwbench.models.networks import Conv, Mlp, Network

__all__ = ["network_content", "onnx_content"]

_OPSET, _FORMAT = 17, 8  # of 2022, which the runtimes in use read
_LARGEST = 2**31 - 2**24  # bytes; a message of protobuf cannot exceed 2 GiB

# An array (batch, columns) of a graph in float64, and its number of columns.
Columns = tuple[GraphArray, int]


def onnx_content(model: ArrayModel) -> bytes:
    """Return the bytes of an ONNX file.

    The input is ``inputs`` (batch, features), float32, in the data's own units; images are flattened row by row. The
    outputs of a classification are ``label`` (batch,), the names of classes, ``class_index`` (batch,), ``logits`` and
    ``probabilities`` (batch, classes), and those of a regression ``predictions`` (batch, outputs), float64, in the
    targets' own units. Both have the ``weights`` (batch, prototypes). A runtime computes only the outputs that are
    asked for.

    The graph scales the inputs in float64, rounds them to float32, as the model does, and continues in float64.
    Distances are computed by differences, which take batch · prototypes · features · 8 bytes.
    """
    graph = Graph()
    answers = _prototype_answers(graph, model, _scaled_inputs(graph, model.scaling))
    return _file(graph, answers, model.keys.shape[1], model.class_names, model.target_scaling, model.card)


def network_content(network: Network, dataset: Dataset, card: dict[str, Any]) -> bytes:
    """Return the bytes of an ONNX file with the inputs and outputs of `onnx_content`.

    Layers ``mlp``, and heads, are computed in float64; convolutions in float32, since runtimes have no others. A linear
    head has no weights.

    Raises:
        OutputError: the encoder is ``vit_tiny``, or a plugin defines the method of the head.
    """
    graph = Graph()
    features = _encoded(graph, network.encoder, _scaled_inputs(graph, dataset.scaling))
    if isinstance(network.head, PrototypeNetwork):
        scalings = Scaling.identity(), dataset.target_scaling
        head = network_arrays(network.head, *scalings, dataset.class_names, card)
        answers = _prototype_answers(graph, head, features)
    else:
        assert isinstance(network.head, nn.Linear)
        answers = [(_linear(graph, network.head, features), dataset.n_outputs)]
    return _file(graph, answers, dataset.n_features, dataset.class_names, dataset.target_scaling, card)


def _scaled_inputs(graph: Graph, scaling: Scaling) -> GraphArray:
    """Return the inputs of a graph, scaled to float32, in float64."""
    mean, std = graph.constant(scaling.mean, "mean"), graph.constant(scaling.std, "std")
    scaled: GraphArray = (GraphArray(graph, "inputs").astype(np.float64) - mean) / std
    return scaled.astype(np.float32).astype(np.float64)


def _prototype_answers(graph: Graph, model: ArrayModel, inputs: GraphArray) -> list[Columns]:
    """Return outputs and weights of prototypes for scaled inputs, or for features."""
    keys, values = (graph.constant(getattr(model, name), name).astype(np.float64) for name in ("keys", "values"))
    weights = model.weights(inputs, keys)
    return [(weights @ values, model.values.shape[1]), (weights, len(model.keys))]


def _encoded(graph: Graph, encoder: nn.Module, inputs: GraphArray) -> GraphArray:
    if isinstance(encoder, Mlp):
        for linear in encoder.layers.layers.values():
            inputs = graph.add("Relu", _linear(graph, linear, inputs))
        return inputs
    if not isinstance(encoder, Conv):
        raise OutputError("an encoder vit_tiny cannot be exported", hint="supported are mlp and conv")
    shape = np.array([-1, 1, *encoder.image_shape], np.int64)
    images = graph.add("Reshape", inputs.astype(np.float32), shape)
    for layer in encoder.layers:
        assert isinstance(layer, nn.Conv2d)
        sizes: dict[str, Any] = {"strides": list(layer.stride), "pads": [1, 1, 1, 1]}
        images = graph.add("Relu", graph.add("Conv", images, _array(layer.weight), _array(layer.bias), **sizes))
    return graph.add("ReduceMean", images, axes=[2, 3], keepdims=0).astype(np.float64)


def _linear(graph: Graph, layer: nn.Linear, inputs: GraphArray) -> GraphArray:
    weight, bias = (graph.constant(_array(part)).astype(np.float64) for part in (layer.weight, layer.bias))
    outputs: GraphArray = inputs @ weight.swapaxes(-1, -2) + bias
    return outputs


def _array(parameter: Any) -> Any:
    return parameter.detach().cpu().numpy()


def _file(
    graph: Graph,
    answers: Sequence[Columns],
    n_features: int,
    class_names: tuple[str, ...],
    target_scaling: Scaling,
    card: dict[str, Any],
) -> bytes:
    """Return the bytes of a file with a graph, whose answers become named outputs, and with a model card.

    The answers are logits or scaled predictions and, of prototypes, their weights.

    Raises:
        OutputError: the file would exceed 2 GiB.
    """
    if sum(constant.ByteSize() for constant in graph.constants) > _LARGEST:
        raise OutputError("the model is too large for one .onnx file, which has at most 2 GiB")
    first, *others = answers
    outputs = _labels(graph, *first, class_names) if class_names else _predictions(graph, *first, target_scaling)
    outputs += [_float32(graph, "weights", *weights) for weights in others]
    given = helper.make_tensor_value_info("inputs", TensorProto.FLOAT, ["batch", n_features])
    made = helper.make_graph(graph.nodes, str(card["kind"]), [given], outputs, initializer=graph.constants)
    content = helper.make_model(
        made,
        opset_imports=[helper.make_opsetid("", _OPSET)],
        ir_version=_FORMAT,
        producer_name="idwbench",
        producer_version=idwbench.__version__,
        doc_string=str(card["model"]),
    )
    helper.set_model_props(content, {CARD_NAME: card_text(card)})
    checker.check_model(content, full_check=True)
    return bytes(content.SerializeToString(deterministic=True))


def _labels(graph: Graph, outputs: GraphArray, n_classes: int, class_names: tuple[str, ...]) -> list[ValueInfoProto]:
    logits = _float32(graph, "logits", outputs, n_classes)
    index = graph.add("ArgMax", GraphArray(graph, "logits"), name="class_index", axis=1, keepdims=0)
    graph.add("Gather", graph.constant(np.array(class_names), "class_names"), index, name="label")
    probabilities: Any = softmax(outputs)  # type: ignore[arg-type]  # it is recorded
    return [
        helper.make_tensor_value_info("label", TensorProto.STRING, ["batch"]),
        helper.make_tensor_value_info("class_index", TensorProto.INT64, ["batch"]),
        logits,
        _float32(graph, "probabilities", probabilities, n_classes),
    ]


def _predictions(graph: Graph, outputs: GraphArray, n_outputs: int, scaling: Scaling) -> list[ValueInfoProto]:
    graph.add("Identity", outputs * scaling.std + scaling.mean, name="predictions")
    return [helper.make_tensor_value_info("predictions", TensorProto.DOUBLE, ["batch", n_outputs])]


def _float32(graph: Graph, name: str, array: GraphArray, columns: int) -> ValueInfoProto:
    graph.add("Cast", array, name=name, to=TensorProto.FLOAT)
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", columns])

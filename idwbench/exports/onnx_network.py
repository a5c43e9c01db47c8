"""A network of an encoder and a head as an ONNX model."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import nn

from idwbench.data.dataset import Dataset
from idwbench.errors import OutputError
from idwbench.exports.array_model import head_arrays
from idwbench.exports.onnx_graph import Graph, GraphArray
from idwbench.exports.onnx_model import OnnxAnswers, onnx_file, prototype_answers, scaled_inputs
from idwbench.models.modules import PrototypeNetwork
from idwbench.models.networks import Conv, Mlp, Network

__all__ = ["network_content"]


def network_content(network: Network, dataset: Dataset, card: dict[str, Any]) -> bytes:
    """Return the bytes of an ONNX file with the inputs and outputs of `onnx_content`.

    Layers ``mlp``, and heads, are computed in float64; convolutions in float32, since runtimes have no others. A linear
    head has no weights.

    Raises:
        OutputError: the encoder is ``vit_tiny``, or a plugin defines the method of the head.
    """
    graph = Graph()
    features = _encoded(graph, network.encoder, scaled_inputs(graph, dataset.scaling))
    if isinstance(network.head, PrototypeNetwork):
        answers = prototype_answers(graph, head_arrays(network.head, dataset, card), features)
    else:
        assert isinstance(network.head, nn.Linear)
        answers = OnnxAnswers(_linear(graph, network.head, features), dataset.n_outputs)
    return onnx_file(graph, answers, dataset.n_features, dataset.class_names, dataset.target_scaling, card)


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

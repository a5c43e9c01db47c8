"""Trained models as ONNX files: from inputs in the data's own units to labels and probabilities."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from onnx import TensorProto, ValueInfoProto, checker, helper
from torch import nn

import idwbench
from idwbench.attention.slopes import slope_terms
from idwbench.data.dataset import Dataset
from idwbench.errors import OutputError
from idwbench.exports.array_model import array_model
from idwbench.exports.onnx_graph import OPSET, Graph, GraphArray, traced_score
from idwbench.models.array_weights import softmax
from idwbench.models.model_card import CARD_NAME, card_text
from idwbench.models.modules import PrototypeNetwork
from idwbench.models.networks import Conv, Mlp, Network
from idwbench.models.patches import PatchPrototypes
from idwbench.models.saved_model import SavedModel

__all__ = ["onnx_content"]

_FORMAT = 8  # of the same year as the operator set
_LARGEST = 2**31 - 2**24  # bytes; a message of protobuf cannot exceed 2 GiB


def onnx_content(
    network: PrototypeNetwork | Network,
    units: SavedModel | Dataset,
    card: dict[str, Any],
    patches: PatchPrototypes | None = None,
) -> bytes:
    """Return the bytes of an ONNX file.

    The input is ``inputs`` (batch, features), float32, in the data's own units; images are flattened row by row. The
    outputs of a classification are ``label`` (batch,), the names of classes, ``class_index`` (batch,), ``logits`` and
    ``probabilities`` (batch, classes), and those of a regression ``predictions`` (batch, outputs), float64, in the
    targets' own units. Prototypes have the ``weights`` (batch, prototypes). A runtime computes only the outputs that
    are asked for.

    The graph scales the inputs in float64, rounds them to float32, as the model does, and continues in float64, but for
    convolutions, which runtimes have in float32 only. Distances are computed by differences, which take
    batch · prototypes · features · 8 bytes.

    Args:
        network: A prototype network, or a network with an encoder and a head.
        units: What has the scaling of inputs and targets, and the names of classes.
        card: The model card, which the file has too.
        patches: Those of the prototype network, or of the head.

    Raises:
        OutputError: the encoder is ``vit_tiny``, PyTorch cannot trace the score of a plugin, the score of the head has
            learned numbers that are no parameters of the method, or the file would exceed 2 GiB.
    """
    graph = Graph()
    mean, std = graph.constant(units.scaling.mean, "mean"), graph.constant(units.scaling.std, "std")
    scaled: GraphArray = (GraphArray(graph, "inputs").astype(np.float64) - mean) / std
    inputs = scaled.astype(np.float32).astype(np.float64)
    head: nn.Module = network
    if isinstance(network, Network):
        inputs, head = _encoded(graph, network.encoder, inputs), network.head
    if isinstance(head, PrototypeNetwork):
        answers, outputs = _prototype_answers(graph, head, patches, inputs)
    else:
        assert isinstance(head, nn.Linear)
        answers, outputs = _linear(graph, head, inputs), []
    if sum(constant.ByteSize() for constant in graph.constants) > _LARGEST:
        raise OutputError("the model is too large for one .onnx file, which has at most 2 GiB")
    if units.class_names:
        outputs = [*_labels(graph, answers, units.class_names), *outputs]
    else:
        targets = answers * units.target_scaling.std + units.target_scaling.mean
        outputs = [_output(graph, "predictions", targets, units.n_outputs, TensorProto.DOUBLE), *outputs]
    given = helper.make_tensor_value_info("inputs", TensorProto.FLOAT, ["batch", units.n_features])
    content = helper.make_model(
        helper.make_graph(graph.nodes, str(card["kind"]), [given], outputs, initializer=graph.constants),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=_FORMAT,
        producer_name="idwbench",
        producer_version=idwbench.__version__,
        doc_string=str(card["model"]),
    )
    helper.set_model_props(content, {CARD_NAME: card_text(card)})
    checker.check_model(content, full_check=True)
    return bytes(content.SerializeToString(deterministic=True))


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


def _prototype_answers(
    graph: Graph, network: PrototypeNetwork, patches: PatchPrototypes | None, inputs: GraphArray
) -> tuple[GraphArray, list[ValueInfoProto]]:
    """Return the answers of prototypes for scaled inputs, or for features, and their weights as an output."""
    model = array_model(network.plain(OutputError), patches, takes_plugins=True)
    keys = graph.constant(model.keys, "keys").astype(np.float64)
    values = graph.constant(model.all_values, "values").astype(np.float64)
    if model.method.sha256 is not None:
        model = replace(model, method=replace(model.method, score=traced_score(model.method)))
    weights = model.weights_of(inputs, keys)
    answers: GraphArray = weights @ values
    if (slopes := model.all_slopes) is not None:
        constants = slopes._replace(
            inputs=graph.constant(slopes.inputs, "slope_inputs"),
            at_keys=graph.constant(slopes.at_keys, "slopes_at_keys"),
            outputs=graph.constant(slopes.outputs, "slope_outputs"),
        )
        answers = answers + slope_terms(weights, inputs, *constants)
    return answers, [_output(graph, "weights", weights, len(model.all_keys))]


def _linear(graph: Graph, layer: nn.Linear, inputs: GraphArray) -> GraphArray:
    weight, bias = (graph.constant(_array(part)).astype(np.float64) for part in (layer.weight, layer.bias))
    outputs: GraphArray = inputs @ weight.swapaxes(-1, -2) + bias
    return outputs


def _array(parameter: Any) -> Any:
    return parameter.detach().cpu().numpy()


def _labels(graph: Graph, logits: GraphArray, class_names: tuple[str, ...]) -> list[ValueInfoProto]:
    probabilities: Any = softmax(logits)  # type: ignore[arg-type]  # it is recorded
    named = {"logits": logits, "probabilities": probabilities}
    numbers = [_output(graph, name, array, len(class_names)) for name, array in named.items()]
    index = graph.add("ArgMax", GraphArray(graph, "logits"), name="class_index", axis=1, keepdims=0)
    graph.add("Gather", graph.constant(np.array(class_names), "class_names"), index, name="label")
    types = {"label": TensorProto.STRING, "class_index": TensorProto.INT64}
    return [*(helper.make_tensor_value_info(name, kind, ["batch"]) for name, kind in types.items()), *numbers]


def _output(graph: Graph, name: str, array: GraphArray, columns: int, kind: int = TensorProto.FLOAT) -> ValueInfoProto:
    """Add an output (batch, columns) of float32 or another type."""
    graph.add("Cast", array, name=name, to=kind)
    return helper.make_tensor_value_info(name, kind, ["batch", columns])

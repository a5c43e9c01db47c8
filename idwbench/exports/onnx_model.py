"""A prototype network as an ONNX model: from inputs in the data's own units to labels and probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto, ValueInfoProto, checker, helper

import idwbench
from idwbench.data.dataset import Scaling
from idwbench.errors import OutputError
from idwbench.exports.array_model import ArrayModel
from idwbench.exports.onnx_graph import Graph, GraphArray
from idwbench.models.array_weights import softmax
from idwbench.models.model_card import CARD_NAME, card_text

__all__ = ["OnnxAnswers", "onnx_content", "onnx_file", "prototype_answers", "scaled_inputs"]

_OPSET, _FORMAT = 17, 8  # of 2022, which the runtimes in use read
_LARGEST = 2**31 - 2**24  # bytes; a message of protobuf cannot exceed 2 GiB


@dataclass(frozen=True)
class OnnxAnswers:
    """What a graph computes, in float64.

    Attributes:
        outputs: (batch, outputs), logits or scaled predictions.
        n_outputs: Number of outputs.
        weights: (batch, prototypes), or None.
        n_prototypes: Number of prototypes.
    """

    outputs: GraphArray
    n_outputs: int
    weights: GraphArray | None = None
    n_prototypes: int = 0


def onnx_content(model: ArrayModel) -> bytes:
    """Return the bytes of an ONNX file.

    The input is ``inputs`` (batch, features), float64, in the data's own units; images are flattened row by row. The
    outputs of a classification are ``label`` (batch,), the names of classes, ``class_index`` (batch,), ``logits`` and
    ``probabilities`` (batch, classes), and those of a regression ``predictions`` (batch, outputs), float64, in the
    targets' own units. Both have the ``weights`` (batch, prototypes). A runtime computes only the outputs that are
    asked for.

    The graph scales the inputs to float32, as the model does, and continues in float64. Distances are computed by
    differences, which take batch · prototypes · features · 8 bytes.
    """
    graph = Graph()
    answers = prototype_answers(graph, model, scaled_inputs(graph, model.scaling))
    return onnx_file(graph, answers, model.keys.shape[1], model.class_names, model.target_scaling, model.card)


def scaled_inputs(graph: Graph, scaling: Scaling) -> GraphArray:
    """Return the inputs of a graph, scaled to float32, in float64."""
    mean, std = graph.constant(scaling.mean, "mean"), graph.constant(scaling.std, "std")
    scaled: GraphArray = (GraphArray(graph, "inputs") - mean) / std
    return scaled.astype(np.float32).astype(np.float64)


def prototype_answers(graph: Graph, model: ArrayModel, inputs: GraphArray) -> OnnxAnswers:
    """Return weights and outputs of prototypes for scaled inputs, or for features."""
    keys, values = (graph.constant(getattr(model, name), name).astype(np.float64) for name in ("keys", "values"))
    weights = model.weights(inputs, keys)
    return OnnxAnswers(weights @ values, model.values.shape[1], weights, len(model.keys))


def onnx_file(
    graph: Graph,
    answers: OnnxAnswers,
    n_features: int,
    class_names: tuple[str, ...],
    target_scaling: Scaling,
    card: dict[str, Any],
) -> bytes:
    """Return the bytes of a file with a graph, whose answers become named outputs, and with a model card.

    Raises:
        OutputError: the file would exceed 2 GiB.
    """
    if sum(constant.ByteSize() for constant in graph.constants) > _LARGEST:
        raise OutputError("the model is too large for one .onnx file, which has at most 2 GiB")
    outputs = _labels(graph, answers, class_names) if class_names else _predictions(graph, answers, target_scaling)
    if answers.weights is not None:
        outputs.append(_float32(graph, "weights", answers.weights, answers.n_prototypes))
    given = helper.make_tensor_value_info("inputs", TensorProto.DOUBLE, ["batch", n_features])
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


def _labels(graph: Graph, answers: OnnxAnswers, class_names: tuple[str, ...]) -> list[ValueInfoProto]:
    logits = _float32(graph, "logits", answers.outputs, answers.n_outputs)
    index = graph.add("ArgMax", GraphArray(graph, "logits"), name="class_index", axis=1, keepdims=0)
    graph.add("Gather", graph.constant(np.array(class_names), "class_names"), index, name="label")
    probabilities: Any = softmax(answers.outputs)  # type: ignore[arg-type]  # it is recorded
    return [
        helper.make_tensor_value_info("label", TensorProto.STRING, ["batch"]),
        helper.make_tensor_value_info("class_index", TensorProto.INT64, ["batch"]),
        logits,
        _float32(graph, "probabilities", probabilities, answers.n_outputs),
    ]


def _predictions(graph: Graph, answers: OnnxAnswers, scaling: Scaling) -> list[ValueInfoProto]:
    graph.add("Identity", answers.outputs * scaling.std + scaling.mean, name="predictions")
    return [helper.make_tensor_value_info("predictions", TensorProto.DOUBLE, ["batch", answers.n_outputs])]


def _float32(graph: Graph, name: str, array: GraphArray, columns: int) -> ValueInfoProto:
    graph.add("Cast", array, name=name, to=TensorProto.FLOAT)
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", columns])

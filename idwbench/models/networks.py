"""`Network`: an encoder from inputs to learned features, and a head from features to outputs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from idwbench.attention.learned_scores import LearnedScore
from idwbench.attention.records import LEARNED_NUMBERS
from idwbench.attention.sequences import MethodScore
from idwbench.data.dataset import Dataset, Split, TrainingData
from idwbench.data.loading import load_dataset
from idwbench.models.array_weights import ArrayNetwork
from idwbench.models.initialisation import check_prototypes, initial_prototypes, learned_arrays
from idwbench.models.modules import PrototypeNetwork, RowModule, complete_run, parameter_arrays, with_parameters
from idwbench.models.neighbours import PrototypeQuality, nearest
from idwbench.models.patch_comparison import compare_ways
from idwbench.models.patch_study import study_patches
from idwbench.models.perceptron import MultilayerPerceptron
from idwbench.models.transformer import Transformer
from idwbench.results.store import Results
from idwbench.runs.kinds.network import LINEAR, NetworkConfig, check_encoder

if TYPE_CHECKING:
    from idwbench.models.patched_network import PatchedNetwork

__all__ = [
    "Conv",
    "Mlp",
    "Network",
    "VitTiny",
    "check_network",
    "head_metrics",
    "initial_network",
    "load_network",
    "nearest_rows",
    "network_from_arrays",
]

Values = dict[tuple[str, str], float]

POSITION_STD = 0.5  # of the order of the projected pixels, so that tokens differ by place from the start


def check_network(model: NetworkConfig, dataset: Dataset) -> None:
    """Check that the encoder supports the data, and that there are enough training inputs for the prototypes.

    Raises:
        ConfigError: it needs images, or its patches do not divide them; or as `check_prototypes`.
    """
    check_encoder(model, dataset.image_shape)
    if model.prototypes:
        check_prototypes(model, dataset)


class Mlp(RowModule):
    """`depth` layers h ← relu(W h + b) with `width` units each; the last h is the output."""

    def __init__(self, model: NetworkConfig, n_features: int, generator: torch.Generator) -> None:
        super().__init__()
        names = [str(number) for number in range(model.depth)]
        self.layers = MultilayerPerceptron([n_features, *[model.width] * model.depth], names)
        self.n_outputs = model.width
        _initialise_layers(self, generator)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return features (batch, width) of inputs (batch, n_features)."""
        features: Tensor = self.layers(inputs).relu()
        return features


class Conv(RowModule):
    """`depth` convolutions 3 x 3 with a ReLU each, and the mean over all places of the last one.

    The first layer has `width` channels; each further one has twice the channels of the one before and halves the
    sides of the image (stride 2, rounded up).
    """

    def __init__(self, model: NetworkConfig, image_shape: tuple[int, int], generator: torch.Generator) -> None:
        super().__init__()
        self.image_shape = image_shape
        channels = [1, *(model.width * 2**i for i in range(model.depth))]
        self.layers = nn.ModuleList(
            nn.Conv2d(channels[i], channels[i + 1], kernel_size=3, stride=2 if i else 1, padding=1)
            for i in range(model.depth)
        )
        self.n_outputs = channels[-1]
        _initialise_layers(self, generator)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return features (batch, channels of the last layer) of inputs (batch, pixels)."""
        images = inputs.view(len(inputs), 1, *self.image_shape)
        for layer in self.layers:
            images = layer(images).relu()
        return images.mean((2, 3))


class VitTiny(RowModule):
    """A vision transformer (Dosovitskiy et al. 2021, *An Image is Worth 16x16 Words*) without class token.

    The pixels of each square patch of the image are projected to a token, learned positions are added, transformer
    blocks follow, and the output is the mean of the tokens.
    """

    def __init__(self, model: NetworkConfig, image_shape: tuple[int, int], generator: torch.Generator) -> None:
        super().__init__()
        assert model.patch is not None and model.heads is not None and model.attention is not None
        patch, width = model.patch, model.width
        self.grid, self.patch = (image_shape[0] // patch, image_shape[1] // patch), patch
        self.embedding = nn.Linear(patch * patch, width)
        self.positions = nn.Parameter(torch.empty(self.grid[0] * self.grid[1], width))
        options: dict[str, Any] = {"generator": generator, **model.attention_parameters, **model.attention_learned}
        options["weighting"] = model.attention_weighting or "softmax"
        self.transformer = Transformer(model.depth, width, model.heads, model.attention, **options)
        self.n_outputs = width
        nn.init.normal_(self.embedding.weight, std=(patch * patch) ** -0.5, generator=generator)
        nn.init.zeros_(self.embedding.bias)
        nn.init.normal_(self.positions, std=POSITION_STD, generator=generator)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return features (batch, width) of inputs (batch, pixels)."""
        tokens = self.embedding(self.patches(inputs)) + self.positions
        features: Tensor = self.transformer(tokens).mean(1)
        return features

    def patches(self, inputs: Tensor) -> Tensor:
        """Return the pixels of each patch, (batch, patches, pixels of a patch), row by row."""
        (rows, columns), side = self.grid, self.patch
        images = inputs.view(len(inputs), rows, side, columns, side)
        return images.transpose(2, 3).reshape(len(inputs), rows * columns, side * side)


@torch.no_grad()
def _initialise_layers(module: nn.Module, generator: torch.Generator) -> None:
    """Draw the weights of linear and convolutional layers anew, in their order, and set their biases to 0.

    Weights are uniform in ±√(6/inputs), where a convolution has channels · kernel pixels inputs (He et al. 2015,
    *Delving Deep into Rectifiers*).
    """
    for layer in module.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            bound = math.sqrt(6 / layer.weight[0].numel())
            layer.weight.uniform_(-bound, bound, generator=generator)
            if layer.bias is not None:
                layer.bias.zero_()


class Network(RowModule):
    """outputs = head(encoder(inputs)): logits, or scaled predictions of a regression.

    Attributes:
        encoder: From scaled inputs (batch, features of the data) to features (batch, `n_outputs` of the encoder).
        head: A linear layer, or a `PrototypeNetwork` in the space of these features.
    """

    def __init__(self, encoder: RowModule, head: nn.Module) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head

    def forward(self, inputs: Tensor) -> Tensor:
        """Return outputs (batch, outputs)."""
        outputs: Tensor = self.head(self.encoder(inputs))
        return outputs

    def features(self, inputs: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the features (n, features) of scaled inputs, in parts of bounded memory."""
        return self.encoder.outputs(inputs)

    def patch(
        self, x: ArrayLike, label: int | str | None = None, *, dataset: Dataset, **options: Any
    ) -> PatchedNetwork:
        """Return the network with a patch of its head of prototypes, after which `x`, one scaled input, has `label`.

        Args:
            x: The input, (features of the data).
            label: Name or number of a class.
            dataset: The data that the network was trained on.
            options: Those of `PatchedNetwork.patch`, which patches further inputs; the ``target`` of a regression.

        Raises:
            PatchConflictError: a training input with another label has the same features.
            PatchError: a linear head, data that does not fit, or an invalid input, class or option.
        """
        from idwbench.models.patched_network import PatchedNetwork

        return PatchedNetwork.of(self, dataset).patch(x, label, **options)


def initial_network(model: NetworkConfig, dataset: Dataset, generator: np.random.Generator) -> Network:
    """Return an untrained network; all its weights come from `generator`.

    The keys of a head of prototypes are features of training inputs under the untrained encoder, see
    `idwbench.models.initialisation`, in whose ways the features stand for the inputs.

    Raises:
        ConfigError: the encoder needs images, patches do not divide them, or there are too few training inputs.
    """
    draws = torch.Generator().manual_seed(int(generator.integers(2**63)))
    encoder = _encoder(model, dataset.n_features, dataset.image_shape, draws)
    network = Network(encoder, nn.Identity())
    if model.head == LINEAR:
        network.head = nn.Linear(int(encoder.n_outputs), dataset.n_outputs)
        _initialise_layers(network.head, draws)
        return network
    features = Split(network.features(dataset.train.inputs), dataset.train.targets)
    rows = TrainingData(features, dataset.class_names)
    keys, values = initial_prototypes(model, rows, rows.moments, generator)
    learned = learned_arrays(model.head_method, model.head_parameters, keys.shape[1], generator)
    network.head = _prototypes(model, {"keys": keys, "values": values, **learned})
    return network


def _prototypes(model: NetworkConfig, arrays: Mapping[str, NDArray[np.generic]]) -> PrototypeNetwork:
    """Return a head of prototypes; learned numbers of its score have their initial values."""
    head = PrototypeNetwork.of(model.head_method, model.head_parameters, arrays)
    if model.head_learned != LEARNED_NUMBERS:
        own = head.method.score_arguments(model.head_parameters)
        head.learned = LearnedScore(MethodScore(model.head, own), head.keys.shape[1], **model.head_learned)
    return head


def network_from_arrays(model: NetworkConfig, dataset: Dataset, arrays: Mapping[str, NDArray[np.generic]]) -> Network:
    """Return the network whose parameters are `arrays`, by the names of its state dict."""
    encoder = _encoder(model, dataset.n_features, dataset.image_shape, torch.Generator())
    if model.head == LINEAR:
        head: nn.Module = nn.Linear(int(encoder.n_outputs), dataset.n_outputs)
    else:
        head = _prototypes(model, {name.removeprefix("head."): np.array(array) for name, array in arrays.items()})
    return with_parameters(Network(encoder, head), arrays)


def load_network(results: Results, run_key: str, data_dir: Path | None = None) -> Network:
    """Return the trained network of a stored run, in evaluation mode; its inputs are scaled as those of its data set.

    Args:
        results: The database.
        run_key: The run's key, or the beginning of it.
        data_dir: Folder of the image archives.

    Raises:
        ResultsError: no such run.
        TrainingError: the run is of another kind, or is not complete.
        DatasetError: its data set cannot be loaded.
    """
    run = complete_run(results, run_key, NetworkConfig, ("network of an encoder and a head", "network"))
    assert isinstance(run.config.model, NetworkConfig)
    dataset = load_dataset(run.config.dataset, data_dir)
    return network_from_arrays(run.config.model, dataset, results.load_arrays(run.run_key))


def _encoder(
    model: NetworkConfig, n_features: int, image_shape: tuple[int, int] | None, draws: torch.Generator
) -> Mlp | Conv | VitTiny:
    check_encoder(model, image_shape)
    if model.encoder == "mlp":
        return Mlp(model, n_features, draws)
    assert image_shape is not None
    return (Conv if model.encoder == "conv" else VitTiny)(model, image_shape, draws)


def head_metrics(model: NetworkConfig, network: Network, dataset: Dataset) -> Values:
    """Return metrics of a head of prototypes by split and name; none of a linear head.

    These are those of `PrototypeQuality`, and for an ``idw`` head with patches those of a study of patches of wrong
    test inputs, and with ``compare`` those of other ways to mend them. In these the features of the encoder stand for
    the inputs, normalised if the head normalises them, so that distances are those of the head.
    """
    head = network.head
    if not isinstance(head, PrototypeNetwork):
        return {}
    features = {
        name: Split(head.compared(network.features(split.inputs))[0], split.targets)
        for name, split in dataset.splits.items()
    }
    values = parameter_arrays(head)["values"]
    keys = head.compared(features["train"].inputs)[1]
    metrics = dict(PrototypeQuality(features).metrics(keys, values))
    if model.is_patched and dataset.task == "classification":
        base = ArrayNetwork(head.method, head.plain().arguments, keys, values)
        metrics |= study_patches(base, features, model.patches)[0]
        if model.compare:
            metrics |= compare_ways(base, features, model.patches)[0]
    return metrics


def nearest_rows(network: Network, dataset: Dataset) -> NDArray[np.int64]:
    """Return for each key (prototypes,) the training row whose features are nearest to it."""
    assert isinstance(network.head, PrototypeNetwork)
    features, keys = network.head.compared(network.features(dataset.train.inputs))
    return nearest(keys, features)[0]

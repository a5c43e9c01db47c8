"""A pre-norm transformer block with any attention score."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from idwbench.attention.layers import SelfAttention
from idwbench.attention.learned_scores import LearnedScore

__all__ = ["Transformer", "TransformerBlock", "initialise_transformer"]

INITIAL_STD = 0.05  # 0.02 in GPT-2 (Radford et al. 2019), which is wider; networks of width 64 learn faster so


class TransformerBlock(nn.Module):
    """A pre-norm block: x ← x + attention(norm(x)), then x ← x + W₂·gelu(W₁·norm(x)).

    This is the block of GPT-2 (Radford et al. 2019) without biases and dropout. The names and shapes of its parameters
    are those of ``torch.nn.TransformerEncoderLayer(…, norm_first=True, bias=False)``, and state dicts can be exchanged.

    Args:
        width: Features of the inputs and outputs.
        heads: Number of attention heads; a divisor of `width`.
        score: Name of the attention score, as for `idwbench.attention.layers.MultiheadAttention`.
        feedforward: Hidden units between W₁ and W₂; by default 4 · `width`.
        causal: Whether position i attends to positions 0 … i only.
        **parameters: Parameters of the score, such as ``power`` and ``epsilon``, and which of its numbers are learned,
            such as ``learned_power``.

    Raises:
        ValueError: unknown score or parameter, or a parameter out of range.
        AssertionError: `heads` does not divide `width`.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        score: str = "idw",
        feedforward: int | None = None,
        causal: bool = False,
        **parameters: Any,
    ) -> None:
        super().__init__()
        feedforward = 4 * width if feedforward is None else feedforward
        self.causal = causal
        self.self_attn = SelfAttention(width, heads, score, bias=False, batch_first=True, **parameters)
        self.linear1 = nn.Linear(width, feedforward, bias=False)
        self.linear2 = nn.Linear(feedforward, width, bias=False)
        self.norm1 = nn.LayerNorm(width, bias=False)
        self.norm2 = nn.LayerNorm(width, bias=False)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the outputs for inputs (batch, length, width), in the same shape."""
        attended, _ = self.self_attn(self.norm1(inputs), need_weights=False, is_causal=self.causal)
        residual: Tensor = inputs + attended
        outputs: Tensor = residual + self.linear2(functional.gelu(self.linear1(self.norm2(residual))))
        return outputs


class Transformer(nn.Module):
    """Blocks in sequence and a last layer norm; all other arguments are those of `TransformerBlock`.

    Args:
        depth: Number of blocks.
        generator: Source of the initial weights; by default that of torch.
    """

    def __init__(
        self, depth: int, width: int, *arguments: Any, generator: torch.Generator | None = None, **options: Any
    ) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(TransformerBlock(width, *arguments, **options) for _ in range(depth))
        self.norm = nn.LayerNorm(width, bias=False)
        initialise_transformer(self, depth, generator)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the outputs for inputs (batch, length, width), in the same shape."""
        for block in self.blocks:
            inputs = block(inputs)
        outputs: Tensor = self.norm(inputs)
        return outputs


@torch.no_grad()
def initialise_transformer(module: nn.Module, depth: int, generator: torch.Generator | None = None) -> None:
    """Draw all weights of `module` anew, in the order of its parameters; learned numbers of scores stay as they are.

    Matrices are normal with standard deviation 0.05, divided by √(2·depth) as in GPT-2 where a block adds to its input
    (``out_proj`` and ``linear2``); the scales of layer norms are 1 and biases 0.

    Args:
        module: A network with blocks of this file.
        depth: Number of blocks.
        generator: Source of the random numbers; by default that of torch.
    """
    learned = {each for score in module.modules() if isinstance(score, LearnedScore) for each in score.parameters()}
    for name, parameter in module.named_parameters():
        if parameter in learned:
            continue
        if parameter.dim() > 1:
            added = name.endswith(("out_proj.weight", "linear2.weight"))
            std = INITIAL_STD / (2 * depth) ** 0.5 if added else INITIAL_STD
            parameter.normal_(0, std, generator=generator)
        else:
            parameter.fill_(0 if name.endswith("bias") else 1)

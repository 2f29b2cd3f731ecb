r"""A decoder-only Transformer in the manner of GPT: it reads tokens and predicts, at each one, the next.

.. math::

    x_0 = \operatorname{Embed}(tokens) \quad
    x_l = \operatorname{Block}_l(x_{l-1}) \quad
    logits = \operatorname{LayerNorm}(x_N)\, W^{\top}

A block is causal self-attention and a feed-forward network, each with its norm before it. W is the matrix of
embeddings where the output is tied.

Axes: B batch, T positions given now, S positions in all (T and those that a cache holds), H heads, V
vocabulary.

Sources: Radford et al., "Improving Language Understanding by Generative Pre-Training", 2018 (GPT), and
"Language Models are Unsupervised Multitask Learners", 2019 (GPT-2: norms before the sublayers and one at the
end).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlab.attention import causal_mask
from attnlab.cache import KeyValueCache
from attnlab.decoder_only.config import DecoderOnlyConfig
from attnlab.layers import EncoderLayer
from attnlab.positions import InterleavedRotary, LearnedPositions, SinusoidalPositions, alibi_bias

__all__ = ["DecoderOnly", "DecoderOnlyOutput", "check_tokens"]


class DecoderOnlyOutput(NamedTuple):
    """What one call of a :class:`DecoderOnly` computed.

    Attributes:
        logits: ``(B, T, V)``; those at a position are for the token after it.
        weights: The attention weights ``(B, H, T, S)`` of each layer, the first layer first. None where they
            were not asked for.
    """

    logits: Tensor
    weights: tuple[Tensor, ...] | None


class DecoderOnly(nn.Module):
    """A language model: embeddings, causal pre-norm blocks, a final norm and an output over the vocabulary.

    All matrices and embeddings start normal with mean 0 and standard deviation 0.02, biases at 0 (Radford et
    al. 2018, section 4.1). The two matrices of each block whose output is added to the residual stream start
    smaller by a factor of ``1 / sqrt(2 * num_layers)``, so that the sum over the layers does not grow with
    their number (Radford et al. 2019, section 2.3).

    With ``positions="sinusoidal"`` the embeddings are multiplied by ``sqrt(d_model)`` (Vaswani et al. 2017,
    section 3.4), since the table's entries, up to 1, would drown them otherwise.

    Args:
        config: The sizes; kept as ``self.config``.

    Source: Radford et al. 2018 and 2019.
    """

    def __init__(self, config: DecoderOnlyConfig) -> None:
        super().__init__()
        self.config = config
        self.token_embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.position_table: LearnedPositions | SinusoidalPositions | None = None
        if config.positions == "learned":
            self.position_table = LearnedPositions(config.d_model, config.max_length)
        elif config.positions == "sinusoidal":
            self.position_table = SinusoidalPositions(config.d_model, config.max_length)
        self.rotary = (
            InterleavedRotary(config.d_head, config.max_length) if config.positions == "rotary" else None
        )
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(
            EncoderLayer(
                config.d_model,
                config.num_heads,
                config.d_ff,
                num_kv_heads=config.num_kv_heads,
                dropout=config.dropout,
                norm="pre",
                activation=config.activation,
            )
            for _ in range(config.num_layers)
        )
        self.final_norm = nn.LayerNorm(config.d_model)
        self.output = None if config.tie_output else nn.Linear(config.d_model, config.vocab_size, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights anew, as the class says; norms and biases start again from 1 and 0."""
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)
            elif isinstance(module, LearnedPositions):
                nn.init.normal_(module.table, std=0.02)
            elif isinstance(module, nn.LayerNorm):
                module.reset_parameters()
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)
        smaller = 0.02 / math.sqrt(2 * self.config.num_layers)
        for block in self.blocks:
            assert isinstance(block, EncoderLayer)
            nn.init.normal_(block.self_attention.w_o.weight, std=smaller)
            nn.init.normal_(block.feed_forward.w_2.weight, std=smaller)

    def forward(
        self,
        tokens: Tensor,
        mask: Tensor | None = None,
        *,
        cache: KeyValueCache | None = None,
        need_weights: bool = False,
    ) -> DecoderOnlyOutput:
        """Predict, at each token, the next.

        Args:
            tokens: Token numbers ``(B, T)``, int64 or int32.
            mask: Boolean, True = may attend, broadcasting to ``(B, T, S)``, such as
                :func:`~attnlab.attention.padding_mask` makes it; it is combined with the causal mask.
            cache: Keys and values of the positions before these tokens, to which those of these tokens are
                added. The tokens' positions go on where the cache ends.
            need_weights: True returns the attention weights too.

        Returns:
            Logits ``(B, T, V)`` and, where asked for, each layer's weights ``(B, H, T, S)``.

        Raises:
            TypeError: If the tokens are not integers, or the mask is not boolean.
            ValueError: If the tokens have another shape or lie outside the vocabulary, the sequence is longer
                than ``max_length``, or the cache or mask does not fit.
        """
        check_tokens(tokens, self.config.vocab_size)
        offset = self._offset(tokens.shape[1], cache)
        return self.run_blocks(
            self.embed(tokens, offset=offset), mask, cache=cache, need_weights=need_weights
        )

    def embed(self, tokens: Tensor, *, offset: int = 0) -> Tensor:
        """The vectors that the first block gets: embeddings and, where they are added, positions.

        Args:
            tokens: Token numbers ``(B, T)``.
            offset: Position of the first token.

        Returns:
            ``(B, T, d_model)``.

        Raises:
            ValueError: If a table of positions ends before the tokens do.
        """
        x: Tensor = self.token_embedding(tokens)  # (B, T, d_model)
        if self.config.positions == "sinusoidal":
            x = x * math.sqrt(self.config.d_model)
        if self.position_table is not None:
            x = self.position_table(x, offset=offset)
        dropped: Tensor = self.dropout(x)
        return dropped

    def run_blocks(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        *,
        cache: KeyValueCache | None = None,
        need_weights: bool = False,
    ) -> DecoderOnlyOutput:
        """From what :meth:`embed` returns to the logits: the second half of :meth:`forward`.

        It is apart so that gradients may be taken with respect to ``x``. Arguments after ``x``,
        ``(B, T, d_model)``, result and errors are those of :meth:`forward`.
        """
        num_new = x.shape[-2]
        offset = self._offset(num_new, cache)
        num_all = offset + num_new
        allowed = mask
        if mask is not None:
            _check_mask(mask, (x.shape[0], num_new, num_all))
        if num_new > 1:  # one token alone is the newest, and sees all that came before it
            causal = causal_mask(num_new, num_all, offset=offset).to(x.device)  # (T, S)
            allowed = causal if mask is None else causal & mask  # at most (B, T, S)
        bias = None
        if self.config.positions == "alibi":
            heads = self.config.num_heads
            bias = alibi_bias(heads, num_new, num_all, offset=offset, dtype=x.dtype, device=x.device)
        weights = []
        for number, block in enumerate(self.blocks):
            result = block(
                x,
                allowed,
                rotate=self.rotary,
                score_bias=bias,
                cache=None if cache is None else cache[number],
                need_weights=need_weights,
            )
            x = result.output  # (B, T, d_model)
            weights.append(result.weights)  # (B, H, T, S)
        matrix = self.token_embedding.weight if self.output is None else self.output.weight  # (V, d_model)
        logits = F.linear(self.final_norm(x), matrix)  # (B, T, V)
        return DecoderOnlyOutput(logits, tuple(weights) if need_weights else None)

    def _offset(self, num_new: int, cache: KeyValueCache | None) -> int:
        """Position of the first new token; an error where the last one would be too far."""
        if cache is not None and len(cache) != self.config.num_layers:
            raise ValueError(f"cache: expected one for {self.config.num_layers} layers, got {len(cache)}")
        offset = 0 if cache is None else cache.length
        if offset + num_new > self.config.max_length:
            held = f" after the {offset} that the cache holds" if offset else ""
            raise ValueError(
                f"tokens: expected at most max_length = {self.config.max_length} positions, "
                f"got {num_new}{held}"
            )
        return offset


def _check_mask(mask: Tensor, shape: tuple[int, int, int]) -> None:
    """Before any layer runs: a mask refused by the first would leave a cache in which layers differ."""
    if mask.dtype != torch.bool:
        raise TypeError(f"mask: expected a boolean tensor, True = may attend, got {mask.dtype}")
    fits = mask.ndim <= 3 and all(
        given in (1, wanted) for given, wanted in zip(reversed(mask.shape), reversed(shape), strict=False)
    )
    if not fits:
        raise ValueError(
            f"mask: expected a shape that broadcasts to (B, T, S) = {shape}, got {tuple(mask.shape)}"
        )


def check_tokens(tokens: Tensor, vocab_size: int, *, name: str = "tokens") -> None:
    """Refuse what a model cannot look up, in words that name the argument.

    Args:
        tokens: To be ``(B, T)``, int64 or int32, from 0 to ``vocab_size - 1``.
        vocab_size: Number of tokens, V.
        name: What the message calls the argument.

    Raises:
        TypeError: If the type is another.
        ValueError: If there are not two axes, there is no token, or one lies outside the vocabulary.
    """
    if tokens.dtype not in (torch.int64, torch.int32):
        raise TypeError(f"{name}: expected int64 or int32 token numbers, got {tokens.dtype}")
    if tokens.ndim != 2 or tokens.numel() == 0:
        raise ValueError(f"{name}: expected (B, T) with at least one token, got shape {tuple(tokens.shape)}")
    lowest, highest = int(tokens.min()), int(tokens.max())
    if lowest < 0 or highest >= vocab_size:
        wrong = lowest if lowest < 0 else highest
        raise ValueError(f"{name}: expected numbers from 0 to vocab_size - 1 = {vocab_size - 1}, got {wrong}")

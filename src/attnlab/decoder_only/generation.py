"""Text from a decoder-only model, token by token.

Axes: B batch, T positions of the prompt, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from attnlab.cache import KeyValueCache
from attnlab.decoder_only.config import DecoderOnlyConfig
from attnlab.decoder_only.model import DecoderOnly, check_tokens
from attnlab.decoder_only.sampling import check_sampling, choose_tokens

__all__ = ["generate"]


def generate(
    model: DecoderOnly,
    prompt: Tensor,
    max_new_tokens: int,
    *,
    generator: torch.Generator | None = None,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    eos: int | None = None,
    pad: int | None = None,
    use_cache: bool = True,
) -> Tensor:
    """Continue each prompt, one token at a time.

    The model is in evaluation mode meanwhile, and each of its parts is put back into its own mode afterwards.
    The cache lives for this call alone.

    Args:
        model: What predicts the next token.
        prompt: Token numbers ``(B, T)``, all of one length.
        max_new_tokens: How many tokens to add at most, 0 or more.
        generator: Source of the draws; it may be left out where the temperature is 0.
        temperature: 0 always takes the likeliest token; see
            :func:`~attnlab.decoder_only.sampling.choose_tokens`, as for ``top_k`` and ``top_p``.
        top_k: How many tokens to choose among at each step.
        top_p: Probability that the tokens to choose among hold together.
        eos: Token that ends a sequence when it is generated; one in the prompt ends nothing. Generation
            stops when every sequence has ended.
        pad: Token that follows ``eos`` in a sequence that ended before others; ``eos`` itself where it is
            left out.
        use_cache: False computes every position anew at each step: slower, with the same result.

    Returns:
        Prompt and continuation ``(B, T + n)``, of the prompt's type, n at most ``max_new_tokens``.

    Raises:
        TypeError: If the prompt holds no integers.
        ValueError: If the prompt does not suit the model, prompt and continuation would be longer than
            ``max_length``, or another argument is out of range. Nothing has been computed or drawn then.
    """
    check_sampling(generator=generator, temperature=temperature, top_k=top_k, top_p=top_p)
    _check_request(model.config, prompt, max_new_tokens, eos, pad)
    filler = eos if pad is None else pad
    cache = KeyValueCache(model.config.num_layers) if use_cache else None
    tokens = prompt
    ended = torch.zeros_like(prompt[:, 0], dtype=torch.bool)  # (B,)
    with torch.no_grad(), _evaluating(model):
        for _ in range(max_new_tokens):
            unread = tokens if cache is None else tokens[:, cache.length :]
            logits = model(unread, cache=cache).logits[:, -1]  # (B, V)
            newest = choose_tokens(
                logits, generator=generator, temperature=temperature, top_k=top_k, top_p=top_p
            ).to(prompt.dtype)  # (B,)
            if eos is not None and filler is not None:
                newest = newest.masked_fill(ended, filler)
                ended = ended | (newest == eos)
            tokens = torch.cat([tokens, newest[:, None]], dim=1)  # (B, T + n)
            if bool(ended.all()):
                break
    return tokens


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode for a while; every part may have had a mode of its own."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def _check_request(
    config: DecoderOnlyConfig, prompt: Tensor, max_new_tokens: int, eos: int | None, pad: int | None
) -> None:
    check_tokens(prompt, config.vocab_size, name="prompt")
    if max_new_tokens < 0:
        raise ValueError(f"max_new_tokens: expected 0 or more, got {max_new_tokens}")
    length = prompt.shape[1] + max_new_tokens
    if length > config.max_length:
        raise ValueError(
            f"max_new_tokens: expected at most max_length = {config.max_length} positions with the prompt, "
            f"got {prompt.shape[1]} + {max_new_tokens} = {length}"
        )
    for name, token in (("eos", eos), ("pad", pad)):
        if token is not None and not 0 <= token < config.vocab_size:
            raise ValueError(f"{name}: expected a token from 0 to {config.vocab_size - 1}, got {token}")
    if pad is not None and eos is None:
        raise ValueError(f"pad: expected None where there is no eos to pad after, got {pad}")

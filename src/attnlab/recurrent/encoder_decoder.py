"""Two GRU encoder-decoders that differ in one thing: what the decoder sees of the source.

Both read the source in both directions, start the decoder from the encoder's last states, and predict each
target token from the decoder's state and a *context*. In :class:`GRUEncoderDecoder` the context is one
vector, the same at each step, however long the source is. In :class:`AttentiveGRUEncoderDecoder` it is
computed anew at each step, by attention over all states of the encoder.

Sources: Cho et al. 2014, section 2.2 (the context goes into every step of the decoder); Sutskever et al. 2014
(a sentence through one vector); Bahdanau et al. 2015, section 3 and appendix A (attention).
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from ..attention import padding_mask
from .additive import AdditiveAttention

__all__ = ["AttentiveGRUEncoderDecoder", "GRUEncoderDecoder", "RecurrentDecoded", "RecurrentEncoded"]


class RecurrentEncoded(NamedTuple):
    """What the encoder hands to the decoder.

    Attributes:
        states: a state for each source token, both directions side by side, ``(B, S, 2H)``; zeros at padding.
        summary: the last state of each direction side by side, ``(B, 2H)``.
        mask: boolean, True = a real token, ``(B, 1, S)``.
    """

    states: Tensor
    summary: Tensor
    mask: Tensor


class RecurrentDecoded(NamedTuple):
    """What the decoder computed.

    Attributes:
        logits: scores of the next token, ``(B, T, target_vocab_size)``.
        state: the decoder's last state, ``(B, H)``, to go on from.
        weights: attention weights ``(B, T, S)``; None where the model has no attention.
    """

    logits: Tensor
    state: Tensor
    weights: Tensor | None


class _EncoderDecoder(nn.Module):
    """What both models share: embeddings, encoder, first state of the decoder, readout."""

    def __init__(
        self,
        source_vocab_size: int,
        target_vocab_size: int,
        d_model: int,
        hidden_size: int,
        *,
        pad: int = 0,
        bos: int = 1,
        eos: int = 2,
    ) -> None:
        super().__init__()
        for name, size in (
            ("source_vocab_size", source_vocab_size),
            ("target_vocab_size", target_vocab_size),
            ("d_model", d_model),
            ("hidden_size", hidden_size),
        ):
            if size < 1:
                raise ValueError(f"{name}: expected at least 1, got {size}")
        self.pad, self.bos, self.eos = pad, bos, eos
        self.source_embedding = nn.Embedding(source_vocab_size, d_model)
        self.target_embedding = nn.Embedding(target_vocab_size, d_model)
        self.encoder = nn.GRU(d_model, hidden_size, batch_first=True, bidirectional=True)
        self.first_state = nn.Linear(2 * hidden_size, hidden_size)
        self.readout = nn.Linear(3 * hidden_size, target_vocab_size)  # from the state and the context
        self._make_decoder(d_model, hidden_size)

    def _make_decoder(self, d_model: int, hidden_size: int) -> None:
        """Add the layers that write the target; each model has its own."""
        raise NotImplementedError

    def encode(self, source: Tensor) -> RecurrentEncoded:
        """Read the source.

        Args:
            source: token ids ``(B, S)``; rows of different lengths end in padding.

        Raises:
            ValueError: If the source is not ``(B, S)``, a row holds no token, or padding stands
                before a token.
        """
        lengths = _real_lengths(source, self.pad)  # (B,)
        # Packing stops each row at its own length, so that the direction from right to left starts at the
        # last real token and not somewhere in the padding.
        packed = pack_padded_sequence(
            self.source_embedding(source), lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        packed_states, last = self.encoder(packed)  # last: (2, B, H)
        states, _ = pad_packed_sequence(packed_states, batch_first=True, total_length=source.shape[1])
        summary = torch.cat([last[0], last[1]], dim=-1)  # (B, 2H)
        return RecurrentEncoded(states, summary, padding_mask(lengths, source.shape[1]))

    def decode(
        self, target: Tensor, encoded: RecurrentEncoded, state: Tensor | None = None
    ) -> RecurrentDecoded:
        """Predict the token after each token of ``target``; each model has its own way.

        Args:
            target: ids of the tokens before the ones to predict, ``(B, T)``, beginning with ``bos``.
            encoded: what :meth:`encode` returned.
            state: ``(B, H)``, to go on from an earlier call; left out at the beginning.
        """
        raise NotImplementedError

    def forward(self, source: Tensor, target_in: Tensor) -> Tensor:
        """Logits ``(B, T, target_vocab_size)`` from source ``(B, S)`` and the true tokens before, ``(B, T)``.

        The decoder reads the true target, whatever it would have said itself (teacher forcing).
        """
        return self.decode(target_in, self.encode(source)).logits

    def _start(self, encoded: RecurrentEncoded, state: Tensor | None) -> Tensor:
        """The decoder's state before the first step, (B, H)."""
        if state is not None:
            return state
        first: Tensor = self.first_state(encoded.summary).tanh()
        return first


class GRUEncoderDecoder(_EncoderDecoder):
    """A sentence through one vector: the decoder sees the encoder's last states, and nothing else.

    Args:
        source_vocab_size: how many source tokens there are.
        target_vocab_size: how many target tokens there are.
        d_model: width of an embedding.
        hidden_size: H, width of a state (of each direction, in the encoder).
        pad: id of padding, in source and target.
        bos: id of the mark that begins a target.
        eos: id of the mark that ends one.

    Raises:
        ValueError: if a size is below 1.

    Source: Cho et al. 2014, section 2.2, and Sutskever et al. 2014. Both read in one direction; here the
    encoder is that of Bahdanau et al. 2015, so that attention is the only difference between the two models.
    """

    def _make_decoder(self, d_model: int, hidden_size: int) -> None:
        self.decoder = nn.GRU(d_model + 2 * hidden_size, hidden_size, batch_first=True)

    def decode(
        self, target: Tensor, encoded: RecurrentEncoded, state: Tensor | None = None
    ) -> RecurrentDecoded:
        """Predict the token after each token of ``target``.

        Args:
            target: ids of the tokens before the ones to predict, ``(B, T)``, beginning with ``bos``.
            encoded: what :meth:`encode` returned.
            state: ``(B, H)``, to go on from an earlier call; left out at the beginning.
        """
        context = encoded.summary[:, None, :].expand(-1, target.shape[1], -1)  # (B, T, 2H), all the same
        inputs = torch.cat([self.target_embedding(target), context], dim=-1)  # (B, T, d_model + 2H)
        states, last = self.decoder(inputs, self._start(encoded, state)[None])  # (B, T, H), (1, B, H)
        logits = self.readout(torch.cat([states, context], dim=-1))  # (B, T, V)
        return RecurrentDecoded(logits, last[0], None)


class AttentiveGRUEncoderDecoder(_EncoderDecoder):
    """The same with attention: each step of the decoder looks at all states of the encoder anew.

    Args:
        source_vocab_size: how many source tokens there are.
        target_vocab_size: how many target tokens there are.
        d_model: width of an embedding.
        hidden_size: H, width of a state (of each direction, in the encoder), and of the attention's layer.
        pad: id of padding, in source and target.
        bos: id of the mark that begins a target.
        eos: id of the mark that ends one.

    Raises:
        ValueError: if a size is below 1.

    Source: Bahdanau et al. 2015, section 3 and appendix A. Simpler than theirs: the first state comes from
    the last states of both directions, and the readout is one linear layer.
    """

    def _make_decoder(self, d_model: int, hidden_size: int) -> None:
        self.attention = AdditiveAttention(hidden_size, 2 * hidden_size, hidden_size)
        self.decoder = nn.GRUCell(d_model + 2 * hidden_size, hidden_size)

    def decode(
        self, target: Tensor, encoded: RecurrentEncoded, state: Tensor | None = None
    ) -> RecurrentDecoded:
        """Predict the token after each token of ``target``, and say where the decoder looked.

        Args:
            target: ids of the tokens before the ones to predict, ``(B, T)``, beginning with ``bos``.
            encoded: what :meth:`encode` returned.
            state: ``(B, H)``, to go on from an earlier call; left out at the beginning.
        """
        state = self._start(encoded, state)  # (B, H)
        projected = self.attention.w_key(encoded.states)  # (B, S, H), the same for every step
        states: list[Tensor] = []
        contexts: list[Tensor] = []
        rows: list[Tensor] = []
        for embedded in self.target_embedding(target).unbind(dim=1):  # (B, d_model)
            # The state *before* the token is what asks, as in the paper.
            found = self.attention.attend(state[:, None, :], projected, encoded.states, encoded.mask)
            assert found.weights is not None  # additive attention always computes them
            context = found.output[:, 0]  # (B, 2H)
            state = self.decoder(torch.cat([embedded, context], dim=-1), state)  # (B, H)
            states.append(state)
            contexts.append(context)
            rows.append(found.weights)
        both = torch.cat([torch.stack(states, dim=1), torch.stack(contexts, dim=1)], dim=-1)  # (B, T, 3H)
        return RecurrentDecoded(self.readout(both), state, torch.cat(rows, dim=1))


def _real_lengths(source: Tensor, pad: int) -> Tensor:
    """How many tokens of each row are real, (B,)."""
    if source.ndim != 2:
        raise ValueError(f"source: expected token ids (B, S), got shape {tuple(source.shape)}")
    real = source != pad  # (B, S)
    lengths = real.sum(dim=1)
    if bool((lengths == 0).any()):
        raise ValueError("source: expected at least one real token in each row, got a row of padding")
    if bool((real[:, 1:] & ~real[:, :-1]).any()):
        raise ValueError(
            f"source: expected padding ({pad}) only behind the tokens of a row, got it before one"
        )
    return lengths

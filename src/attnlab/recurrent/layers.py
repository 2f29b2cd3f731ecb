"""Recurrent layers by name, and a reader that answers from the last state."""

from typing import Literal

from torch import Tensor, nn

__all__ = ["Kind", "RecurrentReader", "recurrent_layer"]

Kind = Literal["rnn", "gru", "lstm"]

_LAYERS: dict[str, type[nn.RNN] | type[nn.GRU] | type[nn.LSTM]] = {
    "rnn": nn.RNN,
    "gru": nn.GRU,
    "lstm": nn.LSTM,
}


def recurrent_layer(kind: Kind, input_size: int, hidden_size: int) -> nn.RNN | nn.GRU | nn.LSTM:
    """One layer, batch first, with PyTorch's default initialisation: all uniform within ±1/√H.

    Args:
        kind: ``"rnn"`` (tanh; Elman 1990), ``"gru"`` (Cho et al. 2014) or ``"lstm"`` (Hochreiter &
            Schmidhuber 1997, with the forget gate of Gers et al. 2000).
        input_size: D.
        hidden_size: H.

    Returns:
        A layer that maps (B, T, D) to the states (B, T, H) and the last state.

    Raises:
        ValueError: if ``kind`` is another word.
    """
    if kind not in _LAYERS:
        raise ValueError(f"kind: expected one of {', '.join(_LAYERS)}, got {kind!r}")
    return _LAYERS[kind](input_size, hidden_size, batch_first=True)


class RecurrentReader(nn.Module):
    """Reads a sequence of tokens with a recurrent layer and answers from its last state.

    Args:
        layer: an ``nn.RNN``, ``nn.GRU`` or ``nn.LSTM`` that is batch first.
        num_tokens: how many different tokens there are.
        num_classes: how many different answers there are.

    Raises:
        ValueError: if the layer is not batch first: it would read across the batch.
    """

    def __init__(self, layer: nn.RNN | nn.GRU | nn.LSTM, num_tokens: int, num_classes: int) -> None:
        super().__init__()
        if not layer.batch_first:
            raise ValueError("layer: expected batch_first=True, got a layer that wants (T, B, D)")
        self.embedding = nn.Embedding(num_tokens, layer.input_size)
        self.layer = layer
        self.readout = nn.Linear(layer.hidden_size * (2 if layer.bidirectional else 1), num_classes)

    def forward(self, tokens: Tensor) -> Tensor:
        """Tokens (B, T) -> logits (B, num_classes)."""
        states, _ = self.layer(self.embedding(tokens))  # (B, T, H)
        logits: Tensor = self.readout(states[:, -1])  # (B, num_classes)
        return logits

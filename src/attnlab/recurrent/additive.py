r"""Additive attention: a small network, not a product, says how well a query matches a key.

.. math::

    e_{ij} = v^\top \tanh(W s_i + U h_j), \qquad \alpha_{ij} = \operatorname{softmax}_j(e_{ij}), \qquad
    c_i = \sum_j \alpha_{ij} h_j

Source: Bahdanau, Cho & Bengio 2015, section 3.1 and appendix A.
"""

from torch import Tensor, nn

from ..attention import AttentionOutput, check_mask, masked_softmax

__all__ = ["AdditiveAttention"]


class AdditiveAttention(nn.Module):
    r"""Scores :math:`v^\top \tanh(W s + U h)`, a softmax over the keys, a weighted sum of the values.

    Args:
        d_query: width of a query, such as the decoder's state s.
        d_key: width of a key, such as a state h of the encoder.
        d_hidden: width of the layer in between.

    Raises:
        ValueError: if a width is below 1.

    Source: Bahdanau et al. 2015, section 3.1 and appendix A; no biases, as in the paper's formula.
    """

    def __init__(self, d_query: int, d_key: int, d_hidden: int) -> None:
        super().__init__()
        for name, width in (("d_query", d_query), ("d_key", d_key), ("d_hidden", d_hidden)):
            if width < 1:
                raise ValueError(f"{name}: expected a width of at least 1, got {width}")
        self.w_query = nn.Linear(d_query, d_hidden, bias=False)  # W
        self.w_key = nn.Linear(d_key, d_hidden, bias=False)  # U
        self.v = nn.Linear(d_hidden, 1, bias=False)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor | None = None, mask: Tensor | None = None
    ) -> AttentionOutput:
        """Let every query attend to every key that the mask allows.

        Args:
            query: ``(B, T, d_query)``.
            key: ``(B, S, d_key)``.
            value: ``(B, S, d_v)``; the keys where it is left out, as in the paper.
            mask: Boolean, True = may attend; broadcasts to ``(B, T, S)``. A row that is False throughout
                gives an output of zeros and finite gradients.

        Returns:
            The output ``(B, T, d_v)``, the weights ``(B, T, S)``, the scores ``(B, T, S)`` before the mask.

        Raises:
            TypeError: If the mask is not boolean.
            ValueError: If shapes do not fit together.
        """
        width = self.w_key.in_features
        if key.ndim != 3 or key.shape[-1] != width:
            raise ValueError(f"key: expected (B, S, d_key = {width}), got {tuple(key.shape)}")
        return self.attend(query, self.w_key(key), key if value is None else value, mask)

    def attend(
        self, query: Tensor, projected_key: Tensor, value: Tensor, mask: Tensor | None = None
    ) -> AttentionOutput:
        """The same with keys that were projected once, ``U h = self.w_key(key)``, for many queries in turn.

        Args:
            query: ``(B, T, d_query)``.
            projected_key: ``(B, S, d_hidden)``.
            value: ``(B, S, d_v)``.
            mask: Boolean, True = may attend; broadcasts to ``(B, T, S)``.

        Returns:
            As :meth:`forward`.

        Raises:
            TypeError: If the mask is not boolean.
            ValueError: If shapes do not fit together.
        """
        self._check(query, projected_key, value, mask)
        together = self.w_query(query)[:, :, None, :] + projected_key[:, None, :, :]  # (B, T, S, d_hidden)
        scores = self.v(together.tanh()).squeeze(-1)  # (B, T, S)
        weights = masked_softmax(scores, mask)  # (B, T, S)
        return AttentionOutput(weights @ value, weights, scores)  # output: (B, T, d_v)

    def _check(self, query: Tensor, projected_key: Tensor, value: Tensor, mask: Tensor | None) -> None:
        width = self.w_query.in_features
        if query.ndim != 3 or query.shape[-1] != width:
            raise ValueError(f"query: expected (B, T, d_query = {width}), got {tuple(query.shape)}")
        if projected_key.shape[0] != query.shape[0]:
            raise ValueError(
                f"key: expected the batch size of query, {query.shape[0]}, got {projected_key.shape[0]}"
            )
        if value.ndim != 3 or value.shape[:2] != projected_key.shape[:2]:
            raise ValueError(
                f"value: expected one row for each key, {tuple(projected_key.shape[:2])}, "
                f"got shape {tuple(value.shape)}"
            )
        if mask is not None:
            check_mask(mask, (*query.shape[:2], projected_key.shape[1]))

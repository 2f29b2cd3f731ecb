"""Right answers to lesson 8's exercises, each written in another way."""

import collections

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from attnlab.attention import causal_mask
from attnlab.layers import FeedForward
from attnlab.multihead import MultiHeadAttention


class _Own(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0):
        super().__init__()
        self.self_attention, self.cross_attention = (MultiHeadAttention(d_model, num_heads) for _ in range(2))
        self.feed_forward = FeedForward(d_model, d_ff)
        self.norm_self, self.norm_cross, self.norm_feed_forward = (nn.LayerNorm(d_model) for _ in range(3))
        self.share = dropout

    def drop(self, y):
        return F.dropout(y, self.share, self.training)


class OfTheCourse(_Own):
    def forward(self, x, memory, mask=None, memory_mask=None):
        x = x + self.drop(self.self_attention(self.norm_self(x), mask=mask).output)
        output, weights, _ = self.cross_attention(self.norm_cross(x), memory, mask=memory_mask)
        x = x + self.drop(output)
        return x + self.drop(self.feed_forward(self.norm_feed_forward(x))), weights


class Fused(_Own):
    """Heads by hand, PyTorch's own attention for the outputs, dropout by hand."""

    def drop(self, y):
        if not self.training or not self.share:
            return y
        return y * torch.bernoulli(torch.full_like(y, 1 - self.share)) / (1 - self.share)

    def attend(self, attention, asking, asked, mask):
        heads = attention.num_heads
        q, k, v = (
            torch.einsum("bnd,ed->bne", x, w.weight).add(w.bias).unflatten(-1, (heads, -1)).transpose(1, 2)
            for x, w in ((asking, attention.w_q), (asked, attention.w_k), (asked, attention.w_v))
        )
        eye = torch.eye(k.shape[2]).expand(*k.shape[:2], -1, -1)
        mask = torch.ones(1, 1, dtype=torch.bool) if mask is None else mask
        mask = mask.expand(len(asking), q.shape[2], k.shape[2])[:, None]
        both = F.scaled_dot_product_attention(q, k, torch.cat([v, eye], dim=-1), attn_mask=mask)
        both = both.masked_fill(~mask.any(-1, keepdim=True), 0.0)
        output, weights = both.split([v.shape[-1], k.shape[2]], dim=-1)
        return attention.w_o(output.transpose(1, 2).flatten(2)), weights

    def forward(self, x, memory, mask=None, memory_mask=None):
        y = self.norm_self(x)
        stream = [x, self.drop(self.attend(self.self_attention, y, y, mask)[0])]
        y, weights = self.attend(self.cross_attention, self.norm_cross(sum(stream)), memory, memory_mask)
        stream.append(self.drop(y))
        inner = F.relu(self.feed_forward.w_1(self.norm_feed_forward(sum(stream))))
        stream.append(self.drop(self.feed_forward.w_2(inner)))
        return sum(stream), weights


class SentenceBySentence(_Own):
    """A loop over sentences and heads, norms by hand."""

    def norm(self, x, norm):
        centred = x - x.mean(-1, keepdim=True)
        root = (x.var(-1, correction=0, keepdim=True) + norm.eps).sqrt()
        return centred / root * norm.weight + norm.bias

    def attend(self, attention, asking, asked, mask):
        q, k, v = attention.w_q(asking), attention.w_k(asked), attention.w_v(asked)
        width = q.shape[-1] // attention.num_heads
        outputs, tables = [], []
        for head in range(attention.num_heads):
            part = slice(head * width, (head + 1) * width)
            scores = q[:, part] @ k[:, part].T / width**0.5
            if mask is not None:
                scores = torch.where(mask, scores, torch.tensor(-1e30))
            table = scores.softmax(-1)
            if mask is not None:
                table = table * mask
            outputs.append(table @ v[:, part])
            tables.append(table)
        return attention.w_o(torch.cat(outputs, dim=-1)), torch.stack(tables)

    def forward(self, x, memory, mask=None, memory_mask=None):
        outputs, tables = [], []
        for b in range(len(x)):
            own = mask[b] if mask is not None and mask.dim() == 3 else mask
            other = None if memory_mask is None else memory_mask[b]
            y = self.norm(x[b], self.norm_self)
            z = x[b] + self.drop(self.attend(self.self_attention, y, y, own)[0])
            y, table = self.attend(self.cross_attention, self.norm(z, self.norm_cross), memory[b], other)
            z = z + self.drop(y)
            outputs.append(z + self.drop(self.feed_forward(self.norm(z, self.norm_feed_forward))))
            tables.append(table)
        return torch.stack(outputs), torch.stack(tables)


class MasksWrittenOut(OfTheCourse):
    """Whole masks for every sentence, and the two parts as a named tuple."""

    def forward(self, x, memory, mask=None, memory_mask=None, *, name="Pair"):
        (B, T, _), S = x.shape, memory.shape[1]
        own, other = torch.ones(B, T, T, dtype=torch.bool), torch.ones(B, T, S, dtype=torch.bool)
        own, other = (
            own if mask is None else own & mask,
            other if memory_mask is None else other & memory_mask,
        )
        return collections.namedtuple(name, "output weights")(*super().forward(x, memory, own, other))


class InDouble(OfTheCourse):
    def forward(self, x, memory, mask=None, memory_mask=None):
        if x.dtype == torch.float64:
            return super().forward(x, memory, mask, memory_mask)
        wide = {name: parameter.double() for name, parameter in self.named_parameters()}
        inputs = (x.double(), memory.double(), mask, memory_mask)
        return tuple(part.float() for part in torch.func.functional_call(self, wide, inputs))


def pair_by_padding(targets, lengths, bos, pad):
    inputs = F.pad(targets[:, :-1], (1, 0), value=bos)
    real = torch.arange(targets.shape[1])[None] < lengths.unsqueeze(1)
    return inputs, torch.where(real, targets, -100)


def pair_by_loop(targets, lengths, bos, pad):
    inputs, labels = [], []
    for row, length in zip(targets.tolist(), lengths.tolist(), strict=True):
        sentence = row[:length]
        rest = len(row) - length
        inputs.append(([bos, *sentence] + rest * [pad])[: len(row)])
        labels.append(sentence + rest * [-100])
    return torch.tensor(inputs), torch.tensor(labels)


def pair_in_place(targets, lengths, bos, pad):
    inputs, labels = targets.roll(1, dims=-1), targets.clone()
    inputs[:, 0] = bos
    for row, length in enumerate(lengths):
        labels[row, length:] = -100
        inputs[row, length:] = bos  # what is read there is up to the answer
    return [inputs, labels]


def pair_without_the_end(targets, lengths, bos, pad):
    """The end is read by nobody, so it may be replaced where it is read."""
    behind = torch.arange(targets.shape[1]).ge(lengths.view(-1, 1))
    inputs = torch.cat([targets.new_full((len(targets), 1), bos), targets], 1)[:, :-1]
    return inputs.masked_fill(behind, pad), targets.masked_fill(behind, -100)


def pair_in_numpy(targets, lengths, bos, pad):
    inputs = np.roll(targets.numpy(), 1, axis=1)
    inputs[:, 0] = bos
    behind = np.arange(targets.shape[1]) >= lengths.numpy()[:, None]
    return torch.from_numpy(inputs), torch.from_numpy(np.where(behind, -100, targets.numpy()))


def loss_by_index(encode, decode, source, rows, pad):
    real = source.ne(pad).unsqueeze(1)
    logits = decode(rows[:, :-1], encode(source, real), causal_mask(rows.shape[1] - 1), real)
    return F.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten(), ignore_index=pad)


def loss_by_sentence(encode, decode, source, rows, pad):
    """Each sentence by itself, cut to its real tokens: then nothing but the triangle has to be masked."""
    total, count = 0.0, 0
    for words, row in zip(source, rows, strict=True):
        words, row = words[words != pad][None], row[row != pad][None]
        inputs, labels = row[:, :-1], row[0, 1:]
        logits = decode(inputs, encode(words, None), causal_mask(inputs.shape[1]), None)[0]
        total = total - logits.log_softmax(-1)[range(len(labels)), labels].sum()
        count += len(labels)
    return total / count


def loss_in_double(encode, decode, source, rows, pad):
    known = (source != pad)[:, None, :].expand(-1, source.shape[1], -1)
    memory = encode(source, known)
    inputs, labels = rows.split([rows.shape[1] - 1, 1], dim=1)[0], rows.roll(-1, dims=1)[:, :-1]
    steps = inputs.shape[1]
    triangle = torch.ones(len(rows), steps, steps, dtype=torch.bool).tril()
    logits = decode(inputs, memory, triangle, known[:, :1].expand(-1, steps, -1)).double()
    each = logits.logsumexp(-1) - logits.gather(-1, labels[..., None])[..., 0]
    real = (labels != pad).double()
    return (each * real).sum() / real.sum()


def loss_hidden_first(encode, decode, source, rows, pad):
    """Target padding may be hidden as well: nothing real looks there."""
    real = (source != pad)[:, None]
    inputs, labels = rows[:, :-1], rows[:, 1:].masked_fill(rows[:, 1:] == pad, -100)
    mask = causal_mask(inputs.shape[1]) & (inputs != pad)[:, None] & (inputs != pad)[:, :, None]
    logits = decode(inputs, encode(source, real), mask, real)
    return F.cross_entropy(logits.transpose(1, 2), labels)


def _rows():
    return torch.tensor([[1, 3, 0, 5, 6, 2], [1, 7, 2, 8, 8, 8], [1, 4, 3, 6, 2, 8]])


def test_by_second_opinion(program):
    rows, pad = _rows(), 8
    logits = torch.randn(3, 5, 9, generator=torch.Generator().manual_seed(4))
    right = F.cross_entropy(logits.transpose(1, 2), rows[:, 1:], ignore_index=pad)
    torch.testing.assert_close(program(logits, rows, pad).float(), right, atol=1e-4, rtol=1e-4)


def test_by_one_number_at_a_time(program):
    """Each position costs a known sum of its own, written down by hand."""
    rows, pad = _rows(), 8
    logits = torch.zeros(3, 5, 9)
    total, count = 0.0, 0
    for b in range(3):
        for t in range(5):
            logits[b, t, rows[b, t + 1]] = -0.1 * (5 * b + t + 1)
            if rows[b, t + 1] != pad:
                p = logits[b, t].exp()
                total -= (p[rows[b, t + 1]] / p.sum()).log().item()
                count += 1
    return abs(program(logits, rows, pad).item() - total / count) < 1e-3


def test_by_gradients(program):
    """The gradient says which tokens are asked for, and how much each counts."""
    rows, pad = _rows(), 8
    logits = torch.zeros(3, 5, 9, requires_grad=True)
    program(logits, rows, pad).backward()
    real = (rows[:, 1:] != pad).float()
    wanted = (torch.full((3, 5, 9), 1 / 9) - F.one_hot(rows[:, 1:], 9)) * real[..., None] / real.sum()
    assert torch.allclose(logits.grad, wanted, atol=1e-5)


def test_by_oracles(program):
    rows, pad = _rows(), 8
    for ahead in (0, 1, 2):
        told = F.pad(rows, (0, 1), value=pad)[:, ahead : ahead + 5]
        assert (program(50.0 * F.one_hot(told, 9), rows, pad) < 1e-4) == (ahead == 1)
    test_by_second_opinion(program)


RIGHT = {
    "encoder_decoder.DecoderLayer": [OfTheCourse, Fused, SentenceBySentence, MasksWrittenOut, InDouble],
    "encoder_decoder.training_pair": [
        *(pair_by_padding, pair_by_loop, pair_in_place, pair_without_the_end, pair_in_numpy),
    ],
    "encoder_decoder.training_loss": [loss_by_index, loss_by_sentence, loss_in_double, loss_hidden_first],
    "encoder_decoder.test_token_loss": [
        test_by_second_opinion,
        test_by_one_number_at_a_time,
        test_by_gradients,
        test_by_oracles,
    ],
}

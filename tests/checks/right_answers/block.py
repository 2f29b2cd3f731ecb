"""Right answers of lesson 7, written in other ways than the references."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from attnlab.layers import EncoderLayer, FeedForward, PostNorm, PreNorm
from attnlab.multihead import MultiHeadAttention

# --- the norm ---------------------------------------------------------------------------------------------


class _Norm(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps


class NormByVarMean(_Norm):
    def forward(self, x):
        variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
        return torch.addcmul(self.bias, (x - mean) * torch.rsqrt(variance + self.eps), self.weight)


class NormInDouble(_Norm):
    def forward(self, x):
        wide = x.double()
        variance = wide.square().mean(dim=-1, keepdim=True) - wide.mean(dim=-1, keepdim=True).square()
        normed = (wide - wide.mean(dim=-1, keepdim=True)) / (variance + self.eps) ** 0.5
        return (normed * self.weight + self.bias).float()


class NormTokenByToken(_Norm):
    def forward(self, x):
        tokens = x.reshape(-1, x.shape[-1])
        rows = []
        for token in tokens:
            distance = token - sum(token) / len(token)
            rows.append(distance / (distance.dot(distance) / len(token) + self.eps).sqrt())
        return torch.stack(rows).reshape(x.shape) * self.weight + self.bias


class NormByEinsum(_Norm):
    """Centring as a matrix, and the squares summed by einsum."""

    def forward(self, x):
        width = x.shape[-1]
        centred = x @ (torch.eye(width) - torch.full((width, width), 1 / width))
        centred = torch.where(x.abs().amax() > 100, x - x.mean(-1, keepdim=True), centred)
        variance = torch.einsum("...d,...d->...", centred, centred)[..., None] / width
        return centred.div(torch.sqrt(variance + self.eps)).mul(self.weight).add(self.bias)


class NormByGroups(_Norm):
    """One group for each token, in PyTorch's norm for groups."""

    def forward(self, x):
        tokens = x.reshape(-1, x.shape[-1])
        return F.group_norm(tokens, 1, self.weight, self.bias, self.eps).reshape(x.shape)


class NormWithTemporaryBuffer(_Norm):
    def __init__(self, d_model, eps=1e-5, *, dtype=torch.float64):
        super().__init__(d_model, eps)
        self.register_buffer("small", torch.tensor(eps, dtype=dtype), persistent=False)

    def forward(self, x):
        y = x - x.mean(-1, keepdim=True)
        y = y / (y.std(-1, keepdim=True, correction=0) ** 2 + self.small.float()).sqrt()
        return torch.einsum("...d,d->...d", y, self.weight) + self.bias


class NormFused(nn.LayerNorm):
    def __init__(self, d_model, eps=1e-5):
        super().__init__(d_model, eps=eps)


# --- the blocks -------------------------------------------------------------------------------------------


class _Parts(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0):
        super().__init__()
        self.norm_2, self.norm_1 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.self_attention = MultiHeadAttention(d_model, num_heads)
        self.share = dropout

    def drop(self, y):
        return F.dropout(y, self.share, self.training)


class PostInSteps(_Parts):
    def forward(self, x, mask=None):
        steps = (
            (lambda x: self.self_attention(x, x, x, mask).output, self.norm_1),
            (self.feed_forward, self.norm_2),
        )
        for f, norm in steps:
            x = norm(self.drop(f(x)) + x)
        return x


class PreInSteps(_Parts):
    def forward(self, x, mask=None):
        steps = (
            (lambda x: self.self_attention(x, mask=mask, need_weights=False)[0], self.norm_1),
            (self.feed_forward, self.norm_2),
        )
        for f, norm in steps:
            x = self.drop(f(norm(x))) + x
        return x


class PostOfTheCourse(_Parts):
    """The course's residual connection, with dropout drawn by hand."""

    def drop(self, y):
        if not self.training or self.share == 0:
            return y
        return y * torch.bernoulli(torch.full_like(y, 1 - self.share)) / (1 - self.share)

    def forward(self, x, mask=None):
        first, second = PostNorm(x.shape[-1]), PostNorm(x.shape[-1])
        first.norm, second.norm = self.norm_1, self.norm_2
        x = first(x, lambda x: self.drop(self.self_attention(x, mask=mask).output))
        return second(x, lambda x: self.drop(self.feed_forward(x)))


class PreOfTheCourse(PostOfTheCourse):
    def forward(self, x, mask=None):
        first, second = PreNorm(x.shape[-1]), PreNorm(x.shape[-1])
        first.norm, second.norm = self.norm_1, self.norm_2
        x = first(x, lambda x: self.drop(self.self_attention(x, mask=mask).output))
        return second(x, lambda x: self.drop(self.feed_forward(x)))


class PostWithDropoutInPlace(_Parts):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, *, inplace=True):
        super().__init__(d_model, num_heads, d_ff, dropout)
        self.own = nn.Dropout(dropout, inplace=inplace)

    def drop(self, y):
        return self.own(y)

    def forward(self, x, mask=None):
        rows = range(len(x))
        masks = [mask if mask is None or mask.dim() == 2 else mask[b : b + 1] for b in rows]
        attended = [self.self_attention(x[b : b + 1], mask=masks[b]).output for b in rows]
        x = self.norm_1(torch.add(x, self.drop(torch.cat(attended))))
        return self.norm_2(torch.add(x, self.drop(self.feed_forward(x))))


class PostInDouble(_Parts):
    def forward(self, x, mask=None):
        attended = self.drop(self.self_attention(x, mask=mask).output)
        x = _normed(self.norm_1, x.double() + attended).float()
        return _normed(self.norm_2, x.double() + self.drop(self.feed_forward(x))).float()


class PreInDouble(_Parts):
    def forward(self, x, mask=None):
        wide = x.double()
        wide = wide + self.drop(self.self_attention(_normed(self.norm_1, wide).float(), mask=mask).output)
        return (wide + self.drop(self.feed_forward(_normed(self.norm_2, wide).float()))).float()


def _normed(norm, x):
    return F.layer_norm(x, norm.normalized_shape, norm.weight.double(), norm.bias.double(), norm.eps)


class PreSplit(_Parts):
    """The two changes are computed first, and added to the input at the end."""

    def __init__(self, d_model, num_heads, d_ff, dropout=0.0):
        super().__init__(d_model, num_heads, d_ff, dropout)
        self.drop_1, self.drop_2 = nn.Dropout(dropout), nn.Dropout(dropout)

    def forward(self, x, mask=None):
        first = self.drop_1(self.self_attention(self.norm_1(x), mask=mask).output)
        second = self.drop_2(self.feed_forward(self.norm_2(x + first)))
        return x + (first + second)


# --- the probe --------------------------------------------------------------------------------------------


def probe_by_backward(layers, x, direction):
    stream = [x.detach().clone().requires_grad_()]
    for layer in layers:
        stream.append(layer(stream[-1]))
        stream[-1].retain_grad()
    stream[-1].backward(direction)
    return torch.tensor([place.grad.norm().item() for place in stream])


def probe_layer_by_layer(layers, x, direction):
    """Backwards by hand: each layer turns the gradient behind it into the one before it."""
    places = [x.detach()]
    for layer in layers:
        places.append(layer(places[-1]).detach())
    gradient, lengths = direction, [direction.square().sum().sqrt()]
    for layer, place in zip(reversed(list(layers)), reversed(places[:-1]), strict=True):
        leaf = place.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(layer(leaf), leaf, gradient)
        lengths.insert(0, gradient.square().sum().sqrt())
    return torch.stack(lengths)


def probe_one_place_at_a_time(layers, x, direction):
    lengths = []
    for start in range(len(layers) + 1):
        place = x.detach()
        for layer in layers[:start]:
            place = layer(place).detach()
        leaf = place.clone().requires_grad_()
        output = leaf
        for layer in layers[start:]:
            output = layer(output)
        (gradient,) = torch.autograd.grad(torch.einsum("btd,btd->", output, direction), leaf)
        lengths.append(torch.linalg.vector_norm(gradient.double()))
    return torch.stack(lengths)


# --- the stack --------------------------------------------------------------------------------------------


class _Stack(nn.Module):
    layer: type[nn.Module] = PreInSteps

    def __init__(self, d_model, num_heads, d_ff, depth):
        super().__init__()
        self.layers = nn.ModuleList([self.layer(d_model, num_heads, d_ff) for _ in range(depth)])
        self.last_norm = nn.LayerNorm(d_model)

    def forward(self, x, mask=None):
        for layer in self.layers:
            x = layer(x, mask)
        return self.last_norm(x)


class StackOfSplitLayers(_Stack):
    layer = PreSplit


class StackInDouble(_Stack):
    layer = PreInDouble


class StackGrown(nn.Module):
    """Layers are appended one by one, and the course's layer computes."""

    def __init__(self, d_model, num_heads, d_ff, depth):
        super().__init__()
        self.layers = nn.ModuleList()
        while len(self.layers) < depth:
            self.layers.append(PreOfTheCourse(d_model, num_heads, d_ff))
        self.last_norm = nn.LayerNorm(d_model)
        self.sizes = d_model, num_heads, d_ff

    def forward(self, x, mask=None):
        for layer in self.layers:
            whole = EncoderLayer(*self.sizes, norm="pre")
            whole.self_attention, whole.feed_forward = layer.self_attention, layer.feed_forward
            whole.around_self.norm, whole.around_feed_forward.norm = layer.norm_1, layer.norm_2
            x = whole(x, mask).output
        return self.last_norm(x)


# --- tests ------------------------------------------------------------------------------------------------


def _inputs(width=5):
    g = torch.Generator().manual_seed(1)
    return torch.randn(3, 4, width, generator=g) - 0.5, 2 * torch.rand(2, width, generator=g) + 0.5


def compares_with_torch(norm):
    plain, (weight, bias) = _inputs()
    for x, eps, tolerance in (
        (plain, 1e-5, 1e-4),
        (plain, 1.0, 1e-4),
        (plain / 1000, 1e-5, 1e-4),
        (plain + 1000, 1e-5, 0.02),
    ):
        expected = F.layer_norm(x, (5,), weight, bias, eps)
        torch.testing.assert_close(norm(x, weight, bias, eps).float(), expected, atol=tolerance, rtol=0)


def compares_with_a_formula(norm):
    """Says True or False, and compares with the formula in double precision."""
    plain, (weight, bias) = _inputs(4)
    for x, eps, tolerance in (
        (plain, 1e-5, 1e-4),
        (plain, 0.1, 1e-4),
        (plain * 0.003, 1e-5, 1e-4),
        (plain + 2000, 1e-5, 0.02),
    ):
        wide = x.double()
        centred = wide - wide.mean(-1, keepdim=True)
        expected = centred / (centred.pow(2).mean(-1, keepdim=True) + eps) ** 0.5 * weight + bias
        if (norm(x, weight, bias, eps).double() - expected).abs().max() > tolerance:
            return False
    return True


def works_by_hand(norm):
    """Tokens whose norms are known without a computer, each in a batch of different ones."""
    root = 3**0.5
    normed = torch.tensor([root, -1 / root, -1 / root, -1 / root])
    token, weight, bias = torch.eye(4)[0], torch.tensor([2.0, 3.0, 4.0, 5.0]), torch.tensor([1.0, 0, 2, 7])
    others = torch.tensor([[3.0, -1, 4, 8], [0.5, 2, -6, 1]])

    def first(x, eps):
        batch = torch.stack([torch.stack([x, others[0]]), others, others.flip(0)])  # (3, 2, 4)
        return norm(batch, weight, bias, eps)[0, 0].double()

    def near(given, wanted, tolerance):
        assert (given - wanted).abs().max() < tolerance

    near(first(token, 1e-9), normed * weight + bias, 1e-4)
    near(first(token / 3 + 1000, 1e-9), normed * weight + bias, 0.02)
    # The variance is 3/16: with eps = 9/16 it becomes 3/4, twice the root, half the result.
    near(first(token, 9 / 16), normed / 2 * weight + bias, 1e-4)
    half = first(token / 1000, 9 / 16 * 1e-6)
    near(half, normed / 2 * weight + bias, 1e-4)


RIGHT = {
    "block.LayerNorm": [
        *(NormByVarMean, NormInDouble, NormTokenByToken, NormByEinsum, NormFused),
        *(NormByGroups, NormWithTemporaryBuffer),
    ],
    "block.PostNormBlock": [PostInSteps, PostOfTheCourse, PostInDouble, PostWithDropoutInPlace],
    "block.PreNormBlock": [PreInSteps, PreOfTheCourse, PreInDouble, PreSplit],
    "block.gradient_by_layer": [probe_by_backward, probe_layer_by_layer, probe_one_place_at_a_time],
    "block.Encoder": [_Stack, StackOfSplitLayers, StackInDouble, StackGrown],
    "block.test_layer_norm": [compares_with_torch, compares_with_a_formula, works_by_hand],
}

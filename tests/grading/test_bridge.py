"""The bridge between grader and worker: what crosses it is what it was, and gradients flow back."""

import collections
import copy
import os
import threading

import numpy
import pytest
import torch
from torch import nn

from attnlab.grading.bridge.peer import Peer
from attnlab.grading.bridge.wire import Channel, Closed, TooLarge, WireError

MIB = 1 << 20


class Near(Peer):
    """A grader's side that lets everything that it handed over be called."""

    def may_be_called(self, target, how, name):
        return self.is_exported(target)

    def get(self, name):
        return self.request({"op": "get", "name": name})


class Far(Peer):
    """A worker's side that gives out the things of a namespace."""

    def __init__(self, channel, things):
        super().__init__(channel, grader=False)
        self.things = things

    def handle(self, header):
        return self.things[header["name"]]


def serve(peer):
    try:
        while True:
            message = peer.channel.receive()
            peer.answer(*message)
    except WireError:
        pass


@pytest.fixture
def bridge():
    """Call with things by name: a grader's side whose worker has them."""
    opened, threads = [], []

    def make(most=4 * MIB, **things):
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        opened.extend([theirs_in, ours_out, ours_in, theirs_out])
        far = Far(Channel(theirs_in, theirs_out, most=most), things)
        thread = threading.Thread(target=serve, args=(far,), daemon=True)
        thread.start()
        threads.append((thread, ours_out))
        near = Near(Channel(ours_in, ours_out, most=most), grader=True)
        near.far = far
        return near

    yield make
    for thread, ours_out in threads:
        os.close(ours_out)
        opened.remove(ours_out)
        thread.join(timeout=5)
    for descriptor in opened:
        os.close(descriptor)


def same(a, b):
    if isinstance(a, torch.Tensor):
        return type(a) is type(b) and a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, numpy.ndarray):
        return a.dtype == b.dtype and numpy.array_equal(a, b)
    if type(a) in (list, tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return type(a) is type(b) and a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return type(a) is type(b) and (a == b or a != a)


VALUES = [
    None,
    ...,
    True,
    0,
    -(2**70),
    1.5,
    1e-320,
    float("inf"),
    float("nan"),
    1 + 2j,
    "é 掩 \ud800"[:3],
    b"\0\xff",
    (),
    (1, [2.0, {"a": None, 3: (4,)}]),
    range(2, 9, 3),
    torch.float16,
    torch.tensor(2.5),
    torch.arange(6).reshape(2, 3),
    torch.tensor([True, False]),
    torch.randn(2, 3, dtype=torch.bfloat16),
    torch.randn(3, dtype=torch.complex64),
    torch.empty(0, 4),
    numpy.float64(2.5),
    numpy.int32(7),
    numpy.arange(4.0).reshape(2, 2),
    nn.Linear,
    int,
    collections.OrderedDict(a=1, b=torch.ones(2)),
    nn.Linear(2, 1).state_dict(),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: f"{type(value).__name__}")
def test_a_value_arrives_as_it_was(bridge, value):
    given = []

    def keep(received):
        given.append(received)
        return received

    near = bridge(keep=keep)
    assert same(near.get("keep")(value), value)
    assert same(given[0], value)


def test_the_layout_of_a_tensor_is_kept(bridge):
    near = bridge(strides=lambda x: (x.stride(), x.sum()))
    for x in (torch.randn(3, 5).T, torch.randn(4, 1).expand(4, 6), torch.randn(6, 8)[::2, 1::3]):
        stride, total = near.get("strides")(x)
        assert stride == x.stride()
        assert torch.allclose(total, x.sum())


def test_one_tensor_in_two_places_is_one_tensor(bridge):
    near = bridge(one=lambda a, b: a is b, twin=lambda a: (a, [a]), other=lambda a: a.clone())
    x = torch.ones(2)
    assert near.get("one")(x, x) is True
    assert near.get("one")(x, x.clone()) is False
    first, (second,) = near.get("twin")(x)
    assert first is x and second is x
    assert near.get("other")(x) is not x


def test_types_that_do_not_travel_keep_their_name(bridge):
    class Clever:
        def __eq__(self, other):
            return True

    near = bridge(value=lambda: Clever(), sub=lambda: torch.ones(2).as_subclass(Odd))
    assert type(near.get("value")()).__name__ == "Clever"
    assert near.get("value")() != 3
    assert type(near.get("sub")()).__name__ == "Odd"


class Odd(torch.Tensor):
    pass


def test_gradients_flow_through_a_call(bridge):
    def attend(q, k, scale=1.0):
        scores = q @ k.T * scale
        return scores.softmax(-1), scores.detach(), 3

    near = bridge(attend=attend)
    q, k = torch.randn(2, 4, requires_grad=True), torch.randn(3, 4, requires_grad=True)
    weights, scores, three = near.get("attend")(q, k, scale=0.5)
    assert three == 3 and not scores.requires_grad and weights.requires_grad
    got = torch.autograd.grad((weights * scores).sum(), (q, k))
    mine, detached, _ = attend(q, k, 0.5)
    wanted = torch.autograd.grad((mine * detached).sum(), (q, k))
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(got, wanted, strict=True))


def test_a_gradient_that_does_not_arrive_is_none(bridge):
    near = bridge(first=lambda a, b: a * 2)
    a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    result = near.get("first")(a, b)
    got = torch.autograd.grad(result.sum(), (a, b), allow_unused=True, retain_graph=True)
    assert torch.equal(got[0], torch.full((2,), 2.0)) and got[1] is None
    assert torch.equal(torch.autograd.grad(result.sum(), a)[0], torch.full((2,), 2.0))


def test_a_gradient_that_passes_unchanged(bridge):
    near = bridge(plus=lambda a, b: a + b)
    a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    near.get("plus")(a, b).backward(torch.tensor([3.0, 4.0]))
    assert a.grad.tolist() == b.grad.tolist() == [3.0, 4.0]


def test_second_derivatives_cross_too(bridge):
    near = bridge(cube=lambda x: x**3)
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    (first,) = torch.autograd.grad(near.get("cube")(x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert torch.allclose(first.detach(), 3 * x.detach() ** 2)
    assert torch.allclose(second, 6 * x.detach())


def test_without_gradients_none_are_kept(bridge):
    near = bridge(double=lambda x: (x * 2, torch.is_grad_enabled()))
    x = torch.ones(2, requires_grad=True)
    with torch.no_grad():
        result, enabled = near.get("double")(x)
    assert not result.requires_grad and enabled is False
    assert not near.far._graphs


def test_a_graph_is_dropped_when_nobody_needs_it(bridge):
    near = bridge(double=lambda x: x * 2)
    x = torch.ones(2, requires_grad=True)
    for _ in range(20):
        near.get("double")(x)
    assert len(near.far._graphs) <= 1


def test_changes_of_an_argument_come_back(bridge):
    def change(x, items, table, generator):
        x.mul_(2)
        items.append(x)
        items[0] = "new"
        table["b"] = table.pop("a") + 1
        return torch.rand(1, generator=generator)

    near = bridge(change=change)
    x, items, table = torch.ones(3), ["old"], {"a": 1}
    generator = torch.Generator().manual_seed(3)
    drawn = near.get("change")(x, items, table, generator)
    expected = torch.Generator().manual_seed(3)
    assert torch.equal(x, torch.full((3,), 2.0))
    assert items[0] == "new" and items[1] is x and table == {"b": 2}
    assert torch.equal(drawn, torch.rand(1, generator=expected))
    assert torch.equal(torch.rand(2, generator=generator), torch.rand(2, generator=expected))


def test_random_numbers_continue_on_the_other_side(bridge):
    near = bridge(draw=lambda: (torch.rand(2), numpy.random.rand()))
    torch.manual_seed(5)
    numpy.random.seed(5)
    got = [near.get("draw")(), torch.rand(1), near.get("draw")()]
    torch.manual_seed(5)
    numpy.random.seed(5)
    wanted = [(torch.rand(2), numpy.random.rand()), torch.rand(1), (torch.rand(2), numpy.random.rand())]
    assert same(got, wanted)


def test_exceptions_keep_their_kind_and_text(bridge):
    class MyError(ValueError):
        pass

    def fail(kind):
        if kind == "own":
            raise MyError("a wide error")
        if kind == "unicode":
            b"\xff".decode()
        {"assert": lambda: AssertionError("no"), "todo": NotImplementedError}[kind] and None
        raise {"assert": AssertionError("no"), "todo": NotImplementedError("your turn")}[kind]

    near = bridge(fail=fail)
    with pytest.raises(ValueError, match="a wide error") as caught:
        near.get("fail")("own")
    assert caught.type.__name__ == "MyError"
    with pytest.raises(AssertionError, match="no"):
        near.get("fail")("assert")
    with pytest.raises(NotImplementedError):
        near.get("fail")("todo")
    with pytest.raises(UnicodeDecodeError, match="invalid start byte"):
        near.get("fail")("unicode")


def test_a_function_that_is_handed_over_is_called_back(bridge):
    def probe(program):
        x = torch.ones(2, 3, requires_grad=True)
        y = program(x, power=2)
        (gradient,) = torch.autograd.grad(y.sum(), x)
        return y.detach(), gradient

    near = bridge(probe=probe)
    y, gradient = near.get("probe")(lambda x, power: (3 * x) ** power)
    assert torch.equal(y, torch.full((2, 3), 9.0)) and torch.equal(gradient, torch.full((2, 3), 18.0))


def test_gradients_reach_what_a_callback_depends_on(bridge):
    def loss(encode, x):
        return (encode(x) * encode(2 * x)).sum() + x.sum()

    w, x = torch.randn(3, 3, requires_grad=True), torch.randn(2, 3, requires_grad=True)

    def encode(x):
        return torch.tanh(x @ w)

    far = torch.autograd.grad(bridge(loss=loss).get("loss")(encode, x), (w, x))
    near = torch.autograd.grad(loss(encode, x), (w, x))
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(far, near, strict=True))


def test_a_function_goes_there_and_back_as_itself(bridge):
    near = bridge(echo=lambda f: f, make=lambda n: lambda x: x + n)
    mine = len
    assert near.get("echo")(mine) is mine
    add = near.get("make")(3)
    assert near.get("echo")(add) is add and add(4) == 7


def test_a_callback_may_fail_and_be_caught(bridge):
    def careful(program):
        try:
            program()
        except KeyError as error:
            return f"caught {error}"

    def fail():
        raise KeyError("deep")

    assert "deep" in bridge(careful=careful).get("careful")(fail)


class Counter:
    """An object that is no module."""

    def __init__(self):
        self.count = 0

    def add(self, number):
        self.count += number
        return self.count

    def __len__(self):
        return self.count

    def __getitem__(self, place):
        if place >= self.count:
            raise IndexError(place)
        return place * 10


def test_an_object_is_used_from_afar(bridge):
    near = bridge(Counter=Counter)
    counter = near.get("Counter")()
    assert counter.add(3) == 3 and counter.count == 3 and len(counter) == 3
    assert list(counter) == [0, 10, 20]
    with pytest.raises(AttributeError):
        _ = counter._hidden


def test_a_generator_function_yields_from_afar(bridge):
    def rows(count):
        for row in range(count):
            yield torch.full((2,), float(row))

    assert [row[0].item() for row in bridge(rows=rows).get("rows")(3)] == [0.0, 1.0, 2.0]


# --- modules ----------------------------------------------------------------------------------------------


class Small(nn.Module):
    def __init__(self, width, tied=False):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(width, width), nn.Linear(width, width)])
        self.norm = nn.BatchNorm1d(width)
        self.register_buffer("table", torch.arange(width, dtype=torch.float32), persistent=False)
        if tied:
            self.layers[1].weight = self.layers[0].weight
        self.width, self.seen = width, 0

    def forward(self, x):
        self.seen += 1
        for layer in self.layers:
            x = layer(x)
        return self.norm(x) + self.table

    def twice(self, x):
        return self.layers[0](self.layers[0](x))


def test_a_module_of_the_other_side_behaves_like_one(bridge):
    near = bridge(Small=Small)
    torch.manual_seed(1)
    far = near.get("Small")(width=4)
    torch.manual_seed(1)
    mine = Small(4)
    assert isinstance(far, nn.Module) and type(far).__name__ == "Small"
    assert list(far.state_dict()) == list(mine.state_dict())
    assert all(torch.equal(a, b) for a, b in zip(far.parameters(), mine.parameters(), strict=True))
    assert isinstance(far.layers, nn.ModuleList) and isinstance(far.layers[1], nn.Linear)
    assert len(far.layers) == 2 and far.layers[0].in_features == 4 and far.width == 4
    x = torch.randn(5, 4)
    assert torch.allclose(far(x), mine(x), atol=1e-6) and far.seen == 1
    assert torch.equal(far.norm.running_mean, mine.norm.running_mean)  # it was in training
    assert torch.allclose(far.twice(x), mine.twice(x), atol=1e-6)
    assert torch.allclose(far.layers[0](x), mine.layers[0](x), atol=1e-6)
    with pytest.raises(AttributeError):
        _ = far.missing


def test_weights_of_a_mirror_are_loaded_moved_and_trained(bridge):
    near = bridge(Small=Small)
    far, mine = near.get("Small")(width=3), Small(3)
    far.load_state_dict(mine.state_dict())
    x = torch.randn(6, 3)
    for module in (far, mine):
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            module(x).square().sum().backward()
            optimizer.step()
        module.eval()
    assert all(
        torch.allclose(a, b, atol=1e-5) for a, b in zip(far.parameters(), mine.parameters(), strict=True)
    )
    assert torch.allclose(far(x), mine(x), atol=1e-4)
    assert far.double()(x.double()).dtype == torch.float64
    far.layers[0].weight.requires_grad_(False)
    far.zero_grad()
    far(x.double()).sum().backward()
    assert far.layers[0].weight.grad is None and far.layers[1].weight.grad is not None


def test_shared_weights_stay_shared(bridge):
    far = bridge(Small=Small).get("Small")(3, tied=True)
    assert far.layers[0].weight is far.layers[1].weight
    assert len(list(far.parameters())) == 5
    far(torch.randn(4, 3)).sum().backward()
    assert far.layers[0].weight.grad is not None


def test_a_copy_of_a_mirror_is_another_module(bridge):
    far = bridge(Small=Small).get("Small")(3)
    twin = copy.deepcopy(far)
    with torch.no_grad():
        twin.layers[0].weight.zero_()
    x = torch.randn(4, 3)
    assert not torch.allclose(far(x), twin(x)) and far.layers[0].weight.any()


@pytest.mark.parametrize(
    "layer",
    [
        nn.Linear(3, 3),
        nn.Embedding(9, 3),
        nn.LSTM(3, 3, num_layers=2, bidirectional=True, batch_first=True),
        nn.GRU(3, 4),
        nn.RNN(3, 4, nonlinearity="relu"),
        nn.LayerNorm(3),
        nn.Dropout(0.5),
        nn.MultiheadAttention(4, 2, batch_first=True),
        nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 3)),
        nn.TransformerEncoderLayer(4, 2, 8, batch_first=True),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_a_layer_of_torch_is_rebuilt_over_there(bridge, layer):
    seen = []

    def use(module, *inputs):
        seen.append(type(module))
        assert type(module) is type(layer) and repr(module) == repr(layer)
        return module(*inputs)

    near = bridge(use=use)
    width = {nn.MultiheadAttention: 4, nn.TransformerEncoderLayer: 4}.get(type(layer), 3)
    x = torch.randint(9, (2, 5)) if type(layer) is nn.Embedding else torch.randn(2, 5, width)
    inputs = (x, x, x) if type(layer) is nn.MultiheadAttention else (x,)
    torch.manual_seed(0)
    got = near.get("use")(layer, *inputs)
    torch.manual_seed(0)
    wanted = layer(*inputs)
    got, wanted = (value if isinstance(value, torch.Tensor) else value[0] for value in (got, wanted))
    assert seen == [type(layer)] and torch.allclose(got, wanted, atol=1e-6)
    if wanted.requires_grad:
        wanted.sum().backward()
        grads = [p.grad for p in layer.parameters()]
        layer.zero_grad()
        got.sum().backward()
        for mine, far in zip(grads, layer.parameters(), strict=True):
            assert torch.allclose(mine, far.grad, atol=1e-5)


def test_a_layer_that_is_changed_over_there_is_changed_here(bridge):
    def spoil(layer):
        with torch.no_grad():
            layer.bias.fill_(7)
        layer.weight = nn.Parameter(torch.zeros(3, 3))
        layer.train(False)
        layer.extra = nn.Parameter(torch.ones(1), requires_grad=False)

    layer = nn.Linear(3, 3)
    bias, weight = layer.bias, layer.weight
    bridge(spoil=spoil).get("spoil")(layer)
    assert layer.bias is bias and torch.equal(bias, torch.full((3,), 7.0))
    assert layer.weight is not weight and not layer.weight.any() and not layer.training
    assert not layer.extra.requires_grad and dict(layer.named_parameters()).keys() == {
        "weight",
        "bias",
        "extra",
    }


def test_a_parameter_that_is_frozen_or_trained_over_there(bridge):
    def train(layer, x):
        layer.bias.requires_grad_(False)
        layer(x).sum().backward()

    layer, x = nn.Linear(3, 2), torch.ones(4, 3)
    bridge(train=train).get("train")(layer, x)
    assert not layer.bias.requires_grad and layer.bias.grad is None
    assert torch.equal(layer.weight.grad, torch.full((2, 3), 4.0))


def test_a_module_that_the_worker_does_not_know_is_called_back(bridge):
    class Private(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(3, 3)

        def forward(self, x):
            return self.inner(x) * 2

    def use(module, x):
        assert isinstance(module, nn.Module) and [name for name, _ in module.named_parameters()]
        return module(x)

    private, x = Private(), torch.randn(2, 3, requires_grad=True)
    result = bridge(use=use).get("use")(private, x)
    assert torch.allclose(result, private(x))
    result.sum().backward()
    got = x.grad.clone(), private.inner.weight.grad.clone()
    x.grad = private.inner.weight.grad = None
    private(x).sum().backward()
    assert torch.allclose(got[0], x.grad) and torch.allclose(got[1], private.inner.weight.grad)


def test_a_mirror_is_handed_back_as_the_module_it_is(bridge):
    def train(model, x):
        assert type(model) is Small
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model(x).square().sum().backward()
        optimizer.step()
        return model

    near = bridge(Small=Small, train=train)
    far, x = near.get("Small")(3), torch.randn(4, 3)
    before = far.layers[0].weight.detach().clone()
    assert near.get("train")(far, x) is far
    assert not torch.equal(far.layers[0].weight, before) and far.layers[0].weight.grad is not None


# --- distrust ---------------------------------------------------------------------------------------------


def test_a_value_above_the_limit_is_refused(bridge):
    near = bridge(
        most=MIB,
        big=lambda: torch.zeros(MIB),
        many=lambda: [[0] * 1000 for _ in range(1000)],
        deep=lambda: _nested(200),
        fine=lambda: 1,
    )
    for name in ("big", "many", "deep"):
        with pytest.raises(ValueError, match="too"):
            near.get(name)()
    assert near.get("fine")() == 1


def _nested(levels):
    value = []
    for _ in range(levels):
        value = [value]
    return value


FORGERIES = [
    {"v": ["t", 0]},
    {"v": ["t", True], "t": [{"d": "float32", "s": [1]}]},
    {"v": ["t", 0], "t": [{"d": "float32", "s": [10**9]}]},
    {"v": ["t", 0], "t": [{"d": "float32", "s": [-1]}]},
    {"v": ["t", 0], "t": [{"d": "float32", "s": [1], "st": [10**15]}]},
    {"v": ["t", 0], "t": [{"d": "object", "s": [1]}]},
    {"v": ["t", 0], "t": [{"d": "int64", "s": [0], "r": 1}]},
    {"v": ["t", 0], "t": [{"arg": 5}]},
    {"v": ["nonsense"]},
    {"v": {"a": 1}},
    {"v": ["own", 1]},
    {"v": ["path", "torch", "save"]},
    {"v": ["y", 7]},
    {"v": ["c", "nn.functional"]},
    {"v": ["r", ["os", "system"], ["true"]]},
    {"v": ["r", ["attnlab.checks.ch03_query_key_value.references", "SelfAttention"], []]},
    {"v": ["i", "0x" + "f" * 10000]},
    {"v": ["g", 7]},
    {"v": ["{", [[["[", []], 1]]]},
    {"v": ["m", 0], "m": [["plan", {"class": ["os", "system"], "has": None, "in": []}, None]]},
    {"v": ["m", 0], "m": [["own", 3, None]]},
    {"v": ["m", 0], "m": [["new", {"ref": 1, "name": "x", "base": "Linear", "in": [["a"]]}, None]]},
    {
        "v": ["m", 0],
        "m": [["new", {"ref": 1, "in": []}, {"p": [["a.b", 0, True, True, None]], "u": [], "mode": []}]],
    },
    {"v": 1, "n": "x"},
    {"v": 1, "op": "answer"},
    {"v": 1, "id": 99},
    {"v": 1, "n": 0, "graph": "x", "t": [{"d": "float32", "s": [0], "r": 2}]},
]


@pytest.mark.parametrize("forged", FORGERIES, ids=lambda forged: str(forged)[:60])
def test_a_forged_reply_is_refused_in_one_way(bridge, forged):
    from attnlab.grading.bridge import values

    near = bridge(f=lambda: 1)
    function = near.get("f")
    count = len(forged.get("t", []))

    def forge(message, _):
        reply = {"t": [], "m": [], "op": "reply", "id": message["id"], "n": count, **forged}
        near.far.channel.send(reply, [b""] * count + values.random_states())

    near.far.answer = forge
    with pytest.raises(WireError):
        function()


@pytest.mark.parametrize("target", ["not exported", "a method of it", "an attribute of it"])
def test_the_worker_calls_nothing_but_what_it_was_handed(bridge, target):
    near = bridge(use=lambda f: _reach(near.far, f, target))
    Near.may_be_called, before = _strict, Near.may_be_called
    try:
        with pytest.raises(WireError):
            near.get("use")(lambda: 1)
    finally:
        Near.may_be_called = before


def _strict(self, target, how, name):
    return self.is_exported(target) and how == "call"


def _reach(far, function, target):
    if target == "not exported":
        return far.call(nn.LSTM, (3, 4), {})
    return far.call(function, (), {}, "method" if "method" in target else "attribute", "__globals__")


@pytest.mark.parametrize(
    "data", [b"\xff" * 12, b"\5\0\0\0" + b"\0" * 8 + b"[1,2]", b"\2\0\0\0" + b"\0" * 8 + b"{}"]
)
def test_what_is_no_message_is_refused(data):
    reading, writing = os.pipe()
    os.write(writing, data)
    os.close(writing)
    with pytest.raises(WireError):
        Channel(reading, writing, most=MIB).receive()
    os.close(reading)


def test_the_end_of_the_channel_is_told():
    reading, writing = os.pipe()
    os.close(writing)
    with pytest.raises(Closed):
        Channel(reading, writing, most=MIB).receive()
    with pytest.raises(TooLarge):
        Channel(reading, writing, most=4).send({}, [b"12345"])
    os.close(reading)

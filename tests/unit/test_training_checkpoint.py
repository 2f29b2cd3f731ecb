"""Checkpoints: a run that was saved and loaded goes on bit for bit, and what does not fit changes nothing."""

import functools
import json
import os
import stat

import pytest
import torch
from safetensors import safe_open
from torch import nn

from attnlab.training import History, fit, warmup_cosine
from attnlab.training.checkpoint import (
    Checkpoint,
    load_checkpoint,
    load_weights,
    read_config,
    save_checkpoint,
    save_weights,
)

OPTIMIZERS = {
    "Adam": lambda net: torch.optim.Adam(net.parameters(), lr=0.05, betas=(0.8, 0.95)),
    "Adam, amsgrad": lambda net: torch.optim.Adam(net.parameters(), lr=0.05, amsgrad=True),
    "AdamW in groups": lambda net: torch.optim.AdamW(
        [{"params": [net.output.bias], "weight_decay": 0.0}, {"params": [net.embedding.weight], "lr": 0.02}],
        lr=0.05,
    ),
    "SGD": lambda net: torch.optim.SGD(net.parameters(), lr=0.05),
    "SGD, momentum": lambda net: torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9),
}


class Tied(nn.Module):
    """A little language model: tied weights, a buffer that counts, and dropout."""

    def __init__(self, width=4, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.embedding = nn.Embedding(6, width)
        self.output = nn.Linear(width, 6)
        self.output.weight = self.embedding.weight
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, tokens):
        self.calls += 1
        return self.output(nn.functional.dropout(self.embedding(tokens), 0.2, self.training))


def batches(generator):
    while True:
        tokens = torch.randint(6, (3, 5), generator=generator)
        yield tokens, (tokens + 1) % 6


def state_of(net, optimizer=None):
    """All that a load could change, as text."""
    states = [net.state_dict(), {} if optimizer is None else optimizer.state_dict()]
    return json.dumps(states, sort_keys=True, default=lambda tensor: [str(tensor.dtype), tensor.tolist()])


def trained(net, name="Adam", steps=2):
    optimizer = OPTIMIZERS[name](net)
    fit(net, batches(torch.Generator().manual_seed(5)), steps=steps, optimizer=optimizer)
    return optimizer


@pytest.mark.parametrize("name", list(OPTIMIZERS))
def test_ten_steps_saved_loaded_and_ten_more_are_twenty_steps_bit_for_bit(name, tmp_path):
    make_optimizer = OPTIMIZERS[name]
    schedule = functools.partial(warmup_cosine, warmup=5, total=20)
    path = tmp_path / "run.safetensors"

    def start(seed):
        net, data = Tied(seed=seed), torch.Generator().manual_seed(seed)
        return net, make_optimizer(net), data

    net, optimizer, data = start(0)
    torch.manual_seed(1)
    expected = fit(net, batches(data), steps=20, optimizer=optimizer, schedule=schedule)

    first, first_optimizer, first_data = start(0)
    torch.manual_seed(1)
    history = fit(first, batches(first_data), steps=10, optimizer=first_optimizer, schedule=schedule)
    generators = {"data": first_data, "dropout": torch.default_generator}
    save_checkpoint(path, first, first_optimizer, step=history.steps, history=history, generators=generators)

    fresh, fresh_optimizer, fresh_data = start(7)
    torch.manual_seed(99)
    generators = {"data": fresh_data, "dropout": torch.default_generator}
    loaded = load_checkpoint(path, fresh, fresh_optimizer, generators=generators)
    assert isinstance(loaded, Checkpoint)
    assert loaded.step == 10
    assert loaded.history == history
    again = fit(
        fresh,
        batches(fresh_data),
        steps=10,
        optimizer=fresh_optimizer,
        schedule=schedule,
        history=loaded.history,
    )
    assert again == expected
    assert state_of(fresh, fresh_optimizer) == state_of(net, optimizer)
    assert fresh.output.weight is fresh.embedding.weight
    assert torch.equal(torch.rand(3, generator=fresh_data), torch.rand(3, generator=data))


def test_the_options_of_an_optimizer_come_back_as_they_were(tmp_path):
    net = Tied()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1, betas=(0.8, 0.9), eps=1e-7, weight_decay=0.3)
    save_checkpoint(tmp_path / "run", net, optimizer, step=0)
    other = torch.optim.Adam(net.parameters())
    load_checkpoint(tmp_path / "run", net, other)
    assert other.state_dict() == optimizer.state_dict()
    assert other.param_groups[0]["betas"] == (0.8, 0.9)


def test_a_history_comes_back_whole(tmp_path):
    net = Tied()
    history = History([1 / 3, 0.1], [2.5, 1e-300], True, [0.1, 0.2])
    save_checkpoint(tmp_path / "run", net, trained(net), step=2, history=history, config={"d_model": 4})
    loaded = load_checkpoint(tmp_path / "run", Tied(seed=3))
    assert loaded == Checkpoint(2, history, {"d_model": 4})
    save_checkpoint(tmp_path / "run", net, trained(net), step=7)
    assert load_checkpoint(tmp_path / "run", Tied(seed=3)) == Checkpoint(7, History(), {})


def test_the_optimizer_does_not_go_on_in_the_files_memory(tmp_path):
    net = Tied()
    optimizer = trained(net)
    save_checkpoint(tmp_path / "run", net, optimizer, step=2)
    content = (tmp_path / "run").read_bytes()
    load_checkpoint(tmp_path / "run", net, optimizer)
    fit(net, batches(torch.Generator()), steps=2, optimizer=optimizer)
    assert (tmp_path / "run").read_bytes() == content


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_weights_alone_come_back_bit_for_bit_with_their_config(dtype, tmp_path):
    net, fresh = Tied().to(dtype), Tied(seed=3).to(dtype)
    config = {"d_model": 4, "name": "klein, ß", "rates": [0.1, None, True]}
    save_weights(tmp_path / "weights", net, config)
    assert read_config(tmp_path / "weights") == config
    assert load_weights(tmp_path / "weights", fresh) == config
    assert fresh.embedding.weight.dtype == dtype
    assert state_of(fresh) == state_of(net)


def test_the_weights_of_a_checkpoint_can_be_loaded_alone_but_not_the_other_way(tmp_path):
    net, fresh = Tied(), Tied(seed=3)
    save_checkpoint(tmp_path / "run", net, trained(net), step=2, config={"d_model": 4})
    assert load_weights(tmp_path / "run", fresh) == read_config(tmp_path / "run") == {"d_model": 4}
    assert state_of(fresh) == state_of(net)
    save_weights(tmp_path / "weights", net)
    with pytest.raises(ValueError, match="weights: expected a checkpoint, got a file of weights"):
        load_checkpoint(tmp_path / "weights", fresh)


def test_tied_tensors_are_stored_once(tmp_path):
    save_weights(tmp_path / "weights", Tied())
    with safe_open(tmp_path / "weights", framework="pt") as file:
        assert set(file.keys()) == {"model/embedding.weight", "model/output.bias", "model/calls"}


def test_any_tensor_can_be_stored(tmp_path):
    net = nn.Module()
    net.register_buffer("transposed", torch.arange(6.0).reshape(2, 3).T)
    net.register_buffer("empty", torch.zeros(0, 3))
    net.register_buffer("mask", torch.tensor([True, False]))
    net.register_buffer("view", net.transposed[1:])
    fresh = nn.Module()
    for name, tensor in net.state_dict().items():
        fresh.register_buffer(name, torch.zeros_like(tensor))
    save_weights(tmp_path / "weights", net)
    load_weights(tmp_path / "weights", fresh)
    assert state_of(fresh) == state_of(net)


def other_ties():
    net = Tied()
    net.output.weight = nn.Parameter(net.embedding.weight.detach().clone())
    return net


class Renamed(Tied):
    def __init__(self):
        super().__init__()
        self.head = self.output
        del self.output


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Tied(width=5), r"model: expected embedding.weight as in .*\(6, 4\).*got \(6, 5\)"),
        (lambda: Tied().double(), "model: expected embedding.weight .*float32, got .*float64"),
        (other_ties, r"model: .*lacks \['output.weight'\] and has \[\] besides"),
        (Renamed, r"model: .*lacks \['head.bias'\] and has \['output.bias'\] besides"),
    ],
)
def test_another_model_is_refused_and_nothing_is_changed(make, message, tmp_path):
    net = Tied()
    save_checkpoint(tmp_path / "run", net, trained(net), step=2)
    other = make()
    before = state_of(other)
    with pytest.raises(ValueError, match=message):
        load_weights(tmp_path / "run", other)
    with pytest.raises(ValueError, match=message):
        load_checkpoint(tmp_path / "run", other)
    assert state_of(other) == before


def test_a_model_that_ties_other_tensors_is_refused(tmp_path):
    class Pair(nn.Module):
        def __init__(self, names):
            super().__init__()
            self.a = nn.Parameter(torch.zeros(2))
            for name in names:
                setattr(self, name, self.a)
            if "c" not in names:
                self.c = nn.Parameter(torch.ones(2))

    save_weights(tmp_path / "weights", Pair(["b"]))
    with pytest.raises(ValueError, match="model: expected the one saved|model: expected the tied tensors"):
        load_weights(tmp_path / "weights", Pair(["b", "c"]))
    save_weights(tmp_path / "weights", Pair([]))
    with pytest.raises(ValueError, match="model: expected the tied tensors .*{}, got {'b': 'a'}"):
        load_weights(tmp_path / "weights", Pair(["b"]))


def backwards(net):
    return torch.optim.Adam([net.output.bias, net.embedding.weight], lr=0.05)


def too_few(net):
    return torch.optim.Adam([net.embedding.weight], lr=0.05)


@pytest.mark.parametrize(
    ("make_optimizer", "message"),
    [
        (OPTIMIZERS["SGD"], "optimizer: expected Adam, as saved in .*got SGD"),
        (lambda net: torch.optim.AdamW(net.parameters()), "optimizer: expected Adam, .*got AdamW"),
        (backwards, r"optimizer: expected groups .*\[\['embedding.weight', 'output.bias'\]\], got"),
        (too_few, r"optimizer: expected groups .*got \[\['embedding.weight'\]\]"),
        (lambda _: torch.optim.Adam(Tied().parameters()), "optimizer: expected parameters of the model"),
    ],
)
def test_another_optimizer_is_refused_and_nothing_is_changed(make_optimizer, message, tmp_path):
    net, fresh = Tied(), Tied(seed=3)
    save_checkpoint(tmp_path / "run", net, trained(net), step=2)
    optimizer = make_optimizer(fresh)
    before = state_of(fresh, optimizer)
    with pytest.raises(ValueError, match=message):
        load_checkpoint(tmp_path / "run", fresh, optimizer)
    assert state_of(fresh, optimizer) == before


@pytest.mark.parametrize("names", [[], ["data", "more"], ["other"]])
def test_other_generators_are_refused_and_nothing_is_changed(names, tmp_path):
    net, fresh = Tied(), Tied(seed=3)
    save_checkpoint(tmp_path / "run", net, trained(net), step=2, generators={"data": torch.Generator()})
    optimizer = OPTIMIZERS["Adam"](fresh)
    before = state_of(fresh, optimizer)
    with pytest.raises(ValueError, match=r"generators: expected those saved in .*\['data'\], got"):
        load_checkpoint(
            tmp_path / "run", fresh, optimizer, generators={name: torch.Generator() for name in names}
        )
    assert state_of(fresh, optimizer) == before


def test_a_generator_state_that_does_not_fit_is_refused_and_nothing_is_changed(tmp_path):
    class Odd(torch.Generator):
        def get_state(self):
            return torch.zeros(3, dtype=torch.uint8)

    net, fresh = Tied(), Tied(seed=3)
    right = torch.Generator().manual_seed(1)
    save_checkpoint(tmp_path / "run", net, trained(net), step=2, generators={"a": right, "b": Odd()})
    before, right_before = state_of(fresh), right.manual_seed(2).get_state()
    with pytest.raises(ValueError, match="generators: expected 'b' on the kind of device"):
        load_checkpoint(tmp_path / "run", fresh, generators={"a": right, "b": torch.Generator()})
    assert state_of(fresh) == before
    assert torch.equal(right.get_state(), right_before)


def test_what_cannot_be_saved_is_refused_and_the_old_file_stays(tmp_path):
    class Extra(Tied):
        def get_extra_state(self):
            return {"anything": 1}

    path = tmp_path / "run"
    net = Tied()
    optimizer = trained(net)
    save_checkpoint(path, net, optimizer, step=2)
    content = path.read_bytes()
    odd = trained(net)
    odd.state[net.output.bias]["extra"] = object()
    for call, error, message in (
        (lambda: save_weights(path, Extra()), TypeError, "model: .*got dict as _extra_state"),
        (lambda: save_weights(path, net, {"sizes": (1, 2)}), ValueError, "what JSON can hold unchanged"),
        (lambda: save_weights(path, net, {1: 2}), ValueError, "what JSON can hold unchanged"),
        (lambda: save_checkpoint(path, net, odd, step=2), TypeError, "optimizer: .*got object as extra"),
        (lambda: save_checkpoint(path, Tied(), optimizer, step=2), ValueError, "optimizer: .*of the model"),
    ):
        with pytest.raises(error, match=message):
            call()
        assert path.read_bytes() == content
    assert os.listdir(tmp_path) == ["run"]


def test_no_file_is_an_error_of_its_own(tmp_path):
    for call in (load_weights, load_checkpoint):
        with pytest.raises(FileNotFoundError):
            call(tmp_path / "none", Tied())
    with pytest.raises(FileNotFoundError):
        read_config(tmp_path / "none")


def test_a_damaged_file_changes_nothing(tmp_path):
    path = tmp_path / "run"
    net, fresh = Tied(), Tied(seed=3)
    save_checkpoint(path, net, trained(net), step=2, generators={"data": torch.Generator()})
    content = path.read_bytes()
    optimizer = OPTIMIZERS["Adam"](fresh)
    before = state_of(fresh, optimizer)
    for place in range(0, len(content), len(content) // 40):
        path.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
        with pytest.raises(ValueError, match="run: "):
            load_checkpoint(path, fresh, optimizer)
        path.write_bytes(content[:place])
        with pytest.raises(ValueError, match="run: "):
            load_checkpoint(path, fresh, optimizer)
    assert state_of(fresh, optimizer) == before


def test_a_checkpoint_may_be_read_by_those_who_may_read_other_new_files(tmp_path):
    (tmp_path / "other").write_text("", encoding="utf-8")
    save_weights(tmp_path / "weights", Tied())
    modes = {name: stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("other", "weights")}
    assert modes["weights"] == modes["other"]

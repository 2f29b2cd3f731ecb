"""An optimizer's memory by the names of the parameters: through JSON and back, or refused."""

import json

import pytest
import torch
from torch import nn

from attnlab.training.optimizer_state import check_optimizer, optimizer_record


def trained(make, steps=3):
    """A model of three parameters, and its optimizer after some steps."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1, bias=False))
    optimizer = make(net)
    for step in range(steps):
        optimizer.zero_grad()
        net(torch.full((1, 2), 1.0 + step)).square().sum().backward()
        optimizer.step()
    return net, optimizer


def adam(net):
    return torch.optim.Adam(net.parameters(), lr=0.1, betas=(0.7, 0.8))


def in_groups(net):
    return torch.optim.AdamW(
        [
            {"params": [net[0].bias], "weight_decay": 0.5},
            {"params": [net[1].weight, net[0].weight], "lr": 0.3},
        ]
    )


def momentum(net):
    return torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)


def same(received, expected):
    """Whether two states of an optimizer are equal, kinds of numbers and sequences included."""
    if isinstance(expected, dict):
        return received.keys() == expected.keys() and all(
            same(received[key], expected[key]) for key in expected
        )
    if isinstance(expected, list | tuple):
        alike = type(received) is type(expected) and len(received) == len(expected)
        return alike and all(same(*pair) for pair in zip(received, expected, strict=True))
    if isinstance(expected, torch.Tensor):
        return torch.equal(received, expected) and received.dtype == expected.dtype
    return type(received) is type(expected) and received == expected


@pytest.mark.parametrize("make", [adam, in_groups, momentum])
def test_what_was_recorded_is_the_optimizers_own_state(make):
    net, optimizer = trained(make)
    optimizer.param_groups[0]["initial_lr"] = 0.7
    optimizer.state[net[0].bias]["counts"] = [1, (2, 3.5), None, True, "word"]
    tensors, record = optimizer_record(net, optimizer)
    fresh, other = trained(make, steps=0)
    state = check_optimizer("run", fresh, other, tensors, json.loads(json.dumps(record)))
    assert same(state, optimizer.state_dict())


def test_names_say_which_tensor_is_whose():
    net, optimizer = trained(in_groups)
    tensors, record = optimizer_record(net, optimizer)
    assert [group["params"] for group in record["groups"]] == [["0.bias"], ["1.weight", "0.weight"]]
    assert torch.equal(tensors["optimizer/exp_avg/0.weight"], optimizer.state[net[0].weight]["exp_avg"])
    assert record["class"] == "AdamW"


def test_a_parameter_without_a_state_is_left_without_one():
    net, optimizer = trained(adam, steps=0)
    tensors, record = optimizer_record(net, optimizer)
    assert tensors == {}
    assert check_optimizer("run", net, optimizer, tensors, record)["state"] == {}


def sorted_differently(net):
    return torch.optim.Adam([net[1].weight, net[0].weight, net[0].bias])


def split_differently(net):
    return torch.optim.Adam([{"params": net[0].parameters()}, {"params": net[1].parameters()}])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (momentum, "optimizer: expected Adam, as saved in run, got SGD"),
        (sorted_differently, "optimizer: expected groups of the parameters saved in run"),
        (split_differently, "optimizer: expected groups of the parameters saved in run"),
        (lambda net: torch.optim.Adam([net[0].weight]), "optimizer: expected groups of the parameters"),
        (lambda _: trained(adam)[1], "optimizer: expected parameters of the model, got one of another"),
    ],
)
def test_another_optimizer_is_refused(make, message):
    tensors, record = optimizer_record(*trained(adam))
    net, other = trained(make, steps=0)
    with pytest.raises(ValueError, match=message):
        check_optimizer("run", net, other, tensors, record)


def test_what_is_no_plain_value_is_refused():
    net, optimizer = trained(adam)
    optimizer.param_groups[0]["lr"] = torch.tensor(0.1)
    with pytest.raises(TypeError, match="optimizer: expected tensors and plain values, got Tensor as lr"):
        optimizer_record(net, optimizer)

"""Evaluation costs what the plain layer costs: the mapped weight is cached, and recomputed when anything changes."""

import copy
from typing import Any

import pytest
import torch
from tests.kinds import LAYERS, each_layer, each_map, inputs, normalised, some_layers, some_maps, state
from torch import nn

import aon


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def counted(layer: Any, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that grows with every evaluation of the layer's map."""
    calls: list[int] = []
    for name in ("forward", "read"):
        original = getattr(type(layer.map), name)

        def call(self: Any, *args: Any, _original: Any = original, **kwargs: Any) -> Any:
            calls.append(1)
            return _original(self, *args, **kwargs)

        monkeypatch.setattr(type(layer.map), name, call)
    return calls


@each_map
@each_layer
def test_evaluation_computes_the_map_once(options, kind, monkeypatch):
    layer, x = normalised(kind, options).eval(), inputs(kind)
    with torch.no_grad():
        expected = layer(x)
        calls = counted(layer, monkeypatch)
        for _ in range(3):
            assert torch.equal(layer(x), expected)
        with torch.inference_mode():
            assert torch.equal(layer(x), expected)
    assert not calls


@torch.no_grad()
def optimiser_step(layer: Any) -> None:
    for p in layer.parameters():
        p.grad = torch.ones_like(p)
    torch.optim.SGD(layer.parameters(), 0.1).step()


@torch.no_grad()
def load(layer: Any) -> None:
    layer.load_state_dict({k: v * 0.9 + 0.1 if k == "weight" else v for k, v in state(layer).items()})


@torch.no_grad()
def load_by_assignment(layer: Any) -> None:
    layer.load_state_dict({k: v + 0.1 if k == "weight" else v for k, v in state(layer).items()}, assign=True)


@torch.no_grad()
def write_in_place(layer: Any) -> None:
    layer.weight.view(-1)[1] += 0.5


def write_data(layer: Any) -> None:
    layer.weight.data.view(-1)[1] += 0.5


def write_numpy(layer: Any) -> None:
    layer.weight.detach().numpy().ravel()[1] += 0.5


def negate_data(layer: Any) -> None:
    layer.weight.data.neg_()


def swap_rows_data(layer: Any) -> None:
    rows = layer.weight.data
    rows[[0, 1]] = rows[[1, 0]].clone()


def swap_columns_data(layer: Any) -> None:
    columns = layer.weight.data.flatten(1)
    columns[:, [0, -1]] = columns[:, [-1, 0]].clone()
    layer.weight.data.copy_(columns.view_as(layer.weight))


def replace(layer: Any) -> None:
    layer.weight = nn.Parameter(layer.weight.detach() + 0.1)


CHANGES = [
    optimiser_step,
    load,
    load_by_assignment,
    write_in_place,
    write_data,
    write_numpy,
    negate_data,
    swap_rows_data,
    swap_columns_data,
    replace,
]


def recomputed(layer: Any) -> Any:
    """A copy, which has nothing stored."""
    return copy.deepcopy(layer)


@pytest.mark.parametrize("change", CHANGES)
@some_maps
@some_layers
def test_the_stored_weight_is_recomputed_when_the_weight_changes(change, options, kind):
    layer, x = normalised(kind, options).eval(), inputs(kind)
    with torch.no_grad():
        before = layer(x)
        change(layer)
        after = layer(x)
        assert torch.equal(after, recomputed(layer)(x))
        assert not torch.equal(after, before)


@pytest.mark.parametrize("through", ["in_place", "data"])
@pytest.mark.parametrize("name", ["gain", "map.u", "map.previous"])
@pytest.mark.parametrize("kind", [LAYERS["linear_wide"], LAYERS["linear_tall"]], ids=["wide", "tall"])
def test_the_stored_weight_is_recomputed_when_the_state_changes(name, through, kind):
    layer, x = normalised(kind, {"order": 2}), inputs(kind)
    if name == "map.previous":
        layer(x)  # the weight is not new then, and the step is repeated from the vector before
    layer.eval()
    with torch.no_grad():
        before = layer(x)
        tensor = layer.state_dict()[name]
        tensor = tensor.data if through == "data" else tensor
        tensor.copy_(torch.nn.functional.normalize(torch.ones_like(tensor), dim=-1))
        after = layer(x)
        assert torch.equal(after, recomputed(layer)(x))
        assert not torch.equal(after, before)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_a_small_change_of_one_number_is_seen_in_every_precision(dtype):
    """Through `.data`, which no version counter tells of: the last ten bits of one weight of many, which moves h(W) by
    less than its rounding. What is smaller still may pass unseen (layers._probe)."""
    layer, x = aon.normalise(nn.Linear(300, 20)).to(dtype).eval(), torch.eye(300, dtype=dtype)[7]
    with torch.no_grad():
        for place in (0, 1, 7, 150, 299):
            layer(x)
            held = layer._stored
            layer.weight.data[3, place] *= 1 + 1024 * torch.finfo(dtype).eps
            layer(x)
            assert layer._stored is not held


def test_gradients_in_evaluation():
    """Evaluation with gradients computes the map anew, with its gradient; without, the stored weight has none."""
    layer, x = aon.normalise(nn.Linear(7, 4)).eval(), torch.randn(3, 7)
    layer(x).sum().backward()
    assert layer.weight.grad.abs().sum() > 0
    layer.requires_grad_(False)
    leaf = x.clone().requires_grad_()
    layer(leaf).sum().backward()
    assert leaf.grad.abs().sum() > 0
    assert layer._stored is not None

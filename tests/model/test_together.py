"""Maps computed together: the numbers are those of single layers, and what is out of the ordinary is left to them."""

import copy
import gc
import io
import weakref

import pytest
import torch
from torch import nn
from torch.nn.utils import prune
from torch.utils.checkpoint import checkpoint

import aon
from aon.model.layers import NormalisedLayer
from aon.model.together import SMALL, Together

CLOSE = {"atol": 1e-12, "rtol": 1e-12}


class Block(nn.Module):
    """Layers of several sizes, one of them tall, one transposed, one left out if `skips` says so."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3, padding=1)
        self.same = nn.Conv2d(4, 4, 3, padding=1)
        self.more = nn.Conv2d(4, 6, 3, padding=1, bias=False)
        self.point = nn.Conv2d(6, 6, 1)
        self.up = nn.ConvTranspose2d(6, 6, 2, stride=2)
        self.tall = nn.Linear(6, 12)
        self.last = nn.Linear(12, 5)
        self.skips: set[str] = set()
        self.way = "plain"

    def forward(self, x):
        for name in ("first", "same", "more", "point", "up"):
            if name in self.skips:
                continue
            layer = getattr(self, name)
            if self.way == "plain":
                x = layer(x).tanh()
            else:
                x = checkpoint(layer, x, use_reentrant=self.way == "reentrant").tanh()
        return self.last(self.tall(x.mean((2, 3))).tanh())


def network(**options) -> Block:
    torch.manual_seed(0)
    return aon.normalise(Block().double(), **options)


def images(number: int = 2) -> torch.Tensor:
    return torch.randn(number, 3, 6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def alone(model: nn.Module) -> nn.Module:
    """A copy whose layers compute each its own map."""
    model = copy.deepcopy(model)
    Together.remove(model)
    return model


def names_together(model: nn.Module) -> set[str]:
    """The layers that took a weight that was computed together, in a forward."""
    seen: set[str] = set()
    handles = [
        layer.register_forward_hook(lambda _layer, _x, y, name=name: seen.add(name) if comes_from_together(y) else None)
        for name, layer in model.named_modules()
        if isinstance(layer, NormalisedLayer)
    ]
    model(images().requires_grad_())  # reentrant checkpointing wants that
    for handle in handles:
        handle.remove()
    return seen


def comes_from_together(y: torch.Tensor) -> bool:
    """Whether a layer's own weight, one or two steps back in the graph of its output, was computed together."""
    steps = [] if y.grad_fn is None else [y.grad_fn]
    for _ in range(2):
        steps += [after for step in steps for after, _ in step.next_functions if after is not None]
    return any(type(step).__name__ == "_MappedBackward" for step in steps)


def after_a_step(model: nn.Module, x: torch.Tensor | None = None) -> list[torch.Tensor]:
    """Output, gradients and buffers after two steps of training."""
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        optimiser.zero_grad()
        out = model(images() if x is None else x)
        out.square().sum().backward()
        optimiser.step()
    gradients = [torch.zeros(1) if p.grad is None else p.grad for p in model.parameters()]
    return [out.detach(), *gradients, *model.parameters(), *model.buffers()]


def agree(model: nn.Module, other: nn.Module, **options) -> None:
    for found, expected in zip(after_a_step(model, **options), after_a_step(other, **options), strict=True):
        torch.testing.assert_close(found, expected, **CLOSE, equal_nan=True)


def test_small_layers_that_are_not_tall_are_computed_together():
    assert names_together(network()) == {"first", "same", "more", "point", "last"}


@pytest.mark.parametrize(
    "options",
    [{}, {"gain": False}, {"order": 4}, {"expansion": "minimax"}, {"centre": "mean"}, {"scale": "frobenius"}],
    ids=lambda options: "-".join(map(str, options.values())) or "default",
)
@pytest.mark.parametrize("format", [torch.contiguous_format, torch.channels_last], ids=["contiguous", "channels_last"])
def test_training_is_that_of_layers_that_compute_their_own(options, format):
    model = network(**options).to(memory_format=format)
    agree(model, alone(model), x=images().to(memory_format=format))


def test_a_gradient_in_another_memory_format():
    model = network().to(memory_format=torch.channels_last)
    together = next(iter(model._forward_pre_hooks.values())).__self__
    together.begin(model, ())
    h = together.take(model.more)
    gradient = torch.randn(h.shape, dtype=h.dtype)
    assert gradient.stride() != h.stride()
    found = torch.autograd.grad(h, model.more.mapped_parameters(), gradient)
    expected = torch.autograd.grad(model.more.mapped_weight(), model.more.mapped_parameters(), gradient)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, **CLOSE)


@pytest.mark.parametrize("way", ["reentrant", "not reentrant"])
def test_activation_checkpointing(way):
    model = network()
    other = alone(model)
    model.way = way
    x = images().requires_grad_()
    agree(model, other, x=x)
    assert names_together(model) <= {"last"}


def test_a_layer_that_is_left_out_has_no_gradient_and_computes_its_own_from_then_on():
    model = network()
    model.skips = {"same"}
    model(images()).sum().backward()
    assert model.same.weight.grad is None
    assert model.same.gain.grad is None
    assert model.first.weight.grad is not None
    model.skips = set()
    assert names_together(model) == {"first", "more", "point", "last"}
    agree(model, alone(model))


def test_one_forward_and_a_backward_for_each_of_two_parts():
    """As where one model holds two networks, each with a loss of its own."""

    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(8, 4), nn.Linear(8, 4)

        def forward(self, x):
            return self.a(x).square().sum(), self.b(x).square().sum()

    torch.manual_seed(0)
    model = aon.normalise(Two().double())
    other, x = alone(model), torch.randn(3, 8, dtype=torch.float64)
    for each in (model, other):
        for loss in each(x):
            loss.backward()
    for found, expected in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(found.grad, expected.grad, **CLOSE)


def test_two_forwards_before_one_backward():
    model = network()
    other = alone(model)
    for each in (model, other):
        (each(images()).sum() + each(2 * images()).square().sum()).backward()
    for found, expected in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(found.grad, expected.grad, **CLOSE)
    for found, expected in zip(model.buffers(), other.buffers(), strict=True):
        torch.testing.assert_close(found, expected, **CLOSE)


def test_a_layer_that_is_used_twice_in_a_forward():
    torch.manual_seed(0)
    layer = nn.Linear(6, 6)
    model = aon.normalise(nn.Sequential(layer, nn.Tanh(), layer, nn.Linear(6, 6)).double())
    x = torch.randn(3, 6, dtype=torch.float64)
    agree(model, alone(model), x=x)


def test_a_weight_that_is_changed_after_the_forward_began_is_seen():
    def in_place(layer, _):
        with torch.no_grad():
            layer.weight.mul_(1.5)

    def replaced(layer, _):
        layer.weight.data = layer.weight.data * 1.5

    def unseen_by_counters(layer, _):
        layer.weight.data.mul_(1.5)

    for write in (in_place, replaced, unseen_by_counters):
        model = network()
        other = alone(model)
        in_place(other.same, ())
        model.same.register_forward_pre_hook(write)
        torch.testing.assert_close(model(images()), other(images()), **CLOSE)
    model = network()
    other = alone(model)
    in_place(other.same, ())
    model.first.register_forward_hook(lambda *_: in_place(model.same, ()))  # a hook of another layer
    torch.testing.assert_close(model(images()), other(images()), **CLOSE)


def test_a_weight_that_is_changed_between_forward_and_backward_is_told():
    model = network()
    loss = model(images()).sum()
    with torch.no_grad():
        model.same.weight.mul_(2)
    with pytest.raises(RuntimeError, match="changed in place between its forward and its backward"):
        loss.backward()


def test_a_pruned_layer_computes_its_own():
    model = network()
    model(images())
    other = alone(model)
    for each in (model, other):
        prune.l1_unstructured(each.same, "weight", 0.5)
    assert "same" not in names_together(model)
    agree(model, other)


def test_frozen_layers_evaluation_and_forwards_without_gradients_are_left_alone():
    model = network()
    for parameter in model.first.parameters():
        parameter.requires_grad_(False)
    model.same.eval()
    assert names_together(model) == {"more", "point", "last"}
    with torch.no_grad():
        model.more.weight.mul_(1.1)
        u = model.more.map.u.clone()
        model.eval()(images())
        assert torch.equal(u, model.more.map.u)
        model.train()(images())
        assert not torch.equal(u, model.more.map.u)


def test_parameters_put_in_by_functional_call():
    model = network()
    other = alone(model)
    parameters = {name: (p * 1.1).detach().requires_grad_() for name, p in model.named_parameters()}
    results = []
    for each in (model, other):
        loss = torch.func.functional_call(each, parameters, images()).square().sum()
        results.append(torch.autograd.grad(loss, list(parameters.values())))
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, **CLOSE)


def test_functions_of_torch_func_take_the_way_of_single_layers():
    model = network()
    parameters = dict(model.named_parameters())

    def loss(values):
        return torch.func.functional_call(model, values, images()).square().sum()

    found = torch.func.grad(loss)(parameters)
    other = alone(model)
    other(images()).square().sum().backward()
    for name, parameter in other.named_parameters():
        torch.testing.assert_close(found[name], parameter.grad, **CLOSE)


def test_accumulation_is_left_alone():
    model = network()
    other = alone(model)
    with aon.accumulate(model):
        for part in images(4).split(2):
            model(part).square().sum().backward()
    for part in images(4).split(2):
        other(part).square().sum().backward()
    for found, expected in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(found.grad, expected.grad, **CLOSE)


def test_a_second_derivative_is_refused():
    model = network()
    (gradient,) = torch.autograd.grad(model(images()).square().sum(), [model.same.weight], create_graph=True)
    with pytest.raises(RuntimeError, match="no second derivative"):
        gradient.square().sum().backward()


def test_a_penalty_on_the_gradient_of_the_input():
    results = []
    model = network()
    for each in (model, alone(model)):
        x = images().requires_grad_()
        (gradient,) = torch.autograd.grad(each(x).square().sum(), [x], create_graph=True)
        gradient.square().sum().backward()
        results.append([p.grad for p in each.parameters() if p.grad is not None])
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, **CLOSE)


def test_copies_and_files_compute_together_too():
    model = network()
    model(images())
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    for each in (copy.deepcopy(model), torch.load(file, weights_only=False)):
        assert names_together(each) == {"first", "same", "more", "point", "last"}
        agree(each, alone(model))


def test_a_copy_of_one_layer_holds_no_other():
    model = network()
    model(images())
    layer = copy.deepcopy(model.same)
    assert layer._together is None
    assert layer(torch.ones(1, 4, 6, 6, dtype=torch.float64)).shape == (1, 4, 6, 6)


def test_a_model_is_freed_at_once_when_it_is_dropped():
    model = network()
    model(images()).sum().backward()
    layer = weakref.ref(model.same)
    gc.disable()
    try:
        del model
        assert layer() is None
    finally:
        gc.enable()


def test_folding_takes_the_hooks_away():
    model = network()
    model(images())
    aon.fold(model)
    assert not model._forward_pre_hooks
    assert not model._forward_hooks


def test_folding_a_part_leaves_the_rest():
    model = network()
    expected = model(images())
    aon.fold(model.same)
    torch.testing.assert_close(model(images()), expected, **CLOSE)
    assert names_together(model) == {"first", "more", "point", "last"}


def test_parts_that_are_normalised_one_after_the_other():
    torch.manual_seed(0)
    model = aon.normalise(Block().double(), include=["first", "same"])
    assert names_together(model) == {"first", "same"}
    aon.normalise(model, include=["more", "point"])
    assert names_together(model) == {"first", "same", "more", "point"}
    agree(model, alone(model))


def test_an_error_in_a_forward_leaves_nothing_behind():
    model = network()
    with pytest.raises(RuntimeError):
        model(images()[:, :2])
    agree(model, alone(model))


def test_large_layers_and_single_ones_compute_their_own():
    large = nn.Linear(SMALL, 2)
    model = aon.normalise(nn.Sequential(large, nn.Linear(2, 2), nn.Conv1d(2, 2, 1)))
    seen = []
    model[1].register_forward_hook(lambda _, __, y: seen.append(comes_from_together(y)))
    model[0].register_forward_hook(lambda _, __, y: seen.append(comes_from_together(y)))
    model[:2](torch.ones(1, SMALL))
    assert seen == [False, False]
    assert not aon.normalise(nn.Linear(3, 3))._forward_pre_hooks


def test_autocast_computes_the_maps_in_full_precision():
    torch.manual_seed(0)
    model = aon.normalise(nn.Sequential(nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 6)))
    other, x, results = alone(model), torch.randn(4, 8), []
    for each in (model, other):
        with torch.autocast("cpu", torch.bfloat16):
            each(x).float().square().sum().backward()
        results.append([p.grad for p in each.parameters()] + list(each.buffers()))
    for found, expected in zip(*results, strict=True):
        assert found.dtype == torch.float32
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


def test_under_a_process_group_every_layer_computes_its_own(monkeypatch):
    model = network()
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    assert names_together(model) == set()

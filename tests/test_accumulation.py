"""aon.accumulate: the map once for each update, with the gradients of the plain way."""

import copy
from contextlib import nullcontext

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import aon
from aon.maps import ONI, CentredWeightNorm, Polar, WeightNorm

MAPS = {
    "aon0": {"order": 0},
    "aon2": {"order": 2},
    "aon2_no_gain": {"order": 2, "gain": False},
    "aon4_mean": {"order": 4, "centre": "mean"},
    "wn": {"map": WeightNorm()},
    "cwn": {"map": CentredWeightNorm()},
    "polar": {"map": Polar()},
    "oni": {"map": ONI()},
}
each_map = pytest.mark.parametrize("options", MAPS.values(), ids=MAPS)


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def network(**options) -> nn.Module:
    model = nn.Sequential(
        nn.Conv2d(3, 6, 3),
        nn.ReLU(),
        nn.ConvTranspose2d(6, 4, 2, groups=2),
        nn.Flatten(),
        nn.Linear(64, 5),
        nn.Linear(5, 9),
    )
    return aon.normalise(model.double(), **options)


def micro_batches(count: int = 4) -> list[Tensor]:
    return list(torch.randn(count, 2, 3, 5, 5, dtype=torch.float64))


def accumulate(model: nn.Module, batches: list[Tensor], shared: bool, expected: int = 4) -> None:
    with aon.accumulate(model, expected) if shared else nullcontext():
        for x in batches:
            (model(x) - 1).square().mean().backward()


def train(model: nn.Module, shared: bool, steps: int = 3) -> None:
    optimiser = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    torch.manual_seed(1)
    for _ in range(steps):
        optimiser.zero_grad()
        accumulate(model, micro_batches(), shared)
        optimiser.step()


@each_map
def test_gradients_are_those_of_the_plain_way(options):
    model = network(**options)
    other = copy.deepcopy(model)
    batches = micro_batches()
    accumulate(model, batches, shared=False)
    accumulate(other, batches, shared=True)
    for mine, theirs in zip(other.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("expected", [1, 4, 1000])
@each_map
def test_gradients_do_not_depend_on_how_many_micro_batches_are_expected(options, expected):
    """With 1, the first Linear shares F; with 1000, no layer does."""
    model = network(**options)
    other = copy.deepcopy(model)
    batches = micro_batches(3)
    accumulate(model, batches, shared=False)
    accumulate(other, batches, shared=True, expected=expected)
    for mine, theirs in zip(other.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, atol=1e-12, rtol=1e-12)


def test_what_is_shared_is_the_cheaper_of_the_two():
    model = network()
    for expected, applied in ((1, True), (1000, False)):
        with aon.accumulate(model, expected):
            for x in micro_batches():
                model(x).sum().backward()
            assert model[4]._shared.applied == applied
            assert tuple(model[4]._shared.mapped.shape) == ((5, 5) if applied else (5, 64))
            assert not model[0]._shared.applied  # many positions


@pytest.mark.parametrize("groups", [1, 2])
def test_convolutions_share_f_too_with_micro_batches_of_any_size(groups):
    """The first micro-batch decides what is shared; a larger one that follows gets the same gradients from it."""
    model = aon.normalise(nn.Conv2d(8, 6, 3, groups=groups).double())
    other = copy.deepcopy(model)
    batches = [torch.randn(size, 8, 4, 4, dtype=torch.float64) for size in (1, 50, 3)]
    accumulate(model, batches, shared=False)
    with aon.accumulate(other, 1):
        for x in batches:
            (other(x) - 1).square().mean().backward()
        assert other._shared.applied
    for mine, theirs in zip(other.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("wrong", [0, -1, 2.0, True, "4"])
def test_a_number_of_micro_batches_that_is_none_is_refused(wrong):
    with pytest.raises(ValueError, match="expected a positive whole number"), aon.accumulate(network(), wrong):
        pass


@each_map
def test_training_is_that_of_the_plain_way(options):
    model = network(**options)
    other = copy.deepcopy(model)
    train(model, shared=False)
    train(other, shared=True)
    for mine, theirs in zip(other.state_dict().values(), model.state_dict().values(), strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-11, rtol=0)


@pytest.mark.parametrize("options", [{"order": 0}, {"order": 2}], ids=["aon0", "aon2"])
def test_the_map_is_computed_once_forward_and_once_backward(options):
    model, batches = network(**options), micro_batches()
    name = "Spectral" if options["order"] == 0 else "Normalise"

    def counts(shared: bool) -> tuple[int, int]:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            accumulate(model, batches, shared)
        found = {row.key: row.count for row in profile.key_averages()}
        return found[name], found[f"{name}Backward"]

    assert counts(shared=False) == (16, 16)
    assert counts(shared=True) == (4, 4)


def test_gradients_that_were_there_are_added_to():
    model, batches = network(), micro_batches()
    other = copy.deepcopy(model)
    accumulate(model, [*batches, *batches], shared=False)
    accumulate(other, batches, shared=True)
    accumulate(other, batches, shared=True)
    for mine, theirs in zip(other.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("reentrant", [True, False])
def test_activation_checkpointing_inside(reentrant):
    model, batches = network(), [x.requires_grad_() for x in micro_batches()]
    other = copy.deepcopy(model)
    accumulate(model, batches, shared=False)
    with aon.accumulate(other):
        for x in batches:
            (checkpoint(other, x, use_reentrant=reentrant) - 1).square().mean().backward()
    for mine, theirs in zip(other.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, atol=1e-12, rtol=1e-12)


def test_evaluation_inside_is_as_outside():
    model, x = network(), micro_batches()[0]
    with aon.accumulate(model):
        out = model(x)
        with torch.no_grad():
            torch.testing.assert_close(model.eval()(x), out, atol=1e-12, rtol=0)
        model.train()


def test_an_update_inside_is_refused():
    model, x = network(), micro_batches()[0]
    with aon.accumulate(model):
        model(x)
        with torch.no_grad():
            model[0].weight.add_(0.1)
        with pytest.raises(
            RuntimeError, match=r"a weight changed inside aon\.accumulate: take the optimiser's step after"
        ):
            model(x)
    model(x).sum().backward()  # the model is as before


def test_a_block_in_a_block_is_refused():
    model = network()
    with aon.accumulate(model), pytest.raises(RuntimeError, match="in such a block already"), aon.accumulate(model):
        pass


def test_an_error_inside_leaves_the_model_usable():
    model, x = network(), micro_batches()[0]
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"), aon.accumulate(model):
        model(x[..., :4])
    model.zero_grad()
    model(x).sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())
    copy.deepcopy(model)


def test_a_plain_model_is_left_as_it_is():
    model = nn.Linear(3, 2)
    with aon.accumulate(model):
        model(torch.ones(1, 3)).sum().backward()
    assert model.weight.grad is not None


def test_a_block_without_a_forward():
    model = network()
    with aon.accumulate(model):
        pass
    assert all(p.grad is None for p in model.parameters())

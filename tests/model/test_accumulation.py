"""aon.accumulate: the map runs once for each update, and the gradients stay the same."""

import copy
from contextlib import nullcontext

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import aon
from aon.maps import ONI, CentredWeightNorm, Polar, WeightNorm
from aon.model.together import Together

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
            assert model[4]._shared.mapped.applied == applied
            assert tuple(model[4]._shared.mapped.tensor.shape) == ((5, 5) if applied else (5, 64))
            assert not model[0]._shared.mapped.applied  # many positions


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
        assert other._shared.mapped.applied
    for mine, theirs in zip(other.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("wrong", [0, -1, 2.0, True, "4"])
def test_a_number_of_micro_batches_that_is_none_is_refused(wrong):
    with pytest.raises(ValueError, match="expected a whole number, 1 or more"), aon.accumulate(network(), wrong):
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
    names = ("Spectral",) if options["order"] == 0 else ("Normalise", "NormaliseOnCPU")

    def counts(shared: bool) -> tuple[int, int]:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            accumulate(model, batches, shared)
        found = {row.key: row.count for row in profile.key_averages()}
        return sum(found.get(name, 0) for name in names), sum(found.get(f"{name}Backward", 0) for name in names)

    Together.remove(model)
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


CHANGES = {
    "weight": lambda layer: layer.weight.add_(0.1),
    "weight.data": lambda layer: layer.weight.data.add_(0.1),
    "gain": lambda layer: layer.gain.mul_(2),
    "gain.data": lambda layer: layer.gain.data.mul_(2),
}
CHANGED = r"a weight or gain changed inside aon\.accumulate: take the optimiser's step after"


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_inside_is_refused_at_the_next_forward(change):
    model, x = network(), micro_batches()[0]
    with aon.accumulate(model):
        model(x)
        with torch.no_grad():
            change(model[0])
        with pytest.raises(RuntimeError, match=CHANGED):
            model(x)
    model(x).sum().backward()  # the model is as before


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_after_the_last_forward_is_refused_at_the_end(change):
    model, x = network(), micro_batches()[0]

    def block():
        with aon.accumulate(model):
            model(x).sum().backward()
            with torch.no_grad():
                change(model[0])

    with pytest.raises(RuntimeError, match=CHANGED):
        block()


def test_a_step_of_the_optimiser_inside_is_refused():
    model, x = network(), micro_batches()[0]
    mine, other = torch.optim.SGD(model.parameters(), 0.1), torch.optim.SGD(nn.Linear(2, 2).parameters(), 0.1)
    with aon.accumulate(model):
        model(x).sum().backward()
        other.step()
        with pytest.raises(RuntimeError, match=r"optimiser\.step\(\) inside aon\.accumulate"):
            mine.step()
    mine.step()


def test_backward_after_the_block_is_refused():
    model, x = network(), micro_batches()[0]
    with aon.accumulate(model):
        loss = model(x).sum()
    with pytest.raises(RuntimeError, match="came after it; call it inside"):
        loss.backward()


@pytest.mark.parametrize("expected", [1, 1000])
def test_zero_grad_inside_drops_what_was_gathered(expected):
    """A micro-batch with NaN is discarded; those after it count."""
    model, batches = network(), micro_batches(3)
    other = copy.deepcopy(model)
    accumulate(model, batches[1:], shared=False)
    with aon.accumulate(other, expected):
        (other(batches[0]) * torch.nan).sum().backward()
        other.zero_grad()
        for x in batches[1:]:
            (other(x) - 1).square().mean().backward()
    for mine, theirs in zip(other.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, atol=1e-12, rtol=1e-12)


def test_zero_grad_at_the_end_of_the_block_leaves_nothing():
    model, x = network(), micro_batches()[0]
    with aon.accumulate(model):
        (model(x) * torch.nan).sum().backward()
        torch.optim.SGD(model.parameters(), 0.1).zero_grad()
    assert all(p.grad is None for p in model.parameters())


TOUCHES = {
    "zeroed in place": lambda model: model.zero_grad(set_to_none=False),
    "clipped": lambda model: nn.utils.clip_grad_norm_(model.parameters(), 1.0),
    "replaced": lambda model: setattr(model[0].weight, "grad", torch.zeros_like(model[0].weight)),
}


@pytest.mark.parametrize("touch", TOUCHES.values(), ids=TOUCHES)
def test_gradients_that_are_changed_inside_are_refused(touch):
    model, x = network(), micro_batches()[0]

    def block():
        with aon.accumulate(model):
            model(x).sum().backward()
            touch(model)

    with pytest.raises(RuntimeError, match="gradients were changed inside"):
        block()
    assert model[0].weight.grad is None or not model[0].weight.grad.any()


@pytest.mark.parametrize("expected", [1, 1000])
def test_a_penalty_on_the_raw_weights_inside_is_added(expected):
    model, batches = network(), micro_batches(3)
    other = copy.deepcopy(model)
    for network_, shared in ((model, False), (other, True)):
        with aon.accumulate(network_, expected) if shared else nullcontext():
            for x in batches:
                ((network_(x) - 1).square().mean() + aon.penalties.orthonormal(network_, beta=0.1)).backward()
    for mine, theirs in zip(other.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, atol=1e-12, rtol=1e-12)


def test_a_layer_that_is_used_many_times_pays_once():
    """A recurrent network: 50 uses in one forward, one map forward and one backward."""
    layer = aon.normalise(nn.Linear(6, 6).double())
    other, x = copy.deepcopy(layer), torch.randn(2, 6, dtype=torch.float64)

    def run(cell: nn.Module) -> None:
        h = x
        for _ in range(50):
            h = torch.tanh(cell(h) + x)
        h.square().sum().backward()

    run(layer)
    with aon.accumulate(other, 50), torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        run(other)
    found = {row.key: row.count for row in profile.key_averages()}
    assert found["NormaliseOnCPU"] == 1
    for mine, theirs in zip(other.parameters(), layer.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, atol=1e-10, rtol=1e-10)


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

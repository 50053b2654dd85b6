"""One contract for every weight map on every layer: what users of normalised layers may rely on."""

import copy
import io
import itertools
import pickle
from typing import Any

import pytest
import torch
from tests.kinds import (
    Kind,
    aon_maps,
    each_layer,
    each_map,
    inputs,
    normalised,
    same_state,
    sgd,
    some_layers,
    some_maps,
    state,
)
from torch import Tensor, nn
from torch.func import functional_call
from torch.optim.swa_utils import AveragedModel
from torch.utils.checkpoint import checkpoint

import aon
from aon.model import layers


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


# --- what it computes ---------------------------------------------------------------------------------------------


@each_map
@each_layer
def test_shape_dtype_and_class_are_kept(options, kind):
    for dtype in (torch.float32, torch.float64):
        plain = kind.make().to(dtype)
        theirs, weight = type(plain), plain.weight
        expected = plain(inputs(kind, dtype))
        layer = aon.normalise(plain, include=kind.include, **options)
        out = layer(inputs(kind, dtype))
        assert (out.shape, out.dtype) == (expected.shape, expected.dtype)
        assert layer is plain
        assert isinstance(layer, theirs)
        assert layer.weight is weight
        assert aon.normalised_weight(layer).shape == weight.shape
        assert aon.normalised_weight(layer).dtype == dtype


@each_map
@each_layer
def test_output_is_that_of_a_plain_layer_with_the_mapped_weight(options, kind):
    layer, x = normalised(kind, options).eval(), inputs(kind)
    plain = kind.make()
    plain.load_state_dict({k: v for k, v in layer.state_dict().items() if k in ("weight", "bias")})
    H = aon.normalised_weight(layer)
    if layer.gain is not None:
        axis = 1 if isinstance(layer, nn.ConvTranspose1d | nn.ConvTranspose2d | nn.ConvTranspose3d) else 0
        H = H * gain_on_axis(layer, H, axis)
    plain.weight.data.copy_(H)
    torch.testing.assert_close(layer(x), plain(x), atol=1e-5, rtol=1e-5)


def gain_on_axis(layer: Any, H: Tensor, axis: int) -> Tensor:
    """The gain, one for each output, where the outputs lie in the weight."""
    rest = (1,) * (H.dim() - 2)
    if axis == 0:
        return layer.gain.reshape(-1, 1, *rest)
    per_group = layer.gain.reshape(layer.groups, -1)  # a transposed weight is (inputs, outputs of one group, ...)
    return per_group.repeat_interleave(H.shape[0] // layer.groups, dim=0).reshape(H.shape[0], -1, *rest)


@each_map
@each_layer
def test_training_and_evaluation_compute_the_same(options, kind):
    layer, x = normalised(kind, options, torch.float64), inputs(kind, torch.float64)
    trained = layer(x)
    with torch.no_grad():
        torch.testing.assert_close(layer.eval()(x), trained, atol=1e-12, rtol=0)


@each_map
@some_layers
def test_gradcheck(options, kind):
    """With many power steps u is the leading vector, where the paper's gradient is the derivative."""
    options = options if "map" in options else {**options, "n_power_iterations": 100}
    layer, x = normalised(kind, options, torch.float64), inputs(kind, torch.float64)
    names, values = zip(*layer.named_parameters(), strict=True)
    start = {k: v.clone() for k, v in layer.named_buffers()}

    def output(x: Tensor, *parameters: Tensor) -> Tensor:
        for name, buffer in layer.named_buffers():
            buffer.data.copy_(start[name])
        return functional_call(layer, dict(zip(names, parameters, strict=True)), (x,))

    leaves = [t.detach().clone().requires_grad_() for t in (x, *values)]
    torch.autograd.gradcheck(output, leaves, fast_mode=True, nondet_tol=1e-12)


@each_map
@each_layer
def test_forming_the_weight_and_applying_a_factor_after_it_are_the_same(options, kind, monkeypatch):
    """Output, gradients of input, weight, gain and bias, and the state that follows."""
    layer = normalised(kind, options, torch.float64)
    other, x = copy.deepcopy(layer), inputs(kind, torch.float64)
    results = []
    for model, factored in ((layer, False), (other, True)):
        monkeypatch.setattr(layers, "APPLYING_OVER_FORMING", 0 if factored else 2**40)
        leaf = x.clone().requires_grad_()
        out = model(leaf)
        out.tanh().sum().backward()
        results.append([out, leaf.grad, *(p.grad for p in model.parameters()), *model.buffers()])
    for formed, applied in zip(*results, strict=True):
        torch.testing.assert_close(applied, formed, atol=1e-12, rtol=1e-12, equal_nan=True)


@aon_maps
def test_small_inputs_take_the_factor_and_large_ones_the_weight(options):
    """And nobody can see which: a batch of one equals its row in a batch of many."""
    layer = normalised(Kind(lambda: nn.Linear(64, 4), ()), options, torch.float64)
    x = torch.randn(200, 64, dtype=torch.float64)
    torch.testing.assert_close(layer(x[:1]), layer(x)[:1], atol=1e-13, rtol=0)
    if not layer.map.is_spectral:
        assert layer._mapped(torch.ones(1, layer.in_features)).applied
    assert not layer._mapped(torch.ones(1000, layer.in_features)).applied


@each_map
@some_layers
def test_a_few_steps_of_training_lower_the_loss(options, kind):
    layer, x = normalised(kind, options), inputs(kind)
    before = layer(x).square().mean()
    sgd(layer, x, 10)
    assert layer(x).square().mean() < before
    assert all(p.isfinite().all() for p in layer.parameters())


# --- what it keeps and what it leaves alone -----------------------------------------------------------------------


@each_map
@each_layer
def test_evaluation_and_reading_change_nothing(options, kind):
    layer, x = normalised(kind, options), inputs(kind)
    sgd(layer, x, 2)
    before, versions = state(layer), [t._version for t in layer.state_dict().values()]
    for _ in range(2):
        layer.train()
        aon.normalised_weight(layer)
        aon.spectra(layer)
        str(aon.survey(layer))
        repr(layer)
        layer.eval()
        layer(x)
        with torch.no_grad():
            layer(x)
        with torch.inference_mode():
            layer(x)
        aon.normalised_weight(layer)
    assert same_state(state(layer), before)
    assert [t._version for t in layer.state_dict().values()] == versions


@each_map
@each_layer
def test_the_raw_weight_is_never_written(options, kind):
    layer, x = normalised(kind, options), inputs(kind)
    weight = layer.weight.detach().clone()
    layer(x).sum().backward()
    layer.eval()(x)
    assert torch.equal(layer.weight, weight)


@each_map
@each_layer
def test_state_dict_round_trip(options, kind):
    layer, x = normalised(kind, options), inputs(kind)
    sgd(layer, x, 3)
    other = aon.normalise(kind.make(), include=kind.include, **options)
    other(x)
    report = other.load_state_dict(layer.state_dict())
    assert not report.missing_keys
    assert not report.unexpected_keys
    assert torch.equal(other.eval()(x), layer.eval()(x))
    for mine, theirs in zip(sgd(other.train(), x), sgd(layer.train(), x), strict=True):
        assert torch.equal(mine, theirs)
    assert same_state(state(other), state(layer))


@each_map
@each_layer
def test_a_plain_checkpoint_loads(options, kind):
    """Strictly, and the layer is then as if the plain one had been normalised."""
    plain, x = kind.make(), inputs(kind)
    layer = normalised(kind, options)
    sgd(layer, x, 3)
    report = layer.load_state_dict(copy.deepcopy(plain.state_dict()), strict=True)
    assert not report.missing_keys
    expected = aon.normalise(plain, include=kind.include, **options)
    assert same_state(state(layer), state(expected))
    assert torch.equal(layer.eval()(x), expected.eval()(x))


@each_map
@each_layer
def test_a_plain_model_reports_the_additional_keys(options, kind):
    layer, plain = normalised(kind, options), kind.make()
    additional = sorted(layer.state_dict().keys() - plain.state_dict().keys())
    assert set(additional) <= {"gain", "map.u", "map.previous", "map.seen"}
    assert sorted(plain.load_state_dict(layer.state_dict(), strict=False).unexpected_keys) == additional
    assert torch.equal(plain.weight, layer.weight)
    if additional:
        with pytest.raises(RuntimeError, match=r"Unexpected key\(s\) in state_dict: .*gain|Unexpected key.*map"):
            plain.load_state_dict(layer.state_dict(), strict=True)


def by_pickle(model: Any) -> Any:
    return pickle.loads(pickle.dumps(model))  # noqa: S301


def by_file(model: Any) -> Any:
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, by_pickle, by_file])
@each_map
@some_layers
def test_copies(duplicate, options, kind):
    """The same function and the same next step, and nothing in common; in training and after evaluation."""
    layer, x = normalised(kind, options), inputs(kind)
    sgd(layer, x, 2)
    with torch.no_grad():
        expected = layer.eval()(x)
        other = duplicate(layer)
        assert type(other) is type(layer)
        assert torch.equal(other(x), expected)
        for mine, theirs in zip(sgd_in_training(other, x), sgd_in_training(copy.deepcopy(layer), x), strict=True):
            assert torch.equal(mine, theirs)
        assert torch.equal(layer(x), expected)


@torch.enable_grad()
def sgd_in_training(model: nn.Module, x: Tensor) -> list[Tensor]:
    return sgd(model.train(), x)


@some_maps
@each_layer
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_conversion_of_the_dtype(options, kind, dtype):
    layer, x = normalised(kind, options), inputs(kind)
    expected = layer.eval()(x)
    layer.to(dtype)
    out = layer(x.to(dtype))
    assert out.dtype == layer.weight.dtype == dtype
    assert all(torch.finfo(b.dtype).bits >= 32 for b in layer.map.buffers())
    # Half precision loses digits in the input, the weight and the sum.
    torch.testing.assert_close(out.float(), expected, atol=20 * max(torch.finfo(dtype).eps, 1e-6), rtol=0)
    sgd(layer.train(), x.to(dtype), 2)
    assert all(p.isfinite().all() and p.dtype == dtype for p in layer.parameters())
    layer.float()
    assert layer.eval()(x).dtype == torch.float32
    assert all(b.dtype == torch.float32 for b in layer.map.buffers())


@each_map
@each_layer
def test_functional_call(options, kind):
    """Other parameters give their own h(W), in evaluation and in training; the layer's stay as they are."""
    layer, x = normalised(kind, options), inputs(kind)
    other = copy.deepcopy(layer)
    with torch.no_grad():
        other.weight.add_(0.1 * torch.randn_like(other.weight))
    tensors = {k: v.detach().clone() for k, v in other.state_dict().items()}
    for mode in (False, True):
        layer.train(mode), other.train(mode)
        before = state(layer)
        with torch.no_grad():
            layer(x) if not mode else None
            found = functional_call(layer, tensors, (x,))
            torch.testing.assert_close(found, other(x), atol=1e-6, rtol=1e-6)
        assert same_state(state(layer), before)


@some_maps
@some_layers
def test_average_of_a_model(options, kind):
    layer, x = normalised(kind, options), inputs(kind)
    average = AveragedModel(layer, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.5))
    for _ in range(3):
        sgd(layer, x)
        average.update_parameters(layer)
    assert not torch.equal(average.module.weight, layer.weight)
    expected = normalised(kind, options)
    expected.load_state_dict(average.module.state_dict())
    with torch.no_grad():
        assert torch.equal(average.eval()(x), expected.eval()(x))


@each_map
@each_layer
def test_fold(options, kind):
    """torch's own class with nothing of ours left, and exactly the function that evaluation computes."""
    layer, x = normalised(kind, options), inputs(kind)
    sgd(layer, x, 2)
    weight, mode = layer.weight, layer.training
    with torch.no_grad():
        expected = layer.eval()(x)
    layer.train(mode)
    assert aon.fold(layer) is layer
    plain = kind.make()
    assert type(layer) is type(plain)
    assert vars(layer).keys() == vars(plain).keys()
    assert layer.state_dict().keys() == plain.state_dict().keys()
    assert layer.weight is weight
    assert layer.training is mode
    with torch.no_grad():
        assert torch.equal(layer.eval()(x), expected)


# --- u moves once for each update ---------------------------------------------------------------------------------


@pytest.mark.parametrize("reentrant", [True, False], ids=["reentrant", "non_reentrant"])
@each_map
@each_layer
def test_activation_checkpointing_gives_identical_gradients(reentrant, options, kind):
    layer, x = normalised(kind, options), inputs(kind).requires_grad_()
    other = copy.deepcopy(layer)
    expected = sgd(layer, x, 3)
    found = sgd(other, x, 3, run=lambda model, x: checkpoint(model, x, use_reentrant=reentrant))
    for mine, theirs in zip(found, expected, strict=True):
        assert torch.equal(mine, theirs)
    assert same_state(state(other), state(layer))


@pytest.mark.parametrize("reentrant", [True, False], ids=["reentrant", "non_reentrant"])
def test_torchs_parametrisation_does_not(reentrant):
    """The guard of the test above: it would see the difference."""
    layer = torch.nn.utils.parametrizations.spectral_norm(nn.Linear(32, 32))
    other, x = copy.deepcopy(layer), torch.randn(3, 32, requires_grad=True)
    expected = sgd(layer, x)
    found = sgd(other, x, run=lambda model, x: checkpoint(model, x, use_reentrant=reentrant))
    assert not all(torch.allclose(mine, theirs, rtol=1e-3) for mine, theirs in zip(found, expected, strict=True))


@each_map
@each_layer
def test_two_forwards_before_one_backward(options, kind):
    """Both see the same h(W): the gradient of the sum is the sum of the gradients."""
    layer, x, y = normalised(kind, options, torch.float64), inputs(kind, torch.float64), inputs(kind, torch.float64)
    other = copy.deepcopy(layer)
    (layer(x).square().mean() + layer(y).tanh().mean()).backward()
    for part in (lambda: other(x).square().mean(), lambda: other(y).tanh().mean()):  # accumulation
        part().backward()
    for mine, theirs in zip(layer.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, atol=1e-13, rtol=1e-12)
    assert same_state(state(layer), state(other))
    assert torch.equal(layer(x), other(x))


@aon_maps
@each_layer
def test_u_moves_once_for_each_update(options, kind):
    layer, x = normalised(kind, options), inputs(kind)
    often = copy.deepcopy(layer)
    places = [layer.map.u.clone()]
    for _ in range(4):
        for _ in range(3):
            often(x)
        often.eval()(x)
        often.train()
        with torch.no_grad():
            often(x)
        sgd(often, x)
        sgd(layer, x)
        places.append(layer.map.u.clone())
        assert same_state(state(often), state(layer))
    if layer.map.u.shape[-1] > 1:
        assert all(not torch.equal(a, b) for a, b in itertools.pairwise(places[1:]))

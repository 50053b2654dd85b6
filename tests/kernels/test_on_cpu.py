"""The map with scalars as numbers, held to the fused map; and that it leaves to that what it is not for."""

import pytest
import torch
from torch import Tensor

from aon.kernels.fused import Normalise
from aon.kernels.on_cpu import NormaliseOnCPU, find, suits
from aon.kernels.power import State, unit
from aon.kernels.settings import Settings
from aon.maps import AON

SHAPES = {"wide": (5, 12), "square": (6, 6), "tall": (12, 5), "row": (1, 4), "column": (4, 1)}
EPS = torch.finfo(torch.float64).eps
each_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)


def weight(shape: tuple[int, int], size: float = 1.2, dtype: torch.dtype = torch.float64) -> Tensor:
    W = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return (W * (size / torch.linalg.matrix_norm(W, 2))).to(dtype)


def state_of(W: Tensor) -> State:
    u = unit(torch.randn(len(W), dtype=W.dtype, generator=torch.Generator().manual_seed(1)))
    return State(u, unit(u.flip(0)), W.new_full((min(W.shape),), torch.nan))


@each_shape
@pytest.mark.parametrize("order", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize(("formed", "with_gain"), [(True, False), (True, True), (False, False), (False, True)])
def test_equals_the_fused_map(shape, order, steps, formed, with_gain):
    W, settings = weight(shape).requires_grad_(), Settings(order, n_power_iterations=steps)
    if shape[0] > shape[1]:  # AON scales the rows of a tall weight itself, and applies no factor to it
        formed, with_gain = True, False
    gain = (torch.rand(shape[0], dtype=W.dtype) + 0.5).requires_grad_() if with_gain else None
    state, inputs = state_of(W), [t for t in (W, gain) if t is not None]
    found = find(W, state, settings)
    expected, start, moved, fingerprint, *_ = Normalise.apply(W, gain, state, settings, formed)
    H = NormaliseOnCPU.apply(W, gain, found, formed)
    dH = torch.randn_like(H)
    pairs = [(H, expected), (found.start, start), (found.end.u, moved), (found.fingerprint, fingerprint)]
    pairs += zip(torch.autograd.grad(H, inputs, dH), torch.autograd.grad(expected, inputs, dH), strict=True)
    for mine, theirs in pairs:
        tolerance = 100 * max(shape) * (order + 1) * EPS * max(1.0, theirs.abs().max().item())
        torch.testing.assert_close(mine, theirs, atol=tolerance, rtol=0)


@each_shape
def test_the_weight_of_the_last_move_is_stepped_from_the_vector_before_it(shape):
    W, settings = weight(shape), Settings()
    u, previous, _ = state = state_of(W)
    seen = find(W, state, settings).fingerprint
    assert find(W, state, settings).start is u
    assert find(W, State(u, previous, seen), settings).start is previous


@pytest.mark.parametrize("size", [0.0, 1e-25, 1e25, float("nan")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@each_shape
def test_what_is_out_of_the_ordinary_is_left_to_the_fused_map(shape, dtype, size):
    W, settings = torch.nan_to_num(weight(shape, size, dtype), nan=torch.nan), Settings()
    found = find(W, state_of(W), settings)
    assert found is None or (dtype == torch.float64 and found.end.sigma > settings.eps)


@pytest.mark.parametrize("size", [1e-6, 1e-3, 1e3, 1e6])
@each_shape
def test_sizes_that_float32_still_holds(shape, size):
    """Whichever way is taken, h(W) is what float64 says."""
    W = weight(shape, size)
    exact, narrow = AON(), AON()
    exact.attach(W)
    narrow.attach(W.float())
    torch.testing.assert_close(narrow(W.float()).double(), exact(W), atol=1e-5, rtol=0)


def test_what_it_suits():
    W, settings = weight((5, 12)), Settings()
    state = state_of(W)
    assert suits(W, None, state, settings)
    assert suits(W, W.new_ones(5), state, Settings(4, n_power_iterations=2))
    for option in ({"scale": None}, {"scale": "frobenius"}, {"centre": "mean"}, {"prescale": True}):
        assert not suits(W, None, state, Settings(**option))
    assert not suits(W, None, state, Settings(expansion="minimax"))
    assert not suits(W.to("meta"), None, state, settings)
    assert not suits(W.float(), None, state, settings)  # the state is in float64
    assert not suits(W.unsqueeze(0), None, state, settings)
    assert not suits(W, torch.ones(5), state, settings)
    with torch.autocast("cpu", torch.bfloat16):  # test_precision.py: with the same bits
        assert suits(W, None, state, settings)
    assert not torch.func.grad(lambda A: A.sum() * suits(A, None, state, settings))(W).any()


def test_a_live_buffer_is_not_kept_for_backward():
    """The state moves before backward; the gradient is that of the forward."""
    weight_map, W = AON(), weight((5, 12)).requires_grad_()
    weight_map.attach(W)
    H = weight_map(W)
    (expected,) = torch.autograd.grad(H, W, torch.ones_like(H), retain_graph=True)
    for buffer in weight_map.buffers():
        buffer.zero_()
    (found,) = torch.autograd.grad(H, W, torch.ones_like(H))
    assert torch.equal(found, expected)


@pytest.mark.parametrize("with_gain", [False, True])
def test_a_second_derivative_is_refused(with_gain):
    weight_map, W = AON(), weight((5, 12)).requires_grad_()
    weight_map.attach(W)
    gain = torch.ones(5, dtype=W.dtype, requires_grad=True) if with_gain else None
    (gradient,) = torch.autograd.grad(weight_map(W, gain).square().sum(), W, create_graph=True)
    with pytest.raises(RuntimeError, match="no second derivative"):
        gradient.sum().backward()

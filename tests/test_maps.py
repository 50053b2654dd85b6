"""Each weight map against its definition and, where torch has the same, against torch."""

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

import aon
from aon.functional import approx_orthonormal
from aon.kernels.reference import normalise_reference
from aon.maps import AON, ONI, CentredWeightNorm, Polar, WeightMap, WeightNorm

LAYERS = {
    "wide": (lambda: nn.Linear(9, 4), (3, 9)),
    "tall": (lambda: nn.Linear(4, 9), (3, 4)),
    "conv": (lambda: nn.Conv2d(3, 5, 3), (2, 3, 6, 6)),
    "conv_tall": (lambda: nn.Conv1d(2, 8, 1), (2, 2, 6)),
    "transposed": (lambda: nn.ConvTranspose2d(3, 5, 3), (2, 3, 4, 4)),
}
each_layer = pytest.mark.parametrize(("make", "shape"), LAYERS.values(), ids=LAYERS)


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def train(model: nn.Module, x: Tensor, steps: int) -> Tensor:
    optimiser = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    for _ in range(steps):
        optimiser.zero_grad()
        out = model(x)
        (out - 1).square().mean().backward()
        optimiser.step()
    return out.detach()


# --- AON ----------------------------------------------------------------------------------------------------------


@each_layer
@pytest.mark.parametrize("steps", [1, 2], ids=["one_power_step", "two_power_steps"])
def test_order_zero_in_training_is_torchs_spectral_norm(make, shape, steps):
    """From the same u, over several updates: outputs, gradients (in the weights they lead to) and u."""
    layer, x = make().double(), torch.randn(shape, dtype=torch.float64)
    theirs = nn.utils.spectral_norm(copy.deepcopy(layer), n_power_iterations=steps)
    ours = aon.normalise(layer, order=0, gain=False, n_power_iterations=steps)
    ours.map.u.copy_(theirs.weight_u)
    for _ in range(6):
        torch.testing.assert_close(train(ours, x, 1), train(theirs, x, 1), atol=1e-12, rtol=0)
        torch.testing.assert_close(ours.weight, theirs.weight_orig, atol=1e-12, rtol=0)
        torch.testing.assert_close(ours.map.u, theirs.weight_u, atol=1e-12, rtol=0)


def test_torchs_parametrisation_steps_from_v_instead():
    layer, x = nn.Linear(30, 20, bias=False).double(), torch.randn(3, 30, dtype=torch.float64)
    old = nn.utils.spectral_norm(copy.deepcopy(layer))
    new = parametrizations.spectral_norm(copy.deepcopy(layer))
    with torch.no_grad():
        new.parametrizations.weight[0]._u.copy_(old.weight_u)
        new.parametrizations.weight[0]._v.copy_(old.weight_v)
        assert not torch.allclose(old(x), new(x), rtol=1e-4)


@pytest.mark.parametrize("order", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("shape", [(4, 9), (9, 4), (5, 5)])
def test_training_follows_algorithm_one(order, shape):
    """The map in training mode over several weights is the paper's algorithm with its u carried along."""
    h, W = AON(order), 0.3 * torch.randn(shape, dtype=torch.float64)
    h.attach(W)
    u = h.u.clone()
    for _ in range(5):
        W = W + 0.05 * torch.randn(shape, dtype=torch.float64)
        expected, u = normalise_reference(W, u, order)
        torch.testing.assert_close(h(W), expected, atol=1e-11, rtol=0)
        torch.testing.assert_close(h.u, u, atol=1e-11, rtol=0)


@pytest.mark.parametrize("order", [0, 2, 4])
def test_a_new_u_is_warm(order):
    """Before any training h(W) is already near the exact one."""
    W = nn.Linear(64, 32).weight.detach()
    h = AON(order)
    h.attach(W)
    torch.testing.assert_close(h.eval()(W), approx_orthonormal(W, order), atol=0, rtol=0.02)


def test_u_rests_in_evaluation_and_when_read():
    h, W = AON(), torch.randn(4, 6)
    h.attach(W)
    before = [b.clone() for b in h.buffers()]
    h.read(W + 1)
    h.eval()(W + 1)
    assert all(torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(h.buffers(), before, strict=True))
    h.train()(W + 1)
    assert not torch.equal(h.u, before[0])


@pytest.mark.parametrize("order", [0, 2])
@pytest.mark.parametrize("shape", [(4, 6), (6, 4), (2, 4, 6)])
def test_the_same_weight_again_repeats_the_step(order, shape):
    h, W = AON(order), torch.randn(shape)
    h.attach(W)
    first, u = h(W), h.u.clone()
    for _ in range(3):
        assert torch.equal(h(W), first)
        assert torch.equal(h.u, u)
    assert torch.equal(h.eval()(W), first)


def test_groups_move_apart():
    """A group whose weight is new moves; one whose weight is not repeats its step."""
    h, W = AON(), torch.randn(2, 4, 6)
    h.attach(W)
    h(W)
    u, W = h.u.clone(), W.clone()
    W[1] += 0.1
    h(W)
    assert torch.equal(h.u[0], u[0])
    assert not torch.equal(h.u[1], u[1])


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("shape", [(4, 6), (6, 4), (2, 3, 5), (2, 5, 3)])
def test_gain_scales_the_rows(order, shape):
    W = torch.randn(shape, dtype=torch.float64)
    gain = torch.rand(W[..., 0].numel(), dtype=torch.float64)
    h = AON(order)
    h.attach(W)
    torch.testing.assert_close(h.read(W, gain), h.read(W) * gain.reshape(*shape[:-1], 1), atol=1e-13, rtol=0)


@pytest.mark.parametrize("shape", [(4, 6), (5, 5), (2, 3, 5)])
def test_factor(shape):
    W = torch.randn(shape, dtype=torch.float64)
    h = AON(3)
    h.attach(W)
    torch.testing.assert_close(h.factor(W) @ W, h.read(W), atol=1e-12, rtol=0)


def test_maps_without_a_factor():
    wide, tall = torch.randn(3, 5), torch.randn(5, 3)
    for h, W in ((AON(0), wide), (AON(2), tall), (WeightNorm(), wide), (Polar(), wide), (ONI(), wide)):
        h.attach(W)
        assert h.factor(W) is None


@pytest.mark.parametrize("convert", [nn.Module.half, nn.Module.bfloat16, lambda m: m.to(torch.float16)])
def test_half_precision_leaves_the_state_in_float32(convert):
    layer = aon.normalise(nn.Linear(6, 4))
    before = [b.clone() for b in layer.map.buffers()]
    convert(layer)
    assert layer.weight.dtype != torch.float32
    assert all(b.dtype == torch.float32 for b in layer.map.buffers())
    assert all(torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(layer.map.buffers(), before, strict=True))


def test_double_precision_has_a_double_state():
    layer = aon.normalise(nn.Linear(6, 4)).double()
    assert all(b.dtype == torch.float64 for b in layer.map.buffers())
    assert all(b.dtype == torch.float32 for b in layer.float().map.buffers())


def test_repr_shows_what_differs():
    assert repr(AON()) == "AON(order=2)"
    assert repr(AON(4, centre="mean", eps=1e-6)) == "AON(order=4, centre='mean', eps=1e-06)"
    assert repr(AON(4, expansion="minimax", lower=0.1)) == "AON(order=4, expansion='minimax', lower=0.1)"


def test_options_are_checked():
    with pytest.raises(ValueError, match=r"order=0.5: expected a whole number"):
        AON(0.5)
    with pytest.raises(ValueError, match=r"centre='median': expected one of 'one', 'mean', 'top'"):
        AON(centre="median")
    with pytest.raises(ValueError, match=r"order=0: expected 1 or more with expansion='minimax'"):
        AON(0, expansion="minimax")


# --- the others ---------------------------------------------------------------------------------------------------


@each_layer
def test_weight_normalisation_is_torchs(make, shape):
    layer, x = make().double(), torch.randn(shape, dtype=torch.float64)
    axis = 1 if isinstance(layer, nn.ConvTranspose2d) else 0
    theirs = parametrizations.weight_norm(copy.deepcopy(layer), dim=axis)
    ours = aon.normalise(layer, map=WeightNorm(), gain_init="match")
    torch.testing.assert_close(ours(x), theirs(x), atol=1e-12, rtol=0)
    gradients = [
        torch.autograd.grad(m(x).square().sum(), [p for p in m.parameters() if p.dim() > 1][-1]) for m in (ours, theirs)
    ]
    torch.testing.assert_close(*gradients, atol=1e-10, rtol=0)


def test_centred_weight_normalisation_is_its_published_formula():
    W = torch.randn(3, 7, dtype=torch.float64)
    for row, found in zip(W, CentredWeightNorm()(W), strict=True):
        centred = row - row.mean()
        torch.testing.assert_close(found, centred / (centred.norm() + 1e-5) * 1.414, atol=1e-14, rtol=0)


def test_polar_is_the_limit_of_the_orders():
    W = 0.6 * torch.randn(4, 30, dtype=torch.float64) / 30**0.5
    errors = [(approx_orthonormal(W, q, scale=None) - Polar()(W)).abs().max().item() for q in (0, 2, 8, 32, 128)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 1e-10


@pytest.mark.parametrize("centre", [False, True])
def test_newton_centres_its_rows_if_asked(centre):
    W = torch.randn(3, 7, dtype=torch.float64)
    H = ONI(12, centre=centre)(W)
    Z = W - W.mean(1, keepdim=True) if centre else W
    torch.testing.assert_close(H, Polar()(Z), atol=1e-9, rtol=0)


@pytest.mark.parametrize("iterations", [-1, 2.5, True, "5"])
def test_newton_steps_are_checked(iterations):
    with pytest.raises(ValueError, match=r"iterations=.*: expected a whole number, 0 or more"):
        ONI(iterations)


STATELESS = {"wn": WeightNorm(), "cwn": CentredWeightNorm(), "polar": Polar(), "oni": ONI()}


@pytest.mark.parametrize("h", STATELESS.values(), ids=STATELESS)
@pytest.mark.parametrize("shape", [(4, 6), (6, 4), (2, 3, 5), (1, 4), (4, 1)])
def test_maps_without_state(h, shape):
    W = torch.randn(shape, dtype=torch.float64).requires_grad_()
    h.attach(W)
    assert not list(h.buffers())
    assert h.kept_vector() is None
    assert torch.equal(h(W), h.read(W))
    # A column, centred, is zero, where a norm has no derivative.
    if not (isinstance(h, CentredWeightNorm) and shape[-1] == 1):
        torch.autograd.gradcheck(h, W)


@pytest.mark.parametrize("h", STATELESS.values(), ids=STATELESS)
def test_zero_is_finite(h):
    W = torch.zeros(3, 5, requires_grad=True)
    H = h(W)
    H.sum().backward()
    assert torch.equal(H, torch.zeros(3, 5))
    assert W.grad.isfinite().all()


def test_a_map_of_ones_own():
    """The words of a WeightMap are enough for `normalise`, `fold` and `spectra`."""

    class Halved(WeightMap):
        def forward(self, W: Tensor, gain: Tensor | None = None) -> Tensor:
            return W / 2 if gain is None else W / 2 * gain[:, None]

    layer = nn.Linear(3, 2, bias=False)
    expected = layer.weight.detach() / 2
    aon.normalise(layer, map=Halved())
    assert torch.equal(aon.normalised_weight(layer), expected)
    assert len(aon.spectra(layer)) == 1
    assert torch.equal(aon.fold(layer).weight, expected)


def test_a_map_must_have_a_forward():
    with pytest.raises(NotImplementedError, match=r"^$"):
        WeightMap()(torch.ones(2, 2))


def test_more_power_steps_follow_large_updates():
    """With one step sigma lags behind: |h(W)| is above 1.1 in most updates of this kind, with five in few."""

    def share(steps: int) -> float:
        torch.manual_seed(0)
        weight_map, W = AON(n_power_iterations=steps), torch.randn(48, 64, dtype=torch.float64) / 8
        weight_map.attach(W)
        above = 0
        for _ in range(60):
            W = 0.8 * W + 0.6 * torch.randn_like(W) / 8
            above += bool(torch.linalg.matrix_norm(weight_map(W), 2) > 1.1)
        return above / 60

    assert share(1) > 0.5
    assert share(5) < share(1) / 2


OVERFLOWING = {
    "frobenius": (AON(2, scale="frobenius"), 1e9),
    "order 4": (AON(4), 3e6),
    "minimax": (AON(2, expansion="minimax"), 5e18),  # the Gram matrix is finite, a sum over it is not
    "weight norm": (WeightNorm(), 1e25),
    "centred": (CentredWeightNorm(), 1e25),
    "oni": (ONI(), 1e15),
}


@pytest.mark.parametrize("name", OVERFLOWING)
def test_a_norm_that_overflows_is_nan_and_not_a_weight_of_zero(name):
    weight_map, scale = OVERFLOWING[name]
    W = torch.randn(3, 5, generator=torch.Generator().manual_seed(0)) * scale
    weight_map.attach(W)
    assert weight_map(W).isnan().any()
    weight_map.attach(W.double())
    assert weight_map(W.double()).isfinite().all()  # wide enough


def test_the_frobenius_norm_may_have_a_square_that_leaves_float32():
    weight_map, W = AON(2, scale="frobenius"), torch.randn(3, 5, generator=torch.Generator().manual_seed(0)) * 1e5
    weight_map.attach(W)
    assert torch.allclose(weight_map(W).norm(), torch.tensor(1.0))

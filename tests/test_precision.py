"""Autocast, half precision, and weights that are zero, huge, tiny or not finite."""

import copy

import pytest
import torch
from torch import Tensor, nn

import aon
from aon.kernels.minimax import SAFETY, least_deviation, value
from aon.maps import ONI, CentredWeightNorm, Polar, WeightNorm

MAPS = {
    "aon0": {"order": 0},
    "aon2": {"order": 2},
    "aon3": {"order": 3},
    "mean": {"centre": "mean"},
    "prescale": {"prescale": True},
    "top": {"centre": "top"},
    "minimax": {"expansion": "minimax"},
    "frobenius": {"scale": "frobenius"},
    "wn": {"map": WeightNorm()},
    "cwn": {"map": CentredWeightNorm()},
    "polar": {"map": Polar()},
    "oni": {"map": ONI()},
}
LAYERS = {"wide": lambda: nn.Linear(40, 8), "tall": lambda: nn.Linear(8, 40), "conv": lambda: nn.Conv2d(8, 6, 3)}
each_map = pytest.mark.parametrize("options", MAPS.values(), ids=MAPS)
each_layer = pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def inputs(layer: nn.Module, batch: int = 5) -> Tensor:
    return torch.randn(batch, layer.in_features) if isinstance(layer, nn.Linear) else torch.randn(batch, 8, 5, 5)


# --- autocast -----------------------------------------------------------------------------------------------------


@each_map
@each_layer
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_map_does_not_see_autocast(options, make, dtype):
    """Gram matrix, sigma and h(W) come out with the same bits, under training and reading."""
    layer = aon.normalise(make(), **options)
    plain = copy.deepcopy(layer)
    with torch.autocast("cpu", dtype):
        H, read = layer.map(layer._matrix(), layer.gain), aon.normalised_weight(layer)
    assert H.dtype == torch.float32
    assert torch.equal(H, plain.map(plain._matrix(), plain.gain))
    assert torch.equal(read, aon.normalised_weight(plain))
    for mine, theirs in zip(layer.map.buffers(), plain.map.buffers(), strict=True):
        assert torch.equal(mine, theirs)


@each_map
@each_layer
def test_a_layer_under_bf16_autocast(options, make):
    """The product is in bf16, as it is for a plain layer; gradients of the map are in float32."""
    layer = aon.normalise(make(), **options)
    x = inputs(layer)
    expected = layer(x)
    with torch.autocast("cpu", torch.bfloat16):
        out = layer(x)
        folded = aon.fold(copy.deepcopy(layer))(x)
    assert out.dtype == folded.dtype == torch.bfloat16
    scale = expected.abs().max().item()
    torch.testing.assert_close(out.float(), expected, atol=0.03 * scale, rtol=0)
    out.float().square().mean().backward()
    assert layer.weight.grad.dtype == torch.float32
    assert layer.weight.grad.isfinite().all()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(layer.eval()(x), aon.fold(copy.deepcopy(layer))(x))


def test_sigma_in_bf16_would_be_worse():
    """The guard: the same mathematics in bf16 is off by more than the tolerance of the tests above."""
    W = torch.randn(8, 40) / 40**0.5
    low = W.bfloat16()
    G = low @ low.mT
    P = 1.875 * torch.eye(8) - 1.25 * G.float() + 0.375 * (G @ G).float()
    error = (P.bfloat16() @ low).float() - aon.functional.approx_orthonormal(W, scale=None)
    exact = aon.functional.approx_orthonormal(low, scale=None).float() - aon.functional.approx_orthonormal(
        W, scale=None
    )
    assert error.abs().max() > 1.5 * exact.abs().max()


@pytest.mark.parametrize("order", [0, 2])
def test_training_under_autocast_follows_training_without(order):
    model = aon.normalise(nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 10)), order)
    other, x, y = copy.deepcopy(model), torch.randn(64, 20), torch.randint(10, (64,))
    losses = []
    for net, enabled in ((model, False), (other, True)):
        optimiser = torch.optim.SGD(net.parameters(), 0.5, momentum=0.9)
        for _ in range(30):
            with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
                loss = nn.functional.cross_entropy(net(x), y)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        losses.append(loss.item())
    assert losses[1] == pytest.approx(losses[0], rel=0.1)
    assert other[0].map.u.dtype == torch.float32


# --- weights at the edge ------------------------------------------------------------------------------------------


@each_map
@each_layer
def test_a_zero_weight(options, make):
    """h(0) = 0 with a finite gradient, and training can leave it."""
    layer = aon.normalise(make(), **options)
    with torch.no_grad():
        layer.weight.zero_()
        layer.bias.fill_(1)
    x = inputs(layer)
    out = layer(x)
    assert torch.equal(out, torch.ones_like(out))
    out.square().sum().backward()
    assert all(p.grad.isfinite().all() for p in layer.parameters())
    with torch.no_grad():
        layer.weight.normal_()
    assert layer(x).isfinite().all()


@each_map
def test_made_from_zero(options):
    layer = nn.Linear(6, 4)
    nn.init.zeros_(layer.weight)
    aon.normalise(layer, **options, gain_init="match")
    assert torch.equal(layer(torch.ones(6)), layer.bias)
    assert layer.gain.isfinite().all()


@pytest.mark.parametrize("shape", [(1, 7), (7, 1), (1, 1)])
@each_map
def test_a_single_row_or_column(options, shape):
    layer = aon.normalise(nn.Linear(shape[1], shape[0]), **options)
    layer(torch.randn(3, shape[1])).sum().backward()
    assert all(p.grad.isfinite().all() for p in layer.parameters())
    # A column, centred, is nothing.
    if options.get("order", 1) and not isinstance(options.get("map"), CentredWeightNorm | WeightNorm | ONI):
        s = torch.linalg.svdvals(aon.normalised_weight(layer))
        torch.testing.assert_close(s, torch.full((1,), of_one(options)), atol=1e-5, rtol=0)


def of_one(options: dict) -> float:
    """What a map makes of the only singular value: 1, or p(1 / SAFETY) over its maximum."""
    if "expansion" not in options:
        return 1.0
    coefficients, deviation = least_deviation(2, 0.2)
    return value(coefficients, 1 / SAFETY) / (1 + deviation)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
@each_map
@each_layer
def test_not_finite(options, make, bad):
    """An honest NaN in the rows that it touches, in training and in evaluation; never a crash, never a wrong number."""
    layer = aon.normalise(make(), **options)
    x = inputs(layer)
    with torch.no_grad():
        layer.weight.view(-1)[3] = bad
    rows = "map" in options and isinstance(options["map"], WeightNorm | CentredWeightNorm)
    for _ in range(2):
        layer(x).sum().backward()
        H = aon.normalised_weight(layer).flatten(1)
        assert H[0].isnan().any()
        if not rows:
            assert H.isnan().all()
    with torch.no_grad():
        out = layer.eval()(x)
        assert out.isnan().any()
        assert torch.equal(layer(x).isnan(), out.isnan())


@pytest.mark.parametrize("options", [{"order": 0}, {"order": 2}, {"prescale": True}], ids=["aon0", "aon2", "prescale"])
@each_layer
def test_u_survives_a_weight_that_is_not_finite(options, make):
    """A skipped step (GradScaler) or a restored weight finds the layer in order."""
    layer = aon.normalise(make(), **options)
    x, good = inputs(layer), layer.weight.detach().clone()
    expected = layer(x).detach()
    with torch.no_grad():
        layer.weight.fill_(torch.nan)
        layer(x)
        layer.weight.copy_(good)
    out = layer(x)
    assert out.isfinite().all()
    torch.testing.assert_close(out, expected, atol=0.05, rtol=0.05)


@each_map
@each_layer
@pytest.mark.parametrize("size", [1e-9, 1e-4, 1e2])
def test_small_and_large_weights(options, make, size):
    """Within the reach of float32 the map is as exact as for a weight of ordinary size."""
    layer = aon.normalise(make(), **options)
    with torch.no_grad():
        layer.weight.mul_(size)
    layer.start()
    other = copy.deepcopy(layer).double()
    H, expected = aon.normalised_weight(layer), aon.normalised_weight(other)
    assert H.isfinite().all()
    torch.testing.assert_close(H.double(), expected, atol=1e-4 * expected.abs().max().item(), rtol=0)
    layer(inputs(layer)).sum().backward()
    assert all(p.grad.isfinite().all() for p in layer.parameters())


@pytest.mark.parametrize("order", [0, 1, 2, 4, 8])
@pytest.mark.parametrize("size", [1e2, 1e3, 1e6, 1e12])
def test_very_large_weights(order, size):
    """P_q(W) W grows like s^(2q + 1): finite as long as that is a number of float32, and an honest NaN beyond."""
    layer = aon.normalise(nn.Linear(40, 8), order)
    with torch.no_grad():
        layer.weight.mul_(size)
    H = aon.normalised_weight(layer)
    s = torch.linalg.matrix_norm(layer.weight, 2).double()
    if s ** (2 * order + 1) < 1e36:
        expected = aon.normalised_weight(copy.deepcopy(layer).double())
        torch.testing.assert_close(H.double(), expected, atol=1e-3, rtol=0)
    elif not H.isfinite().all():
        assert H.isnan().all()


@pytest.mark.parametrize(
    "options", [{"centre": "mean"}, {"order": 0}, {"prescale": True}], ids=["mean", "aon0", "prescale"]
)
@pytest.mark.parametrize("size", [1e-9, 1e-6, 1e6, 1e15])
def test_maps_that_do_not_see_the_size(options, size):
    layer = aon.normalise(nn.Linear(40, 8), **options)
    expected = aon.normalised_weight(layer).detach()
    with torch.no_grad():
        layer.weight.mul_(size)
    torch.testing.assert_close(aon.normalised_weight(layer), expected, atol=1e-3, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@each_map
def test_half_weights_train(options, dtype):
    model = aon.normalise(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).to(dtype), **options)
    x, y = torch.randn(64, 16, dtype=dtype), torch.randint(4, (64,))
    optimiser = torch.optim.SGD(model.parameters(), 0.2)
    losses = []
    for _ in range(20):
        loss = nn.functional.cross_entropy(model(x).float(), y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("way", ["autocast", "float16"])
def test_a_tiny_weight_in_float16_does_not_depend_on_the_batch_size(way):
    """F is about 1 / sigma(W), beyond the range of float16, so that a batch of one must not apply it."""
    torch.manual_seed(0)
    layer, x = nn.Linear(64, 4), torch.randn(200, 64)
    with torch.no_grad():
        layer.weight.mul_(1e-5)
    aon.normalise(layer)
    if way == "float16":
        layer, x = layer.half(), x.half()
    with torch.autocast("cpu", torch.float16, enabled=way == "autocast"):
        one, many = layer(x[:1]), layer(x)[:1]
    assert one.dtype == torch.float16
    assert one.isfinite().all()
    torch.testing.assert_close(one, many, atol=4e-3, rtol=0)
    factor = layer.map.factor(layer.weight, layer.gain)
    assert factor.abs().max() > torch.finfo(torch.float16).max or factor.isinf().any()

"""Batch renormalisation against a slow float64 version of its definition, and its schedule."""

import copy
import io
import pickle

import pytest
import torch
from torch import Tensor, nn

from aon.renorm import BatchRenorm

SHAPES = {"2d": (20, 6), "3d": (9, 6, 5), "4d": (7, 6, 4, 3), "5d": (4, 6, 2, 3, 2)}
AT_ONCE = {"warm_up": 0, "r_ramp_end": 0, "d_ramp_end": 0}


def batch(shape: tuple[int, ...], seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    scale = torch.linspace(0.2, 4, shape[1]).view(-1, *[1] * (len(shape) - 2))
    return (torch.randn(shape, generator=generator, dtype=torch.float64) * scale + 2 * scale - 3).to(dtype)


def channelwise(vector: Tensor, x: Tensor) -> Tensor:
    return vector.view(-1, *[1] * (x.dim() - 2))


def reference(x: Tensor, mean: Tensor, std: Tensor, r_max: float, d_max: float, eps: float = 1e-5):
    """Output before scale and shift, and the batch's mean and standard deviation: algorithm 1, line by line."""
    rows = x.transpose(0, 1).flatten(1)
    batch_mean = rows.mean(1)
    batch_std = ((rows - batch_mean[:, None]) ** 2).mean(1).add(eps).sqrt()
    r = (batch_std / std).detach().clamp(1 / r_max, r_max)
    d = ((batch_mean - mean) / std).detach().clamp(-d_max, d_max)
    y = (rows - batch_mean[:, None]) / batch_std[:, None] * r[:, None] + d[:, None]
    return y.reshape(x.transpose(0, 1).shape).transpose(0, 1), batch_mean.detach(), batch_std.detach()


@pytest.mark.parametrize("shape", SHAPES)
def test_training_equals_the_definition(shape: str) -> None:
    layer = BatchRenorm(6, r_max=1.5, d_max=0.4, momentum=0.3, **AT_ONCE).double()
    with torch.no_grad():
        layer.weight.copy_(torch.linspace(0.5, 1.5, 6))
        layer.bias.copy_(torch.linspace(-1, 1, 6))
    mean, std = torch.zeros(6, dtype=torch.float64), torch.ones(6, dtype=torch.float64)
    for seed in range(4):
        x = batch(SHAPES[shape], seed).requires_grad_()
        limits = (1.0, 0.0) if seed == 0 else (1.5, 0.4)
        plain, batch_mean, batch_std = reference(x, mean, std, *limits)
        expected = plain * channelwise(layer.weight, x) + channelwise(layer.bias, x)
        mean, std = 0.7 * mean + 0.3 * batch_mean, 0.7 * std + 0.3 * batch_std
        y = layer(x)
        inputs = (x, layer.weight, layer.bias)
        torch.testing.assert_close(y, expected)
        got = torch.autograd.grad(y.pow(3).sum(), inputs)
        for one, other in zip(got, torch.autograd.grad(expected.pow(3).sum(), inputs), strict=True):
            torch.testing.assert_close(one, other)
    torch.testing.assert_close(layer.running_mean, mean)
    torch.testing.assert_close(layer.running_std, std)
    assert layer.num_batches_tracked == 4


def test_evaluation_uses_running_averages_and_changes_nothing() -> None:
    layer = BatchRenorm(6).double()
    layer(batch((5, 6, 3)))
    before = copy.deepcopy(layer.eval().state_dict())
    x = batch((5, 6, 3), seed=1)
    expected = (x - layer.running_mean.view(-1, 1)) / layer.running_std.view(-1, 1)
    torch.testing.assert_close(layer(x), expected)
    torch.testing.assert_close(dict(layer.state_dict()), dict(before), rtol=0, atol=0)


def test_without_limits_training_equals_evaluation() -> None:
    layer = BatchRenorm(6, r_max=1e6, d_max=1e6, **AT_ONCE).double()
    for seed in range(3):
        layer(batch((5, 6, 3), seed))
    x = batch((5, 6, 3), seed=9)
    expected = copy.deepcopy(layer).eval()(x)
    torch.testing.assert_close(layer(x), expected)


def test_warm_up_is_batch_normalisation() -> None:
    ours, torchs = BatchRenorm(6, warm_up=3, r_ramp_end=6, d_ramp_end=6), nn.BatchNorm2d(6)
    for seed in range(5):
        x = batch((7, 6, 4, 3), seed, torch.float32)
        close = torch.allclose(ours(x), torchs(x), atol=1e-5)
        assert close == (seed <= 3)  # batch 3 is where the ramp begins, from its foot


@pytest.mark.parametrize(
    ("seen", "r_max", "d_max"),
    [(0, 1, 0), (5000, 1, 0), (15000, 1 + 2 * 10 / 35, 2.5), (25000, 1 + 2 * 20 / 35, 5), (40000, 3, 5), (10**6, 3, 5)],
)
def test_default_schedule_is_the_papers(seen: int, r_max: float, d_max: float) -> None:
    layer = BatchRenorm(2)
    layer.num_batches_tracked.fill_(seen)
    assert [limit.item() for limit in layer.limits()] == pytest.approx([r_max, d_max])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_keeps_statistics_in_float32(dtype: torch.dtype) -> None:
    x = batch((32, 6, 4, 4), dtype=dtype)
    layer, exact = BatchRenorm(6, momentum=1.0), BatchRenorm(6, momentum=1.0).double()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = layer(x)
    expected = exact(x.double())
    assert y.dtype == dtype
    torch.testing.assert_close(layer.running_std.double(), exact.running_std, rtol=1e-5, atol=0)
    assert ((y.double() - expected).abs() <= torch.finfo(dtype).eps * expected.abs() + 1e-4).all()


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_compiles_without_a_graph_break(mode: str) -> None:
    layer = BatchRenorm(6, warm_up=1, r_ramp_end=3, d_ramp_end=3)
    twin = copy.deepcopy(layer)
    compiled = torch.compile(twin.train(mode == "train"), fullgraph=True, backend="aot_eager")
    layer.train(mode == "train")
    for seed in range(4):
        x = batch((7, 6, 3), seed, torch.float32).requires_grad_()
        z = x.detach().clone().requires_grad_()
        layer(x).pow(3).sum().backward()
        compiled(z).pow(3).sum().backward()
        torch.testing.assert_close(z.grad, x.grad, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(dict(twin.state_dict()), dict(layer.state_dict()))


def test_constant_channel_stays_finite() -> None:
    x = batch((8, 6), dtype=torch.float32)
    x[:, 2] = 1.0
    x.requires_grad_()
    layer = BatchRenorm(6, **AT_ONCE)
    for _ in range(3):
        y = layer(x)
    y.pow(3).sum().backward()
    assert y.isfinite().all()
    assert x.grad.isfinite().all()


def test_state_dict_deepcopy_and_pickle() -> None:
    layer = BatchRenorm(6, **AT_ONCE)
    layer(batch((5, 6), dtype=torch.float32))
    assert set(layer.state_dict()) == {"weight", "bias", "running_mean", "running_std", "num_batches_tracked"}
    loaded = BatchRenorm(6, **AT_ONCE)
    loaded.load_state_dict(layer.state_dict(), strict=True)
    file = io.BytesIO()
    torch.save(layer, file)
    file.seek(0)
    x = batch((5, 6), seed=1, dtype=torch.float32)
    copies = [copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), torch.load(file, weights_only=False)]  # noqa: S301
    expected = layer(x)
    for other in (loaded, *copies):
        torch.testing.assert_close(other(x), expected, rtol=0, atol=0)


def test_without_affine() -> None:
    layer = BatchRenorm(6, affine=False).double()
    x = batch((5, 6, 3))
    torch.testing.assert_close(layer(x), nn.functional.batch_norm(x, None, None, training=True))
    assert list(layer.parameters()) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_features": 0}, "num_features=0: expected a whole number, 1 or more"),
        ({"r_max": 0.5}, "r_max=0.5: expected a number from 1 on"),
        ({"d_max": -1.0}, "d_max=-1.0: expected a number from 0 on"),
        ({"warm_up": -1}, "warm_up=-1: expected a whole number, 0 or more"),
        ({"r_ramp_end": 10}, "r_ramp_end=10: expected at least warm_up=5000"),
        ({"d_ramp_end": 10}, "d_ramp_end=10: expected at least warm_up=5000"),
        ({"eps": 0.0}, "eps=0.0: expected a number above 0"),
        ({"momentum": 2.0}, "momentum=2.0: expected a number from 0 to 1"),
    ],
)
def test_bad_arguments_are_named(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BatchRenorm(**{"num_features": 6, **options})


def test_bad_inputs_are_named() -> None:
    with pytest.raises(ValueError, match=r"shape \(N, 6, ...\), got torch.float32 of shape \(4, 5\)"):
        BatchRenorm(6)(torch.zeros(4, 5))


@pytest.mark.parametrize("shape", [(0, 6), (0, 6, 4, 4), (1, 6), (1, 6, 1, 1)])
def test_a_batch_without_a_variance_is_refused_and_leaves_the_averages_as_they_are(shape: tuple[int, ...]) -> None:
    layer = BatchRenorm(6)
    layer(torch.randn(8, 6))
    before = copy.deepcopy(layer.state_dict())
    with pytest.raises(ValueError, match="more than 1 value per channel when training, got"):
        layer(torch.zeros(shape))
    assert all(torch.equal(before[name], value) for name, value in layer.state_dict().items())
    assert layer.eval()(torch.zeros(shape)).shape == shape


def test_prints_its_numbers() -> None:
    assert "6, r_max=3.0, d_max=5.0, warm_up=5000" in repr(BatchRenorm(6))

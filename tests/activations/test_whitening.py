"""The whitening layers against slow, obvious float64 versions of their definitions."""

import copy
import io
import pickle

import pytest
import torch
from torch import Tensor, nn

from aon.whitening import DecorrelatedBatchNorm, IterNorm

LAYERS = {"iternorm": IterNorm, "dbn": DecorrelatedBatchNorm}
SHAPES = {"2d": (40, 8), "3d": (9, 8, 5), "4d": (7, 8, 4, 3), "5d": (6, 8, 2, 3, 2)}
# torch's compiler instantiates autograd functions and calls its own deprecated names; neither is ours to mend.
COMPILER_NOISE = [
    pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*_prims_common.check.*:FutureWarning"),
]


def whitening_matrix(S: Tensor, kind: str, n_iterations: int) -> Tensor:
    """The definition for one group: a matrix, no batch, no shortcut."""
    if kind == "dbn":
        values, U = torch.linalg.eigh(S)
        return U @ torch.diag(values.rsqrt()) @ U.T
    P = torch.eye(S.shape[0], dtype=S.dtype)
    for _ in range(n_iterations):
        P = (3 * P - P @ P @ P @ (S / S.trace())) / 2
    return P / S.trace().sqrt()


def reference(x: Tensor, kind: str, groups: int, n_iterations: int = 5, eps: float = 1e-5):
    """Output before scale and shift, mean and whitening matrices, by loops over groups."""
    rows = x.double().transpose(0, 1).flatten(1)
    mean = rows.mean(1, keepdim=True)
    outputs, matrices = [], []
    for centred in (rows - mean).chunk(groups):
        S = centred @ centred.T / centred.shape[1] + eps * torch.eye(len(centred), dtype=torch.float64)
        matrices.append(whitening_matrix(S, kind, n_iterations))
        outputs.append(matrices[-1] @ centred)
    y = torch.cat(outputs).reshape(x.transpose(0, 1).shape).transpose(0, 1)
    return y, mean.flatten(), torch.stack(matrices)


def batch(shape: tuple[int, ...], seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """Correlated channels that are neither centred nor of one size."""
    generator = torch.Generator().manual_seed(seed)
    mix = torch.randn(shape[1], shape[1], generator=generator, dtype=torch.float64)
    x = torch.einsum("cd,nd...->nc...", mix, torch.randn(shape, generator=generator, dtype=torch.float64))
    return (x + 3 * mix[0].view(-1, *[1] * (len(shape) - 2))).to(dtype)


def scaled(layer: nn.Module) -> nn.Module:
    """Scale and shift that are not one and zero, so that a test can see them."""
    with torch.no_grad():
        layer.weight.copy_(torch.linspace(0.5, 1.5, layer.num_features))
        layer.bias.copy_(torch.linspace(-1, 1, layer.num_features))
    return layer


def channelwise(vector: Tensor, x: Tensor) -> Tensor:
    return vector.view(-1, *[1] * (x.dim() - 2))


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("groups", [1, 2, 8])
@pytest.mark.parametrize("shape", SHAPES)
def test_training_output_and_gradients_equal_the_definition(kind: str, groups: int, shape: str) -> None:
    layer = scaled(LAYERS[kind](8, num_groups=groups).double())
    x = batch(SHAPES[shape]).requires_grad_()
    probe = batch(SHAPES[shape], seed=1)
    inputs = (x, layer.weight, layer.bias)
    y = layer(x)
    gradients = torch.autograd.grad((y * probe).sum(), inputs)
    plain, _, _ = reference(x, kind, groups)
    expected = plain * channelwise(layer.weight, x) + channelwise(layer.bias, x)
    expected_gradients = torch.autograd.grad((expected * probe).sum(), inputs)
    torch.testing.assert_close(y, expected, rtol=1e-9, atol=1e-9)
    for got, want in zip(gradients, expected_gradients, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("groups", [1, 2, 8])
@pytest.mark.parametrize(("name", "training"), [("4d", True), ("5d", True), ("4d", False)])
def test_channels_last_is_computed_as_it_lies(kind: str, groups: int, name: str, training: bool) -> None:
    """The same numbers in either order of memory, whatever that of the gradient, and an output ordered as the input."""
    shape = SHAPES[name]
    last = torch.channels_last if len(shape) == 4 else torch.channels_last_3d
    layer, probe = scaled(LAYERS[kind](8, num_groups=groups).double()).train(training), batch(shape, seed=1)
    found = []
    for x in (batch(shape).contiguous(), batch(shape).to(memory_format=last)):
        for gradient in (probe, probe.to(memory_format=last)):
            inputs = (x.detach().requires_grad_(), layer.weight, layer.bias)
            y = layer(inputs[0])
            assert y.stride() == x.stride()
            found.append((y, *torch.autograd.grad(y, inputs, gradient)))
    for other in found[1:]:
        torch.testing.assert_close(other, found[0], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("shape", [(4, 1, 6, 6), (16, 8, 1, 1), (16, 8)])
def test_what_lies_both_ways_stays_contiguous(kind: str, shape: tuple[int, ...]) -> None:
    """Strides of one channel or one position that a convolution would take for channels_last."""
    x = batch(shape).contiguous().requires_grad_()
    y = LAYERS[kind](shape[1]).double()(x)
    y.square().sum().backward()
    assert y.stride() == x.grad.stride() == x.stride()


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("last", [False, True], ids=["contiguous", "channels_last"])
def test_a_backward_inside_autocast_is_that_outside(kind: str, last: bool) -> None:
    layer, x = LAYERS[kind](8), batch((7, 8, 4, 3), dtype=torch.float32).contiguous()
    x = x.to(memory_format=torch.channels_last) if last else x
    found = []
    for inside in (False, True):
        own = x.detach().requires_grad_()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = layer(own).pow(3).sum()
            if inside:
                loss.backward()
        if not inside:
            loss.backward()
        found.append(own.grad)
    torch.testing.assert_close(found[1], found[0], rtol=0, atol=0)


@pytest.mark.parametrize("kind", LAYERS)
def test_sync_alone_refuses_a_batch_without_images(kind: str) -> None:
    layer = LAYERS[kind](4, sync=True)
    with pytest.raises(ValueError, match="expected more than 1 value per channel when training"):
        layer(torch.zeros(0, 4))
    assert layer.running_mean.isfinite().all()


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("groups", [1, 4])
def test_evaluation_uses_running_averages(kind: str, groups: int) -> None:
    layer = scaled(LAYERS[kind](8, num_groups=groups, momentum=0.3).double())
    mean, W = torch.zeros(8).double(), torch.eye(8 // groups).double().expand(groups, -1, -1)
    for seed in range(3):
        x = batch((6, 8, 3, 3), seed)
        layer(x)
        _, batch_mean, batch_W = reference(x, kind, groups)
        mean, W = 0.7 * mean + 0.3 * batch_mean, 0.7 * W + 0.3 * batch_W
    torch.testing.assert_close(layer.running_mean, mean)
    torch.testing.assert_close(layer.running_whitening, W)
    before = copy.deepcopy(layer.eval().state_dict())
    x = batch((5, 8, 2, 2), seed=9)
    rows = (x.transpose(0, 1).flatten(1) - mean[:, None]).view(groups, 8 // groups, -1)
    expected = (W @ rows).view(8, 5, 2, 2).transpose(0, 1) * channelwise(layer.weight, x)
    torch.testing.assert_close(layer(x), expected + channelwise(layer.bias, x))
    torch.testing.assert_close(dict(layer.state_dict()), dict(before), rtol=0, atol=0)


@pytest.mark.parametrize("kind", LAYERS)
def test_gradcheck(kind: str) -> None:
    layer = LAYERS[kind](4, num_groups=2).double()

    def call(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return torch.func.functional_call(layer, {"weight": weight, "bias": bias}, (x,))

    x = batch((5, 4, 3)).requires_grad_()
    assert torch.autograd.gradcheck(call, (x, layer.weight, layer.bias))
    layer.eval()
    assert torch.autograd.gradcheck(call, (x, layer.weight, layer.bias))


@pytest.mark.parametrize("kind", LAYERS)
def test_second_derivative_is_refused_not_wrong(kind: str) -> None:
    x, layer = batch((5, 4)).requires_grad_(), LAYERS[kind](4).double()
    for loss in (lambda y: y.pow(3).sum(), lambda y: (y * torch.arange(4)).sum()):  # the second is linear in y
        (gradient,) = torch.autograd.grad(loss(layer(x)), x, create_graph=True)
        with pytest.raises(RuntimeError, match="whitening layers have no second derivative"):
            gradient.sum().backward()
        with pytest.raises(RuntimeError, match="whitening layers have no second derivative"):
            torch.autograd.grad(gradient.square().sum(), x, allow_unused=True)


@pytest.mark.parametrize("kind", LAYERS)
def test_second_derivative_in_evaluation_mode_is_right(kind: str) -> None:
    layer = LAYERS[kind](4).double()
    layer(batch((5, 4)))
    assert torch.autograd.gradgradcheck(layer.eval(), batch((5, 4)).requires_grad_())


@pytest.mark.parametrize("n_iterations", [1, 3, 7])
def test_number_of_newton_steps(n_iterations: int) -> None:
    x = batch((6, 4, 3))
    y = IterNorm(4, n_iterations=n_iterations, affine=False).double()(x)
    torch.testing.assert_close(y, reference(x, "iternorm", 1, n_iterations)[0])


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("case", ["few_samples", "constant_channel", "constant_input", "copied_channel", "offset"])
def test_ill_conditioned_batches_stay_finite(kind: str, case: str) -> None:
    x = torch.randn(8, 32, generator=torch.Generator().manual_seed(0))
    if case == "constant_channel":
        x[:, 3] = 2.0
    elif case == "constant_input":
        x[:] = 1.0
    elif case == "copied_channel":
        x[:, 1] = x[:, 0]
    elif case == "offset":
        x += 1e4
    x.requires_grad_()
    layer = LAYERS[kind](32)
    y = layer(x)
    y.pow(3).sum().backward()
    tensors = (y, x.grad, layer.weight.grad, layer.bias.grad, layer.running_whitening)
    assert all(tensor.isfinite().all() for tensor in tensors)


@pytest.mark.parametrize("kind", LAYERS)
def test_nan_is_an_honest_nan(kind: str) -> None:
    x = torch.randn(8, 4)
    x[0, 0] = torch.nan
    y = LAYERS[kind](4, num_groups=2)(x)
    assert y[:, :2].isnan().all()
    assert y[:, 2:].isfinite().all()


# Largest error in units of the output's own rounding, measured: 0.49 in bfloat16, 0.47 in float16.
HALF_ROUNDINGS = 1.0


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("training", [True, False])
def test_half_precision_keeps_statistics_in_float32(kind: str, dtype: torch.dtype, training: bool) -> None:
    layer = LAYERS[kind](8, momentum=1.0)
    layer(batch((16, 8, 4, 4), seed=1, dtype=torch.float32))
    exact = copy.deepcopy(layer).double().train(training)
    x = batch((16, 8, 4, 4), dtype=dtype)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = layer.train(training)(x)
    assert y.dtype == dtype
    assert layer.running_mean.dtype == torch.float32
    expected = exact(x.double())
    bound = HALF_ROUNDINGS * torch.finfo(dtype).eps * expected.abs() + 1e-4
    assert ((y.double() - expected).abs() <= bound).all()


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("mode", ["train", "eval"])
class TestCompiled:
    pytestmark = COMPILER_NOISE

    @pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
    def test_no_graph_break_and_the_same_numbers(self, kind: str, mode: str, layout: torch.memory_format) -> None:
        layer = scaled(LAYERS[kind](8, num_groups=2))
        layer(batch((6, 8, 3, 3), dtype=torch.float32))
        layer.train(mode == "train")
        twin = copy.deepcopy(layer)
        compiled = torch.compile(twin, fullgraph=True, backend="aot_eager")
        x = batch((6, 8, 3, 3), seed=1, dtype=torch.float32).contiguous(memory_format=layout).requires_grad_()
        z = x.detach().clone().requires_grad_()
        layer(x).pow(3).sum().backward()
        compiled(z).pow(3).sum().backward()
        torch.testing.assert_close(z.grad, x.grad, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(dict(twin.state_dict()), dict(layer.state_dict()))


@pytest.mark.parametrize("kind", LAYERS)
def test_state_dict_deepcopy_and_pickle(kind: str) -> None:
    layer = scaled(LAYERS[kind](8, num_groups=2))
    layer(batch((6, 8), dtype=torch.float32))
    layer.eval()
    x = batch((6, 8), seed=1, dtype=torch.float32)
    loaded = LAYERS[kind](8, num_groups=2).eval()
    loaded.load_state_dict(layer.state_dict(), strict=True)
    file = io.BytesIO()
    torch.save(layer, file)
    file.seek(0)
    saved = torch.load(file, weights_only=False)
    for other in (loaded, saved, copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):  # noqa: S301
        torch.testing.assert_close(other(x), layer(x), rtol=0, atol=0)


def test_state_has_no_surprising_keys() -> None:
    assert set(IterNorm(4).state_dict()) == {"weight", "bias", "running_mean", "running_whitening"}
    assert set(IterNorm(4, affine=False).state_dict()) == {"running_mean", "running_whitening"}


@pytest.mark.parametrize("kind", LAYERS)
def test_a_few_steps_of_training(kind: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), LAYERS[kind](8, num_groups=2), nn.ReLU(), nn.Linear(8, 1))
    x = torch.randn(64, 6)
    target = x[:, :1] * x[:, 1:2]
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for _ in range(40):
        optimiser.zero_grad()
        loss = nn.functional.mse_loss(model(x), target)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.parametrize(
    ("features", "channels", "groups"), [(64, 512, 1), (512, 512, 1), (96, 512, 3), (6, 4, 3), (7, 4, 7)]
)
def test_num_channels_is_halved_until_it_divides(features: int, channels: int, groups: int) -> None:
    layer = IterNorm(features, num_channels=channels)
    assert (layer.num_groups, layer.num_channels) == (groups, features // groups)


@pytest.mark.parametrize(
    ("features", "channels", "groups"), [(64, 512, 1), (48, 16, 3), (24, 16, 2), (6, 4, 2), (12, 5, 3), (7, 4, 7)]
)
def test_num_channels_of_dbn_is_lowered_to_the_largest_divisor(features: int, channels: int, groups: int) -> None:
    layer = DecorrelatedBatchNorm(features, num_channels=channels)
    assert (layer.num_groups, layer.num_channels) == (groups, features // groups)


def test_channels_last_gives_the_same() -> None:
    x = batch((6, 8, 4, 4), dtype=torch.float32)
    last = x.contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(IterNorm(8)(last), IterNorm(8)(x))
    torch.testing.assert_close(IterNorm(8).eval()(last), IterNorm(8).eval()(x))


@pytest.mark.parametrize("shape", [(0, 8), (0, 8, 3, 3)])
def test_evaluation_of_nothing_is_nothing(shape: tuple[int, ...]) -> None:
    assert IterNorm(8, num_groups=2).eval()(torch.zeros(shape)).shape == shape


def test_without_affine() -> None:
    x = batch((6, 8, 3)).requires_grad_()
    y = IterNorm(8, affine=False).double()(x)
    torch.testing.assert_close(y, reference(x, "iternorm", 1)[0])
    (gradient,) = torch.autograd.grad(y.pow(3).sum(), x)
    (expected,) = torch.autograd.grad(reference(x, "iternorm", 1)[0].pow(3).sum(), x)
    torch.testing.assert_close(gradient, expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_features": 0}, "num_features=0: expected a whole number, 1 or more"),
        ({"num_groups": 3}, "num_groups=3: expected a divisor of num_features=8"),
        ({"num_channels": 0}, "num_channels=0: expected from 1 on"),
        ({"num_channels": 4, "num_groups": 2}, "without num_groups"),
        ({"eps": 0.0}, "eps=0.0: expected a number above 0"),
        ({"momentum": 1.5}, "momentum=1.5: expected a number from 0 to 1"),
        ({"n_iterations": 0}, "n_iterations=0: expected a whole number, 1 or more"),
    ],
)
def test_bad_arguments_are_named(options: dict, message: str) -> None:
    for layer in (IterNorm,) if "n_iterations" in options else LAYERS.values():
        with pytest.raises(ValueError, match=message):
            layer(**{"num_features": 8, **options})


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.zeros(4, 7), r"shape \(N, 8, ...\), got torch.float32 of shape \(4, 7\)"),
        (torch.zeros(8), r"shape \(N, 8, ...\)"),
        (torch.zeros(4, 8, dtype=torch.int64), "floating-point input"),
        (torch.zeros(1, 8), "more than 1 value per channel when training"),
    ],
)
def test_bad_inputs_are_named(x: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        IterNorm(8)(x)


def test_prints_its_numbers() -> None:
    assert "8, num_groups=2" in repr(IterNorm(8, num_groups=2))
    assert "n_iterations=5" in repr(IterNorm(8))

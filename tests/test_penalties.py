"""Penalties against their definitions in float64, over every kind of layer, shape and option."""

import copy

import pytest
import torch
from torch import Tensor, nn

import aon
from aon import penalties
from aon.model.matrices import weight_matrix

LAYERS = {
    "linear_wide": lambda: nn.Linear(9, 4),
    "linear_tall": lambda: nn.Linear(4, 9),
    "linear_square": lambda: nn.Linear(6, 6),
    "one_row": lambda: nn.Linear(5, 1),
    "one_column": lambda: nn.Linear(1, 5),
    "conv1d": lambda: nn.Conv1d(2, 5, 3),
    "conv2d": lambda: nn.Conv2d(3, 4, 3, stride=2),
    "conv3d_tall": lambda: nn.Conv3d(1, 12, 2),
    "grouped": lambda: nn.Conv2d(6, 8, 2, groups=2),
    "grouped_tall": lambda: nn.Conv2d(4, 12, 1, groups=2),
    "transposed": lambda: nn.ConvTranspose2d(3, 4, 2),
    "transposed_grouped": lambda: nn.ConvTranspose1d(6, 8, 3, groups=2),
}


def identity(n: int) -> Tensor:
    return torch.eye(n, dtype=torch.float64)


def spectral(A: Tensor) -> Tensor:
    return torch.linalg.svdvals(A)[0]


def smaller(W: Tensor) -> Tensor:
    return W.T if W.shape[0] > W.shape[1] else W


# The definitions, for one matrix, forming everything that they name.
DEFINITIONS = {
    "orthonormal": lambda W: (W @ W.T - identity(len(W))).pow(2).sum() / len(W) ** 2,
    "double_sided": lambda W: (W @ W.T - identity(len(W))).pow(2).sum() + (W.T @ W - identity(len(W.T))).pow(2).sum(),
    "mutual_coherence": lambda W: (W @ W.T - identity(len(W))).abs().max(),
    "restricted_isometry": lambda W: spectral(smaller(W) @ smaller(W).T - identity(min(W.shape))),
    "spectral_norm": lambda W: spectral(W) ** 2 / 2,
}
NEEDS_STEPS = {"restricted_isometry": 3000, "spectral_norm": 3000}  # enough for a close pair of singular values
GRAM_ONLY = ["orthonormal", "double_sided"]


def make(kind: str) -> nn.Module:
    layer = LAYERS[kind]().double()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        layer.weight.copy_(torch.randn(layer.weight.shape, generator=generator, dtype=torch.float64))
    return layer


def call(name: str, model: nn.Module, **options) -> Tensor:
    steps = {"n_power_iterations": NEEDS_STEPS[name]} if name in NEEDS_STEPS else {}
    return getattr(penalties, name)(model, **{"beta": 1.0, **steps, **options})


def definition(name: str, model: nn.Module) -> Tensor:
    W = weight_matrix(model)
    return sum(DEFINITIONS[name](one) for one in (W if W.dim() == 3 else [W]))


@pytest.mark.parametrize("name", DEFINITIONS)
@pytest.mark.parametrize("kind", LAYERS)
def test_value_and_gradient_equal_the_definition(name: str, kind: str) -> None:
    layer = make(kind)
    got, expected = call(name, layer), definition(name, layer)
    torch.testing.assert_close(got, expected)
    assert got.shape == ()
    gradients = torch.autograd.grad(got, layer.weight), torch.autograd.grad(expected, layer.weight)
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("name", DEFINITIONS)
def test_beta_weighs_and_a_model_is_a_sum(name: str) -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4, 6)).double()
    function = getattr(penalties, name)
    apart = function(model[0], beta=3.0) + function(model[4], beta=3.0)
    torch.testing.assert_close(function(model, beta=3.0), apart)
    torch.testing.assert_close(function(model, beta=6.0), 2 * apart)
    function(model).backward()
    assert [n for n, p in model.named_parameters() if p.grad is not None] == ["0.weight", "4.weight"]


def test_the_papers_beta_is_the_default() -> None:
    layer = make("linear_wide")
    torch.testing.assert_close(penalties.orthonormal(layer), 10 * definition("orthonormal", layer))


@pytest.mark.parametrize("name", DEFINITIONS)
def test_include_and_exclude_choose_layers(name: str) -> None:
    model = nn.ModuleDict({"body": nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 5)), "head": nn.Linear(5, 2)})
    function = getattr(penalties, name)
    torch.testing.assert_close(function(model, exclude="head"), function(model["body"]))
    torch.testing.assert_close(function(model, include="body.*", exclude="body.1"), function(model["body"][0]))
    with pytest.raises(ValueError, match="nothing to penalise: no Linear or convolution"):
        function(model, exclude=nn.Linear)


@pytest.mark.parametrize("name", DEFINITIONS)
def test_a_normalised_layer_is_penalised_in_its_raw_weight(name: str) -> None:
    layer = nn.Linear(6, 4)
    expected = getattr(penalties, name)(layer)
    torch.testing.assert_close(getattr(penalties, name)(aon.normalise(layer)), expected)


@pytest.mark.parametrize("name", DEFINITIONS)
def test_a_tied_weight_counts_once(name: str) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model[1].weight = model[0].weight
    torch.testing.assert_close(getattr(penalties, name)(model), getattr(penalties, name)(model[0]))


@pytest.mark.parametrize("name", DEFINITIONS)
def test_no_random_numbers_no_state(name: str) -> None:
    layer = nn.Linear(20, 10)
    before, state = torch.random.get_rng_state(), copy.deepcopy(layer.state_dict())
    first, second = (getattr(penalties, name)(layer) for _ in range(2))
    assert first.item() == second.item()
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.testing.assert_close(dict(layer.state_dict()), dict(state), rtol=0, atol=0)


@pytest.mark.parametrize("name", ["restricted_isometry", "spectral_norm"])
def test_the_default_steps_come_near_from_below(name: str) -> None:
    layer = nn.Conv2d(64, 128, 3).double()
    ratio = getattr(penalties, name)(layer, beta=1.0) / definition(name, layer)
    assert 0.85 < ratio < 1 + 1e-9  # measured 0.95 for both


@pytest.mark.parametrize("name", DEFINITIONS)
def test_orthonormal_rows_are_the_best(name: str) -> None:
    layer = nn.Linear(8, 4).double()
    nn.init.orthogonal_(layer.weight)
    value = call(name, layer)
    floor = {"double_sided": 4.0, "spectral_norm": 0.5}.get(name, 0.0)
    torch.testing.assert_close(value, torch.tensor(floor, dtype=torch.float64), atol=1e-12, rtol=1e-12)
    value.backward()
    assert layer.weight.grad.isfinite().all()


@pytest.mark.parametrize("name", DEFINITIONS)
def test_descent_reduces_the_penalty(name: str) -> None:
    layer = make("conv2d")
    layer.weight.data *= 0.3  # singular values near 1, on both sides
    function = getattr(penalties, name)
    optimiser = torch.optim.SGD([layer.weight], lr=0.01)
    first = function(layer, beta=1.0)
    for _ in range(50):
        optimiser.zero_grad()
        function(layer, beta=1.0).backward()
        optimiser.step()
    assert function(layer, beta=1.0) < 0.8 * first


@pytest.mark.parametrize("name", GRAM_ONLY)
def test_second_derivatives_are_right(name: str) -> None:
    W = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    term = {"orthonormal": penalties._row_error, "double_sided": penalties._double_error}[name]
    for A in (W, W.detach().mT.contiguous().requires_grad_()):
        assert torch.autograd.gradcheck(term, (A,))
        assert torch.autograd.gradgradcheck(term, (A,))


@pytest.mark.parametrize("name", DEFINITIONS)
@pytest.mark.parametrize("value", [0.0, torch.nan, torch.inf])
def test_strange_weights_give_honest_numbers(name: str, value: float) -> None:
    layer = nn.Linear(5, 3)
    nn.init.constant_(layer.weight, value)
    result = getattr(penalties, name)(layer)
    result.backward()
    assert result.isfinite() == (value == 0.0)
    if value == 0.0:
        assert layer.weight.grad.isfinite().all()


@pytest.mark.parametrize("name", DEFINITIONS)
def test_float32_at_least(name: str) -> None:
    layer = nn.Linear(12, 6)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = getattr(penalties, name)(layer)
    torch.testing.assert_close(inside, getattr(penalties, name)(layer), rtol=0, atol=0)
    half = copy.deepcopy(layer).bfloat16()
    result = getattr(penalties, name)(half)
    result.backward()
    assert result.dtype == torch.float32
    assert half.weight.grad.dtype == torch.bfloat16


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize("name", DEFINITIONS)
def test_compiles_without_a_graph_break(name: str) -> None:
    layer = nn.Linear(9, 4)
    function = getattr(penalties, name)
    compiled = torch.compile(lambda: function(layer), fullgraph=True, backend="aot_eager")
    got, expected = compiled(), function(layer)
    torch.testing.assert_close(got, expected)
    torch.testing.assert_close(*(torch.autograd.grad(p, layer.weight) for p in (got, expected)))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("orthonormal", {"beta": -1.0}, "beta=-1.0: expected a number from 0 on"),
        ("orthonormal", {"beta": float("nan")}, "beta=nan: expected a number from 0 on"),
        ("spectral_norm", {"n_power_iterations": 0}, "n_power_iterations=0: expected a whole number, 1 or more"),
        ("restricted_isometry", {"n_power_iterations": 0}, "n_power_iterations=0: expected a whole number, 1 or more"),
    ],
)
def test_bad_arguments_are_named(name: str, options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        getattr(penalties, name)(nn.Linear(2, 2), **options)


def test_weights_that_cannot_be_penalised_are_named() -> None:
    with pytest.raises(ValueError, match=r"'0' has a weight of torch.complex64; expected real floating point"):
        penalties.orthonormal(nn.Sequential(nn.Linear(2, 2, dtype=torch.complex64)))
    with pytest.raises(ValueError, match="'0' is lazy, without a weight yet"):
        penalties.orthonormal(nn.Sequential(nn.LazyLinear(2)))

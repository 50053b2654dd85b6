"""Singular value bounding: the band holds also while training, and values inside it stay."""

import copy

import pytest
import torch
from torch import Tensor, nn

import aon
from aon.bounding import bound_scales, bound_singular_values
from aon.model.matrices import weight_matrix

LAYERS = {
    "wide": lambda: nn.Linear(9, 4),
    "tall": lambda: nn.Linear(4, 9),
    "conv": lambda: nn.Conv2d(3, 8, 3),
    "grouped": lambda: nn.Conv2d(6, 8, 2, groups=2),
    "transposed": lambda: nn.ConvTranspose2d(3, 4, 2),
    "transposed_grouped": lambda: nn.ConvTranspose1d(6, 8, 3, groups=2),
}
EPS = torch.finfo(torch.float64).eps


def make(kind: str) -> nn.Module:
    """A layer whose singular values lie on both sides of any band."""
    layer = LAYERS[kind]().double()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        layer.weight.copy_(torch.randn(layer.weight.shape, generator=generator, dtype=torch.float64) / 2)
    return layer


def clipped(W: Tensor, eps: float) -> Tensor:
    """The definition, matrix by matrix."""
    if W.dim() == 3:
        return torch.stack([clipped(one, eps) for one in W])
    U, s, Vh = torch.linalg.svd(W, full_matrices=False)
    return U @ torch.diag(torch.tensor([min(max(x, 1 / (1 + eps)), 1 + eps) for x in s.tolist()])).to(W) @ Vh


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("eps", [0.05, 0.5])
def test_equals_the_definition(kind: str, eps: float) -> None:
    layer = make(kind)
    bias, expected = layer.bias.clone(), clipped(weight_matrix(layer).detach(), eps)
    bound_singular_values(layer, eps=eps)
    torch.testing.assert_close(weight_matrix(layer).detach(), expected)
    values = torch.linalg.svdvals(weight_matrix(layer).detach())
    assert values.min() >= 1 / (1 + eps) - 100 * EPS
    assert values.max() <= 1 + eps + 100 * EPS
    assert torch.equal(layer.bias, bias)


def test_a_spectrum_inside_the_band_is_left() -> None:
    layer = nn.Linear(6, 4).double()
    nn.init.orthogonal_(layer.weight)
    before = layer.weight.clone()
    bound_singular_values(layer, eps=0.05)
    torch.testing.assert_close(layer.weight, before, rtol=0, atol=60 * EPS)


def test_once_is_enough() -> None:
    layer = make("conv")
    bound_singular_values(layer)
    once = layer.weight.clone()
    bound_singular_values(layer)
    torch.testing.assert_close(layer.weight, once)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_lack_of_rank_is_mended(value: float) -> None:
    layer = nn.Linear(5, 3)
    nn.init.constant_(layer.weight, value)
    bound_singular_values(layer, eps=0.5)
    assert torch.linalg.svdvals(layer.weight.detach()).min() > 1 / 1.5 - 1e-5


def test_a_weight_that_is_not_finite_is_left_for_the_loop_to_find() -> None:
    layer = make("grouped")
    with torch.no_grad():
        layer.weight[0, 0, 0, 0] = torch.nan
    first, second = layer.weight[:4].clone(), weight_matrix(layer)[1].detach().clone()
    bound_singular_values(layer, eps=0.05)
    torch.testing.assert_close(layer.weight[:4], first, equal_nan=True, rtol=0, atol=0)
    torch.testing.assert_close(weight_matrix(layer)[1].detach(), clipped(second, 0.05))


def test_holds_while_training() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 1))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x = torch.randn(32, 6)
    losses = []
    for _ in range(30):
        optimiser.zero_grad()
        loss = nn.functional.mse_loss(model(x), x[:, :1].sin())
        loss.backward()
        optimiser.step()
        bound_singular_values(model, eps=0.2)
        losses.append(loss.item())
        for layer in (model[0], model[2]):
            values = torch.linalg.svdvals(layer.weight.detach())
            assert ((values > 1 / 1.2 - 1e-5) & (values < 1.2 + 1e-5)).all()
    assert losses[-1] < losses[1]


def test_words_choose_layers_and_norms_are_not_touched() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    before = copy.deepcopy(model.state_dict())
    bound_singular_values(model, eps=0.01, exclude="2")
    changed = {key for key, value in model.state_dict().items() if not torch.equal(value, before[key])}
    assert changed == {"0.weight"}


def test_a_normalised_layer_sees_its_new_weight() -> None:
    layer = aon.normalise(nn.Linear(6, 4).double()).eval()
    x = torch.randn(3, 6, dtype=torch.float64)
    before = layer(x)
    bound_singular_values(layer, eps=0.05)
    assert not torch.allclose(layer(x), before)
    torch.testing.assert_close(layer(x), x @ aon.normalised_weight(layer).T + layer.bias)


def test_half_precision_weight_keeps_its_dtype() -> None:
    layer = nn.Linear(8, 4).bfloat16()
    bound_singular_values(layer, eps=0.1)
    assert layer.weight.dtype == torch.bfloat16
    values = torch.linalg.svdvals(layer.weight.detach().float())
    assert ((values > 1 / 1.1 - 0.02) & (values < 1.1 + 0.02)).all()


def test_bounded_scales_equal_the_definition() -> None:
    layer = nn.BatchNorm2d(5).double()
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([0.1, 0.9, 1.0, 1.1, 4.0]))
        layer.running_var.copy_(torch.tensor([1.0, 0.5, 1.0, 2.0, 3.0]))
    std = (layer.running_var + layer.eps).sqrt()
    stretch = (layer.weight / std).detach()
    middle = stretch.mean()
    expected = [min(max(a, middle / 1.2), middle * 1.2) for a in stretch]
    bound_scales(nn.Sequential(layer, nn.BatchNorm1d(3, affine=False), nn.LayerNorm(3)), eps=0.2)
    torch.testing.assert_close(layer.weight.detach(), torch.stack(expected) * std)


def test_bounded_scales_with_a_negative_mean() -> None:
    layer = nn.BatchNorm1d(3)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([-1.0, -1.0, -4.0]))
    bound_scales(layer, eps=0.25)
    torch.testing.assert_close(layer.weight.detach(), torch.tensor([-1.6, -1.6, -2.5]))


def test_bad_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="eps=0: expected a number above 0"):
        bound_singular_values(nn.Linear(2, 2), eps=0)
    with pytest.raises(ValueError, match=r"eps=-1.0: expected a number above 0"):
        bound_scales(nn.BatchNorm1d(2), eps=-1.0)
    with pytest.raises(ValueError, match="nothing to bound: no Linear or convolution"):
        bound_singular_values(nn.ReLU())
    with pytest.raises(ValueError, match="'0' is lazy, without a weight yet"):
        bound_singular_values(nn.Sequential(nn.LazyLinear(2)))
    with pytest.raises(ValueError, match=r"'0' has a weight of torch.complex64"):
        bound_singular_values(nn.Sequential(nn.Linear(2, 2, dtype=torch.complex64)))

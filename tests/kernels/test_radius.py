"""Weights outside the radius of the Taylor expansion: the numbers, the warning, and when there is none."""

import math
import warnings

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

import aon
from aon.functional import approx_orthonormal, orthonormality_error
from aon.kernels.radius import STRETCHED, centre_of, largest_over_centre, share_outside, warning
from aon.kernels.settings import Settings

OUTSIDE = pytest.mark.filterwarnings("error:.* layers start outside the radius:UserWarning")


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def he(*shape: int) -> Tensor:
    return nn.init.kaiming_normal_(torch.empty(shape))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (Settings(), 1.0),
        (Settings(centre="mean"), 2.0),
        (Settings(prescale=True), 5.0),
        (Settings(centre="top"), 3.0),
        (Settings(expansion="minimax"), 1.03**2 / 2 * 5),
    ],
)
def test_centre(settings, expected):
    assert centre_of(torch.tensor([5.0, 1.0, 0.0]), settings).item() == pytest.approx(expected)


@pytest.mark.parametrize("shape", [(40, 90), (90, 40), (50, 50), (3, 20, 30), (3, 30, 20)])
@pytest.mark.parametrize(
    "settings", [Settings(), Settings(centre="mean"), Settings(centre="top"), Settings(prescale=True)]
)
def test_largest_over_centre(shape, settings):
    """A few power steps find it to a few percent, and never more than there is."""
    W = he(*shape)
    eigenvalues = torch.linalg.svdvals(W.double()).square()
    exact = (eigenvalues[..., :1] / centre_of(eigenvalues, settings)).max().item()
    assert 0.9 * exact < largest_over_centre(W, settings) <= exact * (1 + 1e-5)


@pytest.mark.parametrize("W", [torch.zeros(3, 4), torch.full((3, 4), math.nan), torch.zeros(3, 4, device="meta")])
def test_weights_without_a_largest_eigenvalue(W):
    assert not largest_over_centre(W, Settings(centre="mean")) > STRETCHED
    assert warning({"a": W}, Settings(centre="mean")) == ""


def test_share_of_what_is_not_a_number():
    assert math.isnan(share_outside(torch.tensor([1.0, math.nan]), Settings()))


def test_beyond_the_limit_order_two_stretches():
    """f_2(s) = s at x = s^2 = 7/3, and a square weight of He's start comes out worse than it went in."""
    s = torch.tensor([STRETCHED**0.5], dtype=torch.float64)
    torch.testing.assert_close(aon.functional.singular_value_map(s, 2), s)
    W = he(256, 256)
    assert orthonormality_error(approx_orthonormal(W)) > orthonormality_error(W)
    assert orthonormality_error(approx_orthonormal(W, expansion="minimax")) < orthonormality_error(W)


def model(count: int = 5) -> nn.Sequential:
    layers = [nn.Linear(64, 64) for _ in range(count)]
    for layer in layers[1:]:
        nn.init.kaiming_normal_(layer.weight)
    return nn.Sequential(*layers)


@pytest.mark.parametrize("options", [{}, {"map": aon.maps.AON(4)}, {"centre": "mean"}], ids=str)
def test_normalise_warns_once(options):
    with pytest.warns(UserWarning, match="start outside the radius") as caught:
        aon.normalise(model(), **options)
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_what_the_warning_says():
    with pytest.warns(UserWarning, match=r"^4 of 5 layers start outside the radius") as caught:
        aon.normalise(model())
    text = str(caught[0].message)
    assert "\n" not in text
    assert ": 1 (" in text
    assert ", 3 (" in text
    assert "4 (" not in text
    assert " and 1 more; " in text
    assert text.endswith('expansion="minimax" holds for every weight')
    share = share_outside(torch.linalg.svdvals(model()[1].weight.double()), Settings())
    assert 0.2 < share < 0.6
    assert "% of its eigenvalues, the largest at 3." in text


def test_large_weights_are_not_decomposed():
    text = warning({"big": he(1040, 1040)}, Settings())
    assert "big (the largest at " in text


@OUTSIDE
@pytest.mark.parametrize(
    "options",
    [{"prescale": True}, {"centre": "top"}, {"expansion": "minimax"}, {"order": 0}, {"map": aon.maps.Polar()}],
    ids=str,
)
def test_maps_without_a_radius_do_not_warn(options):
    aon.normalise(model(), **options)


@OUTSIDE
def test_torchs_own_start_does_not_warn():
    aon.normalise(nn.Sequential(nn.Linear(256, 256), nn.Conv2d(64, 128, 3), nn.Conv2d(3, 64, 3), nn.Linear(512, 10)))


def test_the_filter_above_can_fail():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="outside the radius"):
            aon.normalise(model())


def test_fake_tensors_are_not_read():
    with FakeTensorMode():
        aon.normalise(nn.Linear(8, 64))

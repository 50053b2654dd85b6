"""The spectra against SVDs in float64, the table, and plain data."""

import json
import math

import pytest
import torch
from torch import nn

import aon
from aon.functional import orthonormality_error
from aon.model.matrices import layout, to_matrix
from aon.model.spectra import singular_values

LAYERS = {
    "wide": lambda: nn.Linear(9, 4),
    "tall": lambda: nn.Linear(4, 9),
    "conv": lambda: nn.Conv2d(3, 5, 3),
    "grouped": lambda: nn.Conv2d(4, 6, 3, groups=2),
    "transposed": lambda: nn.ConvTranspose2d(3, 5, 3),
}


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)
@pytest.mark.parametrize("order", [0, 2])
def test_numbers(make, order):
    layer = aon.normalise(make(), order)
    with torch.no_grad():
        layer.weight.mul_(3)  # some eigenvalues beyond 2
        layer.gain.fill_(5)  # the gain does not enter
    (row,) = aon.spectra(layer)
    W = to_matrix(layer.weight, layout(layer)).double()
    H = to_matrix(aon.normalised_weight(layer), layout(layer)).double()
    s, t = torch.linalg.svdvals(W), torch.linalg.svdvals(H)
    for found, values in (
        ((row.weight_min, row.weight_median, row.weight_max), s),
        ((row.normalised_min, row.normalised_median, row.normalised_max), t),
    ):
        expected = values.min().item(), values.flatten().quantile(0.5).item(), values.max().item()
        assert found == pytest.approx(expected, abs=1e-7)
    eigenvalues = torch.linalg.eigvalsh(W @ W.mT)
    beyond, by_shape = (eigenvalues >= 2).sum().item(), max(0, W.shape[-2] - W.shape[-1])
    assert row.outside == pytest.approx(beyond / (eigenvalues.numel() - by_shape * W[..., 0, 0].numel()))
    assert row.error == pytest.approx(orthonormality_error(H).max().item(), abs=1e-7)
    assert row.shape == tuple(W.shape)
    assert row.name == ""


def test_u_agrees_after_training_and_not_after_a_jump():
    layer = aon.normalise(nn.Linear(20, 10))
    for _ in range(50):
        layer(torch.randn(4, 20)).square().mean().backward()
        with torch.no_grad():
            layer.weight -= 0.01 * layer.weight.grad
    (row,) = aon.spectra(layer)
    assert row.agreement == pytest.approx(1, abs=0.01)
    with torch.no_grad():
        U = torch.linalg.svd(layer.weight)[0]
        layer.map.u.copy_(U[:, -1])
        layer.weight.mul_(0.999)
    (row,) = aon.spectra(layer)
    assert row.agreement < 0.9


def test_maps_without_u_have_no_agreement():
    (row,) = aon.spectra(aon.normalise(nn.Linear(3, 3), map=aon.maps.Polar()))
    assert row.agreement is None
    assert str(aon.Spectra((row,))).split()[-1] == "-"


def test_one_row_for_each_normalised_layer():
    model = aon.normalise(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4, 2)), exclude="3")
    assert [row.name for row in aon.spectra(model)] == ["0"]
    assert [row.name for row in aon.spectra(model, plain=True)] == ["0", "3"]


def test_plain_layers_are_shown_as_they_are():
    (row,) = aon.spectra(nn.Linear(4, 3), plain=True)
    assert (row.weight_min, row.weight_max) == (row.normalised_min, row.normalised_max)
    assert row.agreement is None
    assert len(aon.spectra(nn.Linear(4, 3))) == 0


def test_plain_layers_without_a_matrix_are_left_out():
    model = nn.Sequential(nn.LazyLinear(3), nn.Linear(2, 2))
    assert [row.name for row in aon.spectra(model, plain=True)] == ["1"]


def test_plain_data():
    model = aon.normalise(nn.Sequential(nn.Linear(4, 3), nn.Conv2d(4, 6, 3, groups=2)))
    rows = json.loads(json.dumps(aon.spectra(model).to_list()))
    assert [row["name"] for row in rows] == ["0", "1"]
    assert [row["shape"] for row in rows] == [[3, 4], [2, 3, 18]]
    assert all(isinstance(row[key], float) for row in rows for key in row if key not in ("name", "shape"))


def test_table():
    model = aon.normalise(nn.Sequential(nn.Linear(4, 3)))
    header, line = str(aon.spectra(model)).split("\n")
    assert header.startswith("layer")
    assert line.split()[:2] == ["0", "3x4"]
    assert len(header) == len(line)


def test_nothing_changes_and_nothing_is_tracked():
    layer = aon.normalise(nn.Linear(4, 3))
    before = {k: v.clone() for k, v in layer.state_dict().items()}
    aon.spectra(layer)
    assert all(torch.equal(v.nan_to_num(), before[k].nan_to_num()) for k, v in layer.state_dict().items())
    assert layer.training


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_not_finite_is_nan_not_a_crash(bad):
    model = aon.normalise(nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 3)))
    with torch.no_grad():
        model[0].weight[1, 1] = bad
    first, second = aon.spectra(model)
    assert math.isnan(first.weight_max)
    assert math.isnan(first.outside)
    assert not math.isnan(second.weight_max)
    assert "nan" in str(aon.spectra(model))


def test_zero_and_half():
    layer = aon.normalise(nn.Linear(4, 3)).half()
    with torch.no_grad():
        layer.weight.zero_()
    (row,) = aon.spectra(layer)
    assert (row.weight_max, row.normalised_max, row.outside) == (0, 0, 1)


def with_spectrum(values: list[float], columns: int, **options) -> nn.Module:
    """A normalised layer whose weight has these singular values."""
    layer = nn.Linear(columns, len(values), bias=False)
    U, V = (torch.linalg.qr(torch.randn(n, n, dtype=torch.float64))[0] for n in layer.weight.shape)
    layer.weight.data = ((U * torch.tensor(values, dtype=torch.float64)) @ V[: len(values)]).float()
    return aon.normalise(layer, **options)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, 2 / 8),  # eigenvalues 9 and 4 are beyond 2
        ({"centre": "mean"}, 1 / 8),  # the mean is 2.38
        ({"prescale": True}, 0),
        ({"centre": "top"}, 0),
        ({"expansion": "minimax"}, 0),
        ({"map": aon.maps.WeightNorm()}, 2 / 8),
    ],
    ids=str,
)
def test_outside_is_what_the_settings_see(options, expected):
    (row,) = aon.spectra(with_spectrum([3.0, 2.0, *[1.0] * 6], 12, **options))
    assert row.outside == expected


def test_about_the_mean_an_eigenvalue_can_be_outside():
    """One of 16 among seven of 1: the mean is 2.875, and 16 is 5.6 times it."""
    (row,) = aon.spectra(with_spectrum([4.0, *[1.0] * 7], 8, centre="mean"))
    assert row.outside == 1 / 8


def test_zeros_by_shape_are_not_outside_and_zeros_by_rank_are():
    tall = aon.normalise(nn.Linear(3, 12))
    with torch.no_grad():
        tall.weight.mul_(0.5)
    assert aon.spectra(tall).rows[0].outside == 0
    (row,) = aon.spectra(with_spectrum([1.0, 0.5, 0.0, 0.0], 6))
    assert row.outside == 2 / 4


def test_singular_values_are_those_of_an_svd():
    for shape in ((3, 7), (7, 3), (2, 4, 5)):
        W = torch.randn(shape)
        torch.testing.assert_close(singular_values(W), torch.linalg.svdvals(W.double()), atol=1e-7, rtol=0)


def test_a_weight_of_zeros_has_a_spectrum():
    layer = aon.normalise(nn.Linear(4, 3))
    nn.init.zeros_(layer.weight)
    (row,) = aon.spectra(layer)
    assert (row.weight_max, row.normalised_max, row.error, row.agreement) == (0, 0, 1, 1)

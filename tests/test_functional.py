"""The pure map against a float64 SVD: U diag(f_q(s)) V^T / sigma, to 10 max(m, n) eps."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import forward_ad

import aon
from aon.functional import approx_orthonormal, orthonormality_error
from aon.kernels.minimax import in_powers, least_deviation
from aon.kernels.polynomials import singular_value_map

EPS = torch.finfo(torch.float64).eps
OPTIONS = [
    {"scale": scale, "centre": centre, "prescale": prescale}
    for scale, centre, prescale in itertools.product(
        ("spectral", "frobenius", None), ("one", "mean", "top"), (False, True)
    )
]
each_option = pytest.mark.parametrize("option", OPTIONS, ids=lambda o: "-".join(map(str, o.values())))


MINIMAX = [
    {"scale": scale, "expansion": "minimax", "lower": lower}
    for scale, lower in itertools.product(("spectral", "frobenius", None), (0.1, 0.2, 0.5))
]
each_minimax = pytest.mark.parametrize("option", MINIMAX, ids=lambda o: "-".join(map(str, o.values())))


def random_matrix(*shape: int) -> Tensor:
    """Spectral norm 1.2: a little of the spectrum outside the expansion's range."""
    W = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(sum(shape)))
    return W * (1.2 / torch.linalg.matrix_norm(W, 2, keepdim=True))


MATRICES = {
    "wide": random_matrix(5, 12),
    "tall": random_matrix(12, 5),
    "square": random_matrix(8, 8),
    "row": random_matrix(1, 9),
    "column": random_matrix(9, 1),
    "one": random_matrix(1, 1),
    "rank_deficient": random_matrix(6, 2) @ random_matrix(2, 9),
    "tall_rank_deficient": random_matrix(9, 2) @ random_matrix(2, 6),
    "conv": random_matrix(16, 72),
    "zero_row": torch.cat([random_matrix(3, 7), torch.zeros(1, 7, dtype=torch.float64)]),
    "batch": random_matrix(3, 4, 6),
    "batches": random_matrix(2, 3, 6, 4),
    "zero": torch.zeros(3, 5, dtype=torch.float64),
}
each_matrix = pytest.mark.parametrize("W", MATRICES.values(), ids=MATRICES)


def oracle(
    W: Tensor, order: int, scale: str | None = "spectral", centre: str = "one", prescale: bool = False
) -> Tensor:
    """The definition on singular values; what is zero is not divided by."""
    U, s, Vh = torch.linalg.svd(W, full_matrices=False)
    if centre == "mean":
        size = s.square().mean(-1, keepdim=True).sqrt()
        s = s / torch.where(size > 0, size, 1)
    elif prescale or centre == "top":
        s = s / torch.where(s[..., :1] > 0, s[..., :1], 1)
        s = s / TOP[order] ** 0.5 if centre == "top" else s
    f = singular_value_map(s, order)
    if scale is not None:
        norm = torch.linalg.vector_norm(f, 2 if scale == "frobenius" else torch.inf, dim=-1, keepdim=True)
        f = f / torch.where(norm > 0, norm, 1)
    return (U * f[..., None, :]) @ Vh


TOP = {0: 1.0, 1: 1.0, 2: 0.6, 3: 1.0, 4: 0.5704952272195841, 5: 1.0, 6: 0.5554631611854002}


def minimax_oracle(W: Tensor, order: int, scale: str | None, lower: float) -> Tensor:
    """The polynomial in powers of s, as published, on singular values over 1.03 times the largest."""
    U, s, Vh = torch.linalg.svd(W, full_matrices=False)
    s = s / torch.where(s[..., :1] > 0, 1.03 * s[..., :1], 1)
    coefficients, deviation = least_deviation(order, lower)
    f = sum(b * s ** (2 * j + 1) for j, b in enumerate(in_powers(coefficients)))
    if scale == "frobenius":
        norm = torch.linalg.vector_norm(f, dim=-1, keepdim=True)
        f = f / torch.where(norm > 0, norm, 1)
    return (U * (f / (1 + deviation) if scale == "spectral" else f)[..., None, :]) @ Vh


@each_matrix
@each_minimax
@pytest.mark.parametrize("order", [1, 2, 3, 4, 8])
def test_oracle_of_least_deviation(W, option, order):
    given = {key: value for key, value in option.items() if key != "expansion"}
    expected = minimax_oracle(W, order, **given)
    size = sum(map(abs, in_powers(least_deviation(order, option["lower"]).coefficients)))  # whose digits cancel
    tolerance = 10 * max(W.shape[-2:]) * size * EPS
    torch.testing.assert_close(approx_orthonormal(W, order, **option), expected, atol=tolerance, rtol=0)


@each_matrix
@pytest.mark.parametrize("order", [0, 1, 2, 3, 4, 7, 12, 20])
def test_oracle(W, order):
    expected, tolerance = oracle(W, order), 10 * max(W.shape[-2:]) * EPS
    torch.testing.assert_close(approx_orthonormal(W, order), expected, atol=tolerance, rtol=0)


@each_matrix
@each_option
@pytest.mark.parametrize("order", [0, 2, 3])
def test_oracle_of_options(W, option, order):
    expected = oracle(W, order, **option)
    tolerance = 10 * max(W.shape[-2:]) * EPS * max(1, expected.abs().max().item())
    torch.testing.assert_close(approx_orthonormal(W, order, **option), expected, atol=tolerance, rtol=0)


@settings(max_examples=60)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 12), st.floats(0.01, 1.4), st.integers(0, 99))
def test_oracle_for_any_shape_order_and_size(m, n, order, size, seed):
    W = torch.randn(m, n, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    W = W * (size / torch.linalg.matrix_norm(W, 2))
    expected, tolerance = oracle(W, order), 10 * max(m, n) * EPS
    if order % 2 == 0:  # an odd order may have its largest value at two singular values
        torch.testing.assert_close(approx_orthonormal(W, order), expected, atol=tolerance, rtol=0)
    else:
        torch.testing.assert_close(
            approx_orthonormal(W, order, scale=None), oracle(W, order, None), atol=tolerance, rtol=0
        )


@settings(max_examples=40)
@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 6), st.sampled_from(OPTIONS + MINIMAX), st.integers(0, 99))
def test_rotations_pass_through(m, n, order, option, seed):
    """h(A W B) = A h(W) B for orthogonal A and B: the map acts on singular values only."""
    order = max(order, 1) if "expansion" in option else order
    stream = torch.Generator().manual_seed(seed)
    W, A, B = (torch.randn(a, b, dtype=torch.float64, generator=stream) for a, b in ((m, n), (m, m), (n, n)))
    W, A, B = W / torch.linalg.matrix_norm(W, 2), torch.linalg.qr(A)[0], torch.linalg.qr(B)[0]
    expected = A @ approx_orthonormal(W, order, **option) @ B
    torch.testing.assert_close(approx_orthonormal(A @ W @ B, order, **option), expected, atol=1e-12, rtol=0)


@settings(max_examples=40)
@given(
    st.integers(1, 6),
    st.integers(1, 6),
    st.integers(0, 6),
    st.floats(1e-4, 1e4),
    st.sampled_from(["spectral", "frobenius", None]),
)
def test_about_the_mean_the_size_of_w_does_not_matter(m, n, order, size, scale):
    W = random_matrix(m, n)
    H, again = (approx_orthonormal(A, order, centre="mean", scale=scale) for A in (W, size * W))
    torch.testing.assert_close(again, H, atol=1e-11, rtol=1e-11)


@settings(max_examples=40)
@given(
    st.integers(1, 6),
    st.integers(1, 6),
    st.integers(1, 6),
    st.floats(1e-4, 1e4),
    st.sampled_from([{"centre": "top"}, {"expansion": "minimax"}, {"expansion": "minimax", "scale": None}]),
)
def test_divided_by_its_norm_the_size_of_w_does_not_matter(m, n, order, size, option):
    W = random_matrix(m, n)
    H, again = (approx_orthonormal(A, order, **option) for A in (W, size * W))
    torch.testing.assert_close(again, H, atol=1e-11, rtol=1e-11)


@settings(max_examples=60)
@given(st.integers(1, 8), st.integers(1, 8), st.integers(1, 8), st.floats(0.05, 0.5), st.integers(0, 99))
def test_no_singular_value_of_least_deviation_is_above_one(m, n, order, lower, seed):
    W = torch.randn(m, n, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    s = torch.linalg.svdvals(approx_orthonormal(W, order, expansion="minimax", lower=lower))
    assert s[0] <= 1 + 1e-12


def test_about_the_top_order_two_is_a_quintic_that_keeps_the_order():
    s = torch.linspace(0.01, 1, 50, dtype=torch.float64)
    found = approx_orthonormal(torch.diag(s), centre="top").diagonal()
    torch.testing.assert_close(found, 2.25 * s - 2.5 * s**3 + 1.25 * s**5, atol=100 * EPS, rtol=0)
    assert (found.diff() >= 0).all()


def test_about_one_it_does():
    W = random_matrix(4, 6)
    assert not torch.allclose(approx_orthonormal(W), approx_orthonormal(W / 2))


@settings(max_examples=40)
@given(st.integers(1, 8), st.integers(1, 8), st.integers(0, 10))
def test_transposition_passes_through(m, n, order):
    W = random_matrix(m, n)
    torch.testing.assert_close(approx_orthonormal(W.mT, order), approx_orthonormal(W, order).mT, atol=1e-13, rtol=0)


def test_the_error_falls_with_the_order():
    W = random_matrix(6, 20) / 1.2
    errors = [orthonormality_error(approx_orthonormal(W, order)).item() for order in range(12)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < errors[0] / 5


@pytest.mark.parametrize("name", ["wide", "tall", "square", "row", "column", "batch"])
@pytest.mark.parametrize("order", [0, 2, 3])
@pytest.mark.parametrize(
    "option",
    [
        {},
        {"scale": "frobenius"},
        {"scale": None},
        {"centre": "mean"},
        {"prescale": True},
        {"centre": "top"},
        {"expansion": "minimax"},
        {"expansion": "minimax", "scale": "frobenius"},
    ],
)
def test_first_derivative(name, order, option):
    order = max(order, 1) if "expansion" in option else order
    W = MATRICES[name][..., :4, :5].clone().requires_grad_()
    torch.autograd.gradcheck(lambda A: approx_orthonormal(A, order, **option), W)


@pytest.mark.parametrize("name", ["wide", "tall", "square"])
@pytest.mark.parametrize("order", [0, 2])
@pytest.mark.parametrize(
    "option",
    [{}, {"scale": "frobenius", "centre": "mean"}, {"prescale": True}, {"centre": "top"}, {"expansion": "minimax"}],
)
def test_second_derivative(name, order, option):
    order = max(order, 1) if "expansion" in option else order
    W = MATRICES[name][:3, :4].clone().requires_grad_()
    torch.autograd.gradgradcheck(lambda A: approx_orthonormal(A, order, **option), W)


@pytest.mark.parametrize("order", [0, 2])
@pytest.mark.parametrize("option", OPTIONS + MINIMAX, ids=lambda o: "-".join(map(str, o.values())))
def test_zero_has_a_finite_gradient(order, option):
    order = max(order, 1) if "expansion" in option else order
    W = torch.zeros(3, 5, requires_grad=True)
    approx_orthonormal(W, order, **option).sum().backward()
    assert W.grad.isfinite().all()


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
@pytest.mark.parametrize("order", [0, 2])
@each_option
def test_what_is_not_finite_gives_nan_in_its_own_matrix_only(bad, order, option):
    W = random_matrix(2, 3, 5)
    W[0, 1, 2] = bad
    H = approx_orthonormal(W, order, **option)
    assert not H[0].isfinite().all()
    if option["scale"] is not None or order:
        assert H[0].isnan().any()
    torch.testing.assert_close(H[1], approx_orthonormal(W[1], order, **option), atol=100 * EPS, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype):
    W = random_matrix(6, 30).to(dtype)
    H = approx_orthonormal(W, 4)
    assert H.dtype == dtype
    torch.testing.assert_close(H.double(), approx_orthonormal(W.double(), 4), atol=2 * torch.finfo(dtype).eps, rtol=0)


def test_autocast_is_kept_out():
    W = random_matrix(6, 30).float()
    with torch.autocast("cpu", torch.bfloat16):
        H = approx_orthonormal(W)
    assert torch.equal(H, approx_orthonormal(W))


@pytest.mark.parametrize("dtype", [torch.int64, torch.complex64, torch.bool])
def test_not_real_floating_point(dtype):
    with pytest.raises(TypeError, match=rf"W is {dtype}: expected a real floating-point matrix"):
        approx_orthonormal(torch.ones(2, 3).to(dtype))


@pytest.mark.parametrize("shape", [(), (3,), (0, 4), (4, 0), (2, 0, 3)])
def test_not_a_matrix(shape):
    with pytest.raises(ValueError, match=r"W has shape .*: expected \(\.\.\., m, n\)"):
        approx_orthonormal(torch.ones(shape))


def test_an_empty_batch_stays_empty():
    assert approx_orthonormal(torch.ones(0, 3, 4)).shape == (0, 3, 4)


def test_options_are_checked():
    with pytest.raises(ValueError, match=r"order=-1: expected a whole number"):
        approx_orthonormal(torch.ones(2, 3), -1)
    with pytest.raises(ValueError, match=r"scale='nuclear': expected one of"):
        approx_orthonormal(torch.ones(2, 3), scale="nuclear")


def test_public_names():
    assert aon.functional.taylor_coefficients(2) == (1.875, -1.25, 0.375)
    assert aon.functional.approx_orthonormal is approx_orthonormal


@pytest.mark.parametrize("k", [1, 2, 5])
def test_orthonormality_error_of_rank_one(k):
    H = torch.ones(k, 1, dtype=torch.float64) @ torch.ones(1, 8, dtype=torch.float64)
    assert orthonormality_error(H).item() == pytest.approx((1 - 1 / k) ** 0.5, abs=1e-7)


@settings(max_examples=40)
@given(st.integers(1, 6), st.integers(1, 6), st.floats(1e-3, 1e3))
def test_orthonormality_error_is_a_distance(m, n, size):
    """min_c |c G - I|_F / sqrt(k), by least squares; the size of H does not matter, and an orthonormal H has none."""
    H = random_matrix(m, n)
    G = H @ H.mT if m <= n else H.mT @ H
    identity = torch.eye(min(m, n), dtype=torch.float64)
    c = (G * identity).sum() / G.square().sum()
    expected = torch.linalg.matrix_norm(c * G - identity) / min(m, n) ** 0.5
    torch.testing.assert_close(orthonormality_error(size * H), expected, atol=1e-7, rtol=0)
    assert orthonormality_error(size * torch.linalg.qr(torch.randn(8, 3, dtype=torch.float64))[0]) < 1e-7


@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")  # torch's own
def test_forward_derivatives_of_a_large_weight():
    """No fast path may drop a tangent."""
    W, V = torch.randn(128, 1024) / 32, torch.randn(128, 1024)
    with torch.no_grad(), forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(orthonormality_error(forward_ad.make_dual(W, V))).tangent
    step = 1e-4
    ahead, behind = (orthonormality_error(W.double() + sign * step * V.double()) for sign in (1, -1))
    torch.testing.assert_close(tangent.double(), (ahead - behind) / (2 * step), rtol=1e-3, atol=1e-4)


EQUAL = {
    "all": torch.eye(3, 5, dtype=torch.float64),
    "below": torch.diag(torch.tensor([1.0, 0.5, 0.5], dtype=torch.float64)),
    "zeros": torch.zeros(3, 4, dtype=torch.float64),
}


@pytest.mark.parametrize("W", EQUAL.values(), ids=EQUAL)
@pytest.mark.parametrize("options", [{}, {"prescale": True}, {"centre": "mean"}, {"scale": "frobenius"}], ids=str)
def test_second_derivatives_at_equal_singular_values_are_finite(W, options):
    W, direction = W.clone().requires_grad_(), torch.randn(W.shape, dtype=torch.float64)
    first = torch.autograd.grad((approx_orthonormal(W, **options) * direction).sum(), W, create_graph=True)[0]
    second = torch.autograd.grad(first.square().sum(), W)[0]
    assert first.isfinite().all()
    assert second.isfinite().all()


@pytest.mark.parametrize("options", [{"scale": "frobenius"}, {"centre": "mean", "scale": None}, {}], ids=str)
def test_second_derivatives_at_equal_singular_values_are_right_where_they_exist(options):
    """Below the largest one equal values are nothing special, nor anywhere for the Frobenius norm and the mean."""
    W = EQUAL["below" if not options else "all"].clone().requires_grad_()
    torch.autograd.gradgradcheck(lambda X: approx_orthonormal(X, **options), [W])

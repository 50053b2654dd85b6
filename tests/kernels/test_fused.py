"""The fused map against the plain reference with autograd, and by gradcheck."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from aon.kernels.fused import Normalise
from aon.kernels.gram import gram
from aon.kernels.polynomials import singular_value_map
from aon.kernels.power import State, unit
from aon.kernels.reference import normalise_reference
from aon.kernels.settings import Settings
from aon.kernels.spectral import Spectral

EPS = torch.finfo(torch.float64).eps
SHAPES = {"wide": (3, 7), "tall": (7, 3), "square": (4, 4), "row": (1, 5), "column": (5, 1)}
ORDERS = (0, 1, 2, 3, 4, 5, 8)
OPTIONS = [
    {"scale": scale, "centre": centre, "prescale": prescale}
    for scale, centre, prescale in itertools.product(("spectral", "frobenius", None), ("one", "mean"), (False, True))
]
# Of every weight, without a limit on its size.
NEW = [{"scale": scale, "centre": "top"} for scale in ("spectral", "frobenius", None)] + [
    {"scale": scale, "expansion": "minimax", "lower": lower}
    for scale, lower in itertools.product(("spectral", "frobenius", None), (0.1, 0.2))
]
each_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
each_order = pytest.mark.parametrize("order", ORDERS)
each_new = pytest.mark.parametrize("option", NEW, ids=lambda o: "-".join(map(str, o.values())))
each_option = pytest.mark.parametrize("option", OPTIONS, ids=lambda o: "-".join(map(str, o.values())))


def weight(shape: tuple[int, ...], size: float = 1.2) -> Tensor:
    """Random, of the given spectral norm: most of the spectrum inside the expansion's range, a little outside."""
    W = torch.randn(shape, dtype=torch.float64)
    return W * (size / torch.linalg.matrix_norm(W, 2, keepdim=True))


def fused(W: Tensor, gain: Tensor | None, u: Tensor, chosen: Settings, formed: bool = True) -> tuple[Tensor, Tensor]:
    """h(W) or F, and the moved u."""
    if chosen.order == 0 and chosen.scale == "spectral" and formed:
        state = State(u, u.clone(), torch.full(W.shape[:-1], torch.nan, dtype=W.dtype))
        out, _, moved, *_ = Spectral.apply(W, gain, state, chosen)
    else:
        state = State(u, u.clone(), torch.full((*W.shape[:-2], min(W.shape[-2:])), torch.nan, dtype=W.dtype))
        out, _, moved, *_ = Normalise.apply(W, gain, state, chosen, formed)
    return out, moved


def reference(W: Tensor, gain: Tensor | None, u: Tensor, chosen: Settings) -> tuple[Tensor, Tensor]:
    """Group by group."""
    options = chosen._asdict()
    del options["eps"]
    if W.dim() == 3:
        pairs = [normalise_reference(A, a, **options) for A, a in zip(W, u, strict=True)]
        H, moved = (torch.stack(x) for x in zip(*pairs, strict=True))
    else:
        H, moved = normalise_reference(W, u, **options)
    return (H if gain is None else H * gain.unflatten(0, H.shape[:-1])[..., None]), moved


def agree(found: Tensor, expected: Tensor, n: int, order: int) -> None:
    """Equal up to rounding: c n eps, the polynomial adding a digit or so with its order."""
    tolerance = 100 * n * (order + 1) * EPS * max(1.0, expected.abs().max().item())
    torch.testing.assert_close(found, expected, atol=tolerance, rtol=0)


def compare(shape: tuple[int, ...], chosen: Settings, with_gain: bool) -> None:
    torch.manual_seed(0)
    W, u, dH = (
        weight(shape),
        unit(torch.randn(shape[:-1], dtype=torch.float64)),
        torch.randn(shape, dtype=torch.float64),
    )
    gain = torch.rand(u.numel(), dtype=torch.float64) + 0.5 if with_gain else None
    sources = [t.requires_grad_() for t in (W, gain) if t is not None]
    H, moved = fused(W, gain, u, chosen)
    expected, expected_moved = reference(W, gain, u, chosen)
    agree(H, expected, max(shape), chosen.order)
    agree(moved, expected_moved, max(shape), chosen.order)
    found = torch.autograd.grad(H, sources, dH)
    for mine, theirs in zip(found, torch.autograd.grad(expected, sources, dH), strict=True):
        agree(mine, theirs, max(shape), chosen.order)


@each_shape
@each_order
@each_option
def test_equals_the_reference_with_autograd(shape, order, option):
    compare(shape, Settings(order, **option), with_gain=False)


@pytest.mark.parametrize("shape", [(2, 3, 5), (2, 5, 3), (3, 1, 4), (4, 2, 1)])
@pytest.mark.parametrize("order", [0, 2, 3])
@each_option
def test_groups(shape, order, option):
    compare(shape, Settings(order, **option), with_gain=False)


@pytest.mark.parametrize("shape", [(3, 7), (4, 4), (2, 3, 5), (1, 5)])
@pytest.mark.parametrize("order", [0, 1, 2, 4])
@each_option
def test_gain(shape, order, option):
    compare(shape, Settings(order, **option), with_gain=True)


@pytest.mark.parametrize("shape", [*SHAPES.values(), (2, 3, 5), (2, 5, 3), (3, 1, 4), (4, 2, 1)], ids=str)
@pytest.mark.parametrize("order", [1, 2, 3, 4, 8])
@each_new
def test_expansions_for_every_weight_equal_the_reference(shape, order, option):
    compare(shape, Settings(order, **option), with_gain=False)


@pytest.mark.parametrize("shape", [(3, 7), (4, 4), (2, 3, 5)], ids=str)
@each_new
def test_expansions_for_every_weight_with_gain(shape, option):
    compare(shape, Settings(2, **option), with_gain=True)


@pytest.mark.parametrize("option", [{"centre": "top"}, {"expansion": "minimax"}], ids=["top", "minimax"])
@each_shape
def test_expansions_for_every_weight_with_several_power_steps(shape, option):
    compare(shape, Settings(2, n_power_iterations=3, **option), with_gain=False)


@each_shape
@each_new
@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_the_size_of_the_weight_does_not_matter(shape, option, size):
    """h(size W) = h(W), and its gradient is that of h(W) over size."""
    torch.manual_seed(0)
    W, dH = weight(shape), torch.randn(shape, dtype=torch.float64)
    u = unit(torch.randn(shape[:-1], dtype=torch.float64))
    pairs = []
    for factor in (1.0, size):
        A = (factor * W).requires_grad_()
        H, _ = fused(A, None, u, Settings(2, **option))
        pairs.append((H, torch.autograd.grad(H, A, dH)[0] * factor))
    for mine, theirs in zip(*pairs, strict=True):
        agree(mine, theirs, max(shape), 2)


@each_shape
@each_new
@pytest.mark.parametrize("order", [1, 2, 4])
def test_gradcheck_of_expansions_for_every_weight(shape, option, order):
    torch.manual_seed(0)
    W, chosen = weight(shape, 3.0), Settings(order, **option)
    u = torch.linalg.svd(W)[0][:, 0]
    torch.autograd.gradcheck(lambda A: fused(A, None, u, chosen)[0], W.requires_grad_())


@each_new
@pytest.mark.parametrize("shape", [(6, 9), (9, 6), (6, 6)], ids=str)
def test_rank_deficient(shape, option):
    torch.manual_seed(0)
    W = (weight((shape[0], 2)) @ weight((2, shape[1]))).requires_grad_()
    u, dH = torch.linalg.svd(W.detach())[0][:, 0], torch.randn(shape, dtype=torch.float64)
    H, expected = fused(W, None, u, Settings(4, **option))[0], reference(W, None, u, Settings(4, **option))[0]
    agree(H, expected, max(shape), 4)
    found, theirs = (torch.autograd.grad(A, W, dH)[0] for A in (H, expected))
    agree(found, theirs, max(shape), 4)
    assert torch.linalg.svdvals(H)[2:].max() < 1e-12


def test_the_kept_vector_of_least_deviation_is_that_of_w():
    """On (0, 1] its polynomial is not monotone: the leading vector of W need not lead in h(W)."""
    torch.manual_seed(0)
    W, chosen = weight((5, 8)), Settings(2, expansion="minimax")
    U, u = torch.linalg.svd(W)[0], unit(torch.randn(5, dtype=torch.float64))
    for _ in range(400):
        u = fused(W, None, u, chosen)[1]
    assert abs(u @ U[:, 0]).item() == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("shape", [(40, 60), (60, 40), (2, 30, 50), (2, 50, 30)], ids=str)
@pytest.mark.parametrize(("order", "lower"), [(2, 0.2), (4, 0.1), (8, 0.2)])
def test_the_guard_of_least_deviation(shape, order, lower):
    """A leap of W in a new direction, of which u knows nothing: |h| stays near 1, and would not without the guard."""
    torch.manual_seed(0)
    W, options = weight(shape, 1.0), {"expansion": "minimax", "lower": lower}
    u = torch.linalg.svd(W)[0][..., 0]
    a, b = (torch.linalg.svd(torch.randn(shape, dtype=torch.float64))[i] for i in (0, 2))
    W = W + 1.5 * a[..., :, :1] @ b[..., :1, :]
    guarded, moved = fused(W, None, u, Settings(order, **options))
    naive, _ = fused(W, None, u, Settings(order, scale=None, **options))
    assert torch.linalg.matrix_norm(naive, 2).min() > 2
    assert torch.linalg.matrix_norm(guarded, 2).max() < 1.1
    leading = torch.linalg.svd(W)[0][..., 0]
    assert (moved * leading).sum(-1).abs().min() > 0.9, "and u is found at once"


@pytest.mark.parametrize("shape", [(7, 3), (2, 5, 3)])
def test_gain_of_order_zero_where_tall(shape):
    compare(shape, Settings(0), with_gain=True)


@pytest.mark.parametrize("steps", [2, 5])
@each_shape
@pytest.mark.parametrize("option", [{}, {"prescale": True}], ids=["plain", "prescale"])
@pytest.mark.parametrize("order", [0, 2])
def test_several_power_steps(shape, order, option, steps):
    compare(shape, Settings(order, n_power_iterations=steps, **option), with_gain=False)


@settings(max_examples=40)
@given(
    st.integers(1, 6), st.integers(1, 6), st.integers(0, 9), st.sampled_from(OPTIONS), st.integers(1, 3)
)  # fmt: skip
def test_any_shape_and_order(m, n, order, option, steps):
    compare((m, n), Settings(order, **option, n_power_iterations=steps), with_gain=False)


@pytest.mark.parametrize("shape", [(3, 7), (4, 4), (2, 3, 5), (1, 5)])
@pytest.mark.parametrize("order", [1, 2, 4])
@pytest.mark.parametrize("option", OPTIONS + NEW, ids=lambda o: "-".join(map(str, o.values())))
def test_the_factor_times_w_is_the_map(shape, order, option):
    """Formed and factored, with gain: the same matrix and the same gradients."""
    chosen, W, dH = Settings(order, **option), weight(shape), torch.randn(shape, dtype=torch.float64)
    u, gain = unit(torch.randn(shape[:-1], dtype=torch.float64)), torch.rand(W[..., 0].numel(), dtype=torch.float64)
    sources = W.requires_grad_(), gain.requires_grad_()
    H, moved = fused(W, gain, u, chosen)
    F, also_moved = fused(W, gain, u, chosen, formed=False)
    assert torch.equal(moved, also_moved)
    agree(F @ W, H, max(shape), order)
    for mine, theirs in zip(torch.autograd.grad(F @ W, sources, dH), torch.autograd.grad(H, sources, dH), strict=True):
        agree(mine, theirs, max(shape), order)


@each_shape
@pytest.mark.parametrize("order", [0, 1, 2, 4])
@pytest.mark.parametrize(
    "option", [{}, {"prescale": True}, {"centre": "mean"}, {"scale": "frobenius"}, {"scale": None}]
)
def test_gradcheck(shape, order, option):
    """Where u is the leading vector, to hold u and v constant is the derivative itself."""
    torch.manual_seed(0)
    W, chosen = weight(shape, 0.9), Settings(order, **option)
    u = torch.linalg.svd(W)[0][:, 0]
    torch.autograd.gradcheck(lambda A: fused(A, None, u, chosen)[0], W.requires_grad_())


@pytest.mark.parametrize("order", [0, 2])
def test_gradcheck_with_gain_and_groups(order):
    torch.manual_seed(0)
    W, gain = weight((2, 3, 5), 0.9), torch.rand(6, dtype=torch.float64)
    u = torch.linalg.svd(W)[0][..., 0]
    inputs = W.requires_grad_(), gain.requires_grad_()
    torch.autograd.gradcheck(lambda A, g: fused(A, g, u, Settings(order))[0], inputs)


def test_gradcheck_fails_where_u_is_not_the_leading_vector():
    """A guard of the test above: the paper's gradient is not the derivative of one power step."""
    torch.manual_seed(0)
    W, u = weight((3, 7)), unit(torch.randn(3, dtype=torch.float64))
    with pytest.raises(RuntimeError, match="Jacobian mismatch"):
        torch.autograd.gradcheck(lambda A: fused(A, None, u, Settings(2))[0], W.requires_grad_())


@each_shape
@each_order
def test_singular_values(shape, order):
    W = weight(shape)
    U, s, _ = torch.linalg.svd(W)
    f = singular_value_map(s, order).abs()
    H, _ = fused(W, None, U[:, f.argmax()], Settings(order))
    expected = (f / f.max()).sort(descending=True).values
    torch.testing.assert_close(torch.linalg.svdvals(H), expected, atol=10 * max(shape) * EPS, rtol=0)


@each_shape
@pytest.mark.parametrize("option", OPTIONS + NEW, ids=lambda o: "-".join(map(str, o.values())))
@pytest.mark.parametrize("order", [0, 2, 3])
def test_a_zero_weight_is_finite(shape, option, order):
    order = max(order, 1) if "expansion" in option else order
    W = torch.zeros(shape, dtype=torch.float64, requires_grad=True)
    u = unit(torch.ones(shape[:-1], dtype=torch.float64))
    H, moved = fused(W, None, u, Settings(order, **option))
    assert torch.equal(H, torch.zeros_like(H))
    assert torch.equal(moved, u)
    (gradient,) = torch.autograd.grad(H, W, torch.ones_like(H))
    assert gradient.isfinite().all()


@pytest.mark.parametrize("option", OPTIONS + NEW, ids=lambda o: "-".join(map(str, o.values())))
@pytest.mark.parametrize("shape", [(3, 6), (6, 3)])
def test_below_eps_nothing_is_divided(shape, option):
    """A norm that is not above eps counts as the constant 1, in the gradient too."""
    torch.manual_seed(0)
    W, chosen = weight(shape, 0.3), Settings(2, **option, eps=0.99)
    u = torch.linalg.svd(W)[0][:, 0]
    plain = Settings(2, scale=None, centre="one")
    H, dH = fused(W.requires_grad_(), None, u, chosen)[0], torch.randn(shape, dtype=torch.float64)
    if not chosen.moves_centre:
        agree(H, fused(W, None, u, plain)[0], max(shape), 2)
    torch.autograd.gradcheck(lambda A: fused(A, None, u, chosen)[0], W)
    assert torch.autograd.grad(H, W, dH)[0].isfinite().all()


@pytest.mark.parametrize("order", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("formed", [True, False])
@pytest.mark.parametrize("with_gain", [True, False])
def test_a_second_derivative_is_refused(order, formed, with_gain):
    W, u = weight((3, 5)).requires_grad_(), unit(torch.ones(3, dtype=torch.float64))
    gain = torch.ones(3, dtype=torch.float64, requires_grad=True) if with_gain else None
    H = fused(W, gain, u, Settings(order), formed or order == 0)[0]
    (dW,) = torch.autograd.grad(H.square().sum(), W, create_graph=True)
    assert dW.requires_grad
    with pytest.raises(RuntimeError, match=r"no second derivative .* use aon.functional.approx_orthonormal"):
        torch.autograd.grad(dW.square().sum(), W)


@pytest.mark.parametrize("order", [0, 2])
@pytest.mark.parametrize("frozen", [True, False], ids=["weight frozen", "weight trained"])
def test_second_derivative_of_the_gain_is_refused(order, frozen):
    """dL/dgain depends on W, gain and dL/dH: silently taking it for a constant would be wrong."""
    W, u = weight((3, 5)).requires_grad_(not frozen), unit(torch.ones(3, dtype=torch.float64))
    gain = torch.ones(3, dtype=torch.float64, requires_grad=True)
    H = fused(W, gain, u, Settings(order))[0]
    (dgain,) = torch.autograd.grad(H.square().sum(), gain, create_graph=True)
    assert dgain.requires_grad
    with pytest.raises(RuntimeError, match=r"no second derivative"):
        torch.autograd.grad(dgain.square().sum(), gain)


@pytest.mark.parametrize("order", [0, 2])
def test_a_gradient_penalty_on_the_input_is_allowed_and_right(order):
    """d/dW |dL/dx|^2 takes only first derivatives of the map."""
    torch.manual_seed(0)
    W, x = weight((3, 5)).requires_grad_(), torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
    u = torch.linalg.svd(W.detach())[0][:, 0]

    def penalty(H: Tensor) -> Tensor:
        (dx,) = torch.autograd.grad((x @ H.mT).tanh().sum(), x, create_graph=True)
        return torch.autograd.grad(dx.square().sum(), W)[0]

    agree(penalty(fused(W, None, u, Settings(order))[0]), penalty(reference(W, None, u, Settings(order))[0]), 5, order)


@pytest.mark.parametrize("order", [0, 2, 4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("option", [{}, {"centre": "top"}, {"expansion": "minimax"}], ids=["one", "top", "minimax"])
def test_lower_precision(order, dtype, option):
    """float32 inside: half precision loses what its input and output lose, and no more."""
    torch.manual_seed(0)
    W, u = weight((6, 20)).to(dtype), unit(torch.randn(6, dtype=torch.float64))
    chosen = Settings(max(order, 1) if "expansion" in option else order, **option)
    H, moved = fused(W, None, u.float(), chosen)
    expected, _ = fused(W.double(), None, u, chosen)
    assert H.dtype == dtype
    assert moved.dtype == torch.float32
    size = max(1, expected.abs().max().item())  # more than 1 from a u that does not lead
    torch.testing.assert_close(H.double(), expected, atol=10 * torch.finfo(dtype).eps * size, rtol=0)


def test_gradients_may_be_strided_or_expanded():
    W, u = weight((3, 5)).requires_grad_(), unit(torch.ones(3, dtype=torch.float64))
    for order in (0, 2):
        for dH in (torch.ones((), dtype=torch.float64).expand(3, 5), torch.randn(5, 3, dtype=torch.float64).mT):
            (found,) = torch.autograd.grad(fused(W, None, u, Settings(order))[0], W, dH)
            (expected,) = torch.autograd.grad(reference(W, None, u, Settings(order))[0], W, dH)
            agree(found, expected, 5, order)


def test_inputs_and_state_are_left_as_they_are():
    W, u = weight((3, 5)), unit(torch.ones(3, dtype=torch.float64))
    state = State(u, u.clone(), torch.full((3,), torch.nan, dtype=torch.float64))
    before = [t.clone() for t in (W, *state)]
    Normalise.apply(W, None, state, Settings(3, prescale=True), True)
    Spectral.apply(W, None, state, Settings(0))
    for found, expected in zip((W, *state), before, strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)


def test_gram_is_on_the_smaller_side():
    assert gram(torch.ones(2, 5)).shape == (2, 2)
    assert gram(torch.ones(5, 2)).shape == (2, 2)
    assert gram(torch.ones(3, 5, 2)).shape == (3, 2, 2)


def in_double(W: Tensor, u: Tensor, chosen: Settings, dH: Tensor) -> tuple[Tensor, Tensor]:
    """h(W) and its gradient, by the reference in float64."""
    A = W.double().requires_grad_()
    H, _ = reference(A, None, u.double(), chosen)
    return H.detach(), torch.autograd.grad(H, A, dH.double())[0]


@pytest.mark.parametrize(
    ("shape", "formed"),
    [((300, 1300), True), ((300, 1300), False), ((1300, 300), True), ((512, 640), True), ((512, 640), False)],
)
@pytest.mark.parametrize(
    ("order", "option"),
    [(2, {}), (3, {}), (4, {}), (2, {"centre": "top"}), (2, {"expansion": "minimax"}), (4, {"expansion": "minimax"})],
)
def test_large_matrices_of_float32(shape, formed, order, option):
    """Where panels and oneDNN come in: as near to the reference as float32 allows."""
    torch.manual_seed(0)
    W, chosen = weight(shape).float(), Settings(order, **option)
    u, dH = unit(torch.randn(shape[0])), torch.randn(shape)
    expected, gradient = in_double(W, u, chosen, dH)
    out, _ = fused(W.requires_grad_(), None, u, chosen, formed)
    H = out if formed else out @ W
    (found,) = torch.autograd.grad(H, W, dH)
    for mine, theirs in ((H, expected), (found, gradient)):
        error = torch.linalg.matrix_norm(mine.detach().double() - theirs) / torch.linalg.matrix_norm(theirs)
        assert error < 1e-5, error


@pytest.mark.parametrize("shape", [(7, 3), (3, 7)], ids=["tall", "wide"])
@pytest.mark.parametrize(("order", "size"), [(2, 1e5), (4, 1e3), (8, 50.0)])
def test_the_gradient_of_large_weights_does_not_leave_float32(shape, order, size):
    """sigma grows like s^(2q+1); its square would be infinite in float32."""
    torch.manual_seed(0)
    W, chosen, u = weight(shape, size).float(), Settings(order), unit(torch.randn(shape[0]))
    dH = torch.randn(shape)
    _, gradient = in_double(W, u, chosen, dH)
    H, _ = fused(W.requires_grad_(), None, u, chosen)
    (found,) = torch.autograd.grad(H, W, dH)
    torch.testing.assert_close(found.double() * size, gradient * size, atol=1e-3, rtol=1e-3)

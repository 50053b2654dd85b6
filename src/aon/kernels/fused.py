"""h(W) with a hand-written backward, computed on the smaller Gram matrix.

Notation, here and in docs/maths.md (k = min(m, n); every matrix may carry one batch dimension, for groups):

    W   m x n   raw weight                      G    k x k   W W^T, or W^T W where m > n ("tall")
    r   scalar  centre of the expansion         X    k x k   I - G / r; G itself for the orders 1 and 2 about one
    M   k x k   sum_j c_j X^j                   Phi  k x k   r^(-1/2) M, so that B = Phi W (tall: W Phi)
    u   m       kept vector                     v    n       B^T u, as a unit vector
    F   k x k   Phi / sigma, so that h(W) = F W (tall: W F)

The backward takes Q = dL/dF to a matrix C with dL/dW = C W (tall: W C): docs/maths.md has the derivation. A forward
and backward cost 5 products of k x k by k x max(m, n), and a few of k x k by k x k.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from aon.kernels.first_order import once_only, with_signature
from aon.kernels.gram import gram, in_full_precision, is_tall, working_dtype
from aon.kernels.matrix_polynomial import adjoint, evaluate, minus_outer, plus_transpose
from aon.kernels.minimax import GUARD_STEPS
from aon.kernels.power import Ascent, State, above, apply_symmetric, ascend, dot, nan_for_infinity, resume, wide
from aon.kernels.products import add_product, product
from aon.kernels.settings import Settings


class WideNorm(NamedTuple):
    """The spectral norm of P W where W is not tall: u, `right` and `outer` make its gradient (see Ascent)."""

    live: Tensor  # whether the norm was more than eps, and no constant
    right: Tensor
    outer: Tensor


class TallNorm(NamedTuple):
    """The spectral norm of W P where W is tall: `left`, `right` and `outer` make its gradient (see Ascent)."""

    live: Tensor
    right: Tensor
    outer: Tensor
    left: Tensor


class FrobeniusNorm(NamedTuple):
    """The Frobenius norm, and its gradient in Phi."""

    live: Tensor
    gradient: Tensor


class MeanCentre(NamedTuple):
    """A centre r at the mean eigenvalue."""

    r: Tensor
    live: Tensor  # whether what r is made of was more than eps, and no constant


class TopCentre(NamedTuple):
    """A centre r at a multiple of the largest eigenvalue sigma(W)^2, whose gradient is of rank one times W."""

    r: Tensor
    live: Tensor
    right: Tensor
    slope: Tensor  # r over sigma(W): half of the derivative of r in it
    left: Tensor


Norm = WideNorm | TallNorm | FrobeniusNorm | None
Centre = MeanCentre | TopCentre | None


class Kept(NamedTuple):
    """What the backward needs beside W and the moved u; all on the k side."""

    F: Tensor
    X: Tensor
    sigma: Tensor
    norm: Norm
    centre: Centre


def norm_type(settings: Settings, tall: bool) -> type[WideNorm | TallNorm | FrobeniusNorm] | None:
    """What is kept of the norm that P W is divided by."""
    if settings.scale == "spectral":
        return TallNorm if tall else WideNorm
    return FrobeniusNorm if settings.scale == "frobenius" else None


def centre_type(settings: Settings) -> type[MeanCentre | TopCentre] | None:
    """What is kept of the centre of the expansion."""
    if settings.relative_to == "one":
        return None
    return MeanCentre if settings.relative_to == "mean" else TopCentre


def pack(kept: Kept) -> tuple[Tensor, ...]:
    """The tensors in a row: an autograd function hands over nothing else."""
    return kept.F, kept.X, kept.sigma, *(kept.norm or ()), *(kept.centre or ())


def unpack(tensors: Sequence[Tensor], settings: Settings, tall: bool) -> Kept:
    """The inverse of `pack`."""
    F, X, sigma, *rest = tensors
    norm, centre = norm_type(settings, tall), centre_type(settings)
    count = len(norm._fields) if norm else 0
    return Kept(F, X, sigma, norm(*rest[:count]) if norm else None, centre(*rest[count:]) if centre else None)


def factor(W: Tensor, G: Tensor, u: Tensor, settings: Settings) -> tuple[Kept, Tensor]:
    """F with h(W) = F W, together with what its backward needs; and the moved u.

    # Note [the guard]
    The maximum of a minimax polynomial is known, and B = Phi W exceeds it only where W's norm was under-estimated:
    after a large step of the optimiser, when u is stale. There the polynomial grows like s^(2q+1), and training may
    not recover. So two more power steps are done, with B, in which what is too large leads by far. A norm that is not
    above the maximum counts as 1 and leaves u as it was moved for W; one that is above it is divided by, and its u,
    which leads, is kept.
    """
    steps, eps, maximum = settings.n_power_iterations, settings.eps, settings.polynomial.maximum
    centre, before = _centre(W, G, u, settings)
    X, coefficients = G, settings.in_powers_of_gram
    if coefficients is None:
        identity = torch.eye(G.shape[-1], dtype=G.dtype, device=G.device)
        X, coefficients = identity - (G if centre is None else G / centre.r.unsqueeze(-1)), settings.polynomial[0]
    Phi = evaluate(coefficients, X)
    if centre is not None:
        Phi *= centre.r.rsqrt().unsqueeze(-1)
    if before is None or maximum is None:
        end = ascend(W, G, Phi, u, steps, eps)
    else:  # Note [the guard]
        end = ascend(W, G, Phi, before.u, GUARD_STEPS, max(eps, maximum))
    sigma, norm = _norm(Phi, G, end, settings, is_tall(W))
    return Kept(Phi.div_(sigma.unsqueeze(-1)), X, sigma, norm, centre), end.u


def _norm(Phi: Tensor, G: Tensor, end: Ascent, settings: Settings, tall: bool) -> tuple[Tensor, Norm]:
    """The number that P W is divided by, and what is kept of it."""
    if settings.scale == "frobenius":
        return _frobenius(Phi, G, settings.eps)
    if settings.scale is None:
        return torch.ones_like(end.sigma), None
    if tall:
        return end.sigma, TallNorm(end.live, end.right, end.outer, end.left)
    return end.sigma, WideNorm(end.live, end.right, end.outer)


def _frobenius(Phi: Tensor, G: Tensor, eps: float) -> tuple[Tensor, FrobeniusNorm]:
    """sigma with sigma^2 = |B|_F^2 = <Phi G, Phi>, and what is kept of it."""
    PG = product(Phi, G)
    # In float64: the square of sigma leaves float32 long before sigma does.
    sigma, live = above(inner(PG.to(wide(PG)), Phi.to(wide(PG))).clamp_min(0).sqrt().to(PG.dtype), eps)
    return sigma, FrobeniusNorm(live, PG / sigma.unsqueeze(-1))


def _centre(W: Tensor, G: Tensor, u: Tensor, settings: Settings) -> tuple[Centre, Ascent | None]:
    """The centre of the expansion, and where it is made of sigma(W) the power iteration that found that."""
    if settings.relative_to == "mean":
        return MeanCentre(*above(G.diagonal(dim1=-2, dim2=-1).mean(-1, keepdim=True), settings.eps**2)), None
    if settings.relative_to == "one":
        return None, None
    end = ascend(W, G, None, u, settings.n_power_iterations, settings.eps)
    slope = end.sigma * settings.polynomial.radius
    left = end.outer / end.sigma if is_tall(W) else end.left
    return TopCentre(nan_for_infinity(slope * end.sigma), end.live, end.outer, slope, left), end


def pull_back(Q: Tensor, c: Tensor, u: Tensor, kept: Kept, settings: Settings) -> Tensor:
    """C with dL/dW = C W (tall: W C), from Q = dL/dF and c = <Q, F>."""
    F, X, sigma, norm, centre = kept
    if norm is not None:
        c = c * norm.live
    if isinstance(norm, WideNorm | TallNorm):
        Q = minus_outer(Q, c * (norm.left if isinstance(norm, TallNorm) else u), norm.right)
    elif isinstance(norm, FrobeniusNorm):
        Q = Q - c.unsqueeze(-1) * norm.gradient
    # 2 dL/dG = -2 Xbar / r, and Xbar is linear in D: the factor -2 / r goes in here; 2 where X is G.
    D, coefficients = plus_transpose(Q), settings.in_powers_of_gram
    if coefficients is not None:
        D.div_(sigma.unsqueeze(-1))
    elif centre is None:
        D.div_(-sigma.unsqueeze(-1))
    else:  # divided one by one: their product may leave float32 where none of them does
        D.mul_((-1 / sigma / centre.r / centre.r.sqrt()).unsqueeze(-1))
    C = adjoint(coefficients or settings.polynomial.coefficients, X, D)
    if centre is not None:
        C = _pull_back_centre(C, Q, kept, centre)
    if isinstance(norm, TallNorm):
        C = minus_outer(C, c * (norm.outer / sigma / sigma), norm.outer)
    elif isinstance(norm, WideNorm):
        C = minus_outer(C, c * apply_symmetric(F, u), norm.outer)
    elif isinstance(norm, FrobeniusNorm):
        C -= c.unsqueeze(-1) * product(F, F)
    return C


def _pull_back_centre(C: Tensor, Q: Tensor, kept: Kept, centre: MeanCentre | TopCentre) -> Tensor:
    """C with what comes through the centre r added."""
    trace = C.diagonal(dim1=-2, dim2=-1).sum(-1, keepdim=True)
    rbar = ((inner(C, kept.X) - trace) / 2 - inner(Q, kept.F) / (2 * centre.r)) * centre.live
    if isinstance(centre, MeanCentre):
        C.diagonal(dim1=-2, dim2=-1).add_(rbar * (2 / C.shape[-1]))
        return C
    return minus_outer(C, -2 * centre.slope * rbar * centre.left, centre.right)


def inner(A: Tensor, B: Tensor) -> Tensor:
    """<A, B>, the sum over all entries, as (..., 1)."""
    total: Tensor = torch.linalg.vecdot(A.flatten(-2), B.flatten(-2))
    return total.unsqueeze(-1)


@with_signature
class Normalise(torch.autograd.Function):
    """W -> h(W), or W -> F to be applied after W; rows times `gain` where W is not tall.

    Returns (h(W) or F, the u that was stepped from, the moved u, the fingerprint of W, *kept).
    """

    @staticmethod
    def forward(W: Tensor, gain: Tensor | None, state: State, settings: Settings, formed: bool) -> tuple[Tensor, ...]:
        A = W.to(working_dtype(W))
        tall = is_tall(A)
        with in_full_precision(W):
            G = gram(A)
            fingerprint = G.sum(-1)
            start = resume(fingerprint, state).to(A.dtype)
            kept, u = factor(A, G, start, settings)
            F = kept.F if gain is None else kept.F * _column(gain, kept.F)
            if formed:
                H = product(A, F) if tall else product(F, A)
            elif gain is None:
                H = F.clone()  # F itself is kept
            else:
                H = F
        return (H.to(W.dtype), start, u, fingerprint, *pack(kept))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        W, gain, _, ctx.settings, ctx.formed = inputs
        _, _, u, _, *kept = output
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(W, gain, u, *kept)

    @staticmethod
    def backward(ctx: Any, dH: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
        if dH is None:
            return (None,) * 5
        W, gain, u, *tensors = ctx.saved_tensors
        kept = unpack(tensors, ctx.settings, is_tall(W))
        with torch.no_grad(), in_full_precision(W):
            dW, dgain = _backward(W, gain, u, kept, dH, ctx.settings, ctx.formed)
        return once_only(dW, W, gain, dH), once_only(dgain, W, gain, dH), None, None, None


def _backward(
    W: Tensor, gain: Tensor | None, u: Tensor, kept: Kept, dH: Tensor, settings: Settings, formed: bool
) -> tuple[Tensor, Tensor | None]:
    A, dH = W.to(kept.F.dtype), dH.to(kept.F.dtype)
    tall, F, dgain = is_tall(A), kept.F, None
    Q = dH if not formed else product(A.mT, dH) if tall else product(dH, A.mT)
    if gain is None:
        c = inner(Q, F)
    else:
        column = _column(gain, F)
        dgain = torch.linalg.vecdot(Q, F)
        c = dot(dgain, column.squeeze(-1))
        Q, F = Q * column, F * column.mT if formed else F
    C = pull_back(Q, c, u, kept, settings)
    if not formed:
        dW = product(A, C) if tall else product(C, A)
    elif tall:
        dW = add_product(product(dH, F), A, C)
    else:  # F is symmetric, so F times the gains in its columns is the transpose of what was multiplied by
        dW = add_product(product(F, dH), C, A)
    return dW.to(W.dtype), None if gain is None or dgain is None else dgain.flatten().to(gain.dtype)


def _column(gain: Tensor, like: Tensor) -> Tensor:
    """The gains, group by group, as columns that scale the rows of a matrix."""
    return gain.to(like.dtype).reshape(*like.shape[:-1], 1)

"""The fast way to h(W): the Gram matrix of the smaller side, and one backward for polynomial and sigma together.

Notation, here and in docs/maths.md (k = min(m, n); every matrix may carry one batch dimension, for groups):

    W   m x n   raw weight                      G    k x k   W W^T, or W^T W where m > n ("tall")
    r   scalar  centre of the expansion         X    k x k   I - G / r
    M   k x k   sum_j c_j X^j                   Phi  k x k   r^(-1/2) M, so that B = Phi W (tall: W Phi)
    u   m       kept vector                     v    n       B^T u, as a unit vector
    F   k x k   Phi / sigma, so that h(W) = F W (tall: W F)

The backward takes Q = dL/dF to a matrix C with dL/dW = C W (tall: W C): docs/maths.md has the derivation. A forward
and backward cost 5 products of m x m by m x n, and a few of k x k by k x k.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx

from aon.gram import gram, in_full_precision, is_tall, working_dtype
from aon.matrix_polynomial import add_outer, adjoint, evaluate, multiply_add
from aon.polynomials import expansion_coefficients
from aon.power import Ascent, above, apply, ascend, length, moved, resume, unit
from aon.settings import Settings


class State(NamedTuple):
    """What the power iteration keeps: u, the u it was moved from, and a fingerprint of the weight it saw then."""

    u: Tensor
    previous: Tensor
    seen: Tensor


class Kept(NamedTuple):
    """What the backward needs; all on the k side."""

    F: Tensor
    X: Tensor
    radius: Tensor  # r; empty where it is 1
    radius_live: Tensor  # 0 where the norm that r is made of was not above eps
    sigma: Tensor
    live: Tensor  # 0 where sigma is a constant
    left: Tensor  # as in Ascent; for the Frobenius norm `left` is d sigma / d Phi itself
    right: Tensor
    outer_left: Tensor
    outer_right: Tensor
    before_left: Tensor  # the same for the norm of W that prescale divides by
    before_right: Tensor
    before_sigma: Tensor


def factor(W: Tensor, G: Tensor, u: Tensor, settings: Settings) -> tuple[Kept, Tensor]:
    """F with h(W) = F W, together with what its backward needs; and the moved u."""
    steps, eps = settings.n_power_iterations, settings.eps
    # Tensors of their own, even where empty: Dynamo loses an output that an autograd.Function returns twice.
    before_left, before_right, before_sigma, radius, radius_live = (G.new_empty(0) for _ in range(5))
    X = -G
    if settings.centre == "mean":
        radius, radius_live = above(G.diagonal(dim1=-2, dim2=-1).mean(-1, keepdim=True), eps**2)
    elif settings.prescale:  # about the mean the size of W cancels, and there is nothing to prescale
        before = ascend(W, G, None, u, steps, eps)
        radius, radius_live = before.sigma.square(), before.live
        before_left, before_right, before_sigma = before.outer_left, before.outer_right, before.sigma
    if settings.moves_centre:
        X /= radius[..., None]
    X.diagonal(dim1=-2, dim2=-1).add_(1)
    Phi = evaluate(expansion_coefficients(settings.order), X)
    if settings.moves_centre:
        Phi *= radius.rsqrt()[..., None]
    end = ascend(W, G, Phi, u, steps, eps)
    u = end.u
    if settings.scale == "frobenius":
        end = _frobenius(Phi, G, end, eps)
    elif settings.scale is None:
        end = end._replace(sigma=torch.ones_like(end.sigma), live=torch.zeros_like(end.live))
    F = Phi.div_(end.sigma[..., None])
    return Kept(F, X, radius, radius_live, *end[1:], before_left, before_right, before_sigma), u


def pull_back(Q: Tensor, kept: Kept, settings: Settings) -> Tensor:
    """C with dL/dW = C W (tall: W C), from Q = dL/dF."""
    F, X, r = kept.F, kept.X, kept.radius
    c = inner(Q, F) * kept.live
    if settings.scale == "spectral":
        Q = add_outer(Q, -c * kept.left, kept.right)
    elif settings.scale == "frobenius":
        Q = Q - c[..., None] * kept.left
    # 2 dL/dG = -2 Xbar / r, and Xbar is linear in D: the factor -2 / r goes in here.
    share = -1 / kept.sigma
    D = (Q + Q.mT).mul_((share / (r * r.sqrt()) if settings.moves_centre else share)[..., None])
    C = adjoint(expansion_coefficients(settings.order), X, D)
    if settings.moves_centre:
        trace = C.diagonal(dim1=-2, dim2=-1).sum(-1, keepdim=True)
        rbar = ((inner(C, X) - trace) / 2 - inner(Q, F) / (2 * r)) * kept.radius_live
        if settings.centre == "mean":
            C.diagonal(dim1=-2, dim2=-1).add_(rbar * (2 / X.shape[-1]))
        else:
            C = add_outer(C, 2 * kept.before_sigma * rbar * kept.before_left, kept.before_right)
    if settings.scale == "spectral":
        C = add_outer(C, -c / kept.sigma * kept.outer_left, kept.outer_right)
    elif settings.scale == "frobenius":
        C -= c[..., None] * (F @ F)
    return C


def inner(A: Tensor, B: Tensor) -> Tensor:
    """<A, B>, the sum over all entries, as (..., 1)."""
    product: Tensor = torch.linalg.vecdot(A.flatten(-2), B.flatten(-2))
    return product[..., None]


def _frobenius(Phi: Tensor, G: Tensor, end: Ascent, eps: float) -> Ascent:
    """|B|_F^2 = <Phi G, Phi> in the place of the spectral norm."""
    PG = Phi @ G
    sigma, live = above(inner(PG, Phi).clamp_min(0).sqrt(), eps)
    return end._replace(sigma=sigma, live=live, left=PG / sigma[..., None])


class Normalise(torch.autograd.Function):
    """W -> h(W), or W -> F for those who apply it after W; rows times `gain` where W is not tall.

    Returns (h(W) or F, the u that was stepped from, the moved u, the fingerprint of W, *kept).
    """

    @staticmethod
    def forward(W: Tensor, gain: Tensor | None, state: State, settings: Settings, formed: bool) -> tuple[Tensor, ...]:
        A = W.to(working_dtype(W))
        with in_full_precision(W):
            G = gram(A)
            fingerprint = G.sum(-1)
            start = resume(fingerprint, state.seen, state.u, state.previous).to(A.dtype)
            kept, u = factor(A, G, start, settings)
            F = kept.F if gain is None else kept.F * gain.to(A.dtype).unflatten(0, kept.F.shape[:-1])[..., None]
            out = F.clone() if not formed else A @ F if is_tall(A) else F @ A
        return (out.to(W.dtype), start, u, fingerprint, *kept)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        W, gain, _, ctx.settings, ctx.formed = inputs
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(W, gain, *output[4:])

    @staticmethod
    def backward(ctx: Any, dH: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
        if dH is None:
            return (None,) * 5
        W, gain, *kept = ctx.saved_tensors
        with torch.no_grad(), in_full_precision(W):
            dW, dgain = _backward(W, gain, Kept(*kept), dH, ctx.settings, ctx.formed)
        return once_only(dW, W, gain, dH), once_only(dgain, W, gain, dH), None, None, None


def _backward(
    W: Tensor, gain: Tensor | None, kept: Kept, dH: Tensor, settings: Settings, formed: bool
) -> tuple[Tensor, Tensor | None]:
    A, dH = W.to(kept.F.dtype), dH.to(kept.F.dtype)
    tall, F, dgain = is_tall(A), kept.F, None
    Q = dH if not formed else A.mT @ dH if tall else dH @ A.mT
    if gain is not None:
        rows = gain.to(F.dtype).unflatten(0, F.shape[:-1])[..., None]
        dgain = (Q * F).sum(-1).flatten().to(gain.dtype)
        Q, F = Q * rows, F * rows
    C = pull_back(Q, kept, settings)
    if not formed:
        dW = A @ C if tall else C @ A
    elif tall:
        dW = multiply_add(dH @ F, A, C)
    else:
        dW = multiply_add(F.mT @ dH, C, A)
    return dW.to(W.dtype), dgain


class Spectral(torch.autograd.Function):
    """W -> gain W / sigma(W): order 0, which needs no Gram matrix. Returns as `Normalise` does, without `kept`."""

    @staticmethod
    def forward(W: Tensor, gain: Tensor | None, state: State, settings: Settings) -> tuple[Tensor, ...]:
        A = W.to(working_dtype(W))
        with in_full_precision(W):
            fingerprint = A.sum(-1)
            start = u = resume(fingerprint, state.seen, state.u, state.previous).to(A.dtype)
            for _ in range(settings.n_power_iterations):
                v = unit(apply(A.mT, u))
                b = apply(A, v)
                sigma, live = above(length(b), settings.eps)
                u = moved(u, b / sigma, sigma, live)
            H = A * _rows(gain, sigma, u)
        return H.to(W.dtype), start, u, fingerprint, v, sigma, live

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        W, gain, *_ = inputs
        _, _, u, _, v, sigma, live = output
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(W, gain, u, v, sigma, live)

    @staticmethod
    def backward(ctx: Any, dH: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
        if dH is None:
            return (None,) * 4
        W, gain, u, v, sigma, live = ctx.saved_tensors
        with torch.no_grad(), in_full_precision(W):
            D, A = dH.to(u.dtype), W.to(u.dtype)
            rows = torch.linalg.vecdot(D, A) / sigma
            c = (rows if gain is None else rows * gain.to(u.dtype).unflatten(0, u.shape)).sum(-1, keepdim=True)
            dW = D * _rows(gain, sigma, u)
            dW -= (c * live / sigma * u)[..., None] * v[..., None, :]
            dgain = None if gain is None else rows.flatten().to(gain.dtype)
        return once_only(dW.to(W.dtype), W, gain, dH), once_only(dgain, W, gain, dH), None, None


def _rows(gain: Tensor | None, sigma: Tensor, u: Tensor) -> Tensor:
    """gain / sigma as a column that scales the rows of a matrix."""
    column = 1 / sigma if gain is None else gain.to(u.dtype).unflatten(0, u.shape) / sigma
    return column[..., None]


def once_only(gradient: Tensor | None, *sources: Tensor | None) -> Tensor | None:
    """The gradient; where a graph of it is being made (create_graph), one whose own derivative is refused."""
    if gradient is None or not torch.is_grad_enabled():
        return gradient
    return _OnceOnly.apply(gradient, *sources)  # type: ignore[no-any-return]


class _OnceOnly(torch.autograd.Function):
    """The identity, for a gradient whose own derivative must be refused rather than be wrong."""

    @staticmethod
    def forward(gradient: Tensor, *_: Tensor | None) -> Tensor:
        return gradient.view_as(gradient)

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple[Any, ...], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(*_: Any) -> tuple[Tensor | None, ...]:
        raise RuntimeError(
            "the fast weight maps have no second derivative (sigma's gradient holds u and v constant); "
            "use aon.functional.approx_orthonormal, which can be differentiated any number of times"
        )

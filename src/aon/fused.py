"""The fast way to h(W): the Gram matrix of the smaller side, and one backward for polynomial and sigma together.

Notation, here and in docs/maths.md (k = min(m, n); every matrix may carry one batch dimension, for groups):

    W   m x n   raw weight                      G    k x k   W W^T, or W^T W where m > n ("tall")
    r   scalar  centre of the expansion         X    k x k   I - G / r
    M   k x k   sum_j c_j X^j                   Phi  k x k   r^(-1/2) M, so that B = Phi W (tall: W Phi)
    u   m       kept vector                     v    n       B^T u, as a unit vector
    F   k x k   Phi / sigma, so that h(W) = F W (tall: W F)

The backward takes Q = dL/dF to a matrix C with dL/dW = C W (tall: W C): docs/maths.md has the derivation. A forward
and backward cost 5 products of k x k by k x max(m, n), and a few of k x k by k x k.
"""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx

from aon.gram import gram, in_full_precision, is_tall, working_dtype
from aon.matrix_polynomial import adjoint, evaluate, minus_outer, plus_transpose
from aon.polynomials import expansion_coefficients
from aon.power import above, apply, ascend, length, moved, resume, unit
from aon.products import add_product, product
from aon.settings import Settings


class State(NamedTuple):
    """What the power iteration keeps: u, the u it was moved from, and a fingerprint of the weight it saw then."""

    u: Tensor
    previous: Tensor
    seen: Tensor


_ABSENT: Any = None


class Kept(NamedTuple):
    """What the backward needs beside W and the moved u; all on the k side, absent where the settings do not need it."""

    F: Tensor
    X: Tensor
    sigma: Tensor
    live: Tensor = _ABSENT  # whether sigma is more than eps, and no constant
    left: Tensor = _ABSENT  # as in Ascent where W is tall; for the Frobenius norm d sigma / d Phi itself
    right: Tensor = _ABSENT  # as in Ascent
    outer: Tensor = _ABSENT
    radius: Tensor = _ABSENT  # r
    radius_live: Tensor = _ABSENT  # whether the norm that r is made of was more than eps
    before_left: Tensor = _ABSENT  # gradient of the norm of W that prescale divides by, a matrix of rank one times W
    before_right: Tensor = _ABSENT
    before_sigma: Tensor = _ABSENT


def names_of_kept(settings: Settings, tall: bool) -> tuple[str, ...]:
    """Which fields of Kept are there: an autograd function hands over tensors only, in a row."""
    names = ["F", "X", "sigma"]
    if settings.scale == "spectral":
        names += ["live", "right", "outer", *(["left"] if tall else [])]
    elif settings.scale == "frobenius":
        names += ["live", "left"]
    if settings.moves_centre:
        names += ["radius", "radius_live"]
        names += [] if settings.centre == "mean" else ["before_left", "before_right", "before_sigma"]
    return tuple(names)


def factor(W: Tensor, G: Tensor, u: Tensor, settings: Settings) -> tuple[Kept, Tensor]:
    """F with h(W) = F W, together with what its backward needs; and the moved u."""
    steps, eps, tall = settings.n_power_iterations, settings.eps, is_tall(W)
    more: dict[str, Tensor] = {}
    X = -G
    if settings.centre == "mean":
        more["radius"], more["radius_live"] = above(G.diagonal(dim1=-2, dim2=-1).mean(-1, keepdim=True), eps**2)
    elif settings.prescale:  # about the mean the size of W cancels, and there is nothing to prescale
        before = ascend(W, G, None, u, steps, eps)
        more["radius"], more["radius_live"] = before.sigma.square(), before.live
        more["before_left"] = before.outer / before.sigma if tall else before.left
        more["before_right"], more["before_sigma"] = before.outer, before.sigma
    if settings.moves_centre:
        X /= more["radius"][..., None]
    X.diagonal(dim1=-2, dim2=-1).add_(1)
    Phi = evaluate(expansion_coefficients(settings.order), X)
    if settings.moves_centre:
        Phi *= more["radius"].rsqrt()[..., None]
    end = ascend(W, G, Phi, u, steps, eps)
    sigma = end.sigma
    if settings.scale == "spectral":
        more |= {"live": end.live, "right": end.right, "outer": end.outer, **({"left": end.left} if tall else {})}
    elif settings.scale == "frobenius":
        sigma, more["live"], more["left"] = _frobenius(Phi, G, eps)
    else:
        sigma = torch.ones_like(sigma)
    return Kept(Phi.div_(sigma[..., None]), X, sigma, **more), end.u


def pull_back(Q: Tensor, c: Tensor, u: Tensor, kept: Kept, settings: Settings, tall: bool) -> Tensor:
    """C with dL/dW = C W (tall: W C), from Q = dL/dF and c = <Q, F>."""
    F, X, r, sigma = kept.F, kept.X, kept.radius, kept.sigma
    if settings.scale is not None:
        c = c * kept.live
    if settings.scale == "spectral":
        Q = minus_outer(Q, c * (kept.left if tall else u), kept.right)
    elif settings.scale == "frobenius":
        Q = Q - c[..., None] * kept.left
    # 2 dL/dG = -2 Xbar / r, and Xbar is linear in D: the factor -2 / r goes in here.
    # Divided one by one: their product may leave float32 where none of them does.
    share = -1 / sigma / r / r.sqrt() if settings.moves_centre else -1 / sigma
    D = plus_transpose(Q).mul_(share[..., None])
    C = adjoint(expansion_coefficients(settings.order), X, D)
    if settings.moves_centre:
        trace = C.diagonal(dim1=-2, dim2=-1).sum(-1, keepdim=True)
        rbar = ((inner(C, X) - trace) / 2 - inner(Q, F) / (2 * r)) * kept.radius_live
        if settings.centre == "mean":
            C.diagonal(dim1=-2, dim2=-1).add_(rbar * (2 / X.shape[-1]))
        else:
            C = minus_outer(C, -2 * kept.before_sigma * rbar * kept.before_left, kept.before_right)
    if settings.scale == "spectral":
        C = minus_outer(C, c * (kept.outer / sigma / sigma if tall else apply(F, u)), kept.outer)
    elif settings.scale == "frobenius":
        C -= c[..., None] * product(F, F)
    return C


def inner(A: Tensor, B: Tensor) -> Tensor:
    """<A, B>, the sum over all entries, as (..., 1)."""
    total: Tensor = torch.linalg.vecdot(A.flatten(-2), B.flatten(-2))
    return total[..., None]


def _frobenius(Phi: Tensor, G: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """sigma with sigma^2 = |B|_F^2 = <Phi G, Phi>, whether it is more than eps, and d sigma / d Phi."""
    PG = product(Phi, G)
    sigma, live = above(inner(PG, Phi).clamp_min(0).sqrt(), eps)
    return sigma, live, PG / sigma[..., None]


def with_signature(function: type[torch.autograd.Function]) -> type[torch.autograd.Function]:
    """A function whose forward has its signature at hand: `apply` asks for it at every call, and finding it is slow."""
    function.forward.__signature__ = inspect.signature(function.forward)  # type: ignore[attr-defined]
    return function


@with_signature
class Normalise(torch.autograd.Function):
    """W -> h(W), or W -> F for those who apply it after W; rows times `gain` where W is not tall.

    Returns (h(W) or F, the u that was stepped from, the moved u, the fingerprint of W, *kept).
    """

    @staticmethod
    def forward(W: Tensor, gain: Tensor | None, state: State, settings: Settings, formed: bool) -> tuple[Tensor, ...]:
        A = W.to(working_dtype(W))
        tall = is_tall(A)
        with in_full_precision(W):
            G = gram(A)
            fingerprint = G.sum(-1)
            start = resume(fingerprint, state.seen, state.u, state.previous).to(A.dtype)
            kept, u = factor(A, G, start, settings)
            F = kept.F if gain is None else kept.F * _column(gain, kept.F)
            if formed:
                H = product(A, F) if tall else product(F, A)
            elif gain is None:
                H = F.clone()  # F itself is kept
            else:
                H = F
        return (H.to(W.dtype), start, u, fingerprint, *[getattr(kept, name) for name in names_of_kept(settings, tall)])

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
        kept = Kept(**dict(zip(names_of_kept(ctx.settings, is_tall(W)), tensors, strict=True)))
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
        c = (dgain * column[..., 0]).sum(-1, keepdim=True)
        Q, F = Q * column, F * column.mT if formed else F
    C = pull_back(Q, c, u, kept, settings, tall)
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


@with_signature
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
            c = (rows if gain is None else rows * gain.to(u.dtype).reshape(u.shape)).sum(-1, keepdim=True)
            dW = D * _rows(gain, sigma, u)
            dW -= (c * live / sigma * u)[..., None] * v[..., None, :]
            dgain = None if gain is None else rows.flatten().to(gain.dtype)
        return once_only(dW.to(W.dtype), W, gain, dH), once_only(dgain, W, gain, dH), None, None


def _rows(gain: Tensor | None, sigma: Tensor, u: Tensor) -> Tensor:
    """gain / sigma as a column that scales the rows of a matrix."""
    column = 1 / sigma if gain is None else gain.to(u.dtype).reshape(u.shape) / sigma
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

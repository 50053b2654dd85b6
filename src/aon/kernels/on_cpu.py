"""The default map on the CPU: the mathematics of `fused`, with scalars as Python numbers.

On small weights the calls are the cost. On the CPU a number can be read without a wait, so that what takes a chain of
calls with tensors of one element (roots, limits, masks, choices) is arithmetic of Python here, and scalars go into the
products as their factors. That is half of the calls. What is out of the ordinary, a norm that is zero, tiny or not
finite, is left to `fused`, as are other options, devices and compilers.
"""

from __future__ import annotations

from math import inf, sqrt
from typing import Any, NamedTuple

import torch
from torch import Tensor

from aon.kernels.first_order import once_only
from aon.kernels.gram import gram, in_full_precision
from aon.kernels.matrix_polynomial import adjoint, evaluate, plus_transpose
from aon.kernels.power import State
from aon.kernels.products import add_product, product
from aon.kernels.settings import Settings

_PLAIN = (Tensor, torch.nn.Parameter)  # other kinds of tensors may have no values to read
_DTYPES = (torch.float32, torch.float64)
LEAST = 1e-30  # norms and their squares below this may have lost digits in float32


class Ascent(NamedTuple):
    """The end of a power iteration: as in `power`, with numbers for scalars."""

    u: Tensor
    left: Tensor
    right: Tensor
    outer: Tensor
    sigma: float
    share: float  # factor of `right`, and of `outer` where W is not tall


class Found(NamedTuple):
    """F with h(W) = F W (tall: W F), and what its backward needs."""

    F: Tensor
    X: Tensor
    coefficients: tuple[float, ...]  # of P in powers of X, with the sign of dX/dG
    end: Ascent
    start: Tensor  # the u that was stepped from
    fingerprint: Tensor


def suits(W: Tensor, gain: Tensor | None, state: State, settings: Settings) -> bool:
    """Whether `find` is for this weight, gain and state, all of one type, and for these options."""
    return (
        not torch.compiler.is_compiling()
        and type(W) in _PLAIN
        and W.device.type == "cpu"
        and W.dim() == 2
        and W.dtype in _DTYPES
        and W.dtype == state.u.dtype == state.seen.dtype
        and (gain is None or (type(gain) in _PLAIN and gain.dtype == W.dtype))
        and settings.scale == "spectral"
        and settings.relative_to == "one"
        and not torch._C._are_functorch_transforms_active()
        and not torch.jit.is_tracing()  # type: ignore[attr-defined]
    )


def find(W: Tensor, state: State, settings: Settings) -> Found | None:
    """F and the moved u, as `fused.factor`; None where a norm is out of the ordinary."""
    with torch.no_grad(), in_full_precision(W):
        G = gram(W)
        fingerprint = G.sum(-1)
        # Note [u moves once for each update] in power.py; here a branch decides.
        start = state.previous if torch.equal(fingerprint, state.seen) else state.u
        X, coefficients, sign = G, settings.in_powers_of_gram, 1
        if coefficients is None:
            X, coefficients, sign = torch.eye(len(G), dtype=G.dtype) - G, settings.polynomial.coefficients, -1
        Phi = evaluate(coefficients, X)
        ascend = _ascend_tall if W.shape[0] > W.shape[1] else _ascend_wide
        end = ascend(W, G, Phi, start, settings)
        if end is None:
            return None
        return Found(Phi.div_(end.sigma), X, tuple(sign * c for c in coefficients), end, start, fingerprint)


def _ascend_wide(_: Tensor, G: Tensor, Phi: Tensor, u: Tensor, settings: Settings) -> Ascent | None:
    for _step in range(settings.n_power_iterations):
        t = Phi @ u  # v = W^T t / |W^T t|
        s = G @ t
        square = torch.dot(t, s).item()
        b = Phi @ s
        size = _length(b)
        if not (LEAST < square < inf and LEAST < size < inf):
            return None
        u = b / size
    norm = sqrt(square)
    sigma = size / norm
    return Ascent(u, u, s, t, sigma, 1 / norm) if settings.eps < sigma else None


def _ascend_tall(W: Tensor, G: Tensor, Phi: Tensor, u: Tensor, settings: Settings) -> Ascent | None:
    a = W.mT @ u
    for _step in range(settings.n_power_iterations):
        v = Phi @ a
        size = _length(v)
        if not LEAST < size < inf:
            return None
        v /= size
        z = Phi @ v  # B v = W z
        Gz = G @ z
        square = torch.dot(z, Gz).item()
        if not LEAST < square < inf:
            return None
        sigma = sqrt(square)
        a = Gz / sigma  # W^T u of the moved u
    return Ascent((W @ z).div_(sigma), a, v, z, sigma, 1.0) if settings.eps < sigma else None


def _length(x: Tensor) -> float:
    return float(torch.linalg.vector_norm(x, dtype=torch.float64))


class NormaliseOnCPU(torch.autograd.Function):
    """W -> h(W), or W -> F to be applied after W; rows times `gain` where W is not tall."""

    @staticmethod
    def forward(ctx: Any, W: Tensor, gain: Tensor | None, found: Found, formed: bool) -> Tensor:
        """h(W) or F, from what was found."""
        F, X, coefficients, end, _, _ = found
        ctx.sigma, ctx.share, ctx.coefficients, ctx.formed = end.sigma, end.share, coefficients, formed
        ctx.save_for_backward(W, gain, F, X, end.u, end.left, end.right, end.outer)
        if gain is not None:
            F = F * gain.unsqueeze(-1)
        if not formed:
            return F.clone() if gain is None else F  # F itself is kept
        with in_full_precision(W):
            return product(W, F) if W.shape[0] > W.shape[1] else product(F, W)

    @staticmethod
    def backward(ctx: Any, dH: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients of W and of the gain."""
        W, gain, F, X, u, left, right, outer = ctx.saved_tensors
        end = Ascent(u, left, right, outer, ctx.sigma, ctx.share)
        with torch.no_grad(), in_full_precision(W):
            dW, dgain = _backward(W, gain, F, X, end, dH, ctx.coefficients, ctx.formed)
        return once_only(dW, W, gain, dH), once_only(dgain, W, gain, dH), None, None


def _backward(
    W: Tensor,
    gain: Tensor | None,
    F: Tensor,
    X: Tensor,
    end: Ascent,
    dH: Tensor,
    coefficients: tuple[float, ...],
    formed: bool,
) -> tuple[Tensor, Tensor | None]:
    """The gradients of W and of the gain; as `fused` has them."""
    tall, dgain, column_scaled = W.shape[0] > W.shape[1], None, F
    Q = dH if not formed else product(W.mT, dH) if tall else product(dH, W.mT)
    if gain is None:
        c = torch.dot(Q.reshape(-1), F.reshape(-1)).item()
    else:
        dgain = torch.linalg.vecdot(Q, F)
        c = torch.dot(dgain, gain).item()
        Q, column_scaled = Q * gain.unsqueeze(-1), F * gain if formed else F
    Q = torch.addr(Q, end.left, end.right, alpha=-c * end.share)
    C = adjoint([b / end.sigma for b in coefficients], X, plus_transpose(Q))
    if tall:
        C = torch.addr(C, end.outer, end.outer, alpha=-c / end.sigma / end.sigma)
        return add_product(product(dH, F), W, C), dgain
    C = torch.addr(C, F @ end.u, end.outer, alpha=-c * end.share)
    return (add_product(product(column_scaled, dH), C, W) if formed else product(C, W)), dgain

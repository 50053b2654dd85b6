"""The mathematics alone, Tensor -> Tensor: for those who want h(W) without layers or state.

Matrices are (..., m, n) with any batch dimensions. Everything here is plain autograd, works on the smaller Gram side,
uses the exact sigma (no power iteration, no kept vector), and can be differentiated any number of times.
"""

from __future__ import annotations

import torch
from torch import Tensor

from aon.gram import is_tall, plain_gram, working_dtype
from aon.polynomials import expansion_coefficients, singular_value_map, taylor_coefficients
from aon.settings import check_settings

__all__ = ["approx_orthonormal", "orthonormality_error", "singular_value_map", "taylor_coefficients"]


def approx_orthonormal(
    W: Tensor,
    order: int = 2,
    *,
    scale: str | None = "spectral",
    centre: str = "one",
    prescale: bool = False,
    eps: float = 1e-12,
) -> Tensor:
    """h(W) = P_q(W) W / sigma with the exact sigma: the paper's equations (8) and (12).

    On singular values this is f_q(s) / max |f_q(s)|: U and V stay, the spectrum is flattened.

    Args:
        W: (..., m, n), real floating point; half precision is computed in float32.
        order: q, at least 0. Order 0 is spectral normalisation.
        scale: What P_q(W) W is divided by: its "spectral" norm, its "frobenius" norm, or None for nothing.
        centre: Expand about "one", or about the "mean" eigenvalue of the Gram matrix.
        prescale: Divide W by its spectral norm first (the paper's Remark 1).
        eps: A matrix whose norm is not above this is not divided by it.

    Returns:
        A tensor like W.

    Raises:
        TypeError: W is not real floating point.
        ValueError: W is not a matrix with at least one row and column, or an option has no such value.

    Example:
        >>> W = torch.diag(torch.tensor([1.0, 0.8, 0.6]))
        >>> approx_orthonormal(W, order=2).diagonal()
        tensor([1.0000, 0.9829, 0.8842])
        >>> approx_orthonormal(W, order=20).diagonal()
        tensor([1.0000, 1.0000, 1.0000])
    """
    check_settings(order, scale, centre, prescale, 1, eps)
    if not W.is_floating_point():
        raise TypeError(f"W is {W.dtype}: expected a real floating-point matrix")
    if W.dim() < 2 or 0 in W.shape[-2:]:
        raise ValueError(f"W has shape {tuple(W.shape)}: expected (..., m, n), m and n at least 1")
    A = W.to(working_dtype(W))
    with torch.autocast(W.device.type, enabled=False):
        eigenvalues = _eigenvalues(plain_gram(A))
        if centre == "mean":
            A, eigenvalues = _divide(A, eigenvalues, eigenvalues.mean(-1, keepdim=True), eps)
        elif prescale:
            A, eigenvalues = _divide(A, eigenvalues, eigenvalues.amax(-1, keepdim=True), eps)
        B = _expand(A, order)
        if scale is not None:
            f = singular_value_map(_root(eigenvalues), order)
            size = f.square().sum(-1, keepdim=True) if scale == "frobenius" else f.square().amax(-1, keepdim=True)
            B = _divide(B, eigenvalues, size, eps)[0]
    return B.to(W.dtype)


def orthonormality_error(H: Tensor) -> Tensor:
    """How far H H^T (H^T H where H is tall) is from a multiple of the identity, between 0 and 1.

    min_c |c G - I|_F / sqrt(k) over the k x k Gram matrix G: 0 for orthonormal rows times any number, sqrt(1 - 1/k) for
    a matrix of rank one. The scale is left out because h(W) h(W)^T = I / s holds with any s > 0 (equation 3).

    Example:
        >>> orthonormality_error(3 * torch.eye(4, 6))
        tensor(0.)
    """
    G = plain_gram(H.to(working_dtype(H)))
    trace, square = G.diagonal(dim1=-2, dim2=-1).sum(-1), G.square().sum((-2, -1))
    return (1 - trace.square() / (G.shape[-1] * square)).clamp_min(0).sqrt()


def _expand(A: Tensor, order: int) -> Tensor:
    """P_q(A) A by Horner's scheme in X = I - G, on the smaller side."""
    coefficients = expansion_coefficients(order)
    identity = torch.eye(min(A.shape[-2:]), dtype=A.dtype, device=A.device)
    X = identity - plain_gram(A)
    total = coefficients[-1] * identity
    for coefficient in reversed(coefficients[:-1]):
        total = coefficient * identity + X @ total
    return A @ total if is_tall(A) else total @ A


def _eigenvalues(G: Tensor) -> Tensor:
    """Eigenvalues of Gram matrices, never negative; NaN where G is not finite (LAPACK would stop there)."""
    finite = G.isfinite().all(-1, keepdim=True).all(-2, keepdim=True)
    identity = torch.eye(G.shape[-1], dtype=G.dtype, device=G.device)
    eigenvalues: Tensor = torch.linalg.eigvalsh(torch.where(finite, G, identity))
    return torch.where(finite[..., 0], eigenvalues.clamp_min(0), torch.nan)


def _root(x: Tensor) -> Tensor:
    """sqrt(x) whose derivative at 0 is 0: the weight of zero has no direction to grow in."""
    positive = x > 0
    return torch.where(positive, torch.where(positive, x, 1).sqrt(), x)


def _divide(A: Tensor, eigenvalues: Tensor, square: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """A / sqrt(square) and eigenvalues / square, where sqrt(square) is above eps; NaN stays NaN."""
    square = torch.where(square <= eps**2, 1, square)
    return A / _root(square)[..., None], eigenvalues / square

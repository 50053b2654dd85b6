"""The maps as functions of tensors, without layers or state.

Matrices are (..., m, n) with any batch dimensions. Everything here is plain autograd, works on the smaller Gram side,
uses the exact sigma (no power iteration, no kept vector), and can be differentiated any number of times.
"""

from __future__ import annotations

import torch
from torch import Tensor

from aon.kernels.gram import finite_or_identity, in_full_precision, is_tall, plain_gram, working_dtype
from aon.kernels.polynomials import odd_polynomial, singular_value_map, taylor_coefficients
from aon.kernels.settings import check_settings

__all__ = ["approx_orthonormal", "orthonormality_error", "singular_value_map", "taylor_coefficients"]


def approx_orthonormal(
    W: Tensor,
    order: int = 2,
    *,
    scale: str | None = "spectral",
    centre: str = "one",
    prescale: bool = False,
    eps: float = 1e-12,
    expansion: str = "taylor",
    lower: float = 0.2,
) -> Tensor:
    """h(W) = P_q(W) W / sigma with the exact sigma: the paper's equations (8) and (10).

    On singular values this is f_q(s) / max |f_q(s)|: U and V stay, the spectrum is flattened.

    Args:
        W: (..., m, n), real floating point; half precision is computed in float32.
        order: q, at least 0. Order 0 is spectral normalisation.
        scale: What P_q(W) W is divided by: its "spectral" norm, its "frobenius" norm, or None for nothing.
        centre: Expand about "one", about the "mean" eigenvalue of the Gram matrix, or about the multiple of its largest
            ("top") that flattens most and keeps the order of the singular values.
        prescale: Divide W by its spectral norm first (the paper's Remark 1).
        eps: A matrix whose norm is not above this is not divided by it.
        expansion: "taylor", or "minimax": of W, divided by 1.03 times its spectral norm, the odd polynomial of degree
            2q + 1 that deviates least from 1 on [lower, 1].
        lower: Where the interval of "minimax" begins.

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
    settings = check_settings(order, scale, centre, prescale, 1, eps, expansion, lower)
    if not W.is_floating_point():
        raise TypeError(f"W is {W.dtype}: expected a real floating-point matrix")
    if W.dim() < 2 or 0 in W.shape[-2:]:
        raise ValueError(f"W has shape {tuple(W.shape)}: expected (..., m, n), m and n at least 1")
    A = W.to(working_dtype(W))
    with in_full_precision(W):
        coefficients, multiple, maximum = settings.polynomial
        if settings.moves_centre:
            about = _mean_eigenvalue(A) if centre == "mean" else _eigenvalues(A).amax(-1, keepdim=True)
            A = _divide(A, about, eps, multiple)
        B = _expand(A, coefficients)
        if scale == "frobenius":
            B = _divide(B, B.square().sum((-2, -1)).unsqueeze(-1), eps)
        elif scale == "spectral" and maximum is None:
            f = odd_polynomial(_root(_eigenvalues(A)), coefficients)
            B = _divide(B, f.square().amax(-1, keepdim=True), eps)
    return B.to(W.dtype)


def orthonormality_error(H: Tensor) -> Tensor:
    """How far H H^T (H^T H where H is tall) is from a multiple of the identity, between 0 and 1.

    min_c |c G - I|_F / sqrt(k) over the k x k Gram matrix G: 0 for orthonormal rows times any number, sqrt(1 - 1/k) for
    a matrix of rank one, 1 for zero. The scale is left out because h(W) h(W)^T = I / s holds with any s > 0
    (equation 3).

    Example:
        >>> orthonormality_error(3 * torch.eye(4, 6))
        tensor(0.)
    """
    G = plain_gram(H.to(working_dtype(H)))
    trace, square = G.diagonal(dim1=-2, dim2=-1).sum(-1), G.square().sum((-2, -1))
    explained = torch.where(square == 0, 0, trace.square() / torch.where(square == 0, 1, G.shape[-1] * square))
    return (1 - explained).clamp_min(0).sqrt()


def _expand(A: Tensor, coefficients: tuple[float, ...]) -> Tensor:
    """P(A) A by Horner's scheme in X = I - G, on the smaller side."""
    identity = torch.eye(min(A.shape[-2:]), dtype=A.dtype, device=A.device)
    X = identity - plain_gram(A)
    total = coefficients[-1] * identity
    for coefficient in reversed(coefficients[:-1]):
        total = coefficient * identity + X @ total
    return A @ total if is_tall(A) else total @ A


def _mean_eigenvalue(A: Tensor) -> Tensor:
    """Mean eigenvalue (..., 1) of the smaller Gram matrix; NaN where A is not finite."""
    mean = A.square().sum((-2, -1)) / min(A.shape[-2:])
    return torch.where(mean.isfinite(), mean, torch.nan).unsqueeze(-1)


def _eigenvalues(A: Tensor) -> Tensor:
    """Eigenvalues (..., k) of the smaller Gram matrix, never negative; NaN where it is not finite."""
    G, finite = finite_or_identity(plain_gram(A))
    shift, spread = _apart(G)
    eigenvalues: Tensor = torch.linalg.eigvalsh(G + spread) - shift
    return torch.where(finite[..., 0], eigenvalues.clamp_min(0), torch.nan)


@torch.no_grad()
def _apart(G: Tensor) -> tuple[Tensor, Tensor]:
    """Constants that move equal eigenvalues apart: numbers to add to them, and the matrix that does it.

    The second derivative of an eigenvalue divides by its distances from the others, and is NaN even for those that
    nothing depends on. Both are zero where all eigenvalues differ.
    """
    eigenvalues, U = torch.linalg.eigh(G.detach())
    size, eps = eigenvalues[..., -1:].abs(), torch.finfo(G.dtype).eps
    equal = eigenvalues.diff(dim=-1) <= G.shape[-1] * eps * size
    steps = torch.where(equal, eps**0.5 * size.clamp_min(torch.finfo(G.dtype).tiny), 0)
    shift = torch.nn.functional.pad(steps.cumsum(-1), (1, 0))
    return shift, (U * shift[..., None, :]) @ U.mT


def _root(x: Tensor) -> Tensor:
    """sqrt(x) for x >= 0, with derivative 0 at 0."""
    positive = x > 0
    return torch.where(positive, torch.where(positive, x, 1).sqrt(), x)


def _divide(A: Tensor, square: Tensor, eps: float, multiple: float = 1.0) -> Tensor:
    """A / sqrt(multiple square); the square is taken as 1 where it is not above eps^2, and NaN stays NaN."""
    square = multiple * torch.where(square <= eps**2, 1, square)
    return A / _root(square)[..., None]

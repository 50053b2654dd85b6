"""Inverse square roots of covariance matrices and their pullbacks; pure functions, Tensor -> Tensor.

Notation, used in fused_whitening.py and whitening.py too:

    ======  ===========  ==========================================================
    S       (g, d, d)    covariance matrices, one for each group of d channels
    W       (g, d, d)    whitening matrices f(S), close to S^(-1/2), symmetric
    E       (g, d, d)    symmetric part of the gradient of a loss with respect to W
    dS      (g, d, d)    gradient of that loss with respect to S, symmetric
    ======  ===========  ==========================================================

# Note [Pullbacks without transposes]
W is symmetric and so is every step of it, so S only ever sees the symmetric part E of the gradient, and
the derivative of a matrix polynomial is its own adjoint: dS is the derivative of p(S) in the direction E.
Running that derivative forwards takes 5 products for each Newton step, where the published backward takes 8
and plain autograd 6.
"""

from __future__ import annotations

import torch
from torch import Tensor

from aon.kernels.gram import finite_or_identity

Saved = tuple[Tensor, ...]


def newton_root(S: Tensor, n_iterations: int) -> tuple[Tensor, Saved]:
    """Approximate S^(-1/2) by Newton's iteration on the trace-normalised matrix (IterNorm, algorithm 1).

    With S_N = S / tr(S): P_0 = I, P_{k+1} = (3 P_k - P_k^3 S_N) / 2, W = P_T / sqrt(tr(S)).

    Args:
        S: Symmetric positive definite matrices, shape (g, d, d).
        n_iterations: Number T of steps, at least 1.

    Returns:
        W, and what `newton_pullback` needs.

    Example:
        >>> W, _ = newton_root(torch.eye(2).expand(1, 2, 2) * 4, n_iterations=20)
        >>> W[0].diagonal()
        tensor([0.5000, 0.5000])
    """
    trace = S.diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None]
    N = S / trace
    P = 1.5 * _identity(S) - 0.5 * N  # the first step from P_0 = I needs no product
    steps: list[Tensor] = []
    for _ in range(n_iterations - 1):
        Q = P @ N
        R = P @ Q
        steps += [P, Q, R]
        P = torch.baddbmm(P, P, R, beta=1.5, alpha=-0.5)
    W = P * trace.rsqrt()
    return W, (trace, N, W, *steps)


def newton_pullback(saved: Saved, E: Tensor) -> Tensor:
    """Gradient with respect to S of <E, newton_root(S)>; see Note [Pullbacks without transposes]."""
    trace, N, W, *steps = saved
    dP = -0.5 * E
    for P, Q, R in zip(steps[0::3], steps[1::3], steps[2::3], strict=True):
        half = dP @ Q.mT  # dP N P; with its transpose and P E P it makes the derivative of R = P N P
        dR = torch.baddbmm(half + half.mT, P, E @ P)
        dP = torch.baddbmm(1.5 * dP, dP, R, alpha=-0.5)
        dP = torch.baddbmm(dP, P, dR, alpha=-0.5)
    dS = dP * trace.pow(-1.5)
    # The trace appears twice, in N = S / trace and in W = P / sqrt(trace); it moves the diagonal only.
    through_trace = -0.5 / trace * _inner(E, W) - _inner(dS, N)
    return dS + through_trace * _identity(dS)


def eigen_root(S: Tensor, floor: float) -> tuple[Tensor, Saved]:
    """The exact S^(-1/2) by eigendecomposition (ZCA whitening); NaN for a matrix that is not finite.

    Args:
        S: Symmetric matrices, shape (g, d, d).
        floor: Least value that an eigenvalue can have, above zero; smaller ones are rounding errors.

    Returns:
        W, and what `eigen_pullback` needs.
    """
    S, finite = finite_or_identity(S)
    values, U = torch.linalg.eigh(S)
    roots = values.clamp(min=floor).sqrt()
    W = (U / roots.unsqueeze(-2)) @ U.mT
    return torch.where(finite, W, torch.nan), (roots, U)


def eigen_pullback(saved: Saved, E: Tensor) -> Tensor:
    """Gradient with respect to S of <E, eigen_root(S)>.

    In the eigenbasis the derivative multiplies by divided differences of x^(-1/2) (Daleckii and Krein), which
    are -1 / (a b (a + b)) for eigenvalues a^2, b^2: finite for equal ones, where autograd's own eigh divides
    by their difference.
    """
    roots, U = saved
    a, b = roots.unsqueeze(-1), roots.unsqueeze(-2)
    return U @ ((U.mT @ E @ U) / (-a * b * (a + b))) @ U.mT


def _identity(like: Tensor) -> Tensor:
    return torch.eye(like.shape[-1], dtype=like.dtype, device=like.device).expand_as(like)


def _inner(A: Tensor, B: Tensor) -> Tensor:
    return (A * B).sum((-2, -1), keepdim=True)

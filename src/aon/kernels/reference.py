"""AON by plain autograd, as the paper writes it: slow, and the reference for the fast version.

Everything stands on the m x m side, every power is a product of its own, and only the power iteration is kept
out of the gradient (the paper's Algorithm 1; the gradient of sigma as Miyato et al. take it: u, v constant).
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize

from aon.kernels.minimax import GUARD_STEPS
from aon.kernels.settings import Settings


def normalise_reference(
    W: Tensor,
    u: Tensor,
    order: int = 2,
    *,
    scale: str | None = "spectral",
    centre: str = "one",
    prescale: bool = False,
    n_power_iterations: int = 1,
    expansion: str = "taylor",
    lower: float = 0.2,
) -> tuple[Tensor, Tensor]:
    """h(W) and the moved u, for one matrix W (m, n) and a unit vector u (m).

    Example:
        >>> W, u = torch.eye(2, 3), torch.tensor([1.0, 0.0])
        >>> normalise_reference(W, u)[0]
        tensor([[1., 0., 0.],
                [0., 1., 0.]])
    """
    coefficients, radius, maximum = Settings(order, scale, centre, expansion=expansion, lower=lower).polynomial
    if centre == "mean":
        W = W / (W.square().sum() / min(W.shape)).sqrt()
    elif prescale or centre == "top" or expansion == "minimax":
        sigma, moved = _sigma(W, u, n_power_iterations)
        W = W / (radius**0.5 * sigma)
        u, n_power_iterations = (u, n_power_iterations) if maximum is None else (moved, GUARD_STEPS)
    B = _polynomial(W @ W.T, coefficients) @ W
    sigma, moved = _sigma(B, u, n_power_iterations)
    if maximum is not None and sigma <= maximum:  # as it should be: nothing is left to divide by
        sigma, moved = torch.ones_like(sigma), u
    if scale == "frobenius":
        sigma = B.square().sum().sqrt()
    return (B if scale is None else B / sigma), moved


def _polynomial(G: Tensor, coefficients: tuple[float, ...]) -> Tensor:
    """sum_k c_k (I - G)^k."""
    identity = torch.eye(len(G), dtype=G.dtype, device=G.device)
    total, power = torch.zeros_like(G), identity
    for coefficient in coefficients:
        total = total + coefficient * power
        power = power @ (identity - G)
    return total


def _sigma(B: Tensor, u: Tensor, n_power_iterations: int) -> tuple[Tensor, Tensor]:
    """Spectral norm of B by power iteration from u, and where u ends."""
    with torch.no_grad():
        for _ in range(n_power_iterations):
            v = normalize(B.T @ u, dim=0)
            u = normalize(B @ v, dim=0)
    return u @ (B @ v), u

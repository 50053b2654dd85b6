"""Compare the eigenvalues of a weight with the radius of its Taylor expansion, and warn.

An expansion of G^(-1/2) about r holds for eigenvalues in (0, 2 r) (the paper's equation 11, for r = 1). Beyond, P_q
grows again: order 2 stretches an eigenvalue of more than 7/3 r further from the centre than it was.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from aon.kernels.gram import finite_or_identity, in_full_precision, plain_gram, working_dtype
from aon.kernels.power import apply, length, unit
from aon.kernels.settings import Settings

STRETCHED = 7 / 3  # P_2(x) = 1 = P_2(1); a larger eigenvalue is worth a warning
_STEPS = 20
_NAMED = 3  # layers that a warning names
_SIDE = 1024  # of the largest Gram matrix whose eigenvalues a warning counts
HELP = 'expansion="minimax" holds for every weight'


def centre_of(eigenvalues: Tensor, settings: Settings) -> Tensor:
    """The r (..., 1) that an expansion is about, for the eigenvalues (..., k) of the smaller Gram matrix."""
    if settings.relative_to == "one":
        return torch.ones_like(eigenvalues[..., :1])
    mean = settings.relative_to == "mean"
    about = eigenvalues.mean(-1, keepdim=True) if mean else eigenvalues.amax(-1, keepdim=True)
    return settings.polynomial.radius * about


def share_outside(s: Tensor, settings: Settings) -> float:
    """Share of the k squares of singular values (..., k) that are not in (0, 2 r); NaN where one is NaN.

    Example:
        >>> share_outside(torch.tensor([1.5, 1.0, 0.5, 0.0]), Settings())
        0.5
        >>> share_outside(torch.tensor([1.5, 1.0, 0.5, 0.0]), Settings(centre="top"))
        0.25
    """
    if s.isnan().any():
        return math.nan
    eigenvalues = s.square()
    # An eigenvalue of zero is known up to the rounding of the largest.
    zero = eigenvalues.amax(-1, keepdim=True) * s.shape[-1] * torch.finfo(s.dtype).eps
    inside = (eigenvalues > zero) & (eigenvalues < 2 * centre_of(eigenvalues, settings))
    return 1 - float(inside.sum()) / s.numel()


def largest_over_centre(W: Tensor, settings: Settings) -> float:
    """Largest eigenvalue of W W^T over r, of the worst group, by a few power steps: 2 or more is outside.

    NaN for weights that cannot be read now, such as torch's fake tensors.

    Example:
        >>> round(largest_over_centre(torch.diag(torch.tensor([3.0, 1.0, 1.0, 1.0])), Settings()), 3)
        9.0
    """
    if type(W) not in (Tensor, nn.Parameter) or W.is_meta:
        return math.nan
    with torch.no_grad(), in_full_precision(W):
        A = W.detach().to(working_dtype(W))
        stream = torch.Generator("cpu").manual_seed(0)
        x = unit(torch.randn((*A.shape[:-2], A.shape[-1]), generator=stream, device="cpu").to(A.device, A.dtype))
        for _ in range(_STEPS):
            x = unit(apply(A.mT, apply(A, x)))
        largest = length(apply(A, x)).square()
        mean = A.square().sum((-2, -1)).unsqueeze(-1) / min(A.shape[-2:])
        centre = {"one": torch.ones_like(mean), "mean": mean, "top": settings.polynomial.radius * largest}
        return float((largest / centre[settings.relative_to]).max())


def warning(weights: Mapping[str, Tensor], settings: Settings) -> str:
    """What to say of the layers whose weights lie well outside of the radius; nothing where none does.

    Args:
        weights: Matrices by the names of their layers.
        settings: Of the map that they get.
    """
    if settings.order == 0 or settings.relative_to == "top":
        return ""
    reaches = {name: largest_over_centre(W, settings) for name, W in weights.items()}
    outside = [name for name, reach in reaches.items() if reach > STRETCHED]
    if not outside:
        return ""
    named = [f"{name or 'the model'} ({_detail(weights[name], reaches[name], settings)})" for name in outside[:_NAMED]]
    more = f" and {len(outside) - _NAMED} more" if len(outside) > _NAMED else ""
    return (
        f"{len(outside)} of {len(weights)} layers start outside the radius of the Taylor expansion, where h(W) can be "
        f"further from orthonormal than W: {', '.join(named)}{more}; {HELP}"
    )


def _detail(W: Tensor, reach: float, settings: Settings) -> str:
    largest = f"the largest at {reach / 2:.1f} times the radius"
    if min(W.shape[-2:]) > _SIDE:
        return largest
    G, _ = finite_or_identity(plain_gram(W.detach().double()))
    eigenvalues = torch.linalg.eigvalsh(G).clamp_min(0)
    return f"{share_outside(eigenvalues.sqrt(), settings):.0%} of its eigenvalues, {largest}"

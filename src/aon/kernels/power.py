"""Power iteration for the spectral norm of B = Phi W, carried out on the smaller Gram side.

One step goes from u to v = B^T u and back to u = B v, each made a unit vector, as Miyato et al. (2018) and the paper
do; sigma = u^T B v. In terms of the k x k matrices G and Phi no product with W is needed where W is wide, and one
before and one after the iteration where it is tall (G = W^T W, B = W Phi). Vectors are (..., k), scalars (..., 1).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class State(NamedTuple):
    """State of the power iteration: u, the u before its last move, and a fingerprint of the weight at that move."""

    u: Tensor
    previous: Tensor
    seen: Tensor


class Ascent(NamedTuple):
    """The end of a power iteration, with the rank-one parts of the gradient of sigma (u and v constant).

    d sigma = <left right^T, dPhi> + <(Phi left) outer^T W, dW>, and where W is tall
    d sigma = <left right^T, dPhi> + <W outer outer^T / sigma, dW>.
    """

    u: Tensor  # moved vector, length m
    sigma: Tensor  # spectral norm; 1 where it is not above eps
    live: Tensor  # whether sigma is above eps
    left: Tensor  # u itself where W is not tall
    right: Tensor
    outer: Tensor


def ascend(W: Tensor, G: Tensor, Phi: Tensor | None, u: Tensor, n_power_iterations: int, eps: float) -> Ascent:
    """Power iteration on B = Phi W (tall: W Phi) from u; Phi = None stands for the identity."""
    if W.shape[-2] > W.shape[-1]:
        return _ascend_tall(W, G, Phi, u, n_power_iterations, eps)
    return _ascend_wide(G, Phi, u, n_power_iterations, eps)


def resume(fingerprint: Tensor, state: State) -> Tensor:
    """The vector to step from: u if the weight has changed since u moved, otherwise the one before it.

    # Note [u moves once for each update]
    A forward that sees the weight of the last one again (activation checkpointing, a second forward, gradient
    accumulation) must repeat its step, not take another: otherwise h(W), and so the gradient, would differ
    between two forwards of one update. The choice is made by a tensor, not by a branch or a version counter:
    it compiles without a break, and sees writes through `.data`.
    """
    u, previous, seen = state
    new = (fingerprint.to(seen.dtype) != seen).any(-1, keepdim=True)
    if torch.compiler.is_compiling():
        # A sum, because the partitioner of torch 2.13 would make a `where` anew in the backward, from the buffers as
        # they are then: moved. It does not do so with what comes out of a reduction.
        return torch.stack((torch.where(new, u, 0), torch.where(new, 0, previous))).sum(0)
    return torch.where(new, u, previous)


def apply(A: Tensor | None, x: Tensor) -> Tensor:
    """A x for one vector, or for one in each batch; A = None stands for the identity."""
    if A is None:
        return x
    return A @ x if A.dim() == 2 else (A @ x.unsqueeze(-1)).squeeze(-1)


def apply_symmetric(A: Tensor | None, x: Tensor) -> Tensor:
    """As `apply`, for a symmetric A. A row times a batch of matrices takes a fraction of the time on a CPU."""
    if A is None or A.dim() == 2:
        return apply(A, x)
    return torch.bmm(x.unsqueeze(-2), A).squeeze(-2)


def length(x: Tensor) -> Tensor:
    """Euclidean norm, its squares in float64: sigma grows like s^(2q+1), and its square leaves float32."""
    if x.dtype == torch.float64:  # nothing is wider: the largest entry is taken out instead
        largest = x.detach().abs().amax(-1, keepdim=True).clamp_min(torch.finfo(x.dtype).tiny)
        scaled: Tensor = largest * torch.linalg.vector_norm(x / largest, dim=-1, keepdim=True)
        return scaled
    norm: Tensor = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=wide(x))
    return norm.to(x.dtype)


def wide(x: Tensor) -> torch.dtype:
    """float64, in which squares of float32 are finite; x's own type where the device lacks it."""
    return x.dtype if x.device.type == "mps" else torch.float64  # that device has no float64


def above(x: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """x, or 1 where it is not above eps, and a mask of where it is. What is zero is then left unscaled, not 0/0.

    NaN is left NaN and infinity becomes it: a weight that is not finite must pass neither unscaled nor as zero.
    """
    return nan_for_infinity(x).masked_fill(x <= eps, 1), x > eps


def nan_for_infinity(x: Tensor) -> Tensor:
    """x, and NaN where it is infinite: what is divided by a norm that has overflowed would be zero."""
    return x.masked_fill(x == torch.inf, torch.nan)


def norm_and_u(norm: Tensor, b: Tensor, u: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """sigma, whether it is a norm to divide by, and the moved u = b / sigma.

    Where the norm is not above eps, sigma is 1 and u stays; where it is not finite, u stays too, but sigma is NaN: u
    must survive such a weight, and the weight must pass neither unscaled nor, divided by infinity, as zero.
    """
    live = norm == norm.clamp(eps, torch.finfo(norm.dtype).max)
    sigma = nan_for_infinity(norm).masked_fill(norm <= eps, 1)
    return sigma, live, torch.where(live, b / sigma, u)


def unit(x: Tensor) -> Tensor:
    """x / |x|, and zero for zero."""
    return x / length(x).clamp_min(torch.finfo(x.dtype).tiny)


def _within_range(x: Tensor) -> Tensor:
    """x over its largest entry, and zero for zero; its length does not matter, but must not lead out of float32."""
    largest: Tensor = torch.linalg.vector_norm(x, torch.inf, -1, keepdim=True)
    return x / largest.clamp_min(torch.finfo(x.dtype).tiny)


def dot(x: Tensor, y: Tensor) -> Tensor:
    """x . y as (..., 1)."""
    return torch.dot(x, y).unsqueeze(0) if x.dim() == 1 else (x * y).sum(-1, keepdim=True)


def _ascend_wide(G: Tensor, Phi: Tensor | None, u: Tensor, n_power_iterations: int, eps: float) -> Ascent:
    b = u
    for step in range(n_power_iterations):
        t = _within_range(apply_symmetric(Phi, _within_range(b) if step else b))  # v = W^T t / |W^T t|
        s = apply_symmetric(G, t)
        norm = nan_for_infinity(dot(t, s)).clamp_min(torch.finfo(t.dtype).tiny).sqrt()  # |W^T t|
        t, s = t / norm, s / norm  # now v = W^T t, s = W v
        b = apply_symmetric(Phi, s)  # B v
    sigma, live, u = norm_and_u(length(b), b, u, eps)
    return Ascent(u, sigma, live, left=u, right=s, outer=t)


def _ascend_tall(W: Tensor, G: Tensor, Phi: Tensor | None, u: Tensor, n_power_iterations: int, eps: float) -> Ascent:
    a = apply(W.mT, u)
    for _ in range(n_power_iterations):
        v = unit(apply_symmetric(Phi, a))
        z = apply_symmetric(Phi, v)  # B v = W z
        norm, Gz = _norm_through(G, z)
        sigma = norm.masked_fill(norm <= eps, 1)
        a = Gz / sigma  # W^T u of the moved u
    sigma, live, u = norm_and_u(norm, apply(W, z), u, eps)
    return Ascent(u, sigma, live, left=a, right=v, outer=z)


def _norm_through(G: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
    """|W z| from G = W^T W, and G z; the square of the norm must not leave the range of its type."""
    if wide(z) != z.dtype:
        Gz = apply_symmetric(G, z)
        return (z.to(wide(z)) * Gz).sum(-1, keepdim=True).clamp_min(0).sqrt().to(z.dtype), Gz
    size = length(z).clamp_min(torch.finfo(z.dtype).tiny)
    part = z / size
    Gz = apply_symmetric(G, part)
    return dot(part, Gz).clamp_min(0).sqrt() * size, Gz * size

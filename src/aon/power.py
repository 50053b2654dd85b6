"""Power iteration for the spectral norm of B = Phi W, carried out on the smaller Gram side.

One step goes from u to v = B^T u and back to u = B v, each made a unit vector, as Miyato et al. (2018) and the paper
do; sigma = u^T B v. In terms of the k x k matrices G and Phi no product with W is needed where W is wide, and one
before and one after the iteration where it is tall (G = W^T W, B = W Phi). Vectors are (..., k), scalars (..., 1).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


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


def resume(fingerprint: Tensor, seen: Tensor, u: Tensor, previous: Tensor) -> Tensor:
    """The vector to step from: u where the weight is new since u last moved, else the one before it.

    # Note [u moves once for each update]
    A forward that sees the weight of the last one again (activation checkpointing, a second forward, gradient
    accumulation) must repeat its step, not take another: otherwise h(W), and so the gradient, would differ
    between two forwards of one update. The choice is made by a tensor, not by a branch or a version counter:
    it compiles without a break, and sees writes through `.data`.
    """
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


def length(x: Tensor) -> Tensor:
    """Euclidean norm, its squares in float64: sigma grows like s^(2q+1), and its square leaves float32."""
    norm: Tensor = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=_wide(x))
    return norm.to(x.dtype)


def _wide(x: Tensor) -> torch.dtype:
    return x.dtype if x.device.type == "mps" else torch.float64  # that device has no float64


def above(x: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """x, or 1 where it is not above eps, and a mask of where it is. What is zero is then left unscaled, not 0/0.

    NaN is left NaN: a weight that is not finite must not pass unscaled.
    """
    return x.masked_fill(x <= eps, 1), x > eps


def moved(u: Tensor, new: Tensor, sigma: Tensor, live: Tensor) -> Tensor:
    """The new vector, or u itself where the weight is zero or not finite: u must survive such a weight."""
    return torch.where(live & (sigma < torch.inf), new, u)


def unit(x: Tensor) -> Tensor:
    """x / |x|, and zero for zero."""
    return x / length(x).clamp_min(torch.finfo(x.dtype).tiny)


def _root(square: Tensor, empty: float) -> Tensor:
    """The root of a number that is not negative but by rounding; that of `empty` where it is zero."""
    return square.masked_fill(square <= 0, empty).sqrt()


def _ascend_wide(G: Tensor, Phi: Tensor | None, u: Tensor, n_power_iterations: int, eps: float) -> Ascent:
    for _ in range(n_power_iterations):
        t = unit(apply(Phi, u))  # v = W^T t / |W^T t|
        s = apply(G, t)
        norm = _root((t * s).sum(-1, keepdim=True), empty=1)  # |W^T t|
        t, s = t / norm, s / norm  # now v = W^T t, s = W v
        b = apply(Phi, s)  # B v
        sigma, live = above(length(b), eps)
        u = moved(u, b / sigma, sigma, live)
    return Ascent(u, sigma, live, left=u, right=s, outer=t)


def _ascend_tall(W: Tensor, G: Tensor, Phi: Tensor | None, u: Tensor, n_power_iterations: int, eps: float) -> Ascent:
    a = apply(W.mT, u)
    for _ in range(n_power_iterations):
        v = unit(apply(Phi, a))
        z = apply(Phi, v)  # B v = W z
        square = (z.to(_wide(z)) * apply(G, z)).sum(-1, keepdim=True)
        sigma, live = above(_root(square, empty=0).to(z.dtype), eps)
        a = apply(G, z / sigma)  # W^T u of the moved u
    u = moved(u, apply(W, z / sigma), sigma, live)
    return Ascent(u, sigma, live, left=a, right=v, outer=z)

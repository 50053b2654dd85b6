"""h(W) of several weights at once, none of them tall.

On small weights the calls are the cost, and most of them work on k x k matrices. Here those are done once for all
weights, as batches; what is left for each weight is the products with W itself. The mathematics is that of `fused`.

Weights with fewer rows than the largest have their k x k matrices and vectors filled up with zeros. A Gram matrix of
zeros adds nothing to a spectral or Frobenius norm, and a vector that is zero there stays so. Only the mean of the
eigenvalues would change: about the mean all weights must have the same number of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from aon.kernels.fused import Kept, factor, inner, pull_back
from aon.kernels.power import State, resume
from aon.kernels.settings import Settings


class Moved(NamedTuple):
    """What becomes of the states of the power iterations, for each weight."""

    u: list[Tensor]
    start: list[Tensor]  # the vectors that were stepped from
    fingerprint: list[Tensor]


def forward(
    weights: Sequence[Tensor], gain: Tensor | None, states: Sequence[State], settings: Settings
) -> tuple[list[Tensor], Kept, Tensor, Moved]:
    """h(W) of each weight, its rows times the gain; what the backward needs, with all u; and the moved states.

    Args:
        weights: Matrices, none of them tall, in float32 or float64.
        gain: Of all weights, as (weights, rows, 1).
        states: One for each weight.
        settings: Options of the map.
    """
    sizes = [len(W) for W in weights]
    G = _products(weights, weights, sizes)
    fingerprint = G.sum(-1)
    start = _resumed(fingerprint, states, sizes)
    kept, u = factor(weights[0], G, start, settings)
    F = kept.F if gain is None else kept.F * gain
    mapped = [torch.mm(F_i, W) for F_i, W in zip(_matrices(F, sizes), weights, strict=True)]
    return mapped, kept, u, Moved(*(_rows(part, sizes) for part in (u, start, fingerprint)))


def backward(
    weights: Sequence[Tensor],
    gain: Tensor | None,
    gradients: Sequence[Tensor | None],
    u: Tensor,
    kept: Kept,
    settings: Settings,
) -> tuple[list[Tensor | None], list[Tensor | None]]:
    """The gradients of the weights and of the gains, if there are any, from those of h(W); None for None."""
    sizes = [len(W) for W in weights]
    Q, F, dgains = _products(gradients, weights, sizes), kept.F, []
    if gain is None:
        c = inner(Q, F)
    else:
        dgain = torch.linalg.vecdot(Q, F)
        c = (dgain * gain.squeeze(-1)).sum(-1, keepdim=True)
        dgains = [None if dH is None else d for dH, d in zip(gradients, _rows(dgain, sizes), strict=True)]
        Q, F = Q * gain, F * gain.mT  # F is symmetric: its transpose, times the gains in its columns
    C = pull_back(Q, c, u, kept, settings)
    dW = [
        None if dH is None else torch.mm(F_i, dH).addmm_(C_i, W)
        for F_i, dH, C_i, W in zip(_matrices(F, sizes), gradients, _matrices(C, sizes), weights, strict=True)
    ]
    return dW, dgains


def _resumed(fingerprint: Tensor, states: Sequence[State], sizes: Sequence[int]) -> Tensor:
    """As `resume`. In training all weights are new; on the CPU that can be seen, and saves the vectors before."""
    u, seen = (vectors([getattr(state, name) for state in states], sizes) for name in ("u", "seen"))
    if u.device.type == "cpu" and bool((fingerprint != seen).any(-1).all()):
        return u
    return resume(fingerprint, State(u, vectors([state.previous for state in states], sizes), seen))


def vectors(parts: Sequence[Tensor], sizes: Sequence[int]) -> Tensor:
    """Vectors as one batch, the shorter ones filled up with zeros."""
    return torch.stack(tuple(parts)) if _are_equal(sizes) else pad_sequence(list(parts), batch_first=True)


def _products(left: Sequence[Tensor | None], right: Sequence[Tensor], sizes: Sequence[int]) -> Tensor:
    """left right^T of each pair as one batch, the smaller ones filled up with zeros; zero for None."""
    batch = right[0].new_zeros(len(sizes), max(sizes), max(sizes))
    pairs = [(A, B, place) for A, B, place in zip(left, right, _matrices(batch, sizes), strict=True) if A is not None]
    if batch.device.type == "cpu":
        for A, B, place in pairs:
            torch.mm(A, B.mT, out=place)
    elif pairs:  # elsewhere one call that copies all of them
        torch._foreach_copy_([place for _, _, place in pairs], [torch.mm(A, B.mT) for A, B, _ in pairs])
    return batch


def _matrices(batch: Tensor, sizes: Sequence[int]) -> list[Tensor]:
    """The matrices of a batch, without what they were filled up with."""
    largest = batch.shape[-1]
    return [
        A if size == largest else A.narrow(0, 0, size).narrow(1, 0, size)
        for A, size in zip(batch.unbind(), sizes, strict=True)
    ]


def _rows(batch: Tensor, sizes: Sequence[int]) -> list[Tensor]:
    """The vectors of a batch, without what they were filled up with."""
    largest = batch.shape[-1]
    return [x if size == largest else x.narrow(0, 0, size) for x, size in zip(batch.unbind(), sizes, strict=True)]


def _are_equal(sizes: Sequence[int]) -> bool:
    return min(sizes) == max(sizes)

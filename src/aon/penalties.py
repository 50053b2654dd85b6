"""Penalties on a model's weight matrices, to add to the loss.

    loss = criterion(model(x), y) + aon.penalties.orthonormal(model)

Each looks at the raw weights of the Linear and convolution layers that `include` and `exclude` select (as in
`aon.normalise`), each weight once, never at biases or normalisation layers; a grouped convolution is a sum over its
groups. The result is a scalar with a gradient: weigh it by `beta`, log it by `.item()`. Everything is float32 at least,
whatever autocast says. Weight decay is the optimiser's own option.

Notation: W is m x n, one row for each output; k = min(m, n).

# Note [No state, no random numbers]
Two penalties need a leading vector. They compute it in every call, by a few power steps from a fixed vector: a second
call gives the same number, a seeded run stays as it was, ranks agree, there is nothing to save. A product
with a vector costs 1/k of a Gram matrix, so eight steps are cheap. The norm they find is never above the true one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn

from aon.kernels.checks import check_count
from aon.kernels.gram import in_full_precision, is_tall, working_dtype
from aon.kernels.power import apply, unit
from aon.model.matrices import require_real, weight_matrix
from aon.model.selection import Selection, select


def orthonormal(
    model: nn.Module, *, beta: float = 10.0, include: Selection = None, exclude: Selection = None
) -> Tensor:
    """Orthonormal regularisation, beta * sum |W W^T - I|_F^2 / m^2 (the paper's equation 2).

    The paper writes |.|_2^2, read here as the sum of the squared entries. Computed on the smaller side, since
    |W W^T - I|_F^2 = |W^T W - I|_F^2 + m - n.

    Args:
        model: A model or a single layer.
        beta: Weight of the penalty; the paper's value.
        include: Layers to take; None means all.
        exclude: Layers to leave out.

    Raises:
        ValueError: No layer is chosen, one has no real weight, or beta is negative.

    Reference: Brock et al., Neural Photo Editing with Introspective Adversarial Networks, 2017.

    Example:
        >>> layer = nn.Linear(4, 2)
        >>> _ = nn.init.orthogonal_(layer.weight)
        >>> orthonormal(layer).item() < 1e-10
        True
    """
    return _penalty(lambda W: _row_error(W) / W.shape[-2] ** 2, model, beta, include, exclude)


def double_sided(
    model: nn.Module, *, beta: float = 0.01, include: Selection = None, exclude: Selection = None
) -> Tensor:
    """Double soft orthogonality, beta * sum (|W W^T - I|_F^2 + |W^T W - I|_F^2).

    Both terms come from the smaller Gram matrix; |m - n| of the value is a constant that no W can avoid.
    Arguments and errors are those of `orthonormal`.

    Reference: Bansal et al., Can We Gain More from Orthogonality Regularizations in Training Deep CNNs?, 2018.

    Example:
        >>> double_sided(nn.Linear(2, 2), beta=0.0).item()
        0.0
    """
    return _penalty(_double_error, model, beta, include, exclude)


def mutual_coherence(
    model: nn.Module, *, beta: float = 0.01, include: Selection = None, exclude: Selection = None
) -> Tensor:
    """Mutual coherence, beta * sum max_ij |W W^T - I|_ij: the worst pair of rows, or the worst norm.

    It speaks of pairs of rows, so the m x m Gram matrix is formed even where W^T W is smaller.
    Arguments and errors are those of `orthonormal`.

    Reference: Bansal et al., 2018, the section on mutual coherence.

    Example:
        >>> layer = nn.Linear(2, 2)
        >>> _ = nn.init.constant_(layer.weight, 1.0)
        >>> mutual_coherence(layer, beta=1.0).item()
        2.0
    """
    return _penalty(lambda W: _gram_error(W).abs().amax((-2, -1)), model, beta, include, exclude)


def restricted_isometry(
    model: nn.Module,
    *,
    beta: float = 0.01,
    n_power_iterations: int = 8,
    include: Selection = None,
    exclude: Selection = None,
) -> Tensor:
    """Spectral restricted isometry (SRIP), beta * sum |W W^T - I|_2, on the smaller side.

    The spectral norm by `n_power_iterations` steps, the vector then held constant; no Gram matrix is formed.
    The other arguments and errors are those of `orthonormal`.

    Deviation: the spectral norm as their paper and their Keras code have it; their PyTorch code squares it, takes one
    power step from a random start, and differentiates through it.

    Reference: Bansal et al., 2018, the section on spectral restricted isometry; their code's first beta, which it
    lowers during training.

    Example:
        >>> layer = nn.Linear(3, 2)
        >>> _ = nn.init.zeros_(layer.weight)
        >>> round(restricted_isometry(layer, beta=1.0).item(), 6)
        1.0
    """
    check_count("n_power_iterations", n_power_iterations)
    return _penalty(lambda W: _isometry_error(W, n_power_iterations), model, beta, include, exclude)


def spectral_norm(
    model: nn.Module,
    *,
    beta: float = 0.01,
    n_power_iterations: int = 8,
    include: Selection = None,
    exclude: Selection = None,
) -> Tensor:
    """Spectral-norm regularisation, beta / 2 * sum sigma(W)^2 with sigma the largest singular value.

    sigma by `n_power_iterations` steps, the vector then held constant, as its authors do.
    The other arguments and errors are those of `orthonormal`.

    Reference: Yoshida and Miyato, Spectral Norm Regularization for Improving the Generalizability of Deep
    Learning, 2017.

    Example:
        >>> layer = nn.Linear(2, 2)
        >>> _ = layer.weight.data.copy_(torch.diag(torch.tensor([3.0, 0.5])))
        >>> round(spectral_norm(layer, beta=2.0).item(), 4)
        9.0
    """
    check_count("n_power_iterations", n_power_iterations)
    return _penalty(lambda W: _squared_norm(W, n_power_iterations) / 2, model, beta, include, exclude)


def _penalty(
    term: Callable[[Tensor], Tensor], model: nn.Module, beta: float, include: Selection, exclude: Selection
) -> Tensor:
    """beta times the sum of `term` over the chosen matrices; `term` gives one number for each of a batch."""
    if not beta >= 0:
        raise ValueError(f"beta={beta!r}: expected a number from 0 on")
    matrices = _matrices(model, include, exclude)
    total = torch.zeros((), dtype=working_dtype(matrices[0]), device=matrices[0].device)
    for W in matrices:
        with in_full_precision(W):
            total = total + term(W.to(working_dtype(W))).sum().to(total.device)
    return beta * total


def _matrices(model: nn.Module, include: Selection, exclude: Selection) -> list[Tensor]:
    """The selected weight matrices; a tied weight once."""
    found: dict[int, Tensor] = {}
    for name, layer in select(model, include, exclude):
        require_real(name, layer)
        found.setdefault(id(layer.weight), weight_matrix(layer))
    if not found:
        raise ValueError("nothing to penalise: no Linear or convolution of the model is chosen")
    return list(found.values())


def _row_error(W: Tensor) -> Tensor:
    """|W W^T - I|_F^2: the smaller side's, and the eigenvalues of W W^T that are zero whatever W is."""
    return _smaller_error(W) + max(W.shape[-2] - W.shape[-1], 0)


def _double_error(W: Tensor) -> Tensor:
    """|W W^T - I|_F^2 + |W^T W - I|_F^2."""
    return 2 * _smaller_error(W) + abs(W.shape[-2] - W.shape[-1])


def _smaller_error(W: Tensor) -> Tensor:
    return _gram_error(W.mT if is_tall(W) else W).square().sum((-2, -1))


def _gram_error(W: Tensor) -> Tensor:
    return cast(Tensor, _GramError.apply(W))


class _GramError(torch.autograd.Function):
    """W W^T - I, with one product backward where autograd takes two; its backward can be differentiated."""

    @staticmethod
    def forward(ctx: Any, W: Tensor) -> Tensor:
        ctx.save_for_backward(W)
        G = W @ W.mT
        G.diagonal(dim1=-2, dim2=-1).sub_(1)
        return G

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        W: Tensor = ctx.saved_tensors[0]
        return (grad + grad.mT) @ W


def _isometry_error(W: Tensor, steps: int) -> Tensor:
    """|W W^T - I|_2 of the smaller side: |(W W^T - I) v| for its leading v, positive and negative ends alike."""
    A = W.mT if is_tall(W) else W
    v = _ascend(lambda v: apply(A, apply(A.mT, v)) - v, _start(A), steps)
    error: Tensor = apply(A, apply(A.mT, v)) - v
    return torch.linalg.vector_norm(error, dim=-1)  # type: ignore[no-any-return]


def _squared_norm(W: Tensor, steps: int) -> Tensor:
    """sigma(W)^2 = |W^T v|^2 for the leading v of the smaller side."""
    A = W.mT if is_tall(W) else W
    v = _ascend(lambda v: apply(A, apply(A.mT, v)), _start(A), steps)
    return apply(A.mT, v).square().sum(-1)


@torch.no_grad()
def _ascend(operator: Callable[[Tensor], Tensor], v: Tensor, steps: int) -> Tensor:
    """Power iteration; v stays as it is where the operator maps it to zero."""
    for _ in range(steps):
        moved = unit(operator(v))
        v = torch.where(moved.any(-1, keepdim=True), moved, v)
    return v


def _start(A: Tensor) -> Tensor:
    """A fixed unit vector for the rows of A: a chirp, so that no structured weight is orthogonal to it."""
    i = torch.arange(A.shape[-2], dtype=torch.float64, device="cpu")  # on the CPU: the same on every device
    return unit(torch.cos(2**0.5 * i * i)).to(A).expand(A.shape[:-1])

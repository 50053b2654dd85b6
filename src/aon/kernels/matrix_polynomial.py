"""p(X) for a symmetric matrix X, and the adjoint of its derivative, in few products.

Powers are blocked (Paterson and Stockmeyer): order 2 takes 1 product, order 4 takes 2, order 8 takes 4. The adjoint
uses that everything that depends on X is symmetric: D Z + Z D is one product and a transposition, not two products.
Matrices are (k, k) or a batch (b, k, k).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt

import torch
from torch import Tensor

from aon.kernels.products import add_product, product

SMALL = 128  # rows below which a call costs more than the way that it walks through memory


def minus_outer(base: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """base - x y^T, for matrices and for batches of them."""
    if base.dim() == 2:
        return torch.addr(base, x, y, alpha=-1)
    return torch.addcmul(base, x.unsqueeze(-1), y.unsqueeze(-2), value=-1)


def plus_transpose(A: Tensor) -> Tensor:
    """A + A^T; a large A is transposed by a copy, which walks through memory in a better order than an addition."""
    if A.shape[-1] <= SMALL:
        return A + A.mT
    return A.mT.clone(memory_format=torch.contiguous_format).add_(A)


def symmetric_part(A: Tensor) -> Tensor:
    """(A + A^T) / 2."""
    return plus_transpose(A).mul_(0.5)


def evaluate(coefficients: Sequence[float], X: Tensor) -> Tensor:
    """p(X) = sum_k coefficients[k] X^k.

    Example:
        >>> evaluate((1.0, 0.5, 0.375), torch.tensor([[0.5]]))
        tensor([[1.3438]])
    """
    if len(coefficients) == 3:  # the usual order 2, in one call
        total = add_product(X, X, X, beta=coefficients[1], alpha=coefficients[2])
        total.diagonal(dim1=-2, dim2=-1).add_(coefficients[0])
        return total
    block = _block(coefficients)
    powers = _powers(X, block)
    inner = _inner(coefficients, powers)[0]
    if len(coefficients) <= block + 1:
        return inner
    return add_product(_combine(coefficients[:block], powers), powers[-1], inner)


def adjoint(coefficients: Sequence[float], X: Tensor, D: Tensor) -> Tensor:
    """The gradient of <D, p(X)> in X, for symmetric D and X.

    Args:
        coefficients: Of p, lowest power first.
        X: Where the derivative is taken.
        D: Symmetric; what stands before p(X).

    Returns:
        sum_k c_k sum_{j<k} X^j D X^(k-1-j), symmetric.
    """
    if len(coefficients) == 1:
        return torch.zeros_like(X)
    if len(coefficients) == 3:  # X^2 = X X: the two halves are each other's transposes
        return plus_transpose(add_product(D, D, X, beta=coefficients[1] / 2, alpha=coefficients[2]))
    block = _block(coefficients)
    # The highest power is needed only where a block is multiplied by it.
    powers = _powers(X, block if len(coefficients) > block + 1 else block - 1)
    inner = _inner(coefficients, powers) if len(coefficients) > block + 1 else []
    grads = [coefficient * D for coefficient in coefficients[1 : block + 1]]
    for start, later in zip(_starts(coefficients, block), [*inner, None], strict=True):
        if start > 0:
            stop = len(coefficients) if later is None else start + block
            for power, coefficient in enumerate(coefficients[start + 1 : stop]):
                grads[power] += coefficient * D
        if later is not None:
            through = symmetric_part(product(D, later))
            grads[-1] = through if start == 0 else grads[-1] + through
            D = symmetric_part(product(D, powers[-1]))
    for power in range(block - 1, 1, -1):  # X^(power+1) = X X^power
        grads[power - 1] += symmetric_part(product(grads[power], X))
        grads[0] += symmetric_part(product(grads[power], powers[power - 1]))
    if block == 1:
        return grads[0]
    return plus_transpose(add_product(grads[0], grads[1], X, beta=0.5))  # as for order 2


def _block(coefficients: Sequence[float]) -> int:
    """How many powers are made before Horner's scheme goes on in the highest of them."""
    order = len(coefficients) - 1
    return 1 if order < 2 else max(2, isqrt(order))


def _powers(X: Tensor, count: int) -> list[Tensor]:
    powers = [X]
    while len(powers) < count:
        powers.append(product(powers[-1], X))
    return powers


def _starts(coefficients: Sequence[float], block: int) -> range:
    """First coefficient of each block; the last block also takes the power that ends it."""
    return range(0, max(1, len(coefficients) - 1), block)


def _combine(coefficients: Sequence[float], powers: list[Tensor]) -> Tensor:
    """coefficients[0] I + coefficients[1] X + ..."""
    total = powers[0] * (coefficients[1] if len(coefficients) > 1 else 0)
    for coefficient, power in zip(coefficients[2:], powers[1:], strict=False):
        # Not add_(power, alpha=...): Inductor of torch 2.13 drops the alpha where power is a product.
        total += coefficient * power
    total.diagonal(dim1=-2, dim2=-1).add_(coefficients[0])
    return total


def _inner(coefficients: Sequence[float], powers: list[Tensor]) -> list[Tensor]:
    """Horner's scheme without its last product: what the highest power multiplies, for each block but the last."""
    block = _block(coefficients)
    starts = list(_starts(coefficients, block))
    inner = [_combine(coefficients[starts[-1] :], powers)]
    for start in reversed(starts[1:-1]):
        inner.insert(0, add_product(_combine(coefficients[start : start + block], powers), powers[-1], inner[0]))
    return inner

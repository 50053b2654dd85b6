"""Count floating-point operations; a product of a x b by b x c takes 2 a b c of them.

For one weight matrix m x n, with k = min(m, n), l = max(m, n), and p positions of the output over the whole batch:

    convolution       forward, gradient of input and of weight: 3 products 2 m n p (the first layer: 2 of them)
    map, formed       5 products 2 k k l (Gram, F W; dH W^T, F^T dH, C W), and the polynomial's k x k products
    map, applied      2 products 2 m m n (Gram, C W), 3 of 2 m m p (F after W: forward, to its input, to F), polynomial
    order 0           2 matrix-vector products forward, 3 passes backward: 10 m n

Of the Gram matrix of a large weight only what lies on and below the diagonal is computed, in panels
(`aon.kernels.gram`): 9/16 of it for k = 512.
The polynomial is evaluated in blocks (Paterson and Stockmeyer), see `aon.kernels.matrix_polynomial`: with blocks of s
powers and b blocks, s - 1 + b - 1 products forward. Passes over m x n and everything of size m are left out: they cost
memory traffic, which a count of operations does not show.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, isqrt, prod
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

# The counts follow what is done, so they take its constants from where it is done; the tests hold them to it.
from aon.kernels.gram import PANEL, in_panels
from aon.model.layers import APPLYING_OVER_FORMING
from aon.model.matrices import is_supported, layout
from aon.model.together import SMALL

PRODUCTS = 5


@dataclass(frozen=True)
class Sizes:
    """One layer as it meets a batch: its matrix m x n, group by group, and the positions p of its output."""

    groups: int
    rows: int
    columns: int
    positions: int
    is_first: bool = False


def polynomial_products(order: int) -> tuple[int, int]:
    """Products of k x k matrices for a polynomial of this order: forward, and backward including what it recomputes.

    Example:
        >>> polynomial_products(2), polynomial_products(4), polynomial_products(8)
        ((1, 1), (2, 4), (4, 10))
    """
    if order < 2:
        return 0, 0
    size = max(2, isqrt(order))
    blocks = ceil(order / size)
    forward = size - 1 + blocks - 1
    recomputed = forward - 1 if blocks > 1 else size - 2  # the powers, and Horner's scheme without its last product
    return forward, recomputed + 2 * (blocks - 1) + 2 * (size - 2) + 1


def of_gram(k: int, longer: int) -> int:
    """The Gram matrix of the smaller side k, in panels where it is large.

    Example:
        >>> of_gram(512, 4608) / (2 * 512 * 512 * 4608)
        0.5625
    """
    panels = range(0, k, PANEL) if in_panels(k, longer) else ()
    return 2 * longer * (sum((k - first) * min(PANEL, k - first) for first in panels) or k * k)


def of_polynomial(k: int, order: int) -> int:
    """The polynomial and its adjoint.

    Example:
        >>> of_polynomial(2, order=2)
        32
    """
    return sum(polynomial_products(order)) * 2 * k**3


def of_map(rows: int, columns: int, order: int = 2) -> int:
    """Forward and backward of the map where h(W) is formed.

    Example:
        >>> of_map(2, 3)  # 5 products of 2 2 2 3, Gram among them, and 2 of 2 2 2 2
        152
    """
    if order == 0:
        return 10 * rows * columns
    k, longer = sorted((rows, columns))
    return of_gram(k, longer) + (PRODUCTS - 1) * 2 * k * k * longer + of_polynomial(k, order)


def of_maps(weights: Sequence[Tensor], order: int = 2) -> int:
    """The same for several weights (m, n)."""
    return sum(of_map(W.shape[0], W.shape[1], order) for W in weights)


def of_applied_map(rows: int, columns: int, positions: int, order: int = 2) -> int:
    """Forward and backward of the map where F = P_q / sigma is applied after W, to p positions.

    Example:
        >>> of_applied_map(2, 3, 1)  # 2 products of 2 2 2 3, 3 of 2 2 2 1, 2 of 2 2 2 2
        104
    """
    others = 2 * rows * rows * (columns + 3 * positions)
    return of_gram(rows, columns) + others + of_polynomial(rows, order)


def of_layer(sizes: Sizes) -> int:
    """Forward and backward of a convolution or Linear without a map.

    Example:
        >>> of_layer(Sizes(groups=1, rows=2, columns=3, positions=10))
        360
    """
    products = 2 if sizes.is_first else 3
    return products * sizes.groups * 2 * sizes.rows * sizes.columns * sizes.positions


def is_formed(sizes: Sizes, order: int = 2) -> bool:
    """Whether a layer forms h(W) in a step of a model, or applies F where positions are few beside columns.

    Small layers, which are computed together, always form it.
    """
    tall, small = sizes.rows > sizes.columns, sizes.groups == 1 and sizes.rows * sizes.columns <= SMALL
    return order == 0 or tall or small or sizes.positions * APPLYING_OVER_FORMING >= sizes.columns


def of_map_in_step(sizes: Sizes, order: int = 2) -> int:
    """The map in the way that the layer chooses."""
    if is_formed(sizes, order):
        return sizes.groups * of_map(sizes.rows, sizes.columns, order)
    return sizes.groups * of_applied_map(sizes.rows, sizes.columns, sizes.positions, order)


def _added_product(_: Any, a: Sequence[int], b: Sequence[int], *__: Any, **___: Any) -> int:
    """A product that is added in place, or one for each matrix of a batch; torch's counter passes over both."""
    return 2 * prod(a) * b[-1]


_PASSED_OVER = {torch.ops.aten.addmm_: _added_product, torch.ops.aten.baddbmm_: _added_product}


def in_step(make: Callable[[], nn.Module], image: Sequence[int], batch: int) -> int:
    """Forward and backward of a whole model by torch's own counter: a line in the batch, found from two small ones.

    Products and convolutions count; eigendecompositions do not.

    Args:
        make: Makes the model.
        image: The shape of one input.
        batch: Images in the step.

    Example:
        >>> in_step(lambda: nn.Linear(2, 3), [2], 10)  # outputs and the gradient of the weight: 2 products of 2 2 3 10
        240
    """

    def counted(size: int) -> int:
        model, x = make().train(), torch.zeros(size, *image)
        with FlopCounterMode(display=False, custom_mapping=_PASSED_OVER) as counter:
            model(x).sum().backward()
        return int(counter.get_total_flops())

    few, more = counted(2), counted(4)
    return few + (more - few) * (batch - 2) // 2


def layer_sizes(model: nn.Module, x: Tensor) -> dict[str, Sizes]:
    """The sizes of every Linear and convolution of a model for a batch, found by one forward without gradients."""
    found: dict[str, Sizes] = {}

    def note(name: str, layer: Any, output: Tensor) -> None:
        form = layout(layer)
        positions = output.numel() // form.outputs
        found[name] = Sizes(form.groups, form.rows, form.columns, positions, is_first=not found)

    handles = [
        module.register_forward_hook(lambda layer, _, output, name=name: note(name, layer, cast(Tensor, output)))
        for name, module in model.named_modules()
        if is_supported(module)
    ]
    was_training = model.training
    try:
        with torch.no_grad():
            model.eval()(x)
    finally:
        model.train(was_training)
        for handle in handles:
            handle.remove()
    return found

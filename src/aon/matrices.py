"""How the weight of a layer is a matrix, and back.

A matrix has one row for each output: Linear weights are matrices already, a convolution of shape
(d_o, d_i, h, w) becomes d_o x (d_i h w) as the paper says, a transposed convolution of shape (d_i, d_o, h, w)
gets its outputs onto the rows first. Grouped convolutions are batches of matrices, one for each group.
"""

from __future__ import annotations

import math
from typing import NamedTuple, TypeGuard

from torch import Tensor, nn

Layer = nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d | nn.ConvTranspose1d | nn.ConvTranspose2d | nn.ConvTranspose3d
CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
SUPPORTED = (nn.Linear, *CONVOLUTIONS, *TRANSPOSED)


class Layout(NamedTuple):
    """The numbers that turn a weight tensor into matrices: groups x rows x columns."""

    groups: int
    rows: int
    columns: int
    transposed: bool

    @property
    def outputs(self) -> int:
        """Number of outputs of the layer: all rows of all groups."""
        return self.groups * self.rows


def is_supported(module: nn.Module) -> TypeGuard[Layer]:
    """Whether `module` is a Linear or a convolution, plain or transposed, of torch or a subclass."""
    return isinstance(module, SUPPORTED)


def layout(layer: Layer) -> Layout:
    """The layout of a layer's weight.

    Example:
        >>> layout(nn.Conv2d(6, 8, 3, groups=2))
        Layout(groups=2, rows=4, columns=27, transposed=False)
    """
    if isinstance(layer, nn.Linear):
        return Layout(1, layer.out_features, layer.in_features, False)
    groups = layer.groups
    columns = layer.in_channels // groups * math.prod(layer.kernel_size)
    return Layout(groups, layer.out_channels // groups, columns, isinstance(layer, TRANSPOSED))


def is_depthwise(layer: Layer) -> bool:
    """Whether each output of a convolution looks at one input channel only."""
    return not isinstance(layer, nn.Linear) and layer.groups > 1 and layer.in_channels == layer.groups


def to_matrix(weight: Tensor, form: Layout) -> Tensor:
    """Matrix (m, n), or (groups, m, n) for a grouped convolution, of a weight tensor."""
    if form.transposed:
        # (d_i, d_o/g, ...) -> (g, d_i/g, d_o/g, k) -> (g, d_o/g, d_i/g k)
        weight = weight.reshape(form.groups, weight.shape[0] // form.groups, form.rows, -1).transpose(1, 2)
    shape = (form.rows, form.columns) if form.groups == 1 else (form.groups, form.rows, form.columns)
    return weight.reshape(shape)


def from_matrix(matrix: Tensor, form: Layout, shape: tuple[int, ...]) -> Tensor:
    """Weight tensor of the given shape from its matrix: the inverse of `to_matrix`."""
    if form.transposed:
        inputs = shape[0] // form.groups
        matrix = matrix.reshape(form.groups, form.rows, inputs, -1).transpose(1, 2)
    return matrix.reshape(shape)


def weight_matrix(layer: Layer) -> Tensor:
    """The layer's raw weight as a matrix, differentiable; see the module's docstring for the shapes.

    Example:
        >>> weight_matrix(nn.ConvTranspose2d(6, 8, 3)).shape
        torch.Size([8, 54])
    """
    return to_matrix(layer.weight, layout(layer))

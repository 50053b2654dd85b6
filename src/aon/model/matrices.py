"""Weights of layers as matrices, and back.

A matrix has one row for each output: Linear weights are matrices already, a convolution of shape
(d_o, d_i, h, w) becomes d_o x (d_i h w) as the paper says, a transposed convolution of shape (d_i, d_o, h, w)
gets its outputs onto the rows first. Grouped convolutions are batches of matrices, one for each group.
"""

from __future__ import annotations

import math
from typing import NamedTuple, TypeGuard

import torch
from torch import Tensor, nn

Layer = nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d | nn.ConvTranspose1d | nn.ConvTranspose2d | nn.ConvTranspose3d
CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
SUPPORTED = (nn.Linear, *CONVOLUTIONS, *TRANSPOSED)
Mappable = Layer | nn.MultiheadAttention


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


def is_mappable(module: nn.Module) -> TypeGuard[Mappable]:
    """Whether `module` is a Linear, a convolution or a MultiheadAttention, of torch or a subclass."""
    return isinstance(module, (*SUPPORTED, nn.MultiheadAttention))


def is_supported(module: nn.Module) -> TypeGuard[Layer]:
    """Whether `module` is a Linear or a convolution, plain or transposed, of torch or a subclass."""
    return isinstance(module, SUPPORTED)


def layout(layer: Mappable) -> Layout:
    """The layout of a layer's weight; an attention's are its projections of q, k and v.

    Example:
        >>> layout(nn.Conv2d(6, 8, 3, groups=2))
        Layout(groups=2, rows=4, columns=27, transposed=False)
    """
    if isinstance(layer, nn.Linear):
        return Layout(1, layer.out_features, layer.in_features, False)
    if isinstance(layer, nn.MultiheadAttention):
        return Layout(3, layer.embed_dim, layer.embed_dim, False)
    groups = layer.groups
    columns = layer.in_channels // groups * math.prod(layer.kernel_size)
    return Layout(groups, layer.out_channels // groups, columns, isinstance(layer, TRANSPOSED))


def is_depthwise(layer: Mappable) -> bool:
    """Whether the layer is a convolution each of whose outputs looks at one input channel only."""
    if isinstance(layer, (nn.Linear, nn.MultiheadAttention)):  # a tuple: torch 2.8 cannot compile a union of types
        return False
    return layer.groups > 1 and layer.in_channels == layer.groups


def weight_name(layer: Mappable) -> str:
    """Name of the parameter that holds the layer's matrices."""
    return "in_proj_weight" if isinstance(layer, nn.MultiheadAttention) else "weight"


def to_matrix(weight: Tensor, form: Layout) -> Tensor:
    """Matrix (m, n), or (groups, m, n) for a grouped convolution, of a weight tensor.

    The columns are ordered as the weight lies in memory, so that a weight in channels_last is not copied. Only their
    order differs between memory formats, which singular values and functions of a row do not depend on.
    """
    last = _is_channels_last(weight)
    if last:
        weight = weight.movedim(1, -1)
    if form.transposed and last:
        # (d_i, k, d_o/g) -> (g, d_i/g k, d_o/g) -> (g, d_o/g, d_i/g k)
        weight = weight.reshape(form.groups, form.columns, form.rows).mT
    elif form.transposed:
        # (d_i, d_o/g, k) -> (g, d_i/g, d_o/g, k) -> (g, d_o/g, d_i/g k)
        weight = weight.reshape(form.groups, weight.shape[0] // form.groups, form.rows, -1).transpose(1, 2)
    return weight.reshape((form.rows, form.columns) if form.groups == 1 else (form.groups, form.rows, form.columns))


def from_matrix(matrix: Tensor, form: Layout, like: Tensor) -> Tensor:
    """Weight tensor from its matrix, in shape and memory format of the weight `like`: the inverse of `to_matrix`."""
    shape = like.shape
    if _is_channels_last(like):
        rows = matrix.mT if form.transposed else matrix
        return rows.reshape(shape[0], *shape[2:], shape[1]).movedim(-1, 1)
    if form.transposed:
        matrix = matrix.reshape(form.groups, form.rows, shape[0] // form.groups, -1).transpose(1, 2)
    return matrix.reshape(shape)


def _is_channels_last(weight: Tensor) -> bool:
    """Whether the weight is in channels_last and not, as a 1x1 kernel is, in both memory formats at once."""
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return (
        weight.dim() in formats
        and not weight.is_contiguous()
        and weight.is_contiguous(memory_format=formats[weight.dim()])
    )


LAZY = "lazy, without a weight yet; run one batch through the model first"


def require_real(name: str, layer: Layer) -> None:
    """Raise a ValueError unless the layer has a weight of real floating point."""
    if isinstance(layer.weight, nn.UninitializedParameter):
        raise ValueError(f"{name or 'layer'!r} is {LAZY}")
    if not layer.weight.is_floating_point():
        raise ValueError(f"{name or 'layer'!r} has a weight of {layer.weight.dtype}; expected real floating point")


def weight_matrix(layer: Mappable) -> Tensor:
    """The layer's raw weight as a matrix, differentiable; see the module's docstring for the shapes.

    Example:
        >>> weight_matrix(nn.ConvTranspose2d(6, 8, 3)).shape
        torch.Size([8, 54])
    """
    return to_matrix(getattr(layer, weight_name(layer)), layout(layer))

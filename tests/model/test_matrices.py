"""A layer's weight as a matrix: one row for each output, and back without loss."""

import pytest
import torch
from torch import nn

from aon.model.matrices import from_matrix, is_depthwise, is_supported, layout, to_matrix, weight_matrix

LAYERS = {
    "linear": (lambda: nn.Linear(5, 3), (3, 5)),
    "conv1d": (lambda: nn.Conv1d(4, 6, 3), (6, 12)),
    "conv2d": (lambda: nn.Conv2d(4, 6, (3, 2)), (6, 24)),
    "conv3d": (lambda: nn.Conv3d(4, 6, (1, 2, 3)), (6, 24)),
    "grouped": (lambda: nn.Conv2d(4, 6, 3, groups=2), (2, 3, 18)),
    "depthwise": (lambda: nn.Conv2d(4, 8, 3, groups=4), (4, 2, 9)),
    "transposed1d": (lambda: nn.ConvTranspose1d(4, 6, 3), (6, 12)),
    "transposed2d": (lambda: nn.ConvTranspose2d(4, 6, (3, 2)), (6, 24)),
    "transposed3d": (lambda: nn.ConvTranspose3d(4, 6, 2), (6, 32)),
    "transposed_grouped": (lambda: nn.ConvTranspose2d(4, 6, 3, groups=2), (2, 3, 18)),
}
each_layer = pytest.mark.parametrize(("make", "shape"), LAYERS.values(), ids=LAYERS)


@each_layer
def test_shape(make, shape):
    layer = make()
    assert weight_matrix(layer).shape == shape
    assert layout(layer).outputs == getattr(layer, "out_channels", getattr(layer, "out_features", None))


@each_layer
def test_there_and_back(make, shape):
    layer = make()
    form = layout(layer)
    assert torch.equal(from_matrix(to_matrix(layer.weight, form), form, layer.weight), layer.weight)


@each_layer
def test_each_row_makes_one_output(make, shape):
    """With row i set to zero, and no bias, exactly output i of the layer is zero."""
    layer = make()
    layer.bias = None
    form = layout(layer)
    if isinstance(layer, nn.Linear):
        x, axis = torch.randn(2, 5), -1
    else:
        x, axis = torch.randn(2, 4, *(5,) * len(layer.kernel_size)), 1
    for output in range(form.outputs):
        rows = weight_matrix(layer).detach().clone().reshape(form.outputs, form.columns)
        rows[output] = 0
        silenced = make()
        silenced.bias = None
        matrix = rows.reshape(weight_matrix(layer).shape)
        silenced.weight = nn.Parameter(from_matrix(matrix, form, layer.weight))
        out = silenced(x).movedim(axis, 0)
        assert (out[output] == 0).all()
        assert (out[torch.arange(form.outputs) != output] != 0).any()


@each_layer
def test_gradient_reaches_the_weight(make, shape):
    layer = make()
    weight_matrix(layer).square().sum().backward()
    assert torch.allclose(layer.weight.grad, 2 * layer.weight)


def test_supported():
    class Own(nn.Linear):
        pass

    assert is_supported(Own(2, 2))
    assert not is_supported(nn.Embedding(2, 2))
    assert not is_supported(nn.LayerNorm(2))
    assert not is_supported(nn.Bilinear(2, 2, 2))


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        (nn.Linear(1, 3), False),
        (nn.Conv2d(1, 3, 3), False),
        (nn.Conv2d(4, 4, 3, groups=4), True),
        (nn.Conv2d(4, 8, 3, groups=4), True),
        (nn.Conv2d(4, 8, 3, groups=2), False),
        (nn.ConvTranspose1d(4, 4, 3, groups=4), True),
    ],
)
def test_depthwise(layer, expected):
    assert is_depthwise(layer) is expected


LAST = {name: make for name, (make, _) in LAYERS.items() if name in {"conv2d", "conv3d", "grouped", "depthwise"}}
LAST_TRANSPOSED = {name: LAYERS[name][0] for name in ("transposed2d", "transposed3d", "transposed_grouped")}


def memory_format(layer: nn.Module) -> torch.memory_format:
    return torch.channels_last if layer.weight.dim() == 4 else torch.channels_last_3d


def in_channels_last(layer: nn.Module) -> nn.Module:
    return layer.to(memory_format=memory_format(layer))


@pytest.mark.parametrize("make", [*LAST.values(), *LAST_TRANSPOSED.values()], ids=[*LAST, *LAST_TRANSPOSED])
def test_channels_last_keeps_values_format_and_memory(make):
    layer = make()
    rows = weight_matrix(layer).detach().sort(-1).values
    in_channels_last(layer)
    form, W = layout(layer), weight_matrix(layer).detach()
    assert torch.equal(W.sort(-1).values, rows)
    back = from_matrix(W, form, layer.weight)
    assert torch.equal(back, layer.weight)
    assert back.is_contiguous(memory_format=memory_format(layer))
    assert W.data_ptr() == layer.weight.data_ptr(), "copied"


def test_a_kernel_of_one_pixel_is_taken_as_contiguous():
    layer = nn.Conv2d(4, 6, 1).to(memory_format=torch.channels_last)
    assert weight_matrix(layer).is_contiguous()
    assert torch.equal(weight_matrix(layer), layer.weight.flatten(1))

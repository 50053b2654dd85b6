"""Counts against counts by hand, and against torch's own counter on the real maps and layers."""

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import aon
from aon.kernels import products
from aon.lab.bench.cases.scale import acted_on
from aon.lab.bench.cases.step import Subject
from aon.lab.planning import flops
from aon.lab.planning.flops import Sizes
from aon.maps import AON

ORDERS = (1, 2, 3, 4, 8, 16)


def addmm_(_, a, b, out_shape=None, **__):
    return 2 * a[0] * a[1] * b[1]


def linear(a, second, third, *_, out_shape=None, **__):
    """A product of oneDNN, x W^T, or other + x W^T: what is given third is then W."""
    b = second if third is None else third
    return 2 * a[0] * a[1] * b[0]


# torch's counter passes over products that are added in place, and over those of oneDNN.
PASSED_OVER = {torch.ops.aten.addmm_: addmm_} | ({products._linear: linear} if products._linear else {})


def counted(run):
    with FlopCounterMode(display=False, custom_mapping=PASSED_OVER) as counter:
        run()
    return counter.get_total_flops()


def test_counts_by_hand():
    # 512 x 4608: five products of 2 512 512 4608, and for order 2 one of 2 512 512 512 forward, one backward
    # (of the Gram matrix 9/16: panels of 64 columns, the first 512 rows high, the last 64)
    assert flops.of_map(512, 4608, 2) == 4.5625 * 2_415_919_104 + 2 * 268_435_456
    assert flops.of_map(64, 27, 2) == 5 * 2 * 27 * 27 * 64 + 2 * 2 * 27**3  # tall: the smaller side is 27
    assert flops.of_map(64, 27, 0) == 10 * 64 * 27
    assert flops.of_applied_map(512, 4608, 128, 2) == 1.5625 * 2_415_919_104 + 3 * 2 * 512 * 512 * 128 + 2 * 268_435_456
    assert flops.of_maps([torch.ones(2, 3), torch.ones(4, 5)]) == flops.of_map(2, 3) + flops.of_map(4, 5)


@pytest.mark.parametrize(("order", "products"), [(0, (0, 0)), (1, (0, 0)), (2, (1, 1)), (4, (2, 4)), (8, (4, 10))])
def test_products_of_the_polynomial(order, products):
    assert flops.polynomial_products(order) == products


@pytest.mark.parametrize("shape", [(24, 96), (96, 24), (32, 32), (300, 310), (300, 700), (700, 300)], ids=str)
@pytest.mark.parametrize("order", ORDERS)
def test_the_map_spends_what_is_counted(order, shape):
    W = (torch.randn(shape) / max(shape) ** 0.5).requires_grad_()  # larger ones overflow, and are mapped in another way
    h = AON(order)
    h.attach(W.detach())
    spent = counted(lambda: h(W).backward(torch.ones(shape)))
    assert spent == flops.of_map(*shape, order)


def test_a_convolution_without_a_map():
    layer, x = nn.Conv2d(6, 8, 3, stride=2, padding=1, groups=2), torch.randn(5, 6, 8, 8, requires_grad=True)
    (sizes,) = flops.layer_sizes(layer, x).values()
    assert sizes == Sizes(groups=2, rows=4, columns=27, positions=5 * 4 * 4, is_first=True)
    assert flops.of_layer(sizes) == 2 * 2 * 2 * 4 * 27 * 80
    one = nn.Conv2d(6, 8, 3, padding=1)
    (sizes,) = flops.layer_sizes(one, x).values()
    spent = counted(lambda: one(x).sum().backward())
    assert spent == 3 * 2 * 8 * 54 * 5 * 64 == flops.of_layer(Sizes(1, 8, 54, 5 * 64))


def test_the_way_is_counted_that_the_layer_takes():
    few, many, small = Sizes(1, 128, 576, 10), Sizes(1, 128, 576, 288), Sizes(1, 8, 72, 10)
    assert flops.of_map_in_step(few) == flops.of_applied_map(128, 576, 10) < flops.of_map(128, 576)
    assert flops.of_map_in_step(many) == flops.of_map(128, 576)
    assert flops.of_map_in_step(few, 0) == flops.of_map(128, 576, 0)
    assert flops.of_map_in_step(Sizes(1, 576, 128, 4)) == flops.of_map(576, 128)
    assert flops.of_map_in_step(small) == flops.of_map(8, 72)
    assert flops.of_map_in_step(Sizes(3, 8, 72, 10)) == 3 * flops.of_applied_map(8, 72, 10)


@pytest.mark.parametrize("batch", [1, 2, 32])
def test_a_layer_in_training_spends_what_is_counted(batch):
    layer = aon.normalise(nn.Conv2d(64, 128, 3, padding=1, bias=False), gain=False).train()
    x = torch.randn(batch, 64, 3, 3, requires_grad=True)
    sizes = Sizes(1, 128, 576, 9 * batch)
    assert counted(lambda: layer(x).sum().backward()) == flops.of_layer(sizes) + flops.of_map_in_step(sizes)


def test_small_layers_that_are_computed_together_spend_what_is_counted():
    model = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.Conv2d(8, 8, 3, padding=1, bias=False))
    x = torch.randn(1, 8, 3, 3, requires_grad=True)
    each = Sizes(1, 8, 72, 9)
    aon.normalise(model, gain=False)
    # Besides, three products of a batch of k x k matrices with vectors forward, and one backward.
    vectors = 2 * 4 * 2 * 8 * 8
    spent = counted(lambda: model(x).sum().backward())
    assert spent == 2 * (flops.of_layer(each) + flops.of_map_in_step(each)) + vectors


def test_the_network_of_the_paper_has_398_million_multiply_adds_an_image():
    layers = acted_on(Subject("vgg16-iternorm", 1.0, 1))
    assert len(layers) == 16
    adds = sum(layer.rows * layer.columns * layer.positions for layer in layers)
    assert adds == pytest.approx(398e6, rel=0.002)
    ten = acted_on(Subject("vgg16-iternorm", 1.0, 10))
    assert [layer.positions for layer in ten] == [10 * layer.positions for layer in layers]


def test_finding_the_sizes_changes_nothing():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    before = {key: value.clone() for key, value in model.state_dict().items()}
    flops.layer_sizes(model, torch.randn(2, 3, 8, 8))
    assert model.training
    assert not model[0]._forward_hooks
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())

"""Random weights at the edges of arithmetic, and the laws that hold for each of them.

A layer with groups holds many weights of one shape and dtype, each of a rank and scale of its own: one of them must not
change what becomes of the others.
"""

import random
import warnings
from typing import NamedTuple

import torch
from torch import Tensor, nn

import aon
from aon import maps

MAPS = {
    "aon": lambda draw: maps.AON(order=draw.choice((0, 1, 2, 4)), centre=draw.choice(("one", "mean", "top"))),
    "minimax": lambda draw: maps.AON(order=draw.choice((1, 2, 4)), expansion="minimax"),
    "prescaled": lambda draw: maps.AON(order=2, prescale=True),
    "frobenius": lambda draw: maps.AON(order=2, scale="frobenius"),
    "weight norm": lambda draw: maps.WeightNorm(),
    "centred": lambda draw: maps.CentredWeightNorm(),
    "polar": lambda draw: maps.Polar(),
    "oni": lambda draw: maps.ONI(),
}
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
GROUPS = (1, 16, 32)
# Beyond this, squares and fourth powers of float32 leave its range: what comes out may be NaN, never silently wrong.
SAFE = (1e-4, 1e2)
# No entry exceeds the spectral norm of h(W), which one step of the power iteration knows up to a factor.
LARGEST = 30
# Below this norm h(W) is not a normalised weight but what a division by a norm that overflowed has left.
LEAST = 0.01


class Case(NamedTuple):
    """A layer, and the scales of its weights; the scale is 0 where the rank is."""

    name: str
    layer: nn.Linear | nn.Conv1d
    scales: Tensor

    def matrices(self, weight: Tensor) -> Tensor:
        """Something of the shape of the layer's weight, as (groups, m, n)."""
        return weight.detach().reshape(len(self.scales), -1, weight.shape[1])


def random_case(draw: random.Random) -> Case:
    """A layer with weights of some shape, dtype, ranks and scales, normalised by some map."""
    m, n, dtype = draw.randrange(1, 9), draw.randrange(1, 9), draw.choice(DTYPES)
    groups = (
        draw.choice(GROUPS) if n > 1 else 1
    )  # one input for each group is a depthwise convolution, which has no matrix
    ranks = torch.tensor([draw.randrange(0, min(m, n) + 1) for _ in range(groups)])
    scales = torch.tensor([10.0 ** draw.uniform(-30, 30) for _ in range(groups)], dtype=torch.float64) * (ranks > 0)
    generator = torch.Generator().manual_seed(draw.randrange(2**31))
    left, right = (torch.randn(groups, size, 8, generator=generator, dtype=torch.float64) for size in (m, n))
    weight = (left * (torch.arange(8) < ranks[:, None])[:, None]) @ right.mT * scales[:, None, None]
    if groups == 1:
        layer = nn.Linear(n, m, bias=False, dtype=dtype)
    else:
        layer = nn.Conv1d(groups * n, groups * m, 1, groups=groups, bias=False, dtype=dtype)
    with torch.no_grad():
        layer.weight.copy_(weight.reshape(layer.weight.shape))
    name = draw.choice(list(MAPS))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a weight starts outside the radius of the expansion is the point
        aon.normalise(layer, map=MAPS[name](draw), gain=draw.random() < 0.5)
    return Case(name, layer, scales)


def may_vanish(case: Case) -> Tensor:
    """Which h(W) may rightly be nearly zero.

    Rows of one number are zero once centred. A polynomial of odd order has a zero beyond its centre, which a weight of
    rank one meets exactly where the centre is the mean. Weights below the safe range may be too small to divide by.
    """
    layer, W = case.layer, case.matrices(case.layer.weight)
    centred = isinstance(layer.map, maps.CentredWeightNorm) and W.shape[-1] == 1
    odd = isinstance(layer.map, maps.AON) and layer.map.settings.order % 2 == 1
    return (case.scales < SAFE[0]) | (W == 0).all(-1).all(-1) | (centred or odd)


def faults(draw: random.Random) -> tuple[int, list[str]]:
    """Try the weights of one layer: how many there were, and what does not hold."""
    case = random_case(draw)
    layer, dtype = case.layer, case.layer.weight.dtype
    finite, vanishing = all_of(case.matrices(layer.weight).isfinite()), may_vanish(case)
    x = torch.randn(3, layer.in_features) if isinstance(layer, nn.Linear) else torch.randn(3, layer.in_channels, 1)
    x = x.to(dtype)
    layer.train()
    y = layer(x)
    y.float().sum().backward()
    gradient = case.matrices(layer.weight.grad)
    layer.eval()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the norm of some h(W) is above 1: LARGEST says how far
        mapped = case.matrices(aon.normalised_weight(layer))
        evaluated = layer(x)
        folded = aon.fold(layer)(x)  # in place, the last that is done to it
    safe = finite & ((case.scales == 0) | ((SAFE[0] <= case.scales) & (case.scales <= SAFE[1])))
    outputs = y.detach().reshape(3, len(case.scales), -1).transpose(0, 1)
    same = torch.isclose(evaluated, folded, rtol=0, atol=0, equal_nan=True)
    half = torch.tensor(dtype == torch.float16)  # cannot hold the gradient of a small weight, which is about 1 / |W|
    laws = {
        "evaluation and fold differ": all_of(same.reshape(3, len(case.scales), -1).transpose(0, 1)),
        "the map is infinite, not NaN": ~finite | ~any_of(mapped.isinf()),
        "the map is neither NaN nor normalised": ~finite | vanishing | ~(mapped.double().norm(dim=(1, 2)) < LEAST),
        "an entry of the map is too large": ~finite | ~any_of(mapped.abs() > LARGEST),
        "the gradient is infinite, not NaN": ~finite | half | ~any_of(gradient.isinf()),
        "the map is not finite": ~safe | all_of(mapped.isfinite()),
        "the output is not finite": ~safe | all_of(outputs.isfinite()),
        "the gradient is not finite": ~safe | half | all_of(gradient.isfinite()),
    }
    what = f"{case.name} {layer} {dtype}"
    found = [f"{what} scale {case.scales[i]:.1e}: {law}" for law, holds in laws.items() for i in torch.where(~holds)[0]]
    return len(case.scales), found


def all_of(x: Tensor) -> Tensor:
    """Whether all entries of each weight hold."""
    return x.flatten(1).all(1)


def any_of(x: Tensor) -> Tensor:
    """Whether any entry of each weight holds."""
    return x.flatten(1).any(1)

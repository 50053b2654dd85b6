"""Random weights at the edges of arithmetic, and the laws that hold for each of them."""

import random
import warnings

import torch
from torch import nn

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
# Beyond this, squares and fourth powers of float32 leave its range: what comes out may be NaN, never silently wrong.
SAFE = (1e-4, 1e2)
# No entry exceeds the spectral norm of h(W), which one step of the power iteration knows up to a factor.
LARGEST = 30
# Below this norm h(W) is not a normalised weight but what a division by a norm that overflowed has left.
LEAST = 0.01


def random_case(draw: random.Random) -> tuple[str, nn.Linear, float]:
    """A layer with a weight of some rank, size, dtype and scale, normalised by some map."""
    m, n = draw.randrange(1, 9), draw.randrange(1, 9)
    rank, dtype = draw.randrange(0, min(m, n) + 1), draw.choice(DTYPES)
    scale = 10.0 ** draw.uniform(-30, 30)
    generator = torch.Generator().manual_seed(draw.randrange(2**31))
    weight = torch.randn(m, max(rank, 1), generator=generator, dtype=torch.float64) @ torch.randn(
        max(rank, 1), n, generator=generator, dtype=torch.float64
    )
    layer = nn.Linear(n, m, bias=False, dtype=dtype)
    with torch.no_grad():
        layer.weight.copy_(weight * (scale if rank else 0.0))
    name = draw.choice(list(MAPS))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a weight starts outside the radius of the expansion is the point
        aon.normalise(layer, map=MAPS[name](draw), gain=draw.random() < 0.5)
    return name, layer, scale if rank else 0.0


def may_vanish(layer: nn.Linear, scale: float) -> bool:
    """Whether h(W) may rightly be nearly zero.

    Rows of one number are zero once centred. A polynomial of odd order has a zero beyond its centre, which a weight of
    one row or of rank one meets exactly where the centre is the mean. Weights below the safe range may be too small to
    divide by.
    """
    centred = isinstance(layer.map, maps.CentredWeightNorm) and layer.in_features == 1
    odd = isinstance(layer.map, maps.AON) and layer.map.settings.order % 2 == 1
    return scale < SAFE[0] or centred or odd or not layer.weight.any()


def faults(draw: random.Random) -> list[str]:
    """Try one weight; what does not hold."""
    name, layer, scale = random_case(draw)
    dtype, finite, vanishing = layer.weight.dtype, bool(layer.weight.isfinite().all()), may_vanish(layer, scale)
    what = f"{name} {layer.map} {tuple(layer.weight.shape)} {dtype} scale {scale:.1e}"
    x = torch.randn(3, layer.in_features).to(dtype)
    layer.train()
    y = layer(x)
    y.float().sum().backward()
    gradient = layer.weight.grad
    layer.eval()
    with torch.no_grad():
        mapped = aon.normalised_weight(layer)
        evaluated = layer(x)
        folded = aon.fold(layer)(x)  # in place, the last that is done to it
    laws = {"evaluation and fold differ": torch.allclose(evaluated, folded, rtol=0, atol=0, equal_nan=True)}
    if finite:
        size = mapped.double().norm()
        laws["the map is infinite, not NaN"] = not mapped.isinf().any()
        laws[f"the map has norm {size:.2g}, neither NaN nor that of a normalised weight"] = (
            vanishing or not size < LEAST
        )
        laws["an entry of the map is too large"] = not mapped.abs().max() > LARGEST
        # The gradient of a normalised weight is about 1 / |W|, which float16 cannot hold for a small one.
        laws["the gradient is infinite, not NaN"] = dtype == torch.float16 or not gradient.isinf().any()
    if finite and (SAFE[0] <= scale <= SAFE[1] or scale == 0.0):
        laws["the map is not finite"] = mapped.isfinite().all()
        laws["the output is not finite"] = y.isfinite().all()
        laws["the gradient is not finite"] = dtype == torch.float16 or gradient.isfinite().all()
    return [f"{what}: {law}" for law, holds in laws.items() if not holds]

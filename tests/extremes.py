"""Random weights at the edges of arithmetic, and the laws that hold for each of them."""

import random
import warnings

import torch
from torch import nn

import aon
from aon import maps

MAPS = {
    "aon": lambda draw: maps.AON(order=draw.choice((0, 1, 2, 4)), centre=draw.choice(("one", "mean"))),
    "minimax": lambda draw: maps.AON(order=2, expansion="minimax"),
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


def faults(draw: random.Random) -> list[str]:
    """Try one weight; what does not hold."""
    name, layer, scale = random_case(draw)
    what = f"{name} {tuple(layer.weight.shape)} {layer.weight.dtype} scale {scale:.1e}"
    x = torch.randn(3, layer.in_features).to(layer.weight.dtype)
    finite = bool(layer.weight.isfinite().all())
    layer.train()
    y = layer(x)
    y.float().sum().backward()
    gradient = layer.weight.grad
    layer.eval()
    with torch.no_grad():
        mapped = aon.normalised_weight(layer)
        evaluated = layer(x)
        folded = aon.fold(layer)(x)  # in place, the last that is done to it
    found = []
    inside = SAFE[0] <= scale <= SAFE[1] or scale == 0.0
    if finite and inside and mapped.dtype != torch.float16:
        found += [f"{what}: the map is not finite"] if not mapped.isfinite().all() else []
        found += [f"{what}: the output is not finite"] if not y.isfinite().all() else []
        found += [f"{what}: the gradient is not finite"] if not gradient.isfinite().all() else []
    if mapped.isinf().any() and finite:
        found.append(f"{what}: the map is infinite, not NaN")
    # No entry exceeds the spectral norm, which one step of the power iteration knows up to a factor.
    if name in ("aon", "prescaled") and mapped.isfinite().all() and mapped.double().abs().max() > 30:
        found.append(f"{what}: an entry of {mapped.abs().max():.2g} where the spectral norm is about 1")
    if not torch.allclose(evaluated.float(), folded.float(), rtol=3e-2, atol=3e-2, equal_nan=True):
        found.append(f"{what}: evaluation and fold differ")
    return found

"""Layers and maps that the contract tests combine."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

import aon
from aon.maps import ONI, CentredWeightNorm, Polar, WeightNorm


class Kind(NamedTuple):
    """A layer as a user makes it, and the shape of an input."""

    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    include: str | None = None


LAYERS = {
    "linear_wide": Kind(lambda: nn.Linear(7, 4), (3, 7)),
    "linear_tall": Kind(lambda: nn.Linear(4, 7, bias=False), (2, 3, 4)),
    "linear_square": Kind(lambda: nn.Linear(5, 5), (5,)),
    "conv1d": Kind(lambda: nn.Conv1d(3, 4, 3), (2, 3, 6)),
    "conv2d": Kind(lambda: nn.Conv2d(3, 4, 3, padding=1), (2, 3, 5, 5)),
    "conv2d_tall": Kind(lambda: nn.Conv2d(3, 8, 1), (2, 3, 4, 4)),
    "conv2d_strided": Kind(lambda: nn.Conv2d(3, 4, 3, stride=2, bias=False), (2, 3, 7, 6)),
    "conv2d_dilated": Kind(lambda: nn.Conv2d(3, 4, (3, 1), dilation=(2, 1), padding="same"), (2, 3, 6, 5)),
    "conv2d_reflect": Kind(lambda: nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect"), (2, 3, 5, 5)),
    "conv2d_unbatched": Kind(lambda: nn.Conv2d(3, 4, 3), (3, 5, 5)),
    "conv3d": Kind(lambda: nn.Conv3d(2, 4, 2, padding_mode="circular", padding=1), (2, 2, 3, 3, 3)),
    "grouped": Kind(lambda: nn.Conv2d(4, 6, 3, groups=2), (2, 4, 5, 5)),
    "depthwise": Kind(lambda: nn.Conv2d(4, 4, 3, groups=4), (2, 4, 5, 5), include=""),
    "transposed1d": Kind(lambda: nn.ConvTranspose1d(3, 4, 3, stride=2, output_padding=1), (2, 3, 5)),
    "transposed2d": Kind(lambda: nn.ConvTranspose2d(3, 4, 3, stride=2, padding=1, bias=False), (2, 3, 4, 4)),
    "transposed3d": Kind(lambda: nn.ConvTranspose3d(2, 3, 2), (1, 2, 3, 2, 3)),
    "transposed_grouped": Kind(lambda: nn.ConvTranspose2d(4, 6, 3, groups=2, dilation=2), (2, 4, 4, 4)),
}
MAPS: dict[str, dict[str, Any]] = {
    "aon0": {"order": 0},
    "aon1": {"order": 1},
    "aon2": {"order": 2},
    "aon4": {"order": 4},
    "aon2_mean": {"centre": "mean"},
    "aon2_frobenius": {"scale": "frobenius", "gain_init": "match"},
    "aon3_unscaled": {"order": 3, "scale": None, "gain": False},
    "aon2_prescale": {"prescale": True, "n_power_iterations": 3},
    "aon2_top": {"centre": "top"},
    "aon2_minimax": {"expansion": "minimax"},
    "wn": {"map": WeightNorm()},
    "cwn": {"map": CentredWeightNorm(), "gain": False},
    "polar": {"map": Polar()},
    "oni": {"map": ONI(iterations=4, centre=True), "gain_init": "match"},
}
FEW_MAPS = ("aon0", "aon2", "aon2_prescale", "cwn", "polar")
FEW_LAYERS = ("linear_wide", "linear_tall", "conv2d", "grouped", "transposed2d")
WITH_STATE = tuple(name for name in MAPS if name.startswith("aon"))

each_map = pytest.mark.parametrize("options", MAPS.values(), ids=MAPS)
each_layer = pytest.mark.parametrize("kind", LAYERS.values(), ids=LAYERS)
some_maps = pytest.mark.parametrize("options", [MAPS[name] for name in FEW_MAPS], ids=FEW_MAPS)
some_layers = pytest.mark.parametrize("kind", [LAYERS[name] for name in FEW_LAYERS], ids=FEW_LAYERS)
aon_maps = pytest.mark.parametrize("options", [MAPS[name] for name in WITH_STATE], ids=WITH_STATE)


def normalised(kind: Kind, options: dict[str, Any], dtype: torch.dtype = torch.float32) -> Any:
    """The layer as a user makes it, normalised; gains moved off their start, so that they show."""
    layer = aon.normalise(kind.make().to(dtype), include=kind.include, **options)
    with torch.no_grad():
        for gain in (p for name, p in layer.named_parameters() if name == "gain"):
            gain.mul_(torch.linspace(0.8, 1.2, len(gain)))
    return layer


def inputs(kind: Kind, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(kind.shape, dtype=dtype)


def sgd(
    model: nn.Module, x: Tensor, steps: int = 1, run: Callable[[nn.Module, Tensor], Tensor] | None = None
) -> list[Tensor]:
    """Steps of plain SGD on a fixed loss; the gradients of the last one."""
    for _ in range(steps):
        model.zero_grad()
        out = model(x) if run is None else run(model, x)
        out.square().mean().backward()
        with torch.no_grad():
            for p in model.parameters():
                p -= 0.3 * p.grad
    return [p.grad.clone() for p in model.parameters()]


def state(model: nn.Module) -> dict[str, Tensor]:
    return {key: value.clone() for key, value in model.state_dict().items()}


def same_state(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[key].nan_to_num(), b[key].nan_to_num()) for key in a)

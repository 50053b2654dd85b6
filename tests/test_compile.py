"""torch.compile(fullgraph=True): no graph break, the same numbers, in training and evaluation."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.versions import follows_maps
from torch import Tensor, nn

import aon
from aon.maps import ONI, CentredWeightNorm, Polar, WeightNorm

# torch's compiler instantiates autograd functions and calls its own deprecated names; neither is ours to mend.
pytestmark = [
    follows_maps,
    pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*_prims_common.check.*:FutureWarning"),
]

TOLERANCE = 1e-11  # the compiler adds in another order; measured 2e-14 after four steps


@pytest.fixture(autouse=True)
def fresh_compiler() -> None:
    torch.manual_seed(0)
    torch.compiler.reset()


def convolutions() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 6, 3, stride=2), nn.ReLU(), nn.ConvTranspose2d(6, 4, 2, groups=2), nn.Flatten())


def linears() -> nn.Module:
    """A wide and a tall one."""
    return nn.Sequential(nn.Linear(12, 5), nn.ReLU(), nn.Linear(5, 9))


def steps(model: Any, parameters: list[nn.Parameter], x: Tensor, count: int) -> list[Tensor]:
    optimiser = torch.optim.SGD(parameters, 0.1, momentum=0.9)
    losses = []
    for _ in range(count):
        optimiser.zero_grad()
        loss = (model(x) - 1).square().mean()
        loss.backward()
        optimiser.step()
        losses.append(loss.detach())
    return losses


# A small batch lets a wide layer apply its factor after W, a large one form h(W).
CASES = {
    "aon0": (linears, (2, 12), {"order": 0}),
    "aon2_small_batch": (linears, (2, 12), {"order": 2}),
    "aon2_large_batch": (linears, (30, 12), {"order": 2}),
    # Once the compiler computed a saved vector again from a buffer that had moved by then: Note in power.py.
    "aon2_minimax": (linears, (2, 12), {"expansion": "minimax"}),
    "aon1_prescale": (linears, (2, 12), {"order": 1, "prescale": True, "gain": False}),
}
TRACED = {
    "aon4_mean_frobenius": (linears, (30, 12), {"order": 4, "centre": "mean", "scale": "frobenius"}),
    "aon2_top": (linears, (2, 12), {"centre": "top"}),
    "aon4_minimax": (linears, (30, 12), {"order": 4, "expansion": "minimax", "lower": 0.1}),
    "aon2_minimax_frobenius": (linears, (30, 12), {"expansion": "minimax", "scale": "frobenius"}),
    "aon2_minimax_convolutions": (convolutions, (2, 3, 7, 7), {"expansion": "minimax"}),
    "aon2_convolutions": (convolutions, (2, 3, 7, 7), {"order": 2}),
    "aon0_convolutions": (convolutions, (2, 3, 7, 7), {"order": 0}),
    "wn": (linears, (2, 12), {"map": WeightNorm()}),
    "cwn": (linears, (2, 12), {"map": CentredWeightNorm()}),
    "polar": (linears, (2, 12), {"map": Polar()}),
    "oni": (convolutions, (2, 3, 7, 7), {"map": ONI()}),
}


@pytest.mark.parametrize(("make", "shape", "options"), CASES.values(), ids=CASES)
def test_training_and_evaluation_equal_eager(make, shape, options):
    compare(make, shape, options, "inductor")


@pytest.mark.parametrize(("make", "shape", "options"), TRACED.values(), ids=TRACED)
def test_every_map_is_traced_without_a_break(make, shape, options):
    """All of the compiler but its last stage, which takes most of the time."""
    compare(make, shape, options, "aot_eager")


def compare(make: Callable[[], nn.Module], shape: tuple[int, ...], options: dict[str, Any], backend: str) -> None:
    """In float64, where nothing but a mistake can make a difference."""
    eager = aon.normalise(make().double(), **options)
    other, x = copy.deepcopy(eager), torch.randn(shape, dtype=torch.float64)
    compiled = torch.compile(other, fullgraph=True, backend=backend)
    expected = steps(eager, list(eager.parameters()), x, 4)
    found = steps(compiled, list(other.parameters()), x, 4)
    torch.testing.assert_close(found, expected, atol=TOLERANCE, rtol=0)
    for mine, theirs in zip(other.state_dict().values(), eager.state_dict().values(), strict=True):
        torch.testing.assert_close(mine, theirs, atol=TOLERANCE, rtol=0)
    with torch.no_grad():
        torch.testing.assert_close(compiled.eval()(x), eager.eval()(x), atol=TOLERANCE, rtol=0)


def test_evaluation_sees_a_changed_weight():
    layer = aon.normalise(nn.Linear(6, 4)).eval()
    compiled, x = torch.compile(layer, fullgraph=True), torch.randn(3, 6)
    with torch.no_grad():
        first = compiled(x)
        torch.testing.assert_close(first, layer(x), atol=1e-6, rtol=0)
        layer.weight.data.mul_(torch.linspace(0.5, 2, 6))
        second = compiled(x)
        torch.testing.assert_close(second, layer(x), atol=1e-6, rtol=0)
    assert not torch.allclose(first, second)


def test_u_moves_once_for_each_update():
    layer = aon.normalise(nn.Linear(6, 4))
    other, x = copy.deepcopy(layer), torch.randn(3, 6)
    compiled = torch.compile(other, fullgraph=True)
    for _ in range(3):
        for _ in range(3):
            compiled(x)
        layer(x)
        torch.testing.assert_close(other.map.u, layer.map.u, atol=1e-6, rtol=0)
        with torch.no_grad():
            for model in (layer, other):
                model.weight.add_(torch.linspace(0, 0.1, 6))


def test_autocast():
    layer = aon.normalise(nn.Linear(32, 8))
    other, x = copy.deepcopy(layer), torch.randn(64, 32)
    compiled = torch.compile(other, fullgraph=True)
    with torch.autocast("cpu", torch.bfloat16):
        expected, found = layer(x), compiled(x)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.float(), expected.float(), atol=0.02, rtol=0.02)
    torch.testing.assert_close(other.map.u, layer.map.u, atol=1e-5, rtol=0)

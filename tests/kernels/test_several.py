"""The map of several weights at once, against that of each."""

import pytest
import torch

from aon.kernels import several
from aon.kernels.fused import Normalise
from aon.kernels.power import State, unit
from aon.kernels.settings import Settings

SIZES = {"equal": [(4, 9), (4, 4), (4, 17)], "filled up": [(2, 5), (6, 6), (4, 17), (1, 1)]}
OPTIONS = [
    {"order": 2},
    {"order": 1},
    {"order": 5},
    {"order": 2, "scale": "frobenius"},
    {"order": 4, "scale": None},
    {"order": 2, "centre": "top"},
    {"order": 2, "prescale": True, "n_power_iterations": 3},
    {"order": 4, "expansion": "minimax"},
    {"order": 2, "centre": "mean"},
]
# About the mean all weights must have the same number of rows.
CASES = {
    f"{name}-{'-'.join(map(str, option.values()))}": (option, shapes)
    for name, shapes in SIZES.items()
    for option in OPTIONS
    if name == "equal" or option.get("centre") != "mean"
}
each_case = pytest.mark.parametrize(("option", "shapes"), CASES.values(), ids=CASES)
CLOSE = {"atol": 1e-12, "rtol": 1e-12}


def made(shapes: list[tuple[int, int]]) -> tuple[list[torch.Tensor], list[torch.Tensor], list[State]]:
    """Weights, gains, and states that have not seen them."""
    torch.manual_seed(0)
    weights = [torch.randn(shape, dtype=torch.float64) / shape[1] ** 0.5 for shape in shapes]
    gains = [torch.rand(len(W), dtype=torch.float64) + 0.5 for W in weights]
    vectors = [unit(torch.randn_like(gain)) for gain in gains]
    return weights, gains, [State(u, u.clone(), torch.full_like(u, torch.nan)) for u in vectors]


@pytest.mark.parametrize("with_gains", [False, True], ids=["plain", "gains"])
@each_case
def test_each_weight_gets_what_it_gets_alone(option, shapes, with_gains):
    settings = Settings(**option)
    weights, gains, states = made(shapes)
    gain = several.vectors(gains, [len(gain) for gain in gains]).unsqueeze(-1) if with_gains else None
    mapped, kept, u, moved = several.forward(weights, gain, states, settings)
    gradients = [torch.randn_like(W) for W in weights]
    gradients[1] = None
    found = several.backward(weights, gain, gradients, u, kept, settings)
    for i, (W, state, dH) in enumerate(zip(weights, states, gradients, strict=True)):
        sources = [t.clone().requires_grad_() for t in ([W, gains[i]] if with_gains else [W])]
        alone, start, u_alone, fingerprint, *_ = Normalise.apply(
            sources[0], sources[1] if with_gains else None, state, settings, True
        )
        torch.testing.assert_close(mapped[i], alone, **CLOSE)
        for one, other in zip(moved, (u_alone, start, fingerprint), strict=True):
            torch.testing.assert_close(one[i], other, **CLOSE)
        for source, gradient in zip(sources, (found[0][i], found[1][i] if with_gains else None), strict=False):
            if dH is None:
                assert gradient is None
            else:
                torch.testing.assert_close(
                    gradient, torch.autograd.grad(alone, source, dH, retain_graph=True)[0], **CLOSE
                )


def test_a_weight_that_is_not_finite_leaves_the_others_alone():
    weights, _, states = made(SIZES["filled up"])
    expected, *_ = several.forward(weights, None, states, Settings())
    weights[1][0, 0] = torch.nan
    found, *_ = several.forward(weights, None, states, Settings())
    assert found[1].isnan().all()
    for i in (0, 2, 3):
        torch.testing.assert_close(found[i], expected[i], atol=0, rtol=0)


def test_vectors_are_filled_up_with_zeros():
    assert several.vectors([torch.ones(1), torch.ones(3)], [1, 3]).tolist() == [[1, 0, 0], [1, 1, 1]]

"""The leaf that stands for a mapped weight: gradients gather in it and go on together."""

import pytest
import torch

from aon.sharing import SharedWeight


def start(holds: bool) -> tuple[torch.Tensor, SharedWeight]:
    W = torch.ones(2, 3, requires_grad=True)
    shared = SharedWeight(lambda: holds, 4)
    shared.hold(W * 2, ("version",), applied=False)
    return W, shared


def test_held_gradients_wait_for_the_flush():
    W, shared = start(holds=True)
    for _ in range(3):
        shared.use(("version",)).sum().backward()
    assert W.grad is None
    shared.flush()
    assert torch.equal(W.grad, torch.full((2, 3), 6.0))
    shared.flush()  # nothing is left
    assert torch.equal(W.grad, torch.full((2, 3), 6.0))


def test_gradients_that_are_not_held_take_the_others_along():
    W, shared = start(holds=True)
    shared.use(("version",)).sum().backward()
    shared.holds = lambda: False
    shared.use(("version",)).sum().backward()
    assert torch.equal(W.grad, torch.full((2, 3), 4.0))
    assert shared.mapped is None
    shared.flush()
    assert torch.equal(W.grad, torch.full((2, 3), 4.0))


def test_a_held_gradient_that_comes_too_late_is_not_lost_in_silence():
    _, shared = start(holds=True)
    held = shared.use(("version",))
    shared.holds = lambda: False
    shared.use(("version",)).sum().backward()
    held.sum().backward()
    with pytest.raises(RuntimeError, match="came after the one that synchronises"):
        shared.hold(torch.ones(2, 3), ("version",), applied=False)
    with pytest.raises(RuntimeError, match="came after the one that synchronises"):
        shared.flush()


def test_a_weight_of_another_version_is_refused():
    _, shared = start(holds=True)
    with pytest.raises(RuntimeError, match=r"a weight changed inside aon\.accumulate"):
        shared.use(("another",))


def test_nothing_held():
    SharedWeight(lambda: True, 4).flush()

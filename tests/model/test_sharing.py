"""A shared mapped weight: gradients accumulate in a leaf and pass through the map once."""

import pytest
import torch
from torch import Tensor

from aon.model.sharing import Mapped, SharedWeight
from aon.model.stored import mark


class Case:
    """A weight W that is shared as 2 W."""

    def __init__(self, holds: bool) -> None:
        self.W = torch.ones(2, 3, requires_grad=True)
        self.shared = SharedWeight(lambda: holds, 4)

    def use(self) -> Tensor:
        return self.shared.use(lambda _: Mapped(self.W * 2, applied=False), mark(self.W, []), self.W).tensor

    def flush(self) -> None:
        self.shared.flush(mark(self.W, []))


def test_held_gradients_wait_for_the_flush():
    case = Case(holds=True)
    for _ in range(3):
        case.use().sum().backward()
    assert torch.equal(case.W.grad, torch.zeros(2, 3))
    case.flush()
    assert torch.equal(case.W.grad, torch.full((2, 3), 6.0))
    case.flush()  # nothing is left
    assert torch.equal(case.W.grad, torch.full((2, 3), 6.0))


def test_gradients_that_are_not_held_take_the_others_along():
    case = Case(holds=True)
    case.use().sum().backward()
    case.shared.holds = lambda: False
    case.use().sum().backward()
    assert torch.equal(case.W.grad, torch.full((2, 3), 4.0))
    assert case.shared.mapped is None
    case.flush()
    assert torch.equal(case.W.grad, torch.full((2, 3), 4.0))


def test_a_held_gradient_that_comes_too_late_is_not_lost_in_silence():
    case = Case(holds=True)
    held = case.use()
    case.shared.holds = lambda: False
    case.use().sum().backward()
    held.sum().backward()
    with pytest.raises(RuntimeError, match="came after the one that synchronises"):
        case.use()
    with pytest.raises(RuntimeError, match="came after the one that synchronises"):
        case.flush()


def test_a_weight_that_changed_is_refused():
    case = Case(holds=True)
    case.use()
    case.W.data.add_(1)
    with pytest.raises(RuntimeError, match=r"a weight or gain changed inside aon\.accumulate"):
        case.use()


def test_closing_takes_the_zeros_away_that_stood_for_a_gradient():
    case = Case(holds=True)
    held = case.use()
    case.use().sum().backward()
    case.shared.close()
    assert case.W.grad is None
    with pytest.raises(RuntimeError, match="came after it; call it inside"):
        held.sum().backward()


def test_nothing_held():
    SharedWeight(lambda: True, 4).flush(None)

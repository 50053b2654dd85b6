"""Second derivatives are refused, and signatures are stored."""

import inspect

import pytest
import torch

from aon.kernels.first_order import once_only, with_signature


def test_without_a_graph_the_gradient_is_itself():
    gradient = torch.ones(2)
    with torch.no_grad():
        assert once_only(gradient, torch.ones(2, requires_grad=True)) is gradient
    assert once_only(None) is None


def test_the_derivative_of_a_gradient_is_refused():
    source = torch.ones(2, requires_grad=True)
    gradient = once_only(torch.ones(2), source)
    assert torch.equal(gradient, torch.ones(2))
    with pytest.raises(RuntimeError, match="no second derivative"):
        gradient.sum().backward()


def test_signature():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(x: torch.Tensor, factor: int) -> torch.Tensor:
            return x * factor

    assert "__signature__" not in vars(Double.forward)
    assert list(inspect.signature(with_signature(Double).forward).parameters) == ["x", "factor"]
    assert "__signature__" in vars(Double.forward)

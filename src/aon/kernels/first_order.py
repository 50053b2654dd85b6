"""Helpers for autograd functions that refuse a second derivative."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor


def with_signature(function: type[torch.autograd.Function]) -> type[torch.autograd.Function]:
    """Store the signature of a function's forward: `apply` looks it up in every call, which is slow."""
    function.forward.__signature__ = inspect.signature(function.forward)  # type: ignore[attr-defined]
    return function


REFUSAL = (
    "the fast weight maps have no second derivative (sigma's gradient holds u and v constant); "
    "use aon.functional.approx_orthonormal, which can be differentiated any number of times"
)


def once_only(gradient: Tensor | None, *sources: Tensor | None, refusal: str = REFUSAL) -> Tensor | None:
    """The gradient itself; under create_graph, one that raises `refusal` when it is differentiated.

    Args:
        gradient: What a backward pass has computed.
        *sources: Tensors of the graph that the gradient depends on.
        refusal: Message of the RuntimeError.
    """
    if gradient is None or not torch.is_grad_enabled():
        return gradient
    return _OnceOnly.apply(gradient, refusal, *sources)  # type: ignore[no-any-return]


class _OnceOnly(torch.autograd.Function):
    """Identity in the first derivative; raises an error in the second, which would be wrong."""

    @staticmethod
    def forward(gradient: Tensor, _refusal: str, *_: Tensor | None) -> Tensor:
        return gradient.view_as(gradient)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], _output: Tensor) -> None:
        ctx.refusal = inputs[1]

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> tuple[Tensor | None, ...]:
        raise RuntimeError(ctx.refusal)

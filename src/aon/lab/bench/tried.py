"""`bench tried`: ideas that might make the map cheaper, each beside what it would replace."""

import copy
import os
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

import aon
from aon.gram import gram
from aon.lab.bench import record
from aon.lab.bench.rounds import Plan, measure
from aon.layers import NormalisedLinear
from aon.maps import AON

Tell = Callable[[str], None]
ROWS, COLUMNS, LAYERS = 512, 4608, 4  # the widest layers of the 16-conv VGG, and so many of them at a time
POSITIONS = (0.05, 0.2, 0.5, 1.0, 2.0)  # output positions over columns


def bench_tried(plan: Plan, *, tell: Tell = lambda _: None) -> record.BenchRecord:
    """Measure each idea over what it would replace.

    Args:
        plan: How often.
        tell: Told what is being done.
    """
    cases = [symmetric(plan, tell), batched(plan, tell), compiled(plan, tell), *precision(plan, tell)]
    cases += [applied(share, plan, tell) for share in POSITIONS]
    settings = {"rows": ROWS, "columns": COLUMNS, "layers": LAYERS}
    return record.make("tried", settings, cases, plan=plan, device=torch.device("cpu"))


def symmetric(plan: Plan, tell: Tell) -> record.Case:
    """Half of a symmetric product saved: kept."""
    W = _weights(1)[0]
    runs = {"whole product": lambda: W @ W.mT, "blocks, half copied": lambda: gram(W)}
    return record.case("Gram matrix by blocks", "whole product", measure(runs, plan, tell=tell))


def batched(plan: Plan, tell: Tell) -> record.Case:
    """One batched product for layers of equal shape: left out."""
    W = torch.stack(_weights(LAYERS))
    runs = {"one by one": _Map(list(W)), "one batch": _Map([W])}
    return record.case(f"{LAYERS} equal layers in one batch", "one by one", measure(runs, plan, tell=tell))


def compiled(plan: Plan, tell: Tell) -> record.Case:
    """torch.compile of the map: works, and is the user's to choose."""
    W = _weights(1)
    runs = {"eager": _Map(W), "compiled": _Map(W, compiled=True)}
    return record.case("map compiled", "eager", measure(runs, plan, may_fail=["compiled"], tell=tell))


def precision(plan: Plan, tell: Tell) -> list[record.Case]:
    """The Gram product in bfloat16, with its error; only where the processor can be trusted with it."""
    if "ONEDNN_MAX_CPU_ISA" not in os.environ:
        return []  # some machines announce AMX without giving it, and the process would die here
    W = _weights(1)[0]
    low, exact = W.bfloat16(), W.double() @ W.double().mT
    runs = {"float32": lambda: W @ W.mT, "bfloat16": lambda: low @ low.mT}
    errors = {name: {"relative error": _error(run().double(), exact)} for name, run in runs.items()}
    return [record.case("Gram product in bfloat16", "float32", measure(runs, plan, tell=tell), facts_of=errors)]


def applied(share: float, plan: Plan, tell: Tell) -> record.Case:
    """F applied after W against F W formed, at so many output positions for each column: what the layer chooses by."""
    layer = aon.normalise(nn.Linear(COLUMNS, ROWS, bias=False), gain=False)
    x = torch.randn(int(share * COLUMNS), COLUMNS, generator=torch.Generator().manual_seed(0))
    runs = {"plain": _Layer(nn.Linear(COLUMNS, ROWS, bias=False), x)}
    for name, kind in {"formed": _Formed, "applied": _Applied}.items():
        runs[name] = _Layer(copy.deepcopy(layer), x)
        runs[name].layer.__class__ = kind
    return record.case(f"F applied, positions / columns = {share:g}", "formed", measure(runs, plan, tell=tell))


def _weights(count: int) -> list[Tensor]:
    stream = torch.Generator().manual_seed(0)
    return [(torch.rand(ROWS, COLUMNS, generator=stream) * 2 - 1) / COLUMNS**0.5 for _ in range(count)]


def _error(value: Tensor, exact: Tensor) -> float:
    return float(torch.linalg.matrix_norm(value - exact) / torch.linalg.matrix_norm(exact))


class _Map:
    """Forward and backward of AON over some matrices, or batches of them."""

    def __init__(self, weights: list[Tensor], *, compiled: bool = False) -> None:
        self.weights = [W.clone().requires_grad_() for W in weights]
        self.maps = [AON() for _ in weights]
        for h, W in zip(self.maps, self.weights, strict=True):
            h.attach(W)
        self.calls: list[Any] = [torch.compile(h) if compiled else h for h in self.maps]
        self.gradients = [torch.ones_like(W) for W in self.weights]

    def __call__(self) -> None:
        """Map and backward, once."""
        for h, W, gradient in zip(self.calls, self.weights, self.gradients, strict=True):
            W.grad = None
            h(W).backward(gradient)


class _Layer:
    """Forward and backward of a layer."""

    def __init__(self, layer: nn.Module, x: Tensor) -> None:
        self.layer, self.x = layer, x.clone().requires_grad_()

    def __call__(self) -> None:
        """Forward and backward, once."""
        y = self.layer(self.x)
        y.backward(torch.ones_like(y))
        self.layer.zero_grad()
        self.x.grad = None


class _Formed(NormalisedLinear):
    """Always forms h(W)."""

    def _factor(self, positions: int) -> None:  # noqa: ARG002
        return None


class _Applied(NormalisedLinear):
    """Always applies F after W."""

    def _factor(self, positions: int) -> Tensor | None:  # noqa: ARG002
        return self.map.factor(self._matrix(), self.gain)

"""`bench tried`: possible optimisations, each measured beside what it would replace."""

import copy
import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

import aon
from aon.kernels.gram import gram
from aon.kernels.matrix_polynomial import evaluate
from aon.kernels.polynomials import expansion_coefficients
from aon.kernels.products import product
from aon.lab.bench import record
from aon.lab.bench.rounds import Plan, measure
from aon.maps import AON
from aon.model.layers import NormalisedLinear
from aon.model.sharing import Mapped

Notify = Callable[[str], None]
ROWS, COLUMNS, LAYERS = 512, 4608, 4  # the widest layers of the 16-conv VGG, and so many of them at a time
POSITIONS = (0.05, 0.2, 0.5, 1.0, 2.0)  # output positions over columns


def bench_tried(plan: Plan, *, notify: Notify = lambda _: None) -> record.BenchRecord:
    """Measure each idea over what it would replace.

    Args:
        plan: How often.
        notify: Called with a line for each thing that is being done.
    """
    cases = [library(plan, notify), symmetric(plan, notify), fewer_multiplications(plan, notify)]
    cases += [batched(plan, notify), compiled(plan, notify), *precision(plan, notify)]
    cases += [applied(share, plan, notify) for share in POSITIONS]
    settings = {"rows": ROWS, "columns": COLUMNS, "layers": LAYERS}
    return record.make("tried", settings, cases, plan=plan, device=torch.device("cpu"))


@torch.no_grad()
def library(plan: Plan, notify: Notify) -> record.Case:
    """Products by oneDNN instead of the BLAS: kept."""
    W, C = _weights(1)[0], _square()
    runs = {"torch.mm": lambda: torch.mm(C, W), "oneDNN": lambda: product(C, W)}
    return record.case("product C W by another library", "torch.mm", measure(runs, plan, notify=notify))


@torch.no_grad()
def symmetric(plan: Plan, notify: Notify) -> record.Case:
    """Half of a symmetric product saved: kept."""
    W = _weights(1)[0]
    runs = {"whole product": lambda: product(W, W.mT), "panels, half copied": lambda: gram(W)}
    return record.case("Gram matrix by panels", "whole product", measure(runs, plan, notify=notify))


@torch.no_grad()
def fewer_multiplications(plan: Plan, notify: Notify) -> record.Case:
    """Seven products of half the size instead of eight: left out."""
    W, C = _weights(1)[0], _square()
    runs: dict[str, Callable[[], Tensor]] = {"product": lambda: product(C, W), "Strassen": lambda: strassen(C, W)}
    errors = _errors({name: run() for name, run in runs.items()}, C.double() @ W.double())
    return record.case("C W by Strassen", "product", measure(runs, plan, notify=notify), facts_of=errors)


def strassen(A: Tensor, B: Tensor) -> Tensor:
    """A B for even sizes, by one level of Strassen's scheme in Winograd's form."""
    (A11, A12), (A21, A22) = (half.chunk(2, 1) for half in A.chunk(2))
    (B11, B12), (B21, B22) = (half.chunk(2, 1) for half in B.chunk(2))
    S1 = A21 + A22
    S2 = S1 - A11
    T1 = B12 - B11
    T2 = B22 - T1
    first = product(A11.contiguous(), B11.contiguous())
    second = first + product(S2, T2)
    third = second + product(A11 - A21, B22 - B12)
    fifth = product(S1, T1)
    out = A.new_empty(len(A), B.shape[1])
    (C11, C12), (C21, C22) = (half.chunk(2, 1) for half in out.chunk(2))
    torch.add(first, product(A12.contiguous(), B21.contiguous()), out=C11)
    torch.add(second + fifth, product(A12 - S2, B22.contiguous()), out=C12)
    torch.sub(third, product(A22.contiguous(), T2 - B21), out=C21)
    torch.add(third, fifth, out=C22)
    return out


def batched(plan: Plan, notify: Notify) -> record.Case:
    """One batched product for layers of equal shape: left out."""
    W = torch.stack(_weights(LAYERS))
    runs = {"one by one": _Map(list(W)), "one batch": _Map([W])}
    return record.case(f"{LAYERS} equal layers in one batch", "one by one", measure(runs, plan, notify=notify))


def compiled(plan: Plan, notify: Notify) -> record.Case:
    """torch.compile of the map: works, and is the user's to choose."""
    W = _weights(1)
    runs = {"eager": _Map(W), "compiled": _Map(W, compiled=True)}
    return record.case("map compiled", "eager", measure(runs, plan, may_fail=["compiled"], notify=notify))


@torch.no_grad()
def precision(plan: Plan, notify: Notify) -> list[record.Case]:
    """The map's products in bfloat16, with the error of h(W); only where the processor can be trusted with it."""
    if "ONEDNN_MAX_CPU_ISA" not in os.environ:
        return []  # some machines announce AMX but do not support it; the process would crash here
    W = _weights(1)[0]
    kinds = {"float32": torch.float32, "bfloat16": torch.bfloat16}
    runs = {name: partial(_products, W.to(dtype), _square().to(dtype)) for name, dtype in kinds.items()}
    errors = _errors({name: _mapped(W, dtype) for name, dtype in kinds.items()}, _mapped(W.double(), torch.float64))
    return [
        record.case("the map's products in bfloat16", "float32", measure(runs, plan, notify=notify), facts_of=errors)
    ]


def _products(W: Tensor, F: Tensor) -> None:
    """The five products of a forward and backward with W, and nothing else."""
    product(W, W.mT), product(F, W)
    product(W, W.mT), product(F, W), product(F, W)


def _mapped(W: Tensor, dtype: torch.dtype) -> Tensor:
    """h(W), its products with W in a precision."""
    low = W.to(dtype)
    X = torch.eye(len(W), dtype=W.dtype) - (low @ low.mT).to(W.dtype)
    H = (evaluate(expansion_coefficients(2), X).to(dtype) @ low).to(W.dtype)
    mapped: Tensor = H / torch.linalg.matrix_norm(H, 2)
    return mapped


def applied(share: float, plan: Plan, notify: Notify) -> record.Case:
    """F applied after W against F W formed, at so many output positions for each column: what the layer chooses by."""
    layer = aon.normalise(nn.Linear(COLUMNS, ROWS, bias=False), gain=False)
    x = torch.randn(int(share * COLUMNS), COLUMNS, generator=torch.Generator().manual_seed(0))
    runs = {"plain": _Layer(nn.Linear(COLUMNS, ROWS, bias=False), x)}
    for name, kind in {"formed": _Formed, "applied": _Applied}.items():
        runs[name] = _Layer(copy.deepcopy(layer), x)
        runs[name].layer.__class__ = kind
    return record.case(f"F applied, positions / columns = {share:g}", "formed", measure(runs, plan, notify=notify))


def _weights(count: int) -> list[Tensor]:
    stream = torch.Generator().manual_seed(0)
    return [(torch.rand(ROWS, COLUMNS, generator=stream) * 2 - 1) / COLUMNS**0.5 for _ in range(count)]


def _square() -> Tensor:
    return torch.randn(ROWS, ROWS, generator=torch.Generator().manual_seed(0)).div_(ROWS**0.5)


def _errors(values: Mapping[str, Tensor], exact: Tensor) -> dict[str, dict[str, float]]:
    """Each value's distance from the exact one, relative to that."""
    size = torch.linalg.matrix_norm(exact)
    return {name: {"error": float(torch.linalg.matrix_norm(v.double() - exact) / size)} for name, v in values.items()}


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

    def _new(self, input: Tensor | None, uses: int = 1) -> Mapped:  # noqa: ARG002
        return super()._new(None)


class _Applied(NormalisedLinear):
    """Always applies F after W."""

    def _new(self, input: Tensor | None, uses: int = 1) -> Mapped:  # noqa: ARG002
        F = self.map.factor(self._matrix(), self.gain)
        assert F is not None
        return Mapped(F, applied=True)

"""`bench parts`: what the time that AON adds to a training step consists of.

Each variant does a part of the next: the products that `planning.flops` counts, with nothing between them; the maps,
forward and backward; the whole step under AON, beside that of BN.
"""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor
from torch.nn import functional

from aon.kernels.gram import gram, is_tall
from aon.kernels.matrix_polynomial import adjoint, evaluate
from aon.kernels.products import add_product, product
from aon.kernels.settings import Settings
from aon.lab.bench import record
from aon.lab.bench.cases.scale import acted_on
from aon.lab.bench.cases.step import Subject, TrainingStep
from aon.lab.bench.rounds import Plan, Run, measure
from aon.lab.planning import flops
from aon.maps import AON

PRODUCTS, MAPS, BASE, OURS = "the products alone", "the maps alone", "bn", "bn+aon"


class Layer:
    """The work of one layer's map in a step: on random numbers of its size, in the way that the layer chooses."""

    def __init__(self, sizes: flops.Sizes) -> None:
        stream = torch.Generator().manual_seed(0)
        k = min(sizes.rows, sizes.columns)
        self.W = torch.randn(sizes.rows, sizes.columns, generator=stream) / sizes.columns**0.5
        self.dH, self.F, self.C = self.W.clone(), torch.eye(k), torch.eye(k)
        self.coefficients = Settings().in_powers_of_gram or ()
        self.map = AON()
        self.map.attach(self.W)
        self.leaf = self.W.clone().requires_grad_()
        self.output = (
            None if flops.is_formed(sizes) else torch.randn(1, sizes.rows, sizes.positions, 1).requires_grad_()
        )

    @torch.no_grad()
    def products(self) -> None:
        """The products that are counted."""
        W, F, C, dH, tall = self.W, self.F, self.C, self.dH, is_tall(self.W)
        G = gram(W)
        evaluate(self.coefficients, G)
        adjoint(self.coefficients, G, C)
        if self.output is not None:
            product(C, W)
            with torch.enable_grad():
                F = F.clone().requires_grad_()
                self._apply(F, F)
            return
        product(W, F) if tall else product(F, W)
        product(W.mT, dH) if tall else product(dH, W.mT)
        if tall:
            add_product(product(dH, F), W, C)
        else:
            add_product(product(F, dH), C, W)

    def step(self) -> None:
        """The map, forward and backward."""
        if self.output is None:
            torch.autograd.grad(self.map(self.leaf), self.leaf, self.dH)
        else:
            F = self.map.factor(self.leaf)
            assert F is not None
            self._apply(F, self.leaf)

    def _apply(self, F: Tensor, source: Tensor) -> None:
        """F after W at every position, and back to what it was applied to and to what F was made from."""
        assert self.output is not None
        y = functional.conv2d(self.output, F[:, :, None, None])
        torch.autograd.grad(y, [self.output, source], self.output.detach())


def bench_parts(subject: Subject, plan: Plan, *, notify: Callable[[str], None] = lambda _: None) -> record.BenchRecord:
    """Measure the parts of what AON adds to a step.

    Args:
        subject: Network, batch and device.
        plan: How often.
        notify: Called with a line for each thing that is being done.
    """
    sizes = acted_on(subject)
    layers = [Layer(each) for each in sizes]
    runs: dict[str, Run] = {
        BASE: TrainingStep(subject, BASE),
        OURS: TrainingStep(subject, OURS),
        PRODUCTS: lambda: _all(layer.products for layer in layers),
        MAPS: lambda: _all(layer.step for layer in layers),
    }
    measured = measure(runs, plan, notify=notify, wait=subject.wait)
    counted = sum(map(flops.of_map_in_step, sizes)) / sum(map(flops.of_layer, sizes))
    case = record.case(f"parts of a training step, {subject.title}", BASE, measured, facts={"counted": counted})
    return record.make("parts", subject.settings(), [case], plan=plan, device=subject.device)


def _all(runs: Iterable[Callable[[], None]]) -> None:
    for run in runs:
        run()

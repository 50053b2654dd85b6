"""`bench eval`: evaluation of the normalised and the folded model, relative to the plain one."""

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

import aon
from aon.lab.bench import record
from aon.lab.bench.cases.step import Subject
from aon.lab.bench.rounds import Plan, measure
from aon.lab.models import classifier_names
from aon.model.selection import select


class Evaluation:
    """A forward pass in evaluation mode without gradients."""

    def __init__(self, model: nn.Module, x: Tensor) -> None:
        self.model, self.x = model.eval(), x

    @torch.no_grad()
    def __call__(self) -> None:
        """Evaluate the batch once."""
        self.model(self.x)


def bench_eval(
    subject: Subject, method: str, plan: Plan, *, notify: Callable[[str], None] = lambda _: None
) -> record.BenchRecord:
    """Measure evaluation of a plain model, the same normalised, folded, and under torch's parametrised spectral_norm.

    Args:
        subject: Network, batch and device.
        method: The method with a weight map, such as bn+aon.
        plan: How often.
        notify: Called with a line for each thing that is being done.
    """
    x, _ = subject.data()
    normalised = subject.prepare(method).model
    folded = aon.fold(copy.deepcopy(normalised))
    models = {
        "plain": subject.plain(),
        "normalised": normalised,
        "folded": folded,
        "torch-spectral-norm": _parametrised(subject.plain()),
    }
    runs = {name: Evaluation(model, x) for name, model in models.items()}
    measured = measure(runs, plan, notify=notify, wait=subject.wait)
    case = record.case(f"evaluation, {subject.title}", "plain", measured)
    return record.make("eval", {**subject.settings(), "method": method}, [case], plan=plan, device=subject.device)


def _parametrised(model: nn.Module) -> nn.Module:
    """torch's own spectral normalisation of the same layers: a parametrisation, computed at every forward."""
    for _, layer in select(model, exclude=classifier_names(model)):
        parametrizations.spectral_norm(layer)
    return model

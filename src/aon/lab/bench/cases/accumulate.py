"""`bench accumulate`: one update from several micro-batches, with and without `aon.accumulate`."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from torch import nn

import aon
from aon.lab.bench import record
from aon.lab.bench.cases.step import Subject, TrainingStep
from aon.lab.bench.rounds import Plan, measure
from aon.lab.system.checks import check_at_least

SHARED = " in aon.accumulate"


class AccumulatedStep(TrainingStep):
    """One update from k micro-batches: k times forward and backward, then the optimiser's step."""

    def __init__(
        self,
        subject: Subject,
        method: str,
        micro_batches: int,
        block: Callable[[nn.Module], AbstractContextManager[None]] = lambda _: nullcontext(),
    ) -> None:
        super().__init__(subject, method)
        self.micro_batches, self.block = micro_batches, block

    def __call__(self) -> None:
        """Do one update."""
        self.optimiser.zero_grad(set_to_none=True)
        with self.block(self.model):
            for _ in range(self.micro_batches):
                (self.loss(self.x, self.y) / self.micro_batches).backward()
        self.update()


def bench_accumulate(
    subject: Subject,
    micro_batches: int,
    method: str,
    plan: Plan,
    *,
    notify: Callable[[str], None] = lambda _: None,
) -> record.BenchRecord:
    """Measure one update from k micro-batches: BN, the method plainly, and the method in `aon.accumulate`.

    Args:
        subject: Network and device; its batch is that of a micro-batch.
        micro_batches: k.
        method: The method with a weight map, such as bn+aon.
        plan: How often.
        notify: Called with a line for each thing that is being done.

    Raises:
        LabError: if k is not positive.
    """
    check_at_least("micro-batches", micro_batches)
    steps = {
        "bn": AccumulatedStep(subject, "bn", micro_batches),
        method: AccumulatedStep(subject, method, micro_batches),
        method + SHARED: AccumulatedStep(
            subject, method, micro_batches, lambda model: aon.accumulate(model, micro_batches)
        ),
    }
    measured = measure(steps, plan, notify=notify, wait=subject.wait)
    case = record.case(f"{micro_batches} micro-batches to an update, {subject.title}", "bn", measured)
    settings = {**subject.settings(), "micro_batches": micro_batches, "method": method}
    return record.make("accumulate", settings, [case], plan=plan, device=subject.device)

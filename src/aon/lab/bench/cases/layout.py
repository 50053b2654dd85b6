"""`bench layout`: a training step with convolutions in torch's own order of memory and in channels_last."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from aon.lab.bench import record
from aon.lab.bench.cases.step import Subject, TrainingStep
from aon.lab.bench.rounds import Plan, measure
from aon.lab.methods import build

LAST = ", channels_last"


def bench_layout(
    subject: Subject, names: str | Sequence[str], plan: Plan, *, notify: Callable[[str], None] = lambda _: None
) -> record.BenchRecord:
    """Measure the step of each method in both layouts.

    Args:
        subject: Network, batch and device; its own layout does not matter.
        names: Methods, as a list or separated by commas; all are divided by the first, in torch's own order.
        plan: How often.
        notify: Told what is being done.

    Raises:
        LabError: if a method is unknown or named twice.
    """
    chosen = [str(method) for method in build.parse_list(names if isinstance(names, str) else ",".join(names))]
    steps = {}
    for name in chosen:
        for last in (False, True):
            steps[name + LAST * last] = TrainingStep(replace(subject, channels_last=last), name)
    measured = measure(steps, plan, notify=notify, wait=subject.wait)
    settings = {**subject.settings(), "channels_last": None, "methods": chosen}
    title = replace(subject, channels_last=False).title
    case = record.case(f"layout of the memory, training step, {title}", chosen[0], measured)
    return record.make("layout", settings, [case], plan=plan, device=subject.device)

"""`bench all`: every benchmark that depends on the device, one record each."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from aon.lab.bench.cases.accumulate import bench_accumulate
from aon.lab.bench.cases.calls import bench_calls
from aon.lab.bench.cases.eval import bench_eval
from aon.lab.bench.cases.layout import bench_layout
from aon.lab.bench.cases.map import bench_map
from aon.lab.bench.cases.step import Subject, bench_step
from aon.lab.bench.record import BenchRecord
from aon.lab.bench.rounds import Plan
from aon.lab.errors import LabError

Tell = Callable[[str], None]
Bench = Callable[[Tell], BenchRecord]
METHODS = ("bn", "bn+aon", "bn+aon:order=4", "bn+aon:expansion=minimax")
METHOD = "bn+aon"
SMALL_WIDTH, SMALL_BATCH = 0.125, 64  # of the network of `make compare`, over those of the network that is measured


def everything(subject: Subject, batches: Sequence[int], plan: Plan) -> Iterator[tuple[str, Bench]]:
    """Names of records and what makes them, the cheapest first.

    Args:
        subject: Network, width and device.
        batches: Of the training steps; the first is that of all other benchmarks too.
        plan: How often.

    Raises:
        LabError: if there is no batch.
    """
    if not batches:
        raise LabError("batches = '': expected one or more numbers separated by commas")
    first = replace(subject, batch=batches[0])
    small = replace(subject, width=SMALL_WIDTH * subject.width, batch=SMALL_BATCH)
    yield "calls", lambda notify: bench_calls(notify=notify)
    yield "step-quick", lambda notify: bench_step(small, METHODS, plan, plain=True, notify=notify)
    for batch in batches:
        sized = replace(subject, batch=batch)
        yield f"step-{batch}", lambda notify, each=sized: bench_step(each, METHODS, plan, plain=True, notify=notify)  # type: ignore[misc]
    yield "layout", lambda notify: bench_layout(first, METHODS[:2], plan, notify=notify)
    yield "map", lambda notify: bench_map(subject, plan, slow=False, notify=notify)
    yield "eval", lambda notify: bench_eval(first, METHOD, plan, notify=notify)
    yield (
        "accumulate",
        lambda notify: bench_accumulate(replace(subject, batch=batches[-1]), 4, METHOD, plan, notify=notify),
    )

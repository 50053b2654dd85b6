"""Steps shared by real processes: every way does the same number of them, and a lost process is told."""

import multiprocessing
import os
import signal

import pytest

from aon.lab.bench.cases import workers
from aon.lab.bench.cases.step import Subject
from aon.lab.bench.cases.workers import Split, bench_workers, splits
from aon.lab.bench.rounds import Plan
from aon.lab.errors import LabError

TINY = Subject("resnet20", 0.25, 4)
ONCE = Plan(rounds=2, warm_up=1, least=0)


def test_every_split_uses_all_cores():
    assert splits(6) == [Split(1, 6), Split(2, 3), Split(3, 2), Split(6, 1)]
    assert all(split.workers * split.threads == 6 for split in splits(6))


def test_the_record_of_real_processes():
    found = bench_workers(TINY, "bn+aon", 2, ONCE)
    (case,) = found.cases
    assert case.base == "1 process, 2 threads"
    assert [variant.name for variant in case.variants] == ["1 process, 2 threads", "2 processes, 1 thread each"]
    assert all(len(variant.repeats) == 2 and min(variant.repeats) > 0 for variant in case.variants)
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("split", splits(4), ids=str)
def test_every_split_does_the_same_number_of_steps(split):
    """Counted by pipes that only keep what they are sent: what real processes do with it is tested above."""
    kept = [multiprocessing.Pipe() for _ in range(4)]
    for ours, theirs in kept:
        theirs.send(None)  # the answer
        assert ours.poll(0)
    workers._Variant(split, [ours for ours, _ in kept])()
    orders = [theirs.recv() for _, theirs in kept if theirs.poll(0)]
    assert len(orders) == split.workers
    assert {threads for threads, _ in orders} == {split.threads}
    assert sum(steps for _, steps in orders) == 4


def test_an_interrupt_is_left_to_the_parent():
    """Ctrl-C reaches every process of a terminal; one that printed a traceback of its own would bury our line."""
    with workers._started(TINY, "bn") as pipe:
        workers._Variant(Split(1, 1), [pipe])()
        (process,) = multiprocessing.active_children()
        os.kill(process.pid, signal.SIGINT)
        workers._Variant(Split(1, 1), [pipe])()
        assert process.is_alive()


def test_a_process_that_dies_is_told_in_one_line():
    with workers._started(TINY, "bn") as pipe:
        (process,) = multiprocessing.active_children()
        process.kill()
        process.join()
        with pytest.raises(LabError, match="a process of the benchmark died"):
            workers._Variant(Split(1, 1), [pipe])()


@pytest.mark.parametrize(
    ("method", "cores", "message"),
    [("bn+nothing", 2, "nothing"), ("bn", 1, "threads = 1: expected two or more")],
    ids=["method", "cores"],
)
def test_bad_settings_are_refused_before_a_process_starts(method, cores, message):
    with pytest.raises(LabError, match=message):
        bench_workers(TINY, method, cores, ONCE)
    assert multiprocessing.active_children() == []

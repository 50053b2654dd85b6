"""Long use: many steps, many tiny comparisons, many finished runs; measure what grows."""

import copy
import gc
import io
import resource
import shutil
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import torch
from tests.faults.kills import TINY
from tests.lab import factory
from torch import nn

import aon
from aon.lab.errors import LabError
from aon.lab.experiment.plans import plan_comparison
from aon.lab.grid import grid
from aon.lab.grid.jobs import perform
from aon.lab.report import output


def resident() -> float:
    """MiB of memory this process holds."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def handles() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def steps(number: int, warm_up: int = 500, deadline: float = float("inf")) -> dict:
    """Train, evaluate, copy and save; how much memory, how many handles and threads are there more at the end."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 10))
    aon.normalise(model)
    optimiser = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    x, y = torch.randn(16, 3, 8, 8), torch.arange(16) % 10
    before, done = (0.0, 0, 0), 0
    for i in range(warm_up + number):
        if i == warm_up:
            gc.collect()
            before = resident(), handles(), threading.active_count()
        model.train()
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimiser.step()
        if i % 10 == 0:
            model.eval()
            with torch.no_grad():
                model(x)
            other = copy.deepcopy(model)
            aon.refresh(other)
            aon.fold(other)
            torch.save(model.state_dict(), io.BytesIO())
        done = i + 1 - warm_up
        if time.monotonic() > deadline and done > 0:
            break
    gc.collect()
    after = resident(), handles(), threading.active_count()
    return {
        "steps": done,
        "growth_mib": round(after[0] - before[0], 2),
        "handles": after[1] - before[1],
        "threads": after[2] - before[2],
    }


class Unseen:
    """A screen that shows nothing."""

    def begin(self, *_):
        pass

    def event(self, *_):
        pass

    def stopping(self):
        pass

    def end(self):
        pass


def children_seconds() -> float:
    """CPU seconds of all processes that this one has waited for: what other work on the machine does not change."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def finished_runs(folder: Path, number: int) -> dict:
    """CPU seconds of `aon report` on a directory of finished runs, and to start its comparison again: few and many."""
    methods, found = ("bn", "bn+aon", "bn+orth", "none"), {}
    settings = TINY.model_dump(mode="json", exclude={"method", "seed", "milestones"}, exclude_none=True)
    for name, count in (("few", len(methods)), ("many", number)):
        plan = plan_comparison({**settings, "methods": ",".join(methods), "seeds": count // len(methods)})
        shared = plan.base.model_dump(exclude={"method", "seed"})
        runs = [factory.record(str(m), s, spectra=False, **shared) for m in plan.methods for s in plan.seeds]
        out = factory.write(folder / name, runs, command=())
        began = time.process_time()
        outcome = grid.compare(plan, out, Unseen(), workers=1)
        starting = time.process_time() - began
        assert (len(outcome.done), outcome.failed, outcome.unfinished) == (len(runs), {}, [])
        before = children_seconds()
        subprocess.run([sys.executable, "-m", "aon.lab", "report", str(out)], check=True, capture_output=True)
        report = children_seconds() - before
        found[name] = {"runs": len(runs), "report_seconds": round(report, 2), "starting_seconds": round(starting, 2)}
    return {"runs": number, **found}


class Here:
    """An engine that does a run in this process the moment it is started: what leaks, leaks here."""

    capacity, elsewhere, cpus_per_run = 1, False, 1

    def __init__(self) -> None:
        self.events = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def has_room(self) -> bool:
        return not self.events

    def start(self, name, job) -> None:
        with suppress(LabError):  # told as an event
            perform(job, lambda event: self.events.append((name, event)), lambda: False)

    def next_event(self, timeout):
        return self.events.pop(0) if self.events else None

    def stop(self) -> None:
        pass


def tiny_comparisons(folder: Path, number: int, deadline: float = float("inf")) -> dict:
    """Compare, continue, add and report, many times in one process; what is left over at the end.

    Most runs are done in this process. Every 25th comparison has real worker processes, which take seconds to start.
    """
    settings = {**TINY.model_dump(exclude={"method", "seed", "dataset", "milestones"}, exclude_none=True), "epochs": 1}
    before, done, failed, by_processes, warm_up = (0.0, 0, 0), 0, [], 0, min(10, number - 1)
    for i in range(number):
        out = folder / f"tiny{i}"
        processes = i % 25 == 1
        for seeds in (1, 1, 2):  # begin, begin again, add a seed
            plan = plan_comparison({**settings, "methods": "bn", "seeds": seeds})
            outcome = grid.compare(plan, out, Unseen(), engine=None if processes else Here(), workers=1)
            failed += outcome.failed.values()
            failed += [] if len(outcome.done) == seeds else [f"{len(outcome.done)} of {seeds} runs are done"]
        output.write(*output.load_results([out]), out, formats=())
        shutil.rmtree(out)
        done, by_processes = i + 1, by_processes + processes
        if i == warm_up:
            gc.collect()
            before = resident(), handles(), threading.active_count()
        if time.monotonic() > deadline and i > warm_up:
            break
    gc.collect()
    after = resident(), handles(), threading.active_count()
    return {
        "comparisons": done,
        "with_worker_processes": by_processes,
        "starts": 3 * done,
        "failed": failed,
        "growth_mib": round(after[0] - before[0], 2),
        "handles": after[1] - before[1],
        "threads": after[2] - before[2],
    }

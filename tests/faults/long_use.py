"""Long use in short: many steps, many tiny comparisons, many finished runs; what grows is counted."""

import copy
import gc
import io
import threading
import time
from pathlib import Path

import torch
from tests.faults.kills import TINY
from tests.lab import factory
from torch import nn

import aon
from aon.lab.experiment import records
from aon.lab.experiment.plans import plan_comparison
from aon.lab.grid import grid


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
            aon.fold(copy.deepcopy(model))
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


def finished_runs(folder: Path, number: int) -> dict:
    """Seconds to start a comparison that is done, in a directory with one run and in one with many."""
    seconds = {}
    for count in (1, number):
        out = folder / f"runs{count}"
        factory.write(out, [factory.record("bn", seed, epochs=5, spectra=False) for seed in range(count)])
        began = time.perf_counter()
        statuses = [records.status(path) for path in (out / "runs").iterdir()]
        seconds[count] = time.perf_counter() - began
        assert statuses == ["done"] * count
    return {"runs": number, "reading_seconds": round(seconds[number], 3)}


def tiny_comparisons(folder: Path, number: int, deadline: float = float("inf")) -> dict:
    """Compare, continue and add to tiny comparisons in one process; what is left over at the end."""
    settings = {**TINY.model_dump(exclude={"method", "seed", "dataset", "milestones"}, exclude_none=True), "epochs": 1}
    before, done, failed = (resident(), handles(), threading.active_count()), 0, []
    for i in range(number):
        for seeds in (1, 1, 2):  # begin, begin again, add a seed
            plan = plan_comparison({**settings, "methods": "bn", "seeds": seeds})
            outcome = grid.compare(plan, folder / f"tiny{i}", Unseen(), workers=1)
            failed += outcome.failed.values()
            if i == 0 and seeds == 1:
                before = resident(), handles(), threading.active_count()
        done += 1
        if time.monotonic() > deadline:
            break
    after = resident(), handles(), threading.active_count()
    return {
        "comparisons": done,
        "starts": 3 * done,
        "failed": failed,
        "growth_mib": round(after[0] - before[0], 2),
        "handles": after[1] - before[1],
        "threads": after[2] - before[2],
    }

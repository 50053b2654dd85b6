"""Inject faults into real comparisons, continue them, and compare the results with those of an undisturbed one.

    python -m tests.faults.comparisons --number 8 --folder DIR

prints what was done and what was lost as JSON.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.faults.kills import differences, faults_in

from aon.lab.errors import LabError
from aon.lab.experiment import records
from aon.lab.training import checkpoints

AON = [sys.executable, "-m", "aon.lab"]
SETTINGS = {
    "network": "resnet20", "width": 0.25, "train-size": 40, "test-size": 20, "validation-size": 20, "batch-size": 20,
    "spectra-every": 0,
    "epochs": 30, "seeds": 1, "workers": 2, "threads": 1, "device": "cpu",
}  # fmt: skip
METHODS = "bn,bn+aon"


def command(out: Path, **settings) -> list[str]:
    merged = {"methods": METHODS, **SETTINGS, **{k.replace("_", "-"): v for k, v in settings.items()}}
    return [*AON, "compare", *(word for k, v in merged.items() for word in (f"--{k}", str(v))), "--out", str(out)]


class Comparison:
    """A comparison at work, in a process of its own."""

    def __init__(self, out: Path, before=None, **settings) -> None:
        self.out = out
        self.log = out.with_name(f"{out.name}.log")
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                command(out, **settings),
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=before,
            )

    def workers(self) -> list[int]:
        """The processes of the runs: children of the comparison, each a session of its own."""
        found = []
        for children in Path(f"/proc/{self.process.pid}/task").glob("*/children"):
            try:
                found += [int(number) for number in children.read_text().split()]
            except OSError:
                continue
        return found

    def wait(self, seconds: float = 900) -> int:
        return self.process.wait(seconds)

    def close(self) -> None:
        """Let go of a comparison that has ended, or whose parent was killed."""
        self.process.wait()

    def is_going(self) -> bool:
        return self.process.poll() is None

    def output(self) -> str:
        return self.log.read_text()

    def end(self) -> None:
        """Whatever happened, nothing of ours is left."""
        for pid in [self.process.pid, *self.workers()]:
            kill(pid)
        self.close()


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


@contextmanager
def paused(pids: list[int]):
    """Hold processes still, as in a step that takes very long."""
    for pid in pids:
        kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            kill(pid, signal.SIGCONT)


def until(condition, seconds: float = 900) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("nothing happened")
        time.sleep(0.02)


def epochs(out: Path) -> int:
    """Epochs done by all runs together."""
    total = 0
    for path in out.glob(f"runs/*/{records.RECORD}"):
        try:
            total += len(records.load(path.parent).epochs)
        except LabError:
            continue
    return total


def all_epochs(out: Path, more: int, going: Comparison) -> None:
    """Wait until the runs have done some epochs more, or are done."""
    target = epochs(out) + more
    until(lambda: epochs(out) >= target or not going.is_going())


# What is done to a comparison at work; each leaves it ended.


def kill_group(going: Comparison) -> None:
    for pid in [going.process.pid, *going.workers()]:
        kill(pid)


def kill_parent(going: Comparison) -> None:
    kill(going.process.pid)  # its workers notice, save themselves and end; the next start waits for them


def kill_worker(going: Comparison) -> None:
    for pid in going.workers()[:1]:
        kill(pid)
    going.wait()


def stop_by(number: int):
    def stop(going: Comparison) -> None:
        kill(going.process.pid, number)
        going.wait()

    return stop


def interrupt_twice(going: Comparison) -> None:
    kill(going.process.pid, signal.SIGINT)
    time.sleep(0.05)
    kill(going.process.pid, signal.SIGINT)
    going.wait()


def interrupt_while_loading(going: Comparison) -> None:
    kill(going.process.pid, signal.SIGINT)
    going.wait()
    output = going.output()
    assert "Traceback" not in output, output
    assert "unexpected fault" not in output, output
    assert output.splitlines()[-1].startswith("aon: "), output


def is_loading_torch(pid: int) -> bool:
    """Whether a process has torch's library in memory, which `import torch` maps first and then works on for long."""
    with suppress(OSError):
        return "libtorch" in Path(f"/proc/{pid}/maps").read_text()
    return False


def until_loading(_out: Path, _draw: random.Random, going: Comparison) -> None:
    until(lambda: is_loading_torch(going.process.pid) or not going.is_going())


def until_at_work(out: Path, draw: random.Random, going: Comparison) -> None:
    all_epochs(out, draw.randrange(3), going)
    time.sleep(draw.uniform(0, 0.3))


# Each with what is waited for before.
FAULTS = {
    "SIGKILL of all processes": (until_at_work, kill_group),
    "SIGKILL of the parent alone": (until_at_work, kill_parent),
    "SIGKILL of one worker": (until_at_work, kill_worker),
    "SIGTERM": (until_at_work, stop_by(signal.SIGTERM)),
    "SIGHUP": (until_at_work, stop_by(signal.SIGHUP)),
    "Ctrl-C": (until_at_work, stop_by(signal.SIGINT)),
    "Ctrl-C twice": (until_at_work, interrupt_twice),
    "Ctrl-C in `import torch`": (until_loading, interrupt_while_loading),
}
ATTEMPTS = 10  # starts for one fault: a comparison may finish before it


class Harness:
    """Comparisons that are disturbed and continued until they are done, each compared with an undisturbed one."""

    def __init__(self, folder: Path, seed: int, settings: dict) -> None:
        self.folder, self.draw, self.settings = folder, random.Random(seed), settings
        self.done, self.lost, self.finished = Counter(), [], 0

    @property
    def out(self) -> Path:
        return self.folder / f"disturbed{self.finished}"

    def inject(self, name: str) -> None:
        """Inject one fault into a comparison at work, or into the next one where that finished first."""
        wait, fault = FAULTS[name]
        for _ in range(ATTEMPTS):
            going = Comparison(self.out, **self.settings)
            try:
                wait(self.out, self.draw, going)
                if was_going := going.is_going():
                    fault(going)
            except BaseException:
                going.end()
                raise
            going.close()
            self.lost += [found for run in self.out.glob("runs/*") for found in faults_in(run)]
            if was_going:
                self.done[name] += 1
                return
            self.finish()
        self.lost.append(f"{name}: {ATTEMPTS} comparisons finished before it")

    def finish(self) -> None:
        """Continue the comparison to its end and compare it."""
        last = Comparison(self.out, **self.settings)
        self.lost += [] if last.wait() == 0 else [f"{self.out} did not end well: {last.output()[-2000:]}"]
        last.close()
        self.lost += compared(self.folder / "whole", self.out)
        self.finished += 1


def inject_faults(folder: Path, number: int, seed: int = 0, deadline: float = float("inf"), **settings) -> dict:
    """Inject `number` faults into comparisons, every kind in turn; then let the last finish."""
    whole = Comparison(folder / "whole", **settings)
    try:
        failed = whole.wait() != 0
    finally:
        whole.end()
    if failed:
        return {"faults": {}, "comparisons": 0, "lost": [f"the undisturbed comparison failed: {whole.output()}"]}
    harness, left = Harness(folder, seed, settings), []
    for _ in range(number):
        if time.monotonic() > deadline:
            break
        left = left or harness.draw.sample(list(FAULTS), len(FAULTS))
        harness.inject(left.pop())
    harness.finish()
    return {"faults": dict(harness.done), "comparisons": harness.finished, "lost": harness.lost}


def compared(whole: Path, out: Path) -> list[str]:
    """What differs between two finished comparisons."""
    names = sorted(path.name for path in (whole / "runs").iterdir())
    if names != sorted(path.name for path in (out / "runs").iterdir()):
        return [f"{out} has other runs than {whole}"]
    missing = [name for name in names if not (out / "runs" / name / checkpoints.LAST).exists()]
    if missing:
        return [f"{out}: {name} is not done" for name in missing]
    return [fault for name in names for fault in differences(whole / "runs" / name, out / "runs" / name)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--number", type=int, default=len(FAULTS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--folder", type=Path, required=True)
    args = parser.parse_args()
    print(json.dumps(inject_faults(args.folder, args.number, args.seed, time.monotonic() + args.seconds)))  # noqa: T201

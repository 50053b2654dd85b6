"""Kill single runs and reports again and again, and compare the results with those of undisturbed ones.

    python -m tests.faults.kills --kills 40 --folder DIR

prints what was done and what was lost as JSON. It is a process of its own because it forks: torch is loaded once, and
each run is a child that can be killed the moment it begins.
"""

import argparse
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import torch
from tests.lab import factory

from aon.lab.errors import LabError, StoppedError
from aon.lab.experiment import records
from aon.lab.experiment.config import RunConfig
from aon.lab.report import output
from aon.lab.system import files
from aon.lab.training import checkpoints
from aon.lab.training.run import Watch, run

TINY = RunConfig(
    method="bn+aon",
    network="resnet20",
    width=0.25,
    train_size=40,
    test_size=20,
    batch_size=20,
    epochs=4,
    threads=1,
    device="cpu",
    spectra_every=2,
)
# Each draws from the random streams, keeps state or tests its best epoch in another way.
CONFIGS = [TINY, TINY.but(method="iternorm+aon+orth+dropout", epochs=3), TINY.but(method="bn", validation_size=20)]
# Where a run is killed: at any moment, half through the n-th write, before a file takes its name, right after it.
WAYS = ("moment", "write", "before", "after")


def forked(work, prepare) -> int:
    """Start work in a child; `prepare` arranges its end."""
    child = os.fork()
    if child:
        return child
    try:
        prepare()
        work()
        os._exit(0)
    except StoppedError:
        os._exit(3)
    except BaseException as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        sys.stderr.flush()
        os._exit(4)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def dying_in(way: str, turn: int):
    """Make this process kill itself in the middle of its n-th file."""
    count = iter(range(10**6))

    def prepare() -> None:
        if way == "write":
            whole = files._Noting.write

            def write(self, content):
                if next(count) == turn:
                    whole(self, bytes(content)[: len(content) // 2])
                    die()
                return whole(self, content)

            files._Noting.write = write
        elif way in ("before", "after"):
            replace = Path.replace

            def renamed(self, target):
                mine = next(count) == turn
                if mine and way == "before":
                    die()
                result = replace(self, target)
                if mine:
                    die()
                return result

            Path.replace = renamed

    return prepare


def faults_in(folder: Path) -> list[str]:
    """What a reader would trip over: every file that is there must be whole."""
    found = []
    readers = {
        records.RECORD: lambda: records.load(folder),
        checkpoints.CHECKPOINT: lambda: checkpoints.load(folder / checkpoints.CHECKPOINT),
        checkpoints.PREVIOUS: lambda: checkpoints.load(folder / checkpoints.PREVIOUS),
        checkpoints.LAST: lambda: checkpoints.load_weights(folder / checkpoints.LAST),
        checkpoints.BEST: lambda: checkpoints.load_weights(folder / checkpoints.BEST),
    }
    for name, read in readers.items():
        if (folder / name).exists():
            try:
                read()
            except LabError as error:
                if "there is no" not in str(error):  # a worker whose parent was killed may still be at work
                    found.append(f"half-written: {error}")
    return found


def comparable(folder: Path) -> dict:
    """The record of a run without what may change while nothing of the run does: times, and the commit checked out."""
    record = records.load(folder).without_times()
    record["environment"].pop("commit")
    return record


def differences(a: Path, b: Path) -> list[str]:
    """What is not the same, bit for bit, in two finished runs."""
    found = [
        f"{b}: {name} differs"
        for name in (checkpoints.LAST, checkpoints.BEST)
        if (a / name).read_bytes() != (b / name).read_bytes()
    ]
    if comparable(a) != comparable(b):
        found.append(f"{b}: the record differs")
    left = [path.name for path in b.iterdir() if path.name.startswith(files.PREFIX)]
    return found + [f"{b}: {name} was left" for name in left]


def kill_once(config: RunConfig, folder: Path, draw: random.Random, seconds: float) -> tuple[str, bool]:
    """Kill a run in one way; whether it was killed, or finished before."""
    way = draw.choice(WAYS)
    child = forked(lambda: run(config, folder, watch=Watch(save_every=0.05)), dying_in(way, draw.randrange(12)))
    end = time.monotonic() + (draw.uniform(0, seconds) if way == "moment" else 600)
    status = 0
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            break
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            end = float("inf")
        time.sleep(0.002)
    return way, os.WIFSIGNALED(status)


def kill_runs(folder: Path, kills: int, seed: int = 0, deadline: float = float("inf")) -> dict:
    """Kill runs `kills` times in all; continue each to its end and compare it with an undisturbed one."""
    torch.set_num_threads(1)
    draw, done, lost, finished = random.Random(seed), Counter(), [], 0
    wholes = []
    for i, config in enumerate(CONFIGS):
        began = time.monotonic()
        run(config, folder / f"whole{i}")
        wholes.append((config, folder / f"whole{i}", time.monotonic() - began))
    while done.total() < kills and time.monotonic() < deadline:
        config, whole, seconds = wholes[finished % len(wholes)]
        disturbed = folder / f"disturbed{finished}"
        for _ in range(draw.randrange(4, 9)):
            way, killed = kill_once(config, disturbed, draw, seconds)
            lost += faults_in(disturbed)
            if not killed:
                break
            done[way] += 1
        run(config, disturbed)
        lost += differences(whole, disturbed)
        before = (disturbed / records.RECORD).stat().st_mtime_ns
        run(config, disturbed)
        lost += [] if (disturbed / records.RECORD).stat().st_mtime_ns == before else [f"{disturbed} was repeated"]
        finished += 1
    return {"kills": done.total(), "ways": dict(done), "runs": finished, "lost": lost}


def make_report(folder: Path, out: Path) -> None:
    """The tables and the page of a comparison, without pictures."""
    output.write(*output.load_results([folder]), out, formats=())


def contents(out: Path) -> dict[str, bytes]:
    """The files of a report, without those of a killed writer, which have names of their own."""
    found = [out / output.PAGE, *(out / "report" / name for name in output.TABLES)]
    return {path.name: path.read_bytes() for path in found if path.exists()}


def kill_reports(folder: Path, kills: int, seed: int = 0, deadline: float = float("inf")) -> dict:
    """Kill a report in the middle of its tables; each file is then the old or the new one, whole."""
    draw, done, lost, out = random.Random(seed), 0, [], folder / "disturbed-report"
    runs = factory.comparison(("bn", "bn+aon"), seeds=(0, 1), epochs=3)
    old, new = factory.write(folder / "old", runs[::2], command=()), factory.write(folder / "new", runs, command=())
    make_report(old, folder / "old-report")
    make_report(new, folder / "new-report")
    wholes = [contents(folder / f"{name}-report") for name in ("old", "new")]
    make_report(old, out)
    while done < kills and time.monotonic() < deadline:
        way = draw.choice(WAYS[1:])
        child = forked(lambda: make_report(new, out), dying_in(way, draw.randrange(len(output.TABLES))))
        done += os.WIFSIGNALED(os.waitpid(child, 0)[1])
        lost += [
            f"{name} is neither the old nor the new one"
            for name, content in contents(out).items()
            if content not in [whole[name] for whole in wholes]
        ]
    make_report(new, out)
    lost += [] if contents(out) == wholes[1] else ["the report differs"]
    lost += [f"{path.name} was left" for path in out.rglob(f"{files.PREFIX}*")]
    return {"kills": done, "lost": lost}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--folder", type=Path, required=True)
    args = parser.parse_args()
    end = time.monotonic() + args.seconds
    tables = -(-args.kills // 5)
    reports = kill_reports(args.folder, tables, args.seed, end)
    result = kill_runs(args.folder, args.kills - tables, args.seed, end)
    result["ways"]["table"] = reports["kills"]
    result["kills"] += reports["kills"]
    result["lost"] += reports["lost"]
    print(json.dumps(result))  # noqa: T201

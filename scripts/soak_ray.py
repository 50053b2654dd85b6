"""Do many tiny runs on a local Ray cluster of several nodes; measure the overhead of a run and the driver's memory.

    python scripts/soak_ray.py --runs 1000 --nodes 4 --out results/scale/soak-ray.json

The overhead of a run is the time that a CPU of the cluster gave to it, less the time that the same run takes in a
process of its own that does one now and then, all the while: what starting a task, sending its files and collecting
them costs. It is taken twice: by the clock, which depends on what else the machine does, and in seconds of CPU of the
driver, of Ray and of its workers together, which does so less.
"""

import argparse
import json
import multiprocessing
import os
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

from aon.lab.data import load
from aon.lab.experiment.config import RunConfig
from aon.lab.experiment.plans import plan_comparison
from aon.lab.grid import grid
from aon.lab.grid.events import Ended, Event
from aon.lab.system.files import write_text
from aon.lab.training import machine
from aon.lab.training.run import run

SETTINGS = {
    "network": "resnet20", "width": 0.25, "train_size": 40, "test_size": 20, "batch_size": 20, "epochs": 1,
    "spectra_every": 0, "threads": 1, "methods": "bn",
}  # fmt: skip
PAGE = resource.getpagesize()
PAUSE = 5.0  # seconds between two runs alone


class Counter:
    """A screen that notes when runs end, and then the memory of this process and the CPU time of all."""

    def __init__(self, others: Collection[int] = ()) -> None:
        self.others = others
        self.ended: dict[str, float] = {}
        self.memory: list[int] = []
        self.cpu: list[float] = []

    def begin(self, out: Path, runs: Any, workers: int) -> None:
        """See `grid.Screen`."""

    def event(self, name: str, event: Event) -> None:
        """See `grid.Screen`."""
        if isinstance(event, Ended):
            self.ended[name] = time.perf_counter()
            self.memory.append(resident())
            self.cpu.append(cpu_seconds(self.others))
            if len(self.ended) % 10 == 0:
                sys.stderr.write(f"{len(self.ended)} runs, driver {self.memory[-1] / 2**20:.0f} MiB\n")

    def stopping(self) -> None:
        """See `grid.Screen`."""

    def end(self) -> None:
        """See `grid.Screen`."""


def resident() -> int:
    """Bytes of main memory that this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def cpu_seconds(others: Collection[int]) -> float:
    """CPU seconds of this process and all below it, others apart: the driver, Ray and its workers."""
    parents, used = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            fields = path.read_text().rpartition(")")[2].split()
            parents[int(path.parent.name)] = int(fields[1])
            used[int(path.parent.name)] = sum(map(int, fields[11:15]))  # its own, and those of children that ended
    family = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in family} - family - {*others}:
        family |= more
    return sum(used.get(pid, 0) for pid in family) / os.sysconf("SC_CLK_TCK")


def alone(config: RunConfig, ended: Any, found: Any) -> None:
    """Do the same run in this process again and again; tell the seconds of each, by the clock and of CPU."""
    warnings.simplefilter("ignore")
    data = load(config.dataset, None)
    for number in count():
        with tempfile.TemporaryDirectory() as folder:
            began, begun = time.perf_counter(), time.process_time()
            run(config.but(seed=number), Path(folder) / "run", source=data)
            if number:
                found.put((time.perf_counter() - began, time.process_time() - begun))
        if ended.wait(PAUSE):
            break


@contextmanager
def beside(config: RunConfig) -> Iterator[tuple[int, list[tuple[float, float]]]]:
    """A process that does the run alone, meanwhile: its number, and at the end what it found."""
    context = multiprocessing.get_context("spawn")
    ended, found, measured = context.Event(), context.SimpleQueue(), []
    process = context.Process(target=alone, args=(config, ended, found))
    process.start()
    try:
        yield process.pid or 0, measured
    finally:
        ended.set()
        while process.is_alive() or not found.empty():
            measured.extend(found.get() for _ in range(not found.empty()))
            process.join(0.01)


def soak(runs: int, nodes: int) -> dict[str, Any]:
    """Do the runs; returns what was measured."""
    from ray.cluster_utils import Cluster

    from aon.lab.grid.engines.ray_cluster import RayEngine

    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_worker_niceness", "0")  # else 15, and a busy machine gives them nothing
    plan = plan_comparison({**SETTINGS, "seeds": runs})
    options = {"object_store_memory": 100 * 2**20, "node_ip_address": "127.0.0.2"}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, **options})
    for _ in range(nodes):
        cluster.add_node(num_cpus=1, **options)
    with tempfile.TemporaryDirectory() as folder, beside(plan.base.but(method=plan.methods[0])) as (pid, measured):
        counter = Counter([pid])
        outcome = grid.compare(plan, Path(folder) / "out", counter, engine=RayEngine(cluster.address))
    cluster.shutdown()
    ends, memory = sorted(counter.ended.values()), counter.memory
    warm = len(ends) // 10  # by then every node has imported torch
    counted = len(ends) - 1 - warm
    slot, cpu = nodes * (ends[-1] - ends[warm]) / counted, (counter.cpu[-1] - counter.cpu[warm]) / counted
    own, own_cpu = (median(seconds) for seconds in zip(*measured, strict=True))
    return {
        "runs": runs, "nodes": nodes, "done": len(outcome.done), "failed": outcome.failed,
        "runs_alone": len(measured),
        "seconds": {"of_a_slot": slot, "alone": own, "overhead": slot - own},
        "cpu_seconds": {"of_the_cluster": cpu, "alone": own_cpu, "overhead": cpu - own_cpu},
        "driver_bytes": {"after_a_tenth": memory[warm], "at_the_end": memory[-1], "tenths": memory[warm :: warm or 1]},
    }  # fmt: skip


def main() -> None:
    """Read the command line, measure, write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--out", type=Path, default=Path("results/scale/soak-ray.json"))
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    import torch

    busy = os.getloadavg()
    measured = soak(args.runs, args.nodes)
    about = {"format": 1, "made": datetime.now(UTC).isoformat(timespec="seconds"), "cores": machine.cores()}
    about |= {"load_average": {"before": busy[0], "after": os.getloadavg()[0]}}
    about |= {"environment": machine.environment(torch.device("cpu")).model_dump(mode="json")}
    args.out.parent.mkdir(parents=True, exist_ok=True)
    write_text(args.out, json.dumps({**about, **measured}, indent=1) + "\n")
    summary = {key: measured[key] for key in ("done", "seconds", "cpu_seconds", "driver_bytes")}
    sys.stdout.write(json.dumps(summary) + "\n")


if __name__ == "__main__":
    main()

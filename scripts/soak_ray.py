"""Do many tiny runs on a local Ray cluster of several nodes; measure the overhead of a run and the driver's memory.

    python scripts/soak_ray.py --runs 1000 --nodes 4 --out results/scale/soak-ray.json

The overhead of a run is the time that a CPU of the cluster gave to it, less the time that the same run takes in a
process that has done one before: what starting a task, sending its files and collecting them costs.
"""

import argparse
import json
import os
import resource
import sys
import tempfile
import time
import warnings
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from aon.lab.experiment.config import RunConfig
from aon.lab.experiment.plans import Plan, plan_comparison
from aon.lab.grid import grid
from aon.lab.grid.events import Began, Ended, Event
from aon.lab.system.files import write_text
from aon.lab.training import machine
from aon.lab.training.run import run

SETTINGS = {
    "network": "resnet20", "width": 0.25, "train_size": 40, "test_size": 20, "batch_size": 20, "epochs": 1,
    "spectra_every": 0, "threads": 1, "methods": "bn",
}  # fmt: skip
PAGE = resource.getpagesize()


class Counter:
    """A screen that notes when runs begin and end, and the memory of this process at each end."""

    def __init__(self) -> None:
        self.begun: dict[str, float] = {}
        self.ended: dict[str, float] = {}
        self.memory: list[int] = []

    def begin(self, out: Path, runs: Any, workers: int) -> None:
        """See `grid.Screen`."""

    def event(self, name: str, event: Event) -> None:
        """See `grid.Screen`."""
        if isinstance(event, Began):
            self.begun[name] = time.perf_counter()
        elif isinstance(event, Ended):
            self.ended[name] = time.perf_counter()
            self.memory.append(resident())
            if len(self.ended) % 10 == 0:
                sys.stderr.write(f"{len(self.ended)} runs, driver {self.memory[-1] / 2**20:.0f} MiB\n")

    def stopping(self) -> None:
        """See `grid.Screen`."""

    def end(self) -> None:
        """See `grid.Screen`."""


def resident() -> int:
    """Bytes of main memory that this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def alone(plan: Plan, times: int) -> list[float]:
    """Seconds of the same run in this process."""
    config: RunConfig = plan.base.but(method=plan.methods[0])
    seconds = []
    for number in range(times + 1):
        with tempfile.TemporaryDirectory() as folder:
            began = time.perf_counter()
            run(config.but(seed=number), Path(folder) / "run")
            seconds.append(time.perf_counter() - began)
    return seconds[1:]


def soak(runs: int, nodes: int) -> dict[str, Any]:
    """Do the runs; returns what was measured."""
    from ray.cluster_utils import Cluster

    from aon.lab.grid.engines.ray_cluster import RayEngine

    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_worker_niceness", "0")  # else 15, and a busy machine gives them nothing
    plan = plan_comparison({**SETTINGS, "seeds": runs})
    before = alone(plan, 10)
    options = {"object_store_memory": 100 * 2**20, "node_ip_address": "127.0.0.2"}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, **options})
    for _ in range(nodes):
        cluster.add_node(num_cpus=1, **options)
    counter = Counter()
    with tempfile.TemporaryDirectory() as folder:
        outcome = grid.compare(plan, Path(folder) / "out", counter, engine=RayEngine(cluster.address))
    cluster.shutdown()
    after = alone(plan, 10)
    ends = sorted(counter.ended.values())
    warm = len(ends) // 10  # by then every node has imported torch
    slot = nodes * (ends[-1] - ends[warm]) / (len(ends) - 1 - warm)
    own = median([*before, *after])
    return {
        "runs": runs, "nodes": nodes, "done": len(outcome.done), "failed": outcome.failed,
        "seconds_of_a_slot_per_run": slot, "seconds_alone": {"before": before, "after": after, "median": own},
        "overhead_seconds_per_run": slot - own,
        "driver_bytes": {"after_a_tenth": counter.memory[warm], "at_the_end": counter.memory[-1]},
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

    load = os.getloadavg()
    measured = soak(args.runs, args.nodes)
    about = {"format": 1, "made": datetime.now(UTC).isoformat(timespec="seconds"), "cores": machine.cores()}
    about |= {"load_average": {"before": load[0], "after": os.getloadavg()[0]}}
    about |= {"environment": machine.environment(torch.device("cpu")).model_dump(mode="json")}
    args.out.parent.mkdir(parents=True, exist_ok=True)
    write_text(args.out, json.dumps({**about, **measured}, indent=1) + "\n")
    summary = {key: measured[key] for key in ("done", "overhead_seconds_per_run", "driver_bytes")}
    sys.stdout.write(json.dumps(summary) + "\n")


if __name__ == "__main__":
    main()

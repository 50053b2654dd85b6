"""A real Ray cluster of several nodes on this machine: loopback only, no dashboard."""

import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from tests.processes import PATIENCE, started, wait_until

from aon.lab.errors import LabError
from aon.lab.experiment import records
from aon.lab.experiment.plans import plan_comparison
from aon.lab.grid import grid
from aon.lab.grid.events import Began, EpochDone
from aon.lab.training import checkpoints

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.filterwarnings("ignore")

SETTINGS = {
    "network": "resnet20", "width": 0.25, "train_size": 40, "test_size": 20, "batch_size": 20, "spectra_every": 0,
    "learning_rate": 0.05, "threads": 1, "seeds": 1,
}  # fmt: skip


class Silent:
    """A screen that remembers, and does something when an event comes."""

    def __init__(self, react=lambda name, event: None):
        self.events, self.react = [], react

    def begin(self, out, runs, workers):
        self.workers = workers

    def event(self, name, event):
        self.events.append((name, event))
        self.react(name, event)

    def stopping(self):
        pass

    def end(self):
        pass


@pytest.fixture
def cluster(monkeypatch):
    """A head for the driver alone, and a node with one CPU."""
    quiet = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0", "RAY_memory_monitor_refresh_ms": "0"}
    for name, value in quiet.items():
        monkeypatch.setenv(name, value)
    from ray.cluster_utils import Cluster

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Loopback, but not 127.0.0.1, for which a driver puts its machine's own address. Ray itself waits 30 seconds.
        options = {"object_store_memory": 80 * 2**20, "node_ip_address": "127.0.0.2", "wait": False}
        made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, **options})
        try:
            made.wait_for_nodes(PATIENCE)
            made.options, made.node = options, made.add_node(num_cpus=1, **options)
            made.wait_for_nodes(PATIENCE)
            yield made
        finally:
            ray.shutdown()
            made.shutdown()


def kill_node(cluster):
    """Kill a node and all its processes at once, before the run there can go on; then begin another node."""
    raylet = cluster.node.all_processes["raylet"][0].process.pid
    children = Path(f"/proc/{raylet}/task").glob("*/children")
    for pid in (raylet, *(int(pid) for child in children for pid in child.read_text().split())):
        os.kill(pid, signal.SIGKILL)
    cluster.remove_node(cluster.node, allow_graceful=False)
    cluster.add_node(num_cpus=1, **cluster.options)


def lose_the_driver(address, out):
    """Begin the comparison by the command, and kill that as soon as a checkpoint has arrived."""
    args = [word for name, value in SETTINGS.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    args += ["--methods", "bn,bn+aon", "--epochs", "12", "--engine", "ray", "--address", address, "--out", str(out)]
    with started([sys.executable, "-m", "aon.lab", "compare", *args], stdout=subprocess.DEVNULL) as driver:
        wait_until(lambda: any(out.glob(f"runs/*/{checkpoints.CHECKPOINT}")), driver)
        driver.kill()


def test_a_cluster_does_what_this_machine_does_and_what_is_lost_costs_only_time(cluster, tmp_path):
    """Records and weights equal those of local processes bit for bit, though the driver and a node are killed."""
    from aon.lab.grid.engines.ray_cluster import RayEngine

    lost = []

    def lose_a_node(name, event):
        if name.startswith("bn+aon") and isinstance(event, EpochDone) and not lost:
            lost.append(name)
            kill_node(cluster)

    out, local = tmp_path / "ray", tmp_path / "local"
    lose_the_driver(cluster.address, out)
    plan = plan_comparison({**SETTINGS, "methods": "bn,bn+aon", "epochs": 12})
    screen = Silent(lose_a_node)
    outcome = grid.compare(plan, out, screen, engine=RayEngine(cluster.address))
    assert outcome.failed == {}
    assert len(outcome.done) == 2
    assert lost
    assert screen.workers == 1
    begun = [name for name, event in screen.events if event == Began()]
    assert begun.count(lost[0]) == 2, "it began again on the other node"
    epochs = [(name, event.epoch) for name, event in screen.events if isinstance(event, EpochDone)]
    assert epochs.count((lost[0], 1)) <= 1, "it continued from its checkpoint"
    assert all(name == lost[0] or epoch > 1 for name, epoch in epochs), "what the lost driver had begun went on"
    assert grid.compare(plan, local, Silent(), workers=1).failed == {}
    for name in outcome.done:
        mine, theirs = (records.load(place / "runs" / name) for place in (out, local))
        assert mine.without_times() == theirs.without_times()
        files = {path.name for path in (out / "runs" / name).iterdir()}
        assert {"log.txt", "tensorboard", checkpoints.BEST} <= files
        assert checkpoints.CHECKPOINT not in files
        weights = [(place / "runs" / name / checkpoints.LAST).read_bytes() for place in (out, local)]
        assert weights[0] == weights[1]


def test_what_cannot_be_is_said_in_one_line():
    from aon.lab.grid.engines.ray_cluster import RayEngine

    with pytest.raises(LabError, match="cpus_per_run = 0: should be at least 1"):
        RayEngine(cpus_per_run=0)
    with pytest.raises(LabError, match="gpus_per_run = -1: should be 0 or more"):
        RayEngine(gpus_per_run=-1)
    with pytest.raises(LabError, match=r"no Ray cluster answers at 127.0.0.1:1"):
        RayEngine("127.0.0.1:1").__enter__()

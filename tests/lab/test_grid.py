import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from aon.lab import checkpoints, grid, records
from aon.lab.comparisons import default_workers
from aon.lab.config import RunConfig
from aon.lab.errors import LabError
from aon.lab.plans import Plan, plan_comparison

TINY = {
    "network": "resnet20", "width": 0.25, "train_size": 40, "test_size": 20, "batch_size": 20, "spectra_every": 0,
    "learning_rate": 0.1,
}  # fmt: skip


class Silent:
    """A screen that remembers, and does something when a run begins or moves on."""

    def __init__(self, react=lambda name, event: None):
        self.events, self.react = [], react

    def begin(self, out, runs, workers):
        self.workers = workers

    def event(self, name, event):
        self.events.append((name, event))
        self.react(name, event)

    def stopping(self):
        self.events.append(("", {"kind": "stopping"}))

    def end(self):
        self.events.append(("", {"kind": "end"}))

    def begun(self):
        return [name for name, event in self.events if event["kind"] == "begin"]


def plan(methods="bn,bn+aon", seeds=1, epochs=1, **settings) -> Plan:
    return plan_comparison({**TINY, "methods": methods, "seeds": seeds, "epochs": epochs, **settings})


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """A finished comparison."""
    out = tmp_path_factory.mktemp("grid") / "out"
    screen = Silent()
    outcome = grid.compare(plan(), out, screen, workers=2, command=("aon", "compare"))
    return out, screen, outcome


def test_every_run_is_done_in_its_own_process_with_its_share_of_threads(compared):
    out, screen, outcome = compared
    assert outcome.failed == {}
    assert len(outcome.done) == 2
    found = records.load_all(out)
    assert [(record.config.method, record.status) for record in found] == [("bn", "done"), ("bn+aon", "done")]
    assert screen.workers == 2
    share = max(1, len(os.sched_getaffinity(0)) // 2)
    assert [record.environment.threads for record in found] == [share, share]
    assert "epoch 1" in (out / "runs" / outcome.done[0] / "log.txt").read_text()


def test_the_comparison_says_what_it_is(compared):
    out, _, _ = compared
    comparison = records.load_comparison(out)
    assert (comparison.methods, comparison.seeds, comparison.command) == (("bn", "bn+aon"), (0,), ("aon", "compare"))
    assert "method" not in comparison.config
    assert comparison.preset == "quick"


def test_a_finished_run_is_never_repeated_and_seeds_and_methods_can_be_added(compared):
    out, _, before = compared
    (finished,) = (name for name in before.done if name.startswith("bn-s0"))
    screen = Silent()
    outcome = grid.compare(plan("bn", seeds=2), out, screen, workers=2)
    assert len(outcome.done) == 2
    assert finished in outcome.done
    assert [name[:5] for name in screen.begun()] == ["bn-s1"]
    again = Silent()
    assert len(grid.compare(plan("bn,bn+aon"), out, again).done) == 2
    assert again.begun() == []
    comparison = records.load_comparison(out)
    assert (comparison.methods, comparison.seeds) == (("bn", "bn+aon"), (0, 1))


def test_a_directory_with_other_settings_is_refused_by_name(compared):
    out, _, _ = compared
    with pytest.raises(LabError, match=r"other settings \(learning_rate: 0.1 -> 0.5\); choose another --out"):
        grid.compare(plan(learning_rate=0.5), out, Silent())


def test_a_run_that_is_killed_is_reported_does_not_stop_the_others_and_can_be_done_again(tmp_path):
    def kill_bn(name, event):
        if name.startswith("bn-s0") and event["kind"] == "begin":
            os.kill(worker_of(name), signal.SIGKILL)

    screen = Silent(kill_bn)
    outcome = grid.compare(plan(), tmp_path, screen, workers=2)
    (killed,), (done,) = outcome.failed, outcome.done
    assert killed.startswith("bn-s0")
    assert done.startswith("bn+aon-s0")
    assert "killed by SIGKILL, as the system does when memory runs out" in outcome.failed[killed]
    assert grid.compare(plan(), tmp_path, Silent()).failed == {}


def worker_of(name):
    """The child of this process whose errors go to the run's log."""
    children = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    numbers = {int(number) for child in children for number in child.read_text().split()}
    (worker,) = (n for n in numbers if f"/{name}/log.txt" in str(Path(f"/proc/{n}/fd/2").readlink()))
    return worker


def test_a_diverging_run_is_reported_and_recorded(tmp_path):
    outcome = grid.compare(plan("bn,bn+aon", learning_rate=1e30), tmp_path, Silent(), workers=2)
    assert outcome.done == []
    assert all("not finite" in reason for reason in outcome.failed.values())
    assert {record.status for record in records.load_all(tmp_path)} == {"failed"}


def test_nothing_is_begun_if_anything_is_wrong(tmp_path):
    for settings, message in [
        ({"dataset": "cifar11"}, "cifar11"),
        ({"network": "resnet19"}, "unknown network 'resnet19'"),
        ({"batch_size": 41}, "batch_size = 41: there are only 40"),
        ({"device": "cuda:7"}, "device = 'cuda:7': this machine has"),
    ]:
        with pytest.raises(LabError, match=message):
            grid.compare(plan(**settings), tmp_path / "out", Silent())
    with pytest.raises(LabError, match="workers = 0: should be at least 1"):
        grid.compare(plan(), tmp_path / "out", Silent(), workers=0)
    assert not (tmp_path / "out").exists()


def test_a_file_in_the_way_is_named(tmp_path):
    (tmp_path / "out").write_text("")
    with pytest.raises(LabError, match=r"out is a file"):
        grid.compare(plan(), tmp_path / "out", Silent())


def test_workers_are_as_many_as_cores_and_runs():
    cores = len(os.sched_getaffinity(0))
    config = RunConfig(device="cpu")
    assert default_workers(config, 1) == 1
    assert 1 <= default_workers(config, 100) <= cores
    assert default_workers(config.but(threads=cores), 100) == 1


COMMAND = [
    sys.executable,
    "-c",
    "from aon.lab.cli import main; main()",
    "compare",
    "--methods",
    "bn,bn+aon",
    "--seeds",
    "1",
]
WORDS = [word for name, value in TINY.items() for word in (f"--{name.replace('_', '-')}", str(value))]


def test_ctrl_c_saves_every_run_says_how_to_continue_and_the_same_command_does(tmp_path):
    """Also: killing the whole comparison leaves no worker behind."""
    out = tmp_path / "out"
    command = [*COMMAND, *WORDS, "--epochs", "60", "--workers", "2", "--out", str(out)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: len(list(out.glob(f"runs/*/{checkpoints.CHECKPOINT}"))) == 2, process)
    process.send_signal(signal.SIGINT)
    told, complaint = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in complaint
    assert "stopped; 0 runs are done, 2 are not" in complaint
    assert "continue with: aon compare --methods bn,bn+aon" in complaint
    assert {record.status for record in records.load_all(out)} == {"interrupted"}
    assert "saves itself" in told

    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: all(record.status == "running" for record in records.load_all(out)), process)
    process.kill()
    process.communicate(timeout=60)
    wait_for(lambda: {record.status for record in records.load_all(out)} == {"interrupted"}, None)
    epochs = [len(record.epochs) for record in records.load_all(out)]
    assert all(count >= 1 for count in epochs)


def wait_for(condition, process, seconds=90):
    end = time.monotonic() + seconds
    while not condition():
        assert process is None or process.poll() is None, process.communicate()
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.05)

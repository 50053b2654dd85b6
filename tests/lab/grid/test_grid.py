"""Comparisons with real worker processes: continue, extend, fail, stop."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.processes import PATIENCE, started, wait_until

from aon.lab.errors import LabError
from aon.lab.experiment import records
from aon.lab.experiment.config import RunConfig
from aon.lab.experiment.plans import Plan, plan_comparison
from aon.lab.grid import grid
from aon.lab.grid.comparisons import default_workers
from aon.lab.grid.events import Began
from aon.lab.report.output import load_results
from aon.lab.training import checkpoints

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
        self.events.append(("", "stopping"))

    def end(self):
        self.events.append(("", "end"))

    def begun(self):
        return [name for name, event in self.events if event == Began()]


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


def test_every_method_is_run_under_every_setting_and_values_can_be_added(tmp_path):
    grid.compare(plan("bn,bn+aon", vary=["learning_rate=0.05"]), tmp_path, Silent(), workers=2)
    outcome = grid.compare(plan("bn,bn+aon", vary=["learning_rate=0.05,0.2"]), tmp_path, Silent(), workers=2)
    assert outcome.failed == {}
    found = [(record.config.learning_rate, record.config.method) for record in records.load_all(tmp_path)]
    assert found == [(0.05, "bn"), (0.05, "bn+aon"), (0.2, "bn"), (0.2, "bn+aon")]
    again = Silent()
    assert len(grid.compare(plan("bn", vary=["learning_rate=0.2"]), tmp_path, again).done) == 1
    assert again.begun() == []
    with pytest.raises(LabError, match=r"other settings \(vary: learning_rate -> nothing\)"):
        grid.compare(plan("bn"), tmp_path, Silent())


def test_data_sets_and_networks_vary_in_one_comparison_with_one_report(tmp_path):
    generator = np.random.default_rng(0)
    images = {f"x_{part}": generator.integers(0, 256, (60, 32, 32, 3), np.uint8) for part in ("train", "test")}
    labels = {f"y_{part}": np.arange(60) % 3 for part in ("train", "test")}
    np.savez(tmp_path / "own.npz", **images, **labels)
    vary = [f"dataset=cifar10-sample,{tmp_path / 'own.npz'}", "network=mlp,resnet20"]
    outcome = grid.compare(plan("bn", vary=vary, validation_size=0), tmp_path / "out", Silent(), workers=2)
    assert (outcome.failed, len(outcome.done)) == ({}, 4)
    results, _ = load_results([tmp_path / "out"])
    assert len({row.task for row in results.rows}) == 4
    assert all(row.last.mean is not None for row in results.rows)


def test_a_run_that_is_killed_is_reported_does_not_stop_the_others_and_can_be_done_again(tmp_path):
    def kill_bn(name, event):
        if name.startswith("bn-s0") and event == Began():
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


def test_a_diverging_run_is_reported_and_recorded_and_leaves_the_others_alone(tmp_path):
    outcome = grid.compare(plan("bn", vary=["learning_rate=0.1,1e30"]), tmp_path, Silent(), workers=1)
    assert len(outcome.done) == 1
    assert all("not finite" in reason for reason in outcome.failed.values())
    found = {record.config.learning_rate: record.status for record in records.load_all(tmp_path)}
    assert found == {0.1: "done", 1e30: "failed"}


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
    "from aon.lab.cli.app import main; main()",
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
    with started(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        wait_until(lambda: len(list(out.glob(f"runs/*/{checkpoints.CHECKPOINT}"))) == 2, process)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "Traceback" not in stderr
    assert "stopped; 0 runs are done, 2 are not" in stderr
    assert "continue with: aon compare --methods bn,bn+aon" in stderr
    assert {record.status for record in records.load_all(out)} == {"interrupted"}
    assert "saves itself" in stdout

    with started(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        wait_until(lambda: all(record.status == "running" for record in records.load_all(out)), process)
        process.kill()
        process.communicate(timeout=PATIENCE)
        wait_until(lambda: {record.status for record in records.load_all(out)} == {"interrupted"})
    epochs = [len(record.epochs) for record in records.load_all(out)]
    assert all(count >= 1 for count in epochs)


def test_a_name_given_to_an_existing_comparison_is_taken_and_other_threads_are_refused(compared):
    out, _, _ = compared
    grid.compare(plan("bn", name="another name"), out, Silent())
    assert records.load_comparison(out).name == "another name"
    grid.compare(plan("bn"), out, Silent())
    assert records.load_comparison(out).name == "another name"
    before = records.load_comparison(out).config["threads"]
    with pytest.raises(LabError, match=f"threads: {before} -> {before + 1}"):
        grid.compare(plan("bn", threads=before + 1), out, Silent())


def test_a_directory_cannot_make_us_run_a_network_that_is_not_ours(compared, tmp_path):
    out, _, _ = compared
    old = records.load_comparison(out)
    changed = old.model_copy(update={"config": old.config | {"network": "evil:net"}})
    records.save_comparison(changed, tmp_path)
    with pytest.raises(LabError, match="names the network 'evil:net', which is not one of ours"):
        plan_comparison({"seeds": 5}, out=tmp_path)
    assert plan_comparison({"network": "evil:net"}, out=tmp_path).base.network == "evil:net"


@pytest.mark.parametrize(("outputs", "found"), [(7, r"shape \(2, 7\)"), (1000, r"shape \(2, 1000\)")])
def test_a_network_with_the_wrong_number_of_outputs_is_refused_before_training(tmp_path, monkeypatch, outputs, found):
    source = f"from torch import nn\ndef net(): return nn.Sequential(nn.Flatten(), nn.Linear(3072, {outputs}))\n"
    (tmp_path / f"outputs{outputs}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(LabError, match=rf"gives {found} for 2 images, expected shape \(2, 10\)"):
        grid.compare(plan("none", network=f"outputs{outputs}:net"), tmp_path / "out", Silent())
    assert not (tmp_path / "out").exists()

"""Comparisons under faults: signals, damaged files, changed data, full and read-only disks."""

import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy
import pytest
from tests.faults.comparisons import (
    FAULTS,
    SETTINGS,
    Comparison,
    compared,
    epochs,
    inject_faults,
    is_loading_torch,
    kill,
    paused,
    until,
)
from tests.faults.kills import TINY, differences

from aon.lab.experiment import records
from aon.lab.experiment.config import RunConfig
from aon.lab.system.locks import LOCK
from aon.lab.training.run import run


def test_a_comparison_under_every_fault_ends_with_the_same_bits(tmp_path):
    found = inject_faults(tmp_path, len(FAULTS))
    assert found["lost"] == []
    assert found["faults"] == dict.fromkeys(FAULTS, 1)


@pytest.fixture
def started(tmp_path):
    """Comparisons that are ended when the test is, whatever came of it."""
    going = []

    def start(name="out", **keywords):
        going.append(Comparison(tmp_path / name, **keywords))
        return going[-1]

    yield start
    for one in going:
        one.end()


def test_ctrl_c_while_torch_is_loaded_leaves_nothing(started):
    going = started("early")
    until(lambda: is_loading_torch(going.process.pid))
    kill(going.process.pid, signal.SIGINT)
    assert going.wait() in (130, -signal.SIGINT, 1)  # until our first line runs, status and words are Python's own
    assert "unexpected fault" not in going.output()
    assert not going.out.exists()


def test_a_second_comparison_in_the_directory_is_refused_and_the_first_is_unharmed(started, tmp_path):
    whole = started("whole", epochs=20)
    assert whole.wait() == 0
    first = started(epochs=20)
    until(lambda: epochs(first.out) >= 1)
    with paused(first.workers()):  # so that the first is not done before the second begins
        second = started(epochs=20)
        assert second.wait() == 2
        assert "is in use by another aon process" in second.output()
        assert first.is_going()
    assert first.wait() == 0
    assert compared(whole.out, first.out) == []


def test_a_comparison_under_nohup_survives_the_end_of_its_terminal(started):
    def ignore():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    going = started(before=ignore, epochs=4)
    until(lambda: going.workers())
    for _ in range(3):
        kill(going.process.pid, signal.SIGHUP)
        time.sleep(0.1)
    assert going.wait() == 0
    assert {record.status for record in records.load_all(going.out)} == {"done"}


def test_a_run_of_a_killed_parent_that_is_in_a_long_step_is_waited_for(started, tmp_path):
    first = started(epochs=40)
    until(lambda: len(first.workers()) == 2 and epochs(first.out) >= 1)
    with paused(first.workers()):
        kill(first.process.pid)
        first.process.wait()
        second = started(epochs=40)
        until(lambda: len(second.workers()) == 2 and all(waits_for_a_lock(pid) for pid in second.workers()))
        time.sleep(0.5)
        assert {record.status for record in records.load_all(first.out)} == {"running"}
    assert second.wait() == 0
    found = records.load_all(first.out)
    assert [(record.status, len(record.epochs)) for record in found] == [("done", 40)] * 2


def waits_for_a_lock(pid: int) -> bool:
    """Whether a process has a run's lock open."""
    with suppress(OSError):
        return any(link.readlink().name == LOCK for link in Path(f"/proc/{pid}/fd").iterdir())
    return False


def test_a_damaged_record_is_named_and_the_other_runs_go_on(started, tmp_path):
    going = started(epochs=2)
    assert going.wait() == 0
    (path,) = tmp_path.glob("out/runs/bn-s0-*/record.json")
    path.write_bytes(path.read_bytes().replace(b'"seed": 0', b'"seed": 1'))
    again = started(epochs=2, seeds=2)
    assert again.wait() == 2
    assert "differs from its checksum; to do it again, delete" in again.output().replace("\n", " ")
    assert len(list(tmp_path.glob("out/runs/*-s1-*/model.safetensors"))) == 2
    shutil.rmtree(path.parent)
    assert started(epochs=2, seeds=2).wait() == 0


def test_images_that_change_between_two_runs_are_refused_by_name(started, tmp_path):
    def write(seed):
        draw = numpy.random.default_rng(seed)
        x, y = draw.integers(0, 256, (60, 16, 16, 3), dtype=numpy.uint8), numpy.arange(60) % 3
        numpy.savez(tmp_path / "own.npz", x_train=x, y_train=y, x_test=x, y_test=y)

    write(0)
    settings = {"dataset": tmp_path / "own.npz", "epochs": 8, "workers": 1}
    going = started(**settings)
    until(lambda: epochs(going.out) >= 1)
    write(1)  # while the second run waits
    assert going.wait() == 2
    assert "the dataset has changed since" in going.output()
    assert [record.status for record in records.load_all(going.out)] == ["done"]
    again = started(**settings)
    assert again.wait() == 2
    assert "the dataset has changed since" in again.output()
    write(0)
    assert started(**settings).wait() == 0


def mounted(*words):
    done = subprocess.run(["mount", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"cannot mount here: {done.stderr.strip()}")


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 600 KB."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted("-t", "tmpfs", "-o", "size=600k", "tmpfs", str(place))
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_is_told_plainly_and_the_comparison_continues_when_there_is_room(started, small_disk, tmp_path):
    whole = started("whole", epochs=4)
    assert whole.wait() == 0
    going = started("disk/out", epochs=4)
    assert going.wait() == 2
    output = going.output()
    assert "No space left on device" in output
    assert "inline_container" not in output
    assert "Traceback" not in output
    subprocess.run(["mount", "-o", "remount,size=60m", str(small_disk)], check=True)
    again = started("disk/out", epochs=4)
    assert again.wait() == 0, again.output()
    assert compared(tmp_path / "whole", small_disk / "out") == []


def test_a_read_only_directory_is_told_plainly(started, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    mounted("--bind", str(out), str(out))
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", str(out)], check=True)
        going = started(epochs=1)
        assert going.wait() == 2
        assert "Read-only file system" in going.output()
        assert "Traceback" not in going.output()
    finally:
        subprocess.run(["umount", str(out)], check=True)


# A process of its own: one that has run before keeps memory that it has freed.
STARVED = """
import resource, sys
from pathlib import Path
from aon.lab.data import load
from aon.lab.experiment.config import RunConfig
from aon.lab.system.locks import LOCK
from aon.lab.training.run import run
config = RunConfig.model_validate_json(sys.argv[1])
images = load(config.dataset)  # before memory is short: what is short of it shall be the training
size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + 64 * 2**20,) * 2)
try:
    run(config, Path(sys.argv[2]), source=images)
except Exception as error:
    sys.exit(5 if "out of memory" in str(error) else str(error))
"""


def test_a_worker_out_of_memory_fails_alone_and_can_be_done_again(tmp_path):
    config: RunConfig = TINY.but(width=1.0, batch_size=20, epochs=2)
    run(config, tmp_path / "whole")
    starved = subprocess.run([sys.executable, "-c", STARVED, config.model_dump_json(), str(tmp_path / "run")])
    assert starved.returncode == 5
    assert records.load(tmp_path / "run").error.startswith("out of memory")
    run(config, tmp_path / "run")
    assert differences(tmp_path / "whole", tmp_path / "run") == []
    assert SETTINGS["device"] == "cpu"

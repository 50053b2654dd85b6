"""One run on several real processes: torchrun, gloo on 127.0.0.1."""

import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from tests.lab.training import torchrun
from tests.processes import PATIENCE, completed, wait_until

from aon.lab.errors import LabError
from aon.lab.experiment import records
from aon.lab.experiment.config import RunConfig
from aon.lab.training import checkpoints, ranks
from aon.lab.training.ranks import ALONE, Ranks
from aon.lab.training.run import run

SETTINGS = {
    "network": "resnet20", "width": 0.25, "train_size": 60, "test_size": 30, "batch_size": 20, "epochs": 2,
    "learning_rate": 0.02, "spectra_every": 2, "threads": 1,
}  # fmt: skip
# Sums over ranks are taken in another order; measured after six steps, relative to the largest entry or 1: 3e-7 to
# 2e-5, and 1.3e-4 for DBN, whose eigenvectors turn where eigenvalues are close.
ROUNDING = 5e-4
EVEN = [{"method": "none+aon"}, {"method": "gn+aon:order=4"}]
UNEVEN = [{"method": "gn+orth", "batch_size": 15, "validation_size": 20}]
BOUNDED = [{"method": "gn+svb:every=1"}]
SYNCHRONISED = [
    {"method": method, "sync_bn": True, "learning_rate": 0.005, "batch_size": 15}
    for method in ("iternorm", "dbn", "brn")
]

EACH = """
import json, sys
from pathlib import Path
from aon.lab.experiment.config import RunConfig
from aon.lab.training.ranks import joined
from aon.lab.training.run import Watch, run
from aon.lab.errors import StoppedError

out, cases = Path(sys.argv[1]), json.loads(sys.argv[2])
with joined("cpu") as ranks:
    for number, (settings, steps) in enumerate(cases):
        folder = out / str(number) if ranks.first else out / "nowhere" / str(ranks.rank)  # no shared file system
        asked = [0]
        def stop():
            asked[0] += 1
            return steps is not None and ranks.rank == 1 and asked[0] >= steps
        try:
            run(RunConfig(**settings), folder, watch=Watch(stop=stop), ranks=ranks)
        except StoppedError:
            assert steps is not None
        assert ranks.first or not folder.exists()
print("done", flush=True)
import os; os._exit(0)
"""


def config(**changes) -> RunConfig:
    return RunConfig(**{**SETTINGS, **changes})


def alone(folder, **changes):
    """The same run in one process."""
    record = run(config(**changes), folder)
    return record, checkpoints.load_weights(folder / checkpoints.LAST)[0]


def assert_same(folder, expected):
    """Losses, accuracies and weights of a run are those expected, to rounding."""
    record, weights = records.load(folder), checkpoints.load_weights(folder / checkpoints.LAST)[0]
    assert record.status == "done"
    assert record.images == expected[0].images
    for mine, theirs in zip(record.epochs, expected[0].epochs, strict=True):
        assert mine.train_loss == pytest.approx(theirs.train_loss, rel=ROUNDING)
        assert mine.val_loss == pytest.approx(theirs.val_loss, rel=ROUNDING)
        assert mine.val_accuracy == pytest.approx(theirs.val_accuracy, abs=100 / 30)  # one image
        assert (mine.penalty or 0) == pytest.approx(theirs.penalty or 0, rel=ROUNDING)
        assert (mine.spectra is None) == (theirs.spectra is None)
    for name, tensor in expected[1].items():
        size = max(1.0, float(tensor.abs().max()))
        torch.testing.assert_close(weights[name], tensor, atol=ROUNDING * size, rtol=ROUNDING, msg=name)


def test_two_ranks_and_four_train_as_one_process_does(tmp_path):
    """Also: a run that rank 1 asked to stop on two ranks continues on four, and one of four in a single process."""
    cases = [*EVEN, *UNEVEN, *BOUNDED, *SYNCHRONISED]
    settings = [{**SETTINGS, **case} for case in cases]
    stopped = ({**SETTINGS, **EVEN[0], "seed": 1}, 4)
    torchrun.script(tmp_path, 2, EACH, [*((one, None) for one in settings), stopped])
    for number, case in enumerate(cases):
        assert_same(tmp_path / "out" / str(number), alone(tmp_path / f"alone-{number}", **case))
    last = tmp_path / "out" / str(len(cases))
    assert records.load(last).status == "interrupted"
    four = tmp_path / "four"
    four.mkdir()
    (four / "out").mkdir()
    last.rename(four / "out" / "0")
    torchrun.script(four, 4, EACH, [(stopped[0], None), (settings[1], None), stopped])
    expected = alone(tmp_path / "alone-stopped", **EVEN[0], seed=1)
    assert_same(four / "out" / "0", expected)
    assert_same(four / "out" / "1", alone(tmp_path / "alone-1", **cases[1]))
    assert records.load(four / "out" / "1").environment.ranks == 4
    assert records.load(four / "out" / "2").status == "interrupted"
    alone(four / "out" / "2", **EVEN[0], seed=1)
    assert_same(four / "out" / "2", expected)


WORDS = [word for name, value in SETTINGS.items() for word in (f"--{name.replace('_', '-')}", str(value))]


def saved_at(checkpoint: Path) -> int:
    """When it was written; 0 if it is not there."""
    try:
        return checkpoint.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def kill_rank(process, rank, checkpoint, before):
    """Kill a rank after the next checkpoint, wait for its successor, and return when the checkpoint was written."""
    wait_until(lambda: saved_at(checkpoint) > before, process)
    pid = torchrun.pid_of(process.pid, rank)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: torchrun.pid_of(process.pid, rank) not in (pid, None), process)
    return saved_at(checkpoint)


def test_a_killed_rank_costs_only_time(tmp_path):
    """torchrun starts all ranks again, twice; record and weights are those of two ranks that lived, bit for bit."""
    args = ["train", "--method", "bn+aon", *WORDS, "--epochs", "12"]
    done = torchrun.command(2, [*args, "--out", str(tmp_path / "whole")])
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("BN+AON(q=2): test accuracy") == 1
    out = tmp_path / "killed"
    with torchrun.start(2, [*args, "--out", str(out)], "--max-restarts=2") as process:
        saved = kill_rank(process, 1, out / checkpoints.CHECKPOINT, 0)
        kill_rank(process, 0, out / checkpoints.CHECKPOINT, saved)
        _, stderr = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, stderr
    assert "Traceback (most recent" not in stderr
    whole, killed = (records.load(tmp_path / name) for name in ("whole", "killed"))
    assert killed.without_times() == whole.without_times()
    weights = [(tmp_path / name / checkpoints.LAST).read_bytes() for name in ("whole", "killed")]
    assert weights[0] == weights[1]


def test_what_cannot_be_is_told_once_in_one_line(tmp_path):
    args = ["train", "--method", "bn", *WORDS, "--out", str(tmp_path / "out")]
    refused = torchrun.command(2, [*args, "--sync-bn"])
    assert refused.returncode != 0
    assert refused.stderr.count("aon: ") == 1
    assert "sync_bn = True: torch's SyncBatchNorm needs CUDA" in refused.stderr


def test_a_restart_does_not_meet_the_processes_of_the_attempt_before():
    store = dist.HashStore()
    store.set_timeout(timedelta(seconds=60))
    seen = []
    for late in (0, 1, 2):  # which rank comes last
        with ThreadPoolExecutor(3) as pool:
            found = {}
            for rank in sorted(range(3), key=lambda rank: rank == late):
                found[rank] = pool.submit(ranks._meet, store, Ranks(rank, 3))
                wait([found[rank]], timeout=0.1)
        found[0].result().set("address", str(late))
        seen += [found[rank].result().get("address").decode() for rank in range(3)]
    assert seen == ["0"] * 3 + ["1"] * 3 + ["2"] * 3


@pytest.mark.parametrize("n", [0, 1, 3, 4, 10, 256])
def test_slices_are_disjoint_and_cover_the_batch(n):
    seen = [i for rank in range(4) for i in list(range(n))[Ranks(rank, 4).part(n)]]
    assert seen == list(range(n))


def test_devices():
    assert ALONE.device("mps") == "mps"
    assert Ranks(1, 2, 1, 2).device("cpu") == "cpu"
    with pytest.raises(LabError, match="device = 'mps': 2 processes need a device each"):
        Ranks(1, 2, 1, 2).device("mps")
    if torch.cuda.device_count() < 2:
        with pytest.raises(LabError, match="device = 'cuda': 2 processes here"):
            Ranks(1, 2, 1, 2).device("cuda")


def test_an_environment_that_torchrun_would_not_make_is_refused(monkeypatch):
    for name, value in {"RANK": "0", "WORLD_SIZE": "two", "LOCAL_RANK": "0", "MASTER_ADDR": "x"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("MASTER_PORT", raising=False)
    assert not ranks.launched()
    monkeypatch.setenv("MASTER_PORT", "1")
    with pytest.raises(LabError, match="the environment has WORLD_SIZE='two': should be a whole number"):
        ranks.launched()


def test_alone_nothing_is_sent(tmp_path):
    tensor = torch.ones(2)
    assert ALONE.sum(tensor) is tensor
    assert ALONE.agree(True, False) == (True, False)
    assert ALONE.from_first(lambda: b"x") == b"x"
    with ALONE.copy_of(tmp_path) as path:
        assert path is tmp_path


def test_compare_under_torchrun_is_refused(tmp_path):
    environment = {
        **os.environ, "RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1",
    }  # fmt: skip
    command = [sys.executable, "-m", "aon.lab", "compare", "--out", str(tmp_path / "out")]
    done = completed(command, env=environment)
    assert done.returncode == 2
    assert done.stderr.startswith("aon: aon compare starts its own processes")
    assert not Path(tmp_path / "out").exists()

import signal
import subprocess
import sys
import time

import pytest
import torch

from aon.lab import checkpoints, records
from aon.lab.config import RunConfig
from aon.lab.errors import LabError, RunError, StoppedError
from aon.lab.training import Watch, run

TINY = RunConfig(
    method="bn+aon",
    network="resnet20",
    width=0.25,
    train_size=60,
    test_size=40,
    batch_size=20,
    epochs=3,
    threads=1,
    device="cpu",
)
# A step draws from the random stream (dropout), has a penalty and keeps state of its own: all must be saved.
RICH = TINY.but(method="iternorm+aon+orth+dropout", train_size=40, epochs=2)
COMMAND = [sys.executable, "-c", "from aon.lab.cli import main; main()", "train"]


def same_bits(a, b):
    states = [checkpoints.load_weights(folder / checkpoints.LAST)[0] for folder in (a, b)]
    assert states[0].keys() == states[1].keys()
    for name, tensor in states[0].items():
        assert torch.equal(tensor, states[1][name]), name
    assert records.load(a).without_times() == records.load(b).without_times()
    for name in (checkpoints.LAST, checkpoints.BEST):
        assert (a / name).read_bytes() == (b / name).read_bytes()


def test_a_run_leaves_a_complete_record(tmp_path):
    record = run(TINY, tmp_path / "run")
    assert records.load(tmp_path / "run") == record
    assert (record.status, record.error, record.label) == ("done", None, "BN+AON(q=2)")
    assert [row.epoch for row in record.epochs] == [1, 2, 3]
    assert [row.learning_rate for row in record.epochs] == [0.1, 0.1, 0.05]
    assert (record.images.train, record.images.test, record.environment.threads) == (60, 40, 1)
    for row in record.epochs:
        assert 0 <= row.train_accuracy <= 100
        assert row.train_loss > 0
        assert row.seconds > 0
        assert row.penalty is None
        assert len(row.spectra) == 19
        assert "classifier" not in [layer.name for layer in row.spectra]
        assert all(layer.normalised_max < 1.5 for layer in row.spectra)
    assert {path.name for path in (tmp_path / "run").iterdir()} == {
        ".lock",
        "record.json",
        "model.safetensors",
        "best.safetensors",
        "tensorboard",
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that nobody disturbed."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    run(RICH, folder)
    return folder


def test_same_seed_same_bits_other_seed_other_bits(tmp_path, whole):
    run(RICH, tmp_path / "a")
    same_bits(tmp_path / "a", whole)
    run(RICH.but(seed=1), tmp_path / "c")
    weights = [checkpoints.load_weights(folder / checkpoints.LAST)[0] for folder in (whole, tmp_path / "c")]
    assert not torch.equal(weights[0]["classifier.weight"], weights[1]["classifier.weight"])


def stop_after(steps):
    calls = iter(range(10**6))
    return Watch(stop=lambda: next(calls) >= steps)


@pytest.mark.parametrize("steps", range(8))
def test_a_run_stopped_anywhere_and_continued_has_the_bits_of_one_that_was_not(tmp_path, whole, steps):
    # An epoch is 2 steps and 2 batches of validation.
    with pytest.raises(StoppedError, match="stopped in epoch"):
        run(RICH, tmp_path / "cut", watch=stop_after(steps))
    assert records.load(tmp_path / "cut").status == "interrupted"
    torch.manual_seed(99)  # whatever the process has drawn since
    run(RICH, tmp_path / "cut")
    same_bits(whole, tmp_path / "cut")


def test_a_run_killed_in_a_real_process_and_continued_has_the_same_bits(tmp_path):
    # Threads as well: the continued run is not told, it finds them.
    config = RICH.but(epochs=4)
    settings = config.model_dump(exclude_defaults=True)
    settings.pop("threads")
    words = [word for name, value in settings.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    run(config, whole)
    process = subprocess.Popen(
        [*COMMAND, *words, "--threads", "1", "--out", str(cut)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    wait_for(lambda: (cut / checkpoints.CHECKPOINT).exists(), process)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert records.load(cut).status == "running"
    record = run(config.but(threads=2), cut)
    assert record.environment.threads == 1
    assert [row.epoch for row in record.epochs] == [1, 2, 3, 4]
    same_bits(whole, cut)


def wait_for(condition, process, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, "the process ended too early"
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.02)


def test_a_finished_run_is_not_repeated(tmp_path):
    run(TINY, tmp_path)
    before = (tmp_path / "record.json").stat().st_mtime_ns
    record = run(TINY, tmp_path, watch=Watch(stop=lambda: pytest.fail("trained again")))
    assert record.status == "done"
    assert (tmp_path / "record.json").stat().st_mtime_ns == before


def test_a_folder_with_another_run_is_refused_by_name(tmp_path):
    run(TINY.but(epochs=1), tmp_path)
    with pytest.raises(LabError, match=r"other settings \(epochs: 1 -> 3\)"):
        run(TINY, tmp_path)


def test_a_loss_that_is_not_a_number_fails_the_run(tmp_path):
    with pytest.raises(RunError, match="training loss of epoch 1 is not finite"):
        run(TINY.but(method="bn", learning_rate=1e30), tmp_path)
    record = records.load(tmp_path)
    assert record.status == "failed"
    assert "not finite" in record.error


def test_too_few_images_for_a_batch_are_refused(tmp_path):
    with pytest.raises(LabError, match="batch_size = 61: there are only 60 training images"):
        run(TINY.but(batch_size=61), tmp_path)


def test_a_damaged_checkpoint_is_named_not_trained_over(tmp_path):
    with pytest.raises(StoppedError, match="stopped"):
        run(TINY, tmp_path, watch=stop_after(1))
    path = tmp_path / checkpoints.CHECKPOINT
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(LabError, match=r"checkpoint.pt is damaged"):
        run(TINY, tmp_path)


def test_a_fault_in_a_run_is_recorded_and_its_traceback_logged(tmp_path):
    def fault(_):
        raise ZeroDivisionError("by hand")

    with pytest.raises(RunError, match="ZeroDivisionError: by hand"):
        run(TINY, tmp_path, watch=Watch(epoch=fault))
    assert records.load(tmp_path).error == "ZeroDivisionError: by hand"
    assert "Traceback" in (tmp_path / "log.txt").read_text()


def test_memory_that_runs_out_is_called_so(tmp_path):
    with pytest.raises(RunError, match="out of memory: "):
        run(TINY, tmp_path, watch=Watch(epoch=lambda _: torch.empty(2**55)))
    assert records.load(tmp_path).error.startswith("out of memory: ")


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_lower_precision_trains(tmp_path, precision):
    record = run(TINY.but(precision=precision, epochs=1), tmp_path)
    assert record.status == "done"
    assert record.epochs[0].train_loss < 10


def test_spectra_now_and_then(tmp_path):
    record = run(TINY.but(spectra_every=2), tmp_path / "a")
    assert [row.spectra is None for row in record.epochs] == [True, False, False]
    record = run(TINY.but(spectra_every=0), tmp_path / "b")
    assert all(row.spectra is None for row in record.epochs)


def test_progress_is_told(tmp_path):
    told = []
    run(TINY.but(epochs=1), tmp_path, watch=Watch(progress=told.append, every=0.0))
    assert [now.step for now in told] == [1, 2, 3, 3, 3]
    assert {(now.epoch, now.epochs, now.steps) for now in told} == {(1, 1, 3)}
    assert all(now.speed > 0 for now in told)


def test_a_penalty_is_recorded(tmp_path):
    record = run(TINY.but(method="bn+orth", epochs=1), tmp_path)
    assert record.epochs[0].penalty > 0

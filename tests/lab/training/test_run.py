"""Runs: continue to the same bits, stop, fail, notice changed data."""

import gc
import signal
import subprocess
import sys

import numpy
import pytest
import torch
from tests.processes import started, wait_until
from torch.nn.functional import cross_entropy

from aon.lab.data import eval_batches
from aon.lab.errors import LabError, RunError, StoppedError
from aon.lab.experiment import records
from aon.lab.experiment.config import RunConfig
from aon.lab.training import checkpoints, preparation
from aon.lab.training.run import Watch, run
from aon.lab.training.session import Session

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
COMMAND = [sys.executable, "-c", "from aon.lab.cli.app import main; main()", "train"]


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


BOUNDED = TINY.but(method="bn+svb", train_size=40)


@pytest.fixture(scope="module")
def bounded(tmp_path_factory):
    """A run with singular value bounding that nobody disturbed."""
    folder = tmp_path_factory.mktemp("runs") / "bounded"
    run(BOUNDED, folder)
    return folder


@pytest.mark.parametrize("steps", range(12))
def test_a_run_with_bounding_stopped_anywhere_has_the_bits_of_one_that_was_not(tmp_path, bounded, steps):
    with pytest.raises(StoppedError, match="stopped in epoch"):
        run(BOUNDED, tmp_path / "cut", watch=stop_after(steps))
    run(BOUNDED, tmp_path / "cut")
    same_bits(bounded, tmp_path / "cut")


@pytest.mark.parametrize("epochs", [1, 2])
def test_a_run_interrupted_between_saving_and_bounding_has_the_same_bits(tmp_path, bounded, epochs):
    def interrupt(record):
        if len(record.epochs) == epochs:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(BOUNDED, tmp_path / "cut", watch=Watch(epoch=interrupt))
    run(BOUNDED, tmp_path / "cut")
    same_bits(bounded, tmp_path / "cut")


@pytest.mark.parametrize(("method", "same"), [("bn+svb", 1), ("bn+svb:every=2", 2), ("bn+svb:every=3", 3)])
def test_bounding_follows_validation_and_skips_the_last_epoch(tmp_path, method, same):
    plain = run(BOUNDED.but(method="bn"), tmp_path / "plain").without_times()
    bounded = run(BOUNDED.but(method=method), tmp_path / "bounded").without_times()
    equal = [ours == theirs for ours, theirs in zip(bounded["epochs"], plain["epochs"], strict=True)]
    assert equal == [epoch < same for epoch in range(3)]


def test_a_run_killed_in_a_real_process_and_continued_has_the_same_bits(tmp_path):
    # Threads as well: the continued run is not told, it finds them.
    config = RICH.but(epochs=4)
    settings = config.model_dump(exclude_defaults=True)
    settings.pop("threads")
    words = [word for name, value in settings.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    run(config, whole)
    with started([*COMMAND, *words, "--threads", "1", "--out", str(cut)], stdout=subprocess.DEVNULL) as process:
        wait_until(lambda: (cut / checkpoints.CHECKPOINT).exists(), process)
        process.kill()
        assert process.wait() == -signal.SIGKILL
    assert records.load(cut).status == "running"
    record = run(config.but(threads=2), cut)
    assert record.environment.threads == 1
    assert [row.epoch for row in record.epochs] == [1, 2, 3, 4]
    same_bits(whole, cut)


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
    with pytest.raises(RunError, match="training loss of epoch 1 is not finite from step 2 of 3 on: not finite now: "):
        run(TINY.but(method="bn", learning_rate=1e30), tmp_path)
    record = records.load(tmp_path)
    assert record.status == "failed"
    assert "not finite" in record.error


def test_a_run_that_breaks_late_keeps_its_last_good_checkpoint_and_says_which_layers_were_large(tmp_path):
    def poison(record):
        if len(record.epochs) == 2:
            session = next(o for o in gc.get_objects() if type(o) is Session and o.folder == tmp_path)
            with torch.no_grad():
                next(session.parts.model.parameters()).fill_(float("nan"))

    with pytest.raises(RunError, match=r"epoch 3 is not finite from step 1 of 3 on: .*largest singular values in the"):
        run(TINY, tmp_path, watch=Watch(epoch=poison))
    path, fault = checkpoints.latest(tmp_path)
    state = checkpoints.load(path)
    assert fault is None
    assert all(tensor.isfinite().all() for tensor in state["model"].values())
    assert "its last good checkpoint is kept" in records.load(tmp_path).error
    run(TINY, tmp_path)  # what broke it was no part of the run: it continues, to the bits of one that never broke
    run(TINY, tmp_path.with_name("whole"))
    same_bits(tmp_path, tmp_path.with_name("whole"))


def test_a_broken_network_is_never_saved(tmp_path):
    def poison(now):
        session = next(o for o in gc.get_objects() if type(o) is Session and o.folder == tmp_path)
        with torch.no_grad():
            session.parts.model.classifier.weight.fill_(float("inf"))

    with pytest.raises(RunError, match="the weights of epoch 1 are not finite"):
        run(TINY, tmp_path, watch=Watch(progress=poison, every=0.0, save_every=0.0))
    assert not checkpoints.exists(tmp_path) or checkpoints.latest(tmp_path)


def test_too_few_images_for_a_batch_are_refused(tmp_path):
    with pytest.raises(LabError, match="batch_size = 61: there are only 60 training images"):
        run(TINY.but(batch_size=61), tmp_path)


def test_a_damaged_checkpoint_is_named_and_the_one_before_it_is_used(tmp_path, whole):
    with pytest.raises(StoppedError, match="stopped"):
        run(RICH, tmp_path / "cut", watch=stop_after(6))
    path = tmp_path / "cut" / checkpoints.CHECKPOINT
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)
    seen = []
    run(RICH, tmp_path / "cut", watch=Watch(notice=seen.append))
    (notice,) = seen
    assert "checkpoint.pt is damaged: it differs from its checksum; the run continues from the checkpoint" in notice
    same_bits(whole, tmp_path / "cut")


def test_a_run_with_no_good_checkpoint_left_is_named_not_trained_over(tmp_path):
    with pytest.raises(StoppedError, match="stopped"):
        run(TINY, tmp_path, watch=stop_after(1))
    path = tmp_path / checkpoints.CHECKPOINT
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(LabError, match=r"checkpoint.pt is damaged"):
        run(TINY, tmp_path)


def test_a_run_refuses_other_data_and_another_network_than_it_began_with(tmp_path, monkeypatch):
    rng = numpy.random.default_rng(0)

    def write_data():
        x = rng.integers(0, 256, (60, 8, 8, 3), dtype=numpy.uint8)
        y = numpy.arange(60) % 3
        numpy.savez(tmp_path / "own.npz", x_train=x, y_train=y, x_test=x, y_test=y)

    write_data()
    source = (
        "from torch import nn\n\ndef net(classes):\n    return nn.Sequential(nn.Flatten(), nn.Linear(192, classes))\n"
    )
    (tmp_path / "own_network.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    own = TINY.but(dataset=str(tmp_path / "own.npz"), network="own_network:net", method="none")
    config = own.but(train_size=None, test_size=None)
    with pytest.raises(StoppedError, match="stopped"):
        run(config, tmp_path / "run", watch=stop_after(4))
    (tmp_path / "own_network.py").write_text(source + "# edited\n")
    with pytest.raises(LabError, match=r"the source of the network has changed since .*run began"):
        run(config, tmp_path / "run")
    (tmp_path / "own_network.py").write_text(source)
    kept = (tmp_path / "own.npz").read_bytes()
    write_data()
    with pytest.raises(LabError, match=r"the dataset has changed since .*run began \(sha256"):
        run(config, tmp_path / "run")
    (tmp_path / "own.npz").write_bytes(kept)
    assert run(config, tmp_path / "run").status == "done"


def test_what_a_killed_process_left_is_removed_and_what_a_living_one_writes_is_not(tmp_path):
    tmp_path.joinpath(".aon-checkpoint.pt.abc.tmp").write_bytes(b"half")
    tmp_path.joinpath(".aon-mine").write_bytes(b"not ours")
    run(TINY.but(epochs=1), tmp_path)
    assert sorted(path.name for path in tmp_path.glob(".aon-*")) == [".aon-mine"]


def test_threads_are_those_of_the_environment_and_far_too_many_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert run(TINY.but(threads=None, epochs=1), tmp_path / "a").environment.threads == 2
    with pytest.raises(LabError, match=r"threads = 100000: this machine has \d+ cores, expected \d+ at most"):
        run(TINY.but(threads=100_000), tmp_path / "b")


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
    seen = []
    run(TINY.but(epochs=1), tmp_path, watch=Watch(progress=seen.append, every=0.0))
    assert [now.step for now in seen] == [1, 2, 3, 3, 3]
    assert {(now.epoch, now.epochs, now.steps) for now in seen} == {(1, 1, 3)}
    assert all(now.speed > 0 for now in seen)


def test_a_penalty_is_recorded(tmp_path):
    record = run(TINY.but(method="bn+orth", epochs=1), tmp_path)
    assert record.epochs[0].penalty > 0


SPLIT = TINY.but(validation_size=20, epochs=7, method="bn", schedule="linear", warm_up=1)


def test_validation_chooses_the_epoch_and_the_test_set_is_opened_for_what_is_reported(tmp_path):
    record = run(SPLIT, tmp_path)
    assert record.images.validation == 20
    best, last = record.best, record.last
    opened = {row.epoch for row in record.epochs if row.test_accuracy is not None}
    assert opened == {best.epoch, *range(3, 8)}
    assert best.val_accuracy == max(row.val_accuracy for row in record.epochs)
    assert record.last_five == pytest.approx(sum(row.test_accuracy for row in record.epochs[-5:]) / 5)
    assert last.test_accuracy == record.epochs[-1].test_accuracy


def test_the_best_epoch_is_tested_with_its_own_weights(tmp_path):
    # So small a learning rate changes losses and no answers: the best of equals is the first.
    record = run(SPLIT.but(learning_rate=1e-3, method="ln", warm_up=0), tmp_path)
    assert record.best.epoch == 1  # the test set was not open for it when it was trained
    first, last = (record.epochs[epoch].test_loss for epoch in (0, -1))
    assert first == pytest.approx(loss_of(tmp_path, record), rel=1e-6)
    assert first != pytest.approx(last, rel=1e-4)


def loss_of(folder, record):
    """Mean test loss of the weights in best.safetensors, one image at a time."""
    data = preparation.load_data(record.config)
    model = preparation.assemble(record.config, data, torch.device("cpu")).model.eval()
    model.load_state_dict(checkpoints.load_weights(folder / checkpoints.BEST)[0])
    with torch.no_grad():
        losses = [cross_entropy(model(x), y) for x, y in eval_batches(data, 1)]
    return float(torch.stack(losses).mean())


@pytest.mark.parametrize("steps", [3, 16, 37])
def test_a_run_with_validation_images_continues_to_the_same_bits(tmp_path, steps):
    run(SPLIT, tmp_path / "whole")
    with pytest.raises(StoppedError):
        run(SPLIT, tmp_path / "cut", watch=stop_after(steps))
    run(SPLIT, tmp_path / "cut")
    same_bits(tmp_path / "whole", tmp_path / "cut")


@pytest.mark.parametrize("optimiser", ["adam", "amsgrad", "adamw", "rmsprop", "adagrad"])
def test_other_optimisers_train(tmp_path, optimiser):
    config = TINY.but(optimiser=optimiser, learning_rate=0.003, epochs=2, weight_decay=1e-4, method="bn")
    assert run(config, tmp_path).status == "done"


def test_channels_last_computes_the_same_function(tmp_path):
    losses = [
        [row.train_loss for row in run(TINY.but(channels_last=last, epochs=1), tmp_path / str(last)).epochs]
        for last in (False, True)
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)

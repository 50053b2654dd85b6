"""Every reader of untrusted input as a function of bytes: it returns, or raises a one-line error."""

import contextlib
import io
import os
import pickle
import shutil
import sys
import tempfile
import warnings
import zlib
from pathlib import Path

import numpy
import torch
from PIL import Image
from tests.fuzz.mutations import resealed
from tests.lab import factory

from aon.lab.cli.app import main
from aon.lab.data import cifar, official
from aon.lab.data.arrays import load_npz
from aon.lab.data.folders import load_folder
from aon.lab.errors import LabError
from aon.lab.experiment import records
from aon.lab.experiment.config import RunConfig
from aon.lab.experiment.plans import plan_comparison, plan_run
from aon.lab.methods.grammar import parse_list
from aon.lab.training import checkpoints, weights
from aon.lab.training.preparation import network

LONGEST = 3000
BINARY, PYTHON = (next(each for each in official.CIFAR10.layouts if each.kind == kind) for kind in ("binary", "python"))


def check_complaint(text: str) -> None:
    """An error is one line, not too long, that can be printed."""
    assert text.strip(), "an empty complaint"
    assert "\n" not in text, text
    assert len(text) < LONGEST, len(text)
    text.encode()


def reader(function):
    """Let a function answer or complain; anything else is a fault and goes on."""

    def read(content: bytes) -> bool:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                function(content)
        except LabError as error:
            check_complaint(str(error))
            return False
        return True

    return read


@contextlib.contextmanager
def folder():
    """A folder in memory, if the system has one: thousands of files are written."""
    place = tempfile.mkdtemp(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
    try:
        yield Path(place)
    finally:
        shutil.rmtree(place)


def in_file(name, load):
    """A reader of files as a reader of bytes."""

    def function(content: bytes) -> None:
        with folder() as place:
            (place / name).write_bytes(content)
            load(place / name)

    return function


def decoded(layout):
    def function(content: bytes) -> None:
        try:
            x, y = cifar.decode(layout, content)
        except ValueError as error:  # `cifar.read` adds the file's name
            raise LabError(str(error)) from error
        assert x.shape == (len(y), cifar.PIXELS)

    return function


def load_images(content: bytes) -> None:
    with folder() as place:
        for name in ("a", "b"):
            (place / name).mkdir()
            for i in range(2):
                (place / name / f"{i}.png").write_bytes(content)
        load_folder(place)


def load_any_record(path: Path) -> None:
    path.write_bytes(resealed(path.read_bytes()))
    records.load(path.parent)


def load_resealed(load):
    def function(path: Path) -> None:
        content = path.read_bytes()
        if zlib.crc32(content) % 2:  # half of them behind the checksum
            path.write_bytes(resealed(content))
        load(path)

    return function


def load_weights(path: Path) -> None:
    weights.spectra(path)


def save_network(path: Path) -> None:
    """The weights of a whole network, which are believed."""
    config = RunConfig(method="bn+aon", network="resnet20", width=0.25)
    about = {**ABOUT, "config": config.identity()}
    checkpoints.save_weights(path, network(config, 2, [3, 32, 32]).model.state_dict(), about)


def load_settings(path: Path) -> None:
    (plan_comparison if b"methods" in path.read_bytes() else plan_run)({}, path)


def load_methods(content: bytes) -> None:
    for method in parse_list(content.decode("utf-8", "replace")):
        assert parse_list(str(method)) == (method,)


def type_words(content: bytes) -> None:
    """A command line: words parted by zero bytes; it never trains, for its data are nowhere."""
    args = [word[:100_000] for word in content.decode("utf-8", "replace").split("\0")][:20]
    safe = [word for word in args if word not in ("fetch", "bench", "--help", "-h")] or ["train"]
    stdout, stderr, before = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = ["aon", *safe, "--dataset", "nowhere"]
    try:
        with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
            main()
    except SystemExit as ended:
        text = stderr.getvalue().rstrip("\n")
        assert "unexpected fault" not in text, text
        if ended.code not in (0, None):
            raise LabError(text.removeprefix("aon: ")) from None
    finally:
        sys.argv = before


def npz() -> bytes:
    buffer = io.BytesIO()
    x, y = numpy.zeros((6, 8, 8, 3), numpy.uint8), numpy.arange(6) % 2
    numpy.savez_compressed(buffer, x_train=x, y_train=y, x_test=x, y_test=y, classes=numpy.array(["a", "b"]))
    return buffer.getvalue()


def picture(kind: str) -> bytes:
    buffer = io.BytesIO()
    pixels = numpy.arange(8 * 8 * 3, dtype=numpy.uint8).reshape(8, 8, 3)
    Image.fromarray(pixels).save(buffer, kind)
    return buffer.getvalue()


def written(name, write) -> bytes:
    with folder() as place:
        write(place / name)
        return (place / name).read_bytes()


def pickled() -> bytes:
    batch = {"data": numpy.zeros((2, cifar.PIXELS), numpy.uint8), "labels": [1, 2], "filenames": ["a", "b"]}
    return pickle.dumps(batch, protocol=2)


STATE = {"features.weight": torch.randn(3, 4), "bias": torch.randn(3)}
ABOUT = {"config": {"method": "bn", "network": "resnet20"}, "classes": ["a", "b"], "image": [3, 32, 32], "epoch": 1}
TOML = b"""method = "bn+aon:order=4"
dataset = "cifar10-sample"
epochs = 30
learning_rate = 0.1
milestones = [0.375, 0.75]
augment = true
precision = "float32"
"""
WORDS = b"train\0--method\0bn+aon:order=4\0--epochs\x0030\0--learning-rate\x000.1\0--milestones\x000.3,0.7\0--seed\x003"
METHODS = b"bn+aon:order=4:centre=mean,iternorm+orth:beta=20,none,bn+cwn+dropout"

# Each reader with whole inputs to start from.
READERS = {
    "CIFAR, binary": (decoded(BINARY), [bytes(2 * (1 + cifar.PIXELS))]),
    "CIFAR, Python": (decoded(PYTHON), [pickled(), pickle.dumps({"data": [1], "labels": [1.5]}, protocol=4)]),
    ".npz": (in_file("a.npz", load_npz), [npz()]),
    "image folders": (load_images, [picture(kind) for kind in ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM")]),
    "checkpoints": (
        in_file("checkpoint.pt", load_resealed(checkpoints.load)),
        [
            written(
                "checkpoint.pt", lambda path: checkpoints.save(path, {"model": STATE, "about": ABOUT, "record": "{}"})
            )
        ],
    ),
    "weights": (
        in_file("model.safetensors", load_resealed(load_weights)),
        [
            written("model.safetensors", lambda path: checkpoints.save_weights(path, STATE, {})),
            written("model.safetensors", lambda path: checkpoints.save_weights(path, STATE, ABOUT)),
            written("model.safetensors", save_network),
        ],
    ),
    "records": (
        in_file("record.json", load_any_record),
        [written("record.json", lambda path: records.save(factory.record("bn+aon", epochs=1, done=1), path.parent))],
    ),
    "TOML": (in_file("run.toml", load_settings), [TOML, b'methods = ["bn", "bn+aon"]\nseeds = 3\n']),
    "method names": (load_methods, [METHODS]),
    "command-line values": (type_words, [WORDS, b"compare\0--seeds\x002\0--methods\0bn\0--workers\x002"]),
}
SEEDS = {name: seeds for name, (_, seeds) in READERS.items()}
READ = {name: reader(function) for name, (function, _) in READERS.items()}

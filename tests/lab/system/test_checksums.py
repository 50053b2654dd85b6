"""Checksums: every flipped bit and truncation is noticed."""

import json
import random

import pytest
import safetensors.torch
import torch
from tests.lab import factory

from aon.lab.errors import LabError
from aon.lab.experiment import records
from aon.lab.system.checksums import BLANK, check, seal
from aon.lab.system.files import replacing
from aon.lab.training import checkpoints


def write_record(folder):
    records.save(factory.record(epochs=2), folder)
    return folder / records.RECORD, lambda: records.load(folder)


def write_checkpoint(folder):
    path = folder / checkpoints.CHECKPOINT
    checkpoints.save(path, {"model": {"w": torch.randn(4, 5)}, "record": "text", "step": 3})
    return path, lambda: checkpoints.load(path)


def write_weights(folder):
    path = folder / checkpoints.LAST
    checkpoints.save_weights(path, {"w": torch.randn(4, 5), "b": torch.randn(4)}, {"epoch": 2, "classes": ["a"]})
    return path, lambda: checkpoints.load_weights(path)


WRITERS = {"record": write_record, "checkpoint": write_checkpoint, "weights": write_weights}


@pytest.mark.parametrize("kind", WRITERS)
def test_every_flipped_bit_and_every_truncation_is_noticed(tmp_path, kind):
    """334 of each kind, 1,002 in all: two flips to one truncation, drawn by a fixed seed."""
    path, load = WRITERS[kind](tmp_path)
    load()
    whole, draw = path.read_bytes(), random.Random(kind)
    for i in range(334):
        damaged = bytearray(whole)
        if i % 3:
            damaged[draw.randrange(len(whole))] ^= 1 << draw.randrange(8)
        else:
            del damaged[draw.randrange(len(whole)) :]
        path.write_bytes(damaged)
        with pytest.raises(LabError, match=path.name.replace(".", r"\.")) as caught:
            load()
        assert "\n" not in str(caught.value)
    path.write_bytes(whole)
    load()


@pytest.mark.parametrize("kind", WRITERS)
def test_every_bit_of_the_checksum_itself_counts(tmp_path, kind):
    path, load = WRITERS[kind](tmp_path)
    whole = path.read_bytes()
    at = whole.rfind(b"checksum")
    for place in range(at, min(at + 86, len(whole))):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(LabError, match="damaged"):
            load()


def test_files_stay_what_they_are(tmp_path):
    """A record is JSON, a checkpoint torch's, weights safetensors: read here without us."""
    path, _ = write_record(tmp_path)
    assert len(json.loads(path.read_text())["checksum"]) == 64
    path, _ = write_checkpoint(tmp_path)
    assert torch.load(path, weights_only=True)["step"] == 3
    path, _ = write_weights(tmp_path)
    assert safetensors.torch.load_file(path)["w"].shape == (4, 5)


def test_records_of_the_first_format_have_none_and_are_read(tmp_path):
    path, load = write_record(tmp_path)
    plain = json.loads(path.read_text())
    del plain["checksum"], plain["fingerprints"]
    path.write_text(json.dumps(plain))
    with pytest.raises(LabError, match="its checksum is missing"):
        load()
    path.write_text(json.dumps(plain | {"format": 1}))
    assert load().status == "done"
    assert records.status(tmp_path) == "done"


def test_a_file_without_a_place_cannot_be_sealed(tmp_path):
    with pytest.raises(ValueError, match="no place for a checksum"), replacing(tmp_path / "a", sealed=True) as file:
        file.write(b"nothing")
    assert list(tmp_path.iterdir()) == []
    with (tmp_path / "a").open("w+b") as file:
        file.write(f'{{"checksum": "{BLANK}"}}'.encode())
        seal(file)
        assert check(file, tmp_path / "a")

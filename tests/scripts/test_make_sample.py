"""The script that makes the packaged sample, on files in CIFAR-10's format and, if present, on CIFAR-10 itself."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from aon.lab.data import sample

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "make_sample.py"


@pytest.fixture(scope="module")
def make_sample():
    spec = importlib.util.spec_from_file_location("make_sample", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_first_of_each_class_are_taken_in_their_order(make_sample):
    y = torch.tensor([1, 0, 0, 1, 1, 0, 2, 2, 2])
    assert make_sample.first_of_each_class(y, 2).tolist() == [0, 1, 2, 3, 6, 7]


def test_a_mosaic_loses_nothing(make_sample, tmp_path):
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (200, 3, 32, 32), dtype=torch.uint8, generator=generator)
    y = torch.randperm(200, generator=generator) % 10
    entry = make_sample.write_part(tmp_path / "test.webp", x, y, 100)
    read = sample.from_mosaic(np.asarray(Image.open(tmp_path / "test.webp")))
    np.testing.assert_array_equal(read, x[entry["indices"]].numpy())
    assert entry["labels"] == y[entry["indices"]].tolist()
    assert np.bincount(entry["labels"]).tolist() == [10] * 10


def run(*arguments):
    return subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=False)


def test_without_the_official_files_it_says_so_in_one_line(tmp_path):
    done = run(tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("cifar10 is not in ")
    assert done.stderr.count("\n") == 1


def test_without_arguments_it_says_how_to_call_it():
    assert "python scripts/make_sample.py FOLDER" in run().stderr


@pytest.mark.skipif(os.environ.get("AON_TEST_SAMPLE") != "1", reason="takes half a minute: set AON_TEST_SAMPLE=1")
def test_the_packaged_sample_is_remade(tmp_path):
    done = run(os.environ["AON_DATA"], tmp_path)
    assert done.stdout == f"cifar10-sample in {tmp_path}\n"
    made, packaged = (json.loads((folder / "sample.json").read_text()) for folder in (tmp_path, sample.folder()))
    for part in ("train", "test"):
        for key in ("pixels_sha256", "indices", "labels"):
            assert made[part][key] == packaged[part][key]

"""The packaged sample."""

import hashlib
import json

import pytest
import torch

from aon.lab.data import cifar, official, sample
from aon.lab.errors import LabError


@pytest.fixture(scope="module")
def data():
    return sample.load()


@pytest.fixture(scope="module")
def index():
    return json.loads((sample.folder() / "sample.json").read_text())


def test_it_has_5000_and_1000_images_balanced_over_classes(data):
    assert data.x_train.shape == (5000, 3, 32, 32)
    assert data.x_test.shape == (1000, 3, 32, 32)
    assert data.y_train.bincount().tolist() == [500] * 10
    assert data.y_test.bincount().tolist() == [100] * 10
    assert data.classes == official.CIFAR10.classes


@pytest.mark.parametrize("part", ["train", "test"])
def test_its_pixels_have_their_checksum(data, index, part):
    pixels = getattr(data, f"x_{part}").numpy().tobytes()
    assert hashlib.sha256(pixels).hexdigest() == index[part]["pixels_sha256"]


def test_no_image_occurs_twice(data):
    images = torch.cat([data.x_train, data.x_test]).flatten(1).numpy()
    assert len({image.tobytes() for image in images}) == 6000


def test_it_is_about_ten_megabytes_and_says_where_it_comes_from():
    assert 5e6 < sum(len(file.read_bytes()) for file in sample.folder().iterdir()) < 12e6
    note = (sample.folder() / "README.md").read_text()
    assert "Learning Multiple Layers of Features from Tiny Images" in note
    assert all(md5 in note for md5 in official.CIFAR10.binary.files.values())


def test_it_is_part_of_the_official_files(data, index, whole_cifar10):
    whole = cifar.load(official.CIFAR10, whole_cifar10)
    for part in ("train", "test"):
        indices = index[part]["indices"]
        assert getattr(whole, f"x_{part}")[indices].equal(getattr(data, f"x_{part}"))
        assert getattr(whole, f"y_{part}")[indices].equal(getattr(data, f"y_{part}"))


def test_an_altered_mosaic_is_refused(sample_copy):
    content = bytearray((sample_copy / "test.webp").read_bytes())
    content[1000] ^= 1
    (sample_copy / "test.webp").write_bytes(content)
    with pytest.raises(LabError, match=r"test\.webp differs from its checksum; reinstall aon"):
        sample.load()


@pytest.mark.parametrize("name", ["train.webp", "sample.json"])
def test_a_missing_file_is_named(sample_copy, name):
    (sample_copy / name).unlink()
    with pytest.raises(LabError, match=name):
        sample.load()


def test_an_unreadable_index_is_refused(sample_copy):
    (sample_copy / "sample.json").write_text("{")
    with pytest.raises(LabError, match=r"sample\.json of the installed package cannot be read"):
        sample.load()

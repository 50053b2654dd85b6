"""Datasets by name and path."""

import numpy as np
import pytest
from PIL import Image

import aon.lab.data
from aon.lab import data
from aon.lab.errors import LabError


@pytest.fixture
def photos(tmp_path):
    for name in ("cat", "dog"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for i in range(2):
            Image.new("RGB", (40 + i, 50)).save(tmp_path / "photos" / name / f"{i}.png")
    return tmp_path / "photos"


@pytest.fixture
def arrays(tmp_path):
    x, y = np.zeros((4, 8, 8, 3), np.uint8), np.array([0, 1, 0, 1])
    np.savez(tmp_path / "own.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    return tmp_path / "own.npz"


def test_the_sample_needs_no_folder():
    assert data.load("cifar10-sample").name == "cifar10-sample"


def test_official_data_come_from_the_root(small_cifar10, small_cifar100, tmp_path):
    small_cifar10.write(tmp_path)
    small_cifar100.write(tmp_path)
    assert data.load("cifar10", tmp_path).name == "cifar10"
    assert len(data.load("cifar100", tmp_path).classes) == 100


def test_own_data_come_by_path(arrays, photos, monkeypatch):
    assert data.load(str(arrays)).x_train.shape == (4, 3, 8, 8)
    assert data.load(f"{photos}@24").x_train.shape == (2, 3, 24, 24)
    monkeypatch.chdir(photos.parent)
    assert data.load("photos@24").name == "photos@24"
    monkeypatch.setenv("HOME", str(photos.parent))
    assert data.load("~/own.npz").y_train.tolist() == [0, 1, 0, 1]


def test_a_folder_whose_name_ends_in_a_size_is_itself(photos):
    renamed = photos.rename(photos.with_name("photos@24"))
    with pytest.raises(LabError, match="to scale all images"):
        data.load(str(renamed))
    assert data.load(f"{renamed}@16").x_train.shape == (2, 3, 16, 16)


@pytest.mark.parametrize("act", [data.check, data.load], ids=["check", "load"])
@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "cifar-10",
            r"unknown dataset 'cifar-10'; did you mean 'cifar10'\? \(there are: cifar10-sample, cifar10, cifar100, an",
        ),
        (
            "/nowhere/x.npz",
            r"unknown dataset '/nowhere/x\.npz', and no such file or folder exists",
        ),
        ("", "unknown dataset ''"),
        ("cifar100", "cifar100 is not in .*; get it with: aon data fetch cifar100"),
    ],
)
def test_what_is_not_there_is_refused(tmp_path, act, name, message):
    with pytest.raises(LabError, match=message):
        act(name, tmp_path)


def test_files_of_other_kinds_are_refused(arrays, tmp_path):
    (tmp_path / "data.csv").write_text("1,2")
    for name in (tmp_path / "data.csv", f"{arrays}@32"):
        with pytest.raises(LabError, match=r"expected an \.npz file or a folder of class folders"):
            data.check(str(name))


def test_check_accepts_what_load_reads(arrays, photos, small_cifar10, tmp_path):
    small_cifar10.write(tmp_path)
    for name in ("cifar10-sample", "cifar10", str(arrays), f"{photos}@32"):
        data.check(name, tmp_path)


def test_every_public_name_is_there():
    assert all(hasattr(aon.lab.data, name) for name in aon.lab.data.__all__)
    assert aon.lab.data.__all__ == sorted(
        aon.lab.data.__all__, key=lambda name: (name != "NAMES", name.islower(), name)
    )

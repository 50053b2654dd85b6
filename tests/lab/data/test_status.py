"""Which datasets are on disk."""

from pathlib import Path

import numpy as np
import pytest

from aon.lab import data
from aon.lab.errors import LabError


def states(root: Path) -> dict[str, str]:
    return {status.name: status.state for status in data.available(root)}


def test_nothing_but_the_sample_is_in_an_empty_folder(tmp_path):
    assert states(tmp_path) == {"cifar10-sample": "present", "cifar10": "absent", "cifar100": "absent"}
    status = data.available(tmp_path)[1]
    assert (status.usable, status.where) == (False, None)
    assert status.detail == "get it with: aon data fetch cifar10"


def test_what_is_there_is_listed(small_cifar10, tmp_path):
    folder = small_cifar10.write(tmp_path)
    status = data.available(tmp_path)[1]
    assert (status.state, status.where, status.n_train, status.n_test) == ("present", str(folder), 50_000, 10_000)


def test_the_environment_names_the_folder(small_cifar10, tmp_path, monkeypatch):
    small_cifar10.write(tmp_path)
    monkeypatch.setenv("AON_DATA", str(tmp_path))
    assert data.available()[1].state == "present"
    assert data.verify("cifar10").state == "good"
    monkeypatch.delenv("AON_DATA")
    assert data.default_root() == Path.home() / ".cache" / "aon"


def test_good_files_are_good(small_cifar10, tmp_path):
    small_cifar10.write(tmp_path)
    status = data.verify("cifar10", tmp_path)
    assert status.state == "good"
    assert status.detail == "official binary files, 6 files with the official md5"


def test_a_missing_file_is_named(small_cifar10, tmp_path):
    (small_cifar10.write(tmp_path) / "data_batch_5.bin").unlink()
    for status in (data.available(tmp_path)[1], data.verify("cifar10", tmp_path)):
        assert status.state == "incomplete"
        assert status.detail == "data_batch_5.bin missing; get it with: aon data fetch cifar10"


def test_one_flipped_bit_is_found(small_cifar10, tmp_path):
    file = small_cifar10.write(tmp_path) / "data_batch_2.bin"
    content = bytearray(file.read_bytes())
    content[12345] ^= 1
    file.write_bytes(content)
    assert states(tmp_path)["cifar10"] == "present"
    status = data.verify("cifar10", tmp_path)
    assert status.state == "damaged"
    assert status.detail.startswith("data_batch_2.bin has md5 ")


def test_torchvision_files_are_listed_under_their_own_name(tmp_path):
    (tmp_path / "cifar-100-python").mkdir()
    for name in ("train", "test"):
        (tmp_path / "cifar-100-python" / name).write_bytes(b"")
    assert "torchvision" in data.available(tmp_path)[2].detail
    assert data.verify("cifar100", tmp_path).state == "damaged"


def test_the_sample_is_checked(sample_copy):
    assert data.verify("cifar10-sample").state == "good"
    (sample_copy / "train.webp").write_bytes(b"")
    status = data.verify("cifar10-sample")
    assert (status.state, status.usable) == ("damaged", False)
    assert "train.webp" in status.detail


def test_own_data_are_read_through(tmp_path):
    path = tmp_path / "own.npz"
    x, y = np.zeros((4, 8, 8, 3), np.uint8), np.array([0, 1, 0, 1])
    np.savez(path, x_train=x, y_train=y, x_test=x[:2], y_test=y[:2])
    status = data.verify(str(path))
    assert (status.state, status.n_train, status.n_test) == ("good", 4, 2)
    path.write_bytes(path.read_bytes()[:100])
    assert data.verify(str(path)).state == "damaged"


def test_own_images_that_cannot_be_read_are_damaged(tmp_path):
    for name in ("cat", "dog"):
        (tmp_path / "own" / name).mkdir(parents=True)
        for i in range(2):
            (tmp_path / "own" / name / f"{i}.png").write_bytes(b"x")
    status = data.verify(f"{tmp_path / 'own'}@32")
    assert status.state == "damaged"
    assert "cannot read the image" in status.detail


def test_an_unknown_name_is_refused(tmp_path):
    with pytest.raises(LabError, match="unknown dataset 'cifar11'"):
        data.verify("cifar11", tmp_path)


def test_the_whole_cifar100_is_good(whole_cifar100):
    assert data.verify("cifar100", whole_cifar100).state == "good"

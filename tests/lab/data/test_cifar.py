"""CIFAR in its official layouts, and damaged files."""

import hashlib
import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch

from aon.lab.data import cifar, official
from aon.lab.data.cifar import encode_binary
from aon.lab.errors import LabError


def md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def python_layout(layout, folder, images, labels):
    """Write every file of a pickled layout with the same images; return the layout with the md5s of these files."""
    folder.mkdir(parents=True)
    content = pickle.dumps({"data": images, layout.label_key: labels, "filenames": ["x.png"] * len(labels)}, protocol=2)
    for name in layout.files:
        (folder / name).write_bytes(content)
    return replace(
        layout, train=dict.fromkeys(layout.train, md5(content)), test=dict.fromkeys(layout.test, md5(content))
    )


@pytest.mark.parametrize("where", [".", "cifar10"])
def test_binary_files_are_found_and_read(small_cifar10, tmp_path, where):
    small_cifar10.write(tmp_path / where)
    data = cifar.load(small_cifar10.source, tmp_path)
    assert data.x_train.shape == (100, 3, 32, 32)
    assert data.x_test.shape == (20, 3, 32, 32)
    records = np.frombuffer(b"".join(small_cifar10.files.values()), np.uint8).reshape(120, 3073)
    assert torch.cat([data.y_train, data.y_test]).tolist() == records[:, 0].tolist()
    assert torch.cat([data.x_train, data.x_test]).numpy().tobytes() == records[:, 1:].tobytes()
    assert (data.mean, data.std) == ((0.491, 0.482, 0.447), (0.247, 0.243, 0.262))


def test_the_folder_itself_may_be_named(small_cifar10, tmp_path):
    folder = small_cifar10.write(tmp_path)
    assert len(cifar.load(small_cifar10.source, folder).y_train) == 100


def test_cifar100_takes_the_fine_label(small_cifar100, tmp_path):
    small_cifar100.write(tmp_path)
    data = cifar.load(small_cifar100.source, tmp_path)
    records = np.frombuffer(small_cifar100.files["train.bin"], np.uint8).reshape(20, 3074)
    assert data.y_train.tolist() == records[:, 1].tolist()
    assert data.x_train[0, 0, 0, :2].tolist() == records[0, 2:4].tolist()


@pytest.mark.parametrize("source", [official.CIFAR10, official.CIFAR100], ids=lambda source: source.name)
def test_python_files_give_what_binary_files_give(tmp_path, source):
    random = np.random.default_rng(0)
    images, labels = random.integers(0, 256, (6, 3072), dtype=np.uint8), [0, 1, 2, 3, 4, 5]
    layout = python_layout(source.layouts[1], tmp_path / source.layouts[1].folder, images, labels)
    data = cifar.load(replace(source, layouts=(source.layouts[0], layout)), tmp_path)
    assert data.x_test.equal(torch.from_numpy(images).reshape(6, 3, 32, 32))
    assert data.y_test.tolist() == labels
    records = encode_binary(np.array(labels, np.uint8)[:, None], images.reshape(6, 3, 32, 32))
    x, y = cifar.decode(official.CIFAR10.binary, records)
    assert x.tobytes() == images.tobytes()
    assert y.tolist() == labels


@pytest.mark.parametrize("kind", ["binary", "python"])
def test_a_file_with_another_md5_is_not_opened(tmp_path, kind, monkeypatch):
    layout = next(layout for layout in official.CIFAR10.layouts if layout.kind == kind)
    folder = tmp_path / layout.folder
    folder.mkdir()
    for name in layout.files:
        (folder / name).write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    monkeypatch.setattr(cifar, "decode", lambda *_: pytest.fail("the content was used"))
    with pytest.raises(LabError, match=r"data_batch_1.*: its md5 is [0-9a-f]{32}, the official file's is [0-9a-f]{32}"):
        cifar.load(official.CIFAR10, tmp_path)


def test_a_pickle_that_calls_something_is_refused_even_with_the_right_md5(tmp_path):
    content = b"cos\nsystem\n(S'true'\ntR."
    (tmp_path / "test").write_bytes(content)
    with pytest.raises(LabError, match="test: the pickle calls os system, which does not build plain data"):
        cifar.read(official.CIFAR100.layouts[1], tmp_path, {"test": md5(content)})


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1, 2], "expected a dictionary with data and labels"),
        ({"data": np.zeros((1, 3072), np.uint8)}, "expected a dictionary with data and labels"),
        ({"data": np.zeros((1, 3072), np.uint8), "labels": [0, 1]}, r"uint8 of shape \(2, 3072\)"),
        ({"data": np.zeros((1, 3072), np.int8), "labels": [0]}, r"uint8 of shape \(1, 3072\)"),
        ({"data": np.zeros((1, 3072), np.uint8), "labels": 3}, "expected labels to be a list of numbers from 0 to 255"),
        ({"data": np.zeros((1, 3072), np.uint8), "labels": [256]}, "expected labels to be a list of numbers"),
        ({"data": "pixels", "labels": [0]}, r"uint8 of shape \(1, 3072\)"),
    ],
)
def test_a_pickle_of_something_else_is_refused(value, message):
    with pytest.raises(ValueError, match=message):
        cifar.decode(official.CIFAR10.layouts[1], pickle.dumps(value, protocol=2))


@pytest.mark.parametrize("length", [0, 1, 3072, 3074])
def test_binary_files_that_end_inside_a_record_are_refused(length):
    with pytest.raises(ValueError, match=f"{length} bytes are not whole records of 3073 bytes"):
        cifar.decode(official.CIFAR10.binary, bytes(length))


def test_a_dataset_that_is_not_there_says_how_to_get_it(tmp_path):
    message = r"cifar100 is not in .* \(no cifar-100-binary or cifar-100-python\); get it with: aon data fetch cifar100"
    with pytest.raises(LabError, match=message):
        cifar.load(official.CIFAR100, tmp_path)


def test_a_layout_that_lacks_a_file_is_passed_over(small_cifar10, tmp_path):
    folder = small_cifar10.write(tmp_path)
    (folder / "test_batch.bin").unlink()
    assert cifar.find(small_cifar10.source, tmp_path) is None


def test_the_whole_cifar100_is_read(whole_cifar100):
    data = cifar.load(official.CIFAR100, whole_cifar100)
    assert data.y_train.bincount().tolist() == [500] * 100
    assert data.y_test.bincount().tolist() == [100] * 100


def test_the_whole_cifar10_is_read(whole_cifar10):
    data = cifar.load(official.CIFAR10, whole_cifar10)
    assert data.y_train.bincount().tolist() == [5000] * 10
    assert data.y_train[:10].tolist() == [6, 9, 9, 4, 1, 1, 2, 7, 8, 3]
    assert data.y_test.bincount().tolist() == [1000] * 10

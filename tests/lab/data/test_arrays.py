"""Arrays in `.npz` files: what is read, what is refused."""

import re
import zipfile

import numpy as np
import pytest
import torch

from aon.lab.data.arrays import load_npz
from aon.lab.errors import LabError

X = np.random.default_rng(0).integers(0, 256, (6, 8, 10, 3), dtype=np.uint8)
Y = np.array([0, 1, 2, 0, 1, 2])


def save(tmp_path, **changed):
    arrays = {"x_train": X, "y_train": Y, "x_test": X[:3], "y_test": Y[:3]} | changed
    np.savez(tmp_path / "own.npz", **{name: array for name, array in arrays.items() if array is not None})
    return tmp_path / "own.npz"


def test_arrays_are_read(tmp_path):
    data = load_npz(save(tmp_path))
    assert data.x_train.equal(torch.from_numpy(X.transpose(0, 3, 1, 2).copy()))
    assert data.y_train.tolist() == Y.tolist()
    assert len(data.y_test) == 3
    assert data.classes == ("0", "1", "2")
    np.testing.assert_allclose(data.mean, (X / 255).mean((0, 1, 2)), atol=1e-14)
    np.testing.assert_allclose(data.std, (X / 255).std((0, 1, 2)), atol=1e-14)


FORMS = {
    "channels first": X.transpose(0, 3, 1, 2),
    "grey": X[..., 0],
    "grey, channel last": X[..., :1],
    "grey, channel first": X[..., 0][:, None],
}


@pytest.mark.parametrize("form", FORMS)
def test_other_forms_of_images_are_accepted(tmp_path, form):
    data = load_npz(save(tmp_path, x_train=FORMS[form], x_test=FORMS[form][:3]))
    expected = X.transpose(0, 3, 1, 2) if form == "channels first" else np.repeat(X[:, None, :, :, 0], 3, axis=1)
    np.testing.assert_array_equal(data.x_train.numpy(), expected)


@pytest.mark.parametrize("y", [Y.astype(np.uint8), Y.astype(np.int32)[:, None], Y.astype(">i8")], ids=str)
def test_other_forms_of_labels_are_accepted(tmp_path, y):
    assert load_npz(save(tmp_path, y_train=y)).y_train.tolist() == Y.tolist()


def test_classes_may_be_named(tmp_path):
    assert load_npz(save(tmp_path, classes=np.array(["cat", "dog", "cow", "owl"]))).classes[3] == "owl"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"x_test": None, "y_test": None},
            "x_test, y_test missing; expected the arrays x_train, y_train, x_test, y_test",
        ),
        ({"x_train": X / 255}, "x_train is float64; expected uint8, pixels from 0 to 255"),
        ({"x_train": X[0]}, "y_train must be int64, one for each image"),
        ({"x_train": X[..., :2]}, r"x_train has shape \(6, 8, 10, 2\); expected"),
        ({"x_train": X[:, :3]}, r"x_train has shape \(6, 3, 10, 3\); expected"),
        ({"x_train": X[:, :0]}, "holds no pixels"),
        ({"x_train": np.uint8(3)}, r"x_train has shape \(\); expected"),
        ({"x_test": X[:3, :5]}, "images are 8x10 in train, 5x10 in test"),
        ({"y_train": Y[:5]}, r"y_train must be int64, one for each image, not int64 \(5,\)"),
        ({"y_train": Y / 1}, "y_train is float64 of shape .*; expected whole numbers"),
        ({"y_train": Y > 1}, "y_train is bool of shape .*; expected whole numbers"),
        ({"y_train": np.eye(6, dtype=int)}, r"y_train is int64 of shape \(6, 6\)"),
        ({"y_train": np.int64(3)}, r"y_train is int64 of shape \(\)"),
        ({"y_train": Y - 1}, "y_train has labels from -1 to 1"),
        ({"y_train": Y + 1}, "y_train has 3 classes but labels up to 3; number them from 0"),
        ({"y_train": Y.astype(np.uint64) + 2**63}, "y_train has labels from"),
        ({"y_test": np.array([0, 1, 7])}, "label 7 is beyond the 3 classes"),
        ({"classes": np.array(["cat", "dog"])}, "label 2 is beyond the 2 classes"),
        ({"classes": np.array([1, 2, 3])}, "classes is int64 of shape .*; expected a row of text"),
        ({"classes": np.array(["cat", "dog", None], dtype=object)}, "Object arrays cannot be loaded"),
        ({"y_train": Y.astype(object)}, "Object arrays cannot be loaded"),
        ({"x_train": X[:0], "y_train": Y[:0]}, "holds no pixels"),
    ],
)
def test_arrays_of_the_wrong_form_are_refused_by_name(tmp_path, changed, message):
    with pytest.raises(LabError, match=message) as caught:
        load_npz(save(tmp_path, **changed))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("length", [0, 10, 1000, -30])
def test_a_file_that_is_cut_short_is_refused(tmp_path, length):
    path = save(tmp_path)
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(LabError, match=r"own\.npz"):
        load_npz(path)


def test_a_damaged_array_is_refused(tmp_path):
    path = save(tmp_path)
    content = bytearray(path.read_bytes())
    content[len(content) // 4] ^= 255
    path.write_bytes(content)
    with pytest.raises(LabError, match=r"own\.npz .*Bad CRC-32"):
        load_npz(path)


def test_a_single_array_is_refused(tmp_path):
    np.save(tmp_path / "x.npy", X)
    with pytest.raises(LabError, match=r"is a single array; expected an \.npz"):
        load_npz((tmp_path / "x.npy").rename(tmp_path / "x.npz"))


def test_a_pickle_is_refused(tmp_path):
    (tmp_path / "x.npz").write_bytes(b"\x80\x04cos\nsystem\n(S'true'\ntR.")
    with pytest.raises(LabError, match="pickle"):
        load_npz(tmp_path / "x.npz")


def test_a_file_that_unpacks_to_more_than_is_allowed_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    black = np.zeros((4000, 32, 32, 3), np.uint8)
    np.savez_compressed(tmp_path / "own.npz", x_train=black, y_train=np.zeros(4000, int), x_test=X, y_test=Y)
    assert (tmp_path / "own.npz").stat().st_size < 100_000
    monkeypatch.setenv("AON_MAX_DATA_GIB", "0.01")
    with pytest.raises(LabError, match=r"GiB unpacked, more than the 0\.01 GiB allowed; if that is meant, set"):
        load_npz(tmp_path / "own.npz")


def test_a_header_that_promises_more_than_there_is_is_refused_before_room_is_made(tmp_path):
    path = save(tmp_path)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    promise = b"(999999999, 8, 10, 3), }"
    head = parts["x_train.npy"]
    parts["x_train.npy"] = re.sub(rb"\(6, 8, 10, 3\), \} {17}", promise + b" ", head)
    assert len(parts["x_train.npy"]) <= len(head)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    with pytest.raises(LabError, match=r"x_train is damaged: its header says 239,999,999,760 bytes|cannot read"):
        load_npz(path)


def test_objects_in_an_array_are_refused(tmp_path):
    path = save(tmp_path, y_train=np.array([print] * 6, dtype=object))
    with pytest.raises(LabError, match="Object arrays cannot be loaded"):
        load_npz(path)


def test_an_encrypted_array_is_refused(tmp_path):
    path = save(tmp_path)
    content = bytearray(path.read_bytes())
    for mark, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):  # in the entry and in the directory
        content[content.index(mark) + flags] |= 1
    path.write_bytes(content)
    with pytest.raises(LabError, match=r"cannot read .*own\.npz: .*is encrypted"):
        load_npz(path)


@pytest.mark.parametrize("header", [b"{'descr': (", b"(" * 500, b"\xff\xfe", b"{'descr': '|u1'}", b""], ids=repr)
def test_a_header_that_does_not_parse_is_refused_in_one_line(tmp_path, header):
    path = save(tmp_path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x_train.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    with pytest.raises(LabError, match=r"^cannot read .*own\.npz: .+$") as told:
        load_npz(path)
    assert "\n" not in str(told.value)

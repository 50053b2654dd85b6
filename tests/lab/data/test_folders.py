"""Folders of images: layouts, sizes, splits, bad files."""

import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from aon.lab.data import folders
from aon.lab.data.folders import load_folder
from aon.lab.errors import LabError


def picture(path, colour=(10, 20, 30), size=(8, 8), mode="RGB", **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).convert(mode).save(path, **options)


@pytest.fixture
def folder(tmp_path):
    """Ten cats and five dogs; the red of an image is its number, its green the class."""
    for label, (name, n) in enumerate([("cat", 10), ("dog", 5)]):
        for i in range(n):
            picture(tmp_path / "own" / name / f"{i}.png", (i, label, 200))
    return tmp_path / "own"


def red(x):
    return x[:, 0, 0, 0].tolist()


def test_images_are_read_with_the_label_of_their_folder(folder):
    data = load_folder(folder)
    assert data.classes == ("cat", "dog")
    for x, y in ((data.x_train, data.y_train), (data.x_test, data.y_test)):
        assert x[:, 1, 0, 0].tolist() == y.tolist()
        assert x.shape[1:] == (3, 8, 8)
        assert (x[:, 2] == 200).all()


def test_a_fifth_of_each_class_is_set_aside_and_always_the_same(folder):
    data, again = load_folder(folder), load_folder(folder)
    assert data.y_train.bincount().tolist() == [8, 4]
    assert data.y_test.bincount().tolist() == [2, 1]
    assert sorted(red(data.x_train[data.y_train == 0]) + red(data.x_test[data.y_test == 0])) == list(range(10))
    assert red(data.x_test) == red(again.x_test)


def test_what_is_set_aside_depends_on_names_alone(folder, tmp_path):
    before = red(load_folder(folder).x_test)
    assert red(load_folder(folder.rename(tmp_path / "elsewhere")).x_test) == before


@pytest.mark.parametrize("held_out", ["test", "val"])
def test_parts_that_are_given_are_kept(tmp_path, held_out):
    for i, part in enumerate(["train", held_out]):
        for name in ("cat", "dog"):
            picture(tmp_path / part / name / "deep" / "1.png", (i, 0, 0))
    data = load_folder(tmp_path)
    assert (red(data.x_train), red(data.x_test)) == ([0, 0], [1, 1])


def test_a_class_may_be_called_train(tmp_path):
    for name in ("train", "test", "whale"):
        for i in range(2):
            picture(tmp_path / name / f"{i}.png")
    assert load_folder(tmp_path).classes == ("test", "train", "whale")


@pytest.mark.parametrize(
    ("mode", "suffix"), [("L", "png"), ("P", "gif"), ("RGBA", "webp"), ("1", "bmp"), ("CMYK", "jpg")]
)
def test_images_of_other_modes_become_rgb(folder, mode, suffix):
    picture(folder / "cat" / f"other.{suffix}", (255, 255, 255), mode=mode)
    assert load_folder(folder).y_train.bincount()[0] == 9


def test_what_is_not_an_image_is_passed_over(folder):
    (folder / "cat" / "notes.txt").write_text("x")
    (folder / "cat" / ".hidden.png").write_text("x")
    (folder / ".git").mkdir()
    assert len(load_folder(folder).y_train) == 12


def test_images_of_any_size_are_scaled_on_demand(folder):
    stripes = np.zeros((40, 100, 3), np.uint8)
    stripes[:, 30:70] = 255
    Image.fromarray(stripes).save(folder / "dog" / "wide.png")
    data = load_folder(folder, size=16)
    assert data.x_train.shape[1:] == (3, 16, 16)
    white = (data.x_train == 255).flatten(1).all(1) | (data.x_train > 200).flatten(1).all(1)
    assert white.sum() + (data.x_test > 200).flatten(1).all(1).sum() == 1


def test_images_of_different_sizes_are_refused_with_the_remedy(folder):
    picture(folder / "dog" / "wide.png", size=(12, 8))
    message = r"wide\.png is 12x8, others 8x8; to scale all images to 32x32, write @32 after the folder's name"
    with pytest.raises(LabError, match=message):
        load_folder(folder)


def test_images_are_turned_as_their_exif_data_say(folder):
    exif = Image.Exif()
    exif[0x0112] = 6
    half = Image.new("RGB", (8, 8))
    half.paste((255, 255, 255), (0, 0, 4, 8))
    for name in ("cat", "dog"):
        for file in (folder / name).iterdir():
            file.unlink()
        for i in range(2):
            half.save(folder / name / f"{i}.jpg", exif=exif)
    x = load_folder(folder).x_train[0, 0]
    assert (x[:4] > 200).all()
    assert (x[4:] < 50).all()


@pytest.mark.parametrize(
    "content",
    [b"", b"not an image", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n"],
    ids=["empty", "text", "eps"],
)
def test_a_file_that_is_no_image_is_named(folder, content):
    (folder / "dog" / "bad.png").write_bytes(content)
    with pytest.raises(LabError, match=r"cannot read the image .*bad\.png"):
        load_folder(folder)


def test_an_image_that_is_cut_short_is_named(folder):
    picture(folder / "dog" / "bad.png", size=(200, 200))
    content = (folder / "dog" / "bad.png").read_bytes()
    (folder / "dog" / "bad.png").write_bytes(content[: len(content) // 2])
    with pytest.raises(LabError, match=r"cannot read the image .*bad\.png"):
        load_folder(folder)


def test_what_pillow_logs_of_a_damaged_image_is_not_shown(folder, capfd):
    Image.new("RGB", (8, 8)).save(folder / "cat" / "damaged.tif")
    content = (folder / "cat" / "damaged.tif").read_bytes()
    samples = struct.pack("<HHIHH", 277, 3, 1, 3, 0)
    assert samples in content
    damaged = content.replace(samples, struct.pack("<HHIHH", 277, 3, 1, 15271, 0))
    (folder / "cat" / "damaged.tif").write_bytes(damaged)
    with pytest.raises(LabError, match=r"damaged\.tif"):
        load_folder(folder)
    assert capfd.readouterr() == ("", "")


def test_sixteen_bits_are_refused(folder):
    Image.fromarray(np.full((8, 8), 40000, np.uint16)).save(folder / "dog" / "deep.png")
    with pytest.raises(LabError, match=r"deep\.png has mode I;16; expected eight bits for each channel"):
        load_folder(folder)


def test_a_folder_without_class_folders_is_refused(tmp_path):
    picture(tmp_path / "a.png")
    with pytest.raises(LabError, match="expected a folder of images for each of two or more classes, found 0"):
        load_folder(tmp_path)


def test_a_class_with_too_few_images_is_named(folder):
    picture(folder / "owl" / "0.png")
    with pytest.raises(LabError, match=r"owl: 1 images \(\.png .*\); expected 2 or more"):
        load_folder(folder)


def test_a_class_that_only_the_test_part_has_is_named(tmp_path):
    for name in ("train/cat", "train/dog", "test/cat", "test/owl"):
        picture(tmp_path / name / "0.png")
    with pytest.raises(LabError, match=r"owl: there is no class folder owl in .*train"):
        load_folder(tmp_path)


def test_an_image_of_ten_thousand_million_pixels_is_refused_by_its_header(folder):
    """The file is 100 bytes: a header and nothing behind it."""
    head = b"IHDR" + struct.pack(">IIBBBBB", 100_000, 100_000, 8, 2, 0, 0, 0)
    data = b"IDAT" + zlib.compress(b"")
    chunks = [struct.pack(">I", len(part) - 4) + part + struct.pack(">I", zlib.crc32(part)) for part in (head, data)]
    (folder / "cat" / "0.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(chunks))
    with pytest.raises(LabError, match=r"0\.png.*(pixels|bomb)"):
        load_folder(folder)


def test_an_image_that_is_too_large_to_be_read_is_refused(folder, monkeypatch):
    monkeypatch.setattr(folders, "MOST_PIXELS", 63)
    with pytest.raises(LabError, match=r"has 8 x 8 pixels, more than the 63 that are read"):
        load_folder(folder)

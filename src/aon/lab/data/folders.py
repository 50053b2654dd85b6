"""Load a user's images from a folder with one subfolder for each class.

If it holds `train` and `test` (or `val`) instead, each of these holds the class folders. If not, a fifth of
each class is set aside for testing: the files whose names have the smallest hashes, so always the same ones.
"""

import hashlib
import logging
import math
import warnings
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps
from torch import Tensor

from aon.lab.data.dataset import Dataset, channel_statistics, check_size
from aon.lab.errors import LabError
from aon.lab.system.shown import shortened

# What Pillow logs of a damaged file would stand beside the error of one line.
logging.getLogger("PIL").addHandler(logging.NullHandler())

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".ppm", ".pgm", ".tif", ".tiff", ".gif")
# Named, so that Pillow never tries a format that starts another program (EPS starts Ghostscript).
FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "PPM", "TIFF", "GIF")
EIGHT_BITS = {"1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr"}
TEST_SHARE = 5  # one image in five
MOST_PIXELS = 64_000_000  # of one image; more is taken for a trap

Labelled = list[tuple[Path, int]]


def load_folder(folder: Path, size: int | None = None) -> Dataset:
    """The dataset in a folder of class folders; classes are in the order of their names.

    Mean and deviation are those of the training images.

    Args:
        folder: The folder.
        size: Scale every image so that its shorter side has this length and cut out the middle square. None
            keeps images as they are; they must then all have one size.

    Raises:
        LabError: if there are no class folders, a class has no images, an image cannot be read, sizes differ.
    """
    train, test, classes = _files(folder)
    first = _pixels(train[0][0], size).shape
    x_train, y_train = _read(train, size, first)
    x_test, y_test = _read(test, size, first)
    mean, std = channel_statistics(x_train)
    return Dataset(str(folder), x_train, y_train, x_test, y_test, classes, mean, std)


def _files(folder: Path) -> tuple[Labelled, Labelled, tuple[str, ...]]:
    """Training files, test files, class names."""
    parts = {path.name: path for path in _folders(folder)}
    held_out = parts.get("test") or parts.get("val")
    # CIFAR-100 has a class called train: only folders in it make it a part.
    if held_out and "train" in parts and _folders(parts["train"]):
        train, test = _by_class(parts["train"]), _by_class(held_out)
        extra = sorted(test.keys() - train.keys())
        if extra:
            raise LabError(f"{held_out / extra[0]}: there is no class folder {extra[0]} in {parts['train']}")
    else:
        both = {name: _set_aside(files) for name, files in _by_class(folder, least=2).items()}
        train = {name: kept for name, (kept, _) in both.items()}
        test = {name: aside for name, (_, aside) in both.items()}
    classes = tuple(train)
    return _labelled(train, classes), _labelled(test, classes), classes


def _folders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))


def _by_class(folder: Path, least: int = 1) -> dict[str, list[Path]]:
    """The image files of each class folder, by name."""
    found = {path.name: _images(path) for path in _folders(folder)}
    if len(found) < 2:
        raise LabError(f"{folder}: expected a folder of images for each of two or more classes, found {len(found)}")
    for name, files in found.items():
        if len(files) < least:
            raise LabError(f"{folder / name}: {len(files)} images ({' '.join(SUFFIXES)}); expected {least} or more")
    return found


def _images(folder: Path) -> list[Path]:
    files = (path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())
    return sorted(path for path in files if not path.name.startswith("."))


def _set_aside(files: list[Path]) -> tuple[list[Path], list[Path]]:
    """Split the files of one class into those to train on and those to test on."""
    hashed = sorted(files, key=lambda path: hashlib.sha256(path.name.encode()).digest())
    n = max(1, round(len(files) / TEST_SHARE))
    return sorted(hashed[n:]), sorted(hashed[:n])


def _labelled(files: dict[str, list[Path]], classes: tuple[str, ...]) -> Labelled:
    return [(path, classes.index(name)) for name, paths in files.items() for path in paths]


def _read(files: Labelled, size: int | None, shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    check_size(len(files) * math.prod(shape), files[0][0].parent)
    x = np.empty((len(files), *shape), dtype=np.uint8)
    for i, (path, _) in enumerate(files):
        pixels = _pixels(path, size)
        if pixels.shape != shape:
            sizes = f"{pixels.shape[1]}x{pixels.shape[0]}, others {shape[1]}x{shape[0]}"
            raise LabError(f"{path} is {sizes}; to scale all images to 32x32, write @32 after the folder's name")
        x[i] = pixels
    images = torch.from_numpy(x).permute(0, 3, 1, 2).contiguous()
    return images, torch.tensor([label for _, label in files], dtype=torch.int64)


def _pixels(path: Path, size: int | None) -> NDArray[np.uint8]:
    """One image as (H, W, 3), turned as its EXIF data say."""
    try:
        with warnings.catch_warnings(), Image.open(path, formats=FORMATS) as image:
            warnings.simplefilter("ignore")  # Pillow's words about odd files
            if image.width * image.height > MOST_PIXELS:
                size_words = f"{image.width:,} x {image.height:,} pixels"
                raise LabError(f"{path} has {size_words}, more than the {MOST_PIXELS:,} that are read")
            if image.mode not in EIGHT_BITS:
                raise LabError(f"{path} has mode {image.mode}; expected eight bits for each channel")
            upright = ImageOps.exif_transpose(image).convert("RGB")
    except (LabError, KeyboardInterrupt):
        raise
    except Exception as error:  # the readers of a dozen formats fail in many ways
        raise LabError(f"cannot read the image {path}: {shortened(str(error), 200)}") from error
    if size is not None:
        upright = ImageOps.fit(upright, (size, size), method=Image.Resampling.LANCZOS)
    return np.asarray(upright)

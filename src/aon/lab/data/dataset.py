"""A labelled set of images as uint8 tensors, and its split into training, validation and test images."""

import hashlib
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from aon.lab.errors import LabError

MOST_DATA = "AON_MAX_DATA_GIB"


@dataclass(frozen=True, eq=False)
class Dataset:
    """Images and labels for training, for testing and, after `split`, for validation.

    Images are uint8 of shape (N, 3, height, width), labels int64 of shape (N,). `mean` and `std` are those
    of the channels of pixels scaled to [0, 1]; `aon.lab.data.batches` normalises with them. `fingerprint` is that of
    the whole dataset, before any split.

    Example:
        >>> x, y = torch.zeros(4, 3, 8, 8, dtype=torch.uint8), torch.tensor([0, 0, 1, 1])
        >>> data = Dataset("dots", x, y, x, y, ("a", "b"), mean=(0.5, 0.5, 0.5), std=(0.2, 0.2, 0.2))
        >>> data.split(2).y_train
        tensor([0, 1])
        >>> data
        dots: 4 training and 4 test images of 8x8, 2 classes
    """

    name: str
    x_train: Tensor
    y_train: Tensor
    x_test: Tensor
    y_test: Tensor
    classes: tuple[str, ...]
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    x_validation: Tensor | None = None
    y_validation: Tensor | None = None
    fingerprint: str = ""

    def __post_init__(self) -> None:
        for part, x, y in (("train", self.x_train, self.y_train), ("test", self.x_test, self.y_test)):
            if x.dtype != torch.uint8 or x.dim() != 4 or x.shape[1] != 3:
                raise LabError(f"{self.name}: x_{part} must be uint8 (N, 3, H, W), not {_kind(x)}")
            if y.dtype != torch.int64 or y.shape != x.shape[:1] or len(y) == 0:
                raise LabError(f"{self.name}: y_{part} must be int64, one for each image, not {_kind(y)}")
        if self.x_train.shape[2:] != self.x_test.shape[2:]:
            raise LabError(f"{self.name}: images are {_size(self.x_train)} in train, {_size(self.x_test)} in test")

    def __repr__(self) -> str:
        counts = f"{len(self.y_train)} training and {len(self.y_test)} test images"
        return f"{self.name}: {counts} of {_size(self.x_train)}, {len(self.classes)} classes"

    def split(
        self, n_train: int | None = None, n_validation: int | None = None, n_test: int | None = None, *, seed: int = 0
    ) -> "Dataset":
        """Draw training and validation images by seed, and keep the first test images.

        All parts are spread evenly over the classes, as far as their numbers allow. The training images of a seed do
        not depend on the number of validation images unless all that remain are wanted (`n_train` is None).

        Args:
            n_train: How many training images to draw; None takes all that validation leaves.
            n_validation: How many of the remaining training images to validate on; None for no validation images.
            n_test: How many test images to keep, always the first ones; None keeps all.
            seed: Decides which images are drawn.

        Raises:
            LabError: if more images are asked for than there are, or fewer than one.
        """
        total, held_out = len(self.y_train), n_validation or 0
        wanted = total - held_out if n_train is None else n_train
        if wanted < 1 or held_out < 0 or wanted + held_out > total:
            parts = f"{'all other' if n_train is None else n_train} training and {held_out} validation images"
            raise LabError(f"cannot take {parts} from the {total} training images of {self.name}")
        x_test, y_test = _first(self.x_test, self.y_test, n_test, f"test images of {self.name}")
        if wanted == total:
            return replace(self, x_test=x_test, y_test=y_test)
        order = _in_classes(self.y_train, seed)
        train, rest = order[:wanted].sort().values, order[wanted : wanted + held_out].sort().values
        return replace(
            self,
            x_train=self.x_train[train],
            y_train=self.y_train[train],
            x_validation=self.x_train[rest] if held_out else None,
            y_validation=self.y_train[rest] if held_out else None,
            x_test=x_test,
            y_test=y_test,
        )

    def with_fingerprint(self) -> "Dataset":
        """The same data with the SHA-256 of all its images, labels and classes; parts taken from it keep that."""
        digest = hashlib.sha256(repr((self.classes, self.mean, self.std)).encode("utf-8", "surrogateescape"))
        for tensor in (self.x_train, self.y_train, self.x_test, self.y_test):
            digest.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
            digest.update(np.ascontiguousarray(tensor.cpu().numpy()).data)
        return replace(self, fingerprint=digest.hexdigest())

    def to(self, device: torch.device | str) -> "Dataset":
        """The same data with its tensors on `device`."""
        names = ("x_train", "y_train", "x_validation", "y_validation", "x_test", "y_test")
        tensors = {name: getattr(self, name) for name in names}
        return replace(self, **{name: t.to(device) for name, t in tensors.items() if t is not None})


def check_size(size: int, path: Path) -> None:
    """Refuse data that would take more memory than is meant for them, before it is taken.

    Args:
        size: Bytes they take once unpacked.
        path: Where they are.

    Raises:
        LabError: if that is more than the environment variable AON_MAX_DATA_GIB allows, 4 if it is not set.
    """
    limit = os.environ.get(MOST_DATA, "")
    most = float(limit) if re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,6})?", limit) else 4.0
    if size > most * 2**30:
        needed = f"{size / 2**30:,.1f} GiB unpacked, more than the {most:g} GiB allowed"
        raise LabError(f"{path} holds {needed}; if that is meant, set {MOST_DATA}={size // 2**30 + 1}")


def channel_statistics(x: Tensor) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    """Mean and standard deviation of each channel of uint8 images, of pixels scaled to [0, 1].

    Counted from histograms, so exact in integers and without a float copy of the images. A constant channel
    gets the standard deviation 1/255, one grey level: normalising it must not divide by zero.

    Args:
        x: Images of shape (N, 3, H, W).

    Example:
        >>> black_and_white = torch.tensor([0, 255], dtype=torch.uint8).reshape(2, 1, 1, 1)
        >>> channel_statistics(black_and_white.expand(2, 3, 1, 1))
        ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
    """
    levels = torch.arange(256, dtype=torch.float64) / 255
    means, deviations = [], []
    for channel in range(3):
        counts = torch.bincount(x[:, channel].flatten(), minlength=256).cpu().double()
        mean = (counts * levels).sum() / counts.sum()
        variance = (counts * (levels - mean) ** 2).sum() / counts.sum()
        means.append(mean.item())
        deviations.append(max(variance.sqrt().item(), 1 / 255))
    return (means[0], means[1], means[2]), (deviations[0], deviations[1], deviations[2])


def _in_classes(labels: Tensor, seed: int) -> Tensor:
    """A random order of all images in which every class comes once, then every class again, and so on."""
    digest = hashlib.sha256(f"aon split {seed}".encode()).digest()
    shuffled = torch.randperm(len(labels), generator=torch.Generator().manual_seed(int.from_bytes(digest[:8], "big")))
    return shuffled[_rank_in_class(labels[shuffled]).argsort(stable=True)]


def _first(x: Tensor, y: Tensor, n: int | None, what: str) -> tuple[Tensor, Tensor]:
    """Take `n` images in their order: of every class its first, then of every class its second, and so on."""
    if n is None:
        return x, y
    if not 1 <= n <= len(y):
        raise LabError(f"cannot take {n} {what}: expected between 1 and {len(y)}")
    chosen = _rank_in_class(y).argsort(stable=True)[:n].sort().values
    return x[chosen], y[chosen]


def _rank_in_class(labels: Tensor) -> Tensor:
    """For each image, how many of its class come before it."""
    rank = torch.empty_like(labels)
    for label in torch.unique(labels):
        of_class = labels == label
        rank[of_class] = torch.arange(int(of_class.sum()), device=labels.device)
    return rank


def _kind(x: Tensor) -> str:
    return f"{str(x.dtype).removeprefix('torch.')} {tuple(x.shape)}"


def _size(x: Tensor) -> str:
    return f"{x.shape[2]}x{x.shape[3]}"

"""One labelled set of images, held as uint8 tensors, and the parts that can be taken from it."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from aon.lab.errors import LabError


@dataclass(frozen=True, eq=False)
class Dataset:
    """Images and labels for training and for validation.

    Images are uint8 of shape (N, 3, height, width), labels int64 of shape (N,). `mean` and `std` are those
    of the channels of pixels scaled to [0, 1]; `aon.lab.data.batches` normalises with them.

    Example:
        >>> x, y = torch.zeros(4, 3, 8, 8, dtype=torch.uint8), torch.tensor([0, 0, 1, 1])
        >>> data = Dataset("dots", x, y, x, y, ("a", "b"), mean=(0.5, 0.5, 0.5), std=(0.2, 0.2, 0.2))
        >>> data.subset(2, None).y_train
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

    def subset(self, n_train: int | None, n_test: int | None) -> "Dataset":
        """The first images of each class, as evenly over the classes as their numbers allow.

        Args:
            n_train: How many training images to keep; None keeps all.
            n_test: How many test images to keep; None keeps all.

        Raises:
            LabError: if more images are asked for than there are, or fewer than one.
        """
        x_train, y_train = _balanced(self.x_train, self.y_train, n_train, f"training images of {self.name}")
        x_test, y_test = _balanced(self.x_test, self.y_test, n_test, f"test images of {self.name}")
        return replace(self, x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test)

    def to(self, device: torch.device | str) -> "Dataset":
        """The same data with its tensors on `device`."""
        return replace(
            self,
            x_train=self.x_train.to(device),
            y_train=self.y_train.to(device),
            x_test=self.x_test.to(device),
            y_test=self.y_test.to(device),
        )


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


def _balanced(x: Tensor, y: Tensor, n: int | None, what: str) -> tuple[Tensor, Tensor]:
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

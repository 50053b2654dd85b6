"""Batches for training and evaluation, made from uint8 images on the dataset's device.

Crop, flip and normalisation act on whole batches; each image has its own offsets and its own flip. The order
and the augmentation of an epoch depend on the seed and the epoch alone: not on the batch size, the device,
torch's global random state, or what was drawn before. An interrupted run can therefore restart any epoch.
"""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from aon.lab.data.dataset import Dataset
from aon.lab.errors import LabError
from aon.lab.system.checks import check_at_least

Batch = tuple[Tensor, Tensor]
Part = Literal["test", "validation"]


@dataclass(frozen=True)
class Plan:
    """What one epoch does: the order of the images and, for each image, its crop and its flip.

    `top` and `left` are offsets into the padded image; all four are indexed by image, except `order`.
    """

    order: Tensor
    top: Tensor
    left: Tensor
    flip: Tensor


def padding(side: int) -> int:
    """How far an image is padded on each side before it is cropped: an eighth, 4 for CIFAR as in the paper.

    Example:
        >>> padding(32), padding(64)
        (4, 8)
    """
    return side // 8


def plan(n: int, height: int, width: int, *, seed: int, epoch: int) -> Plan:
    """Draw the order and the augmentation of one epoch.

    Drawn on the CPU whatever the device, so that a seed means the same everywhere.

    Args:
        n: The number of images.
        height: Of an image.
        width: Of an image.
        seed: The run's seed.
        epoch: The number of the epoch.

    Example:
        >>> plan(4, 32, 32, seed=0, epoch=1).order.equal(plan(4, 32, 32, seed=0, epoch=1).order)
        True
    """
    # A hash, since neighbouring seeds and epochs must not share a stream, as they would with seed + epoch.
    digest = hashlib.sha256(f"aon {seed} {epoch}".encode()).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "big"))
    return Plan(
        order=torch.randperm(n, generator=generator),
        top=torch.randint(2 * padding(height) + 1, (n,), generator=generator),
        left=torch.randint(2 * padding(width) + 1, (n,), generator=generator),
        flip=torch.randint(2, (n,), generator=generator).bool(),
    )


def everything(_: int) -> slice:
    """The whole of a batch, as one process sees it."""
    return slice(None)


def train_batches(
    data: Dataset,
    batch_size: int,
    *,
    seed: int,
    epoch: int,
    augment: bool = True,
    part: Callable[[int], slice] = everything,
) -> Iterator[Batch]:
    """The batches of one training epoch: float32 normalised images and their labels.

    Each image is padded with zeros (4 pixels a side for 32x32), cropped to its size at a random place and
    flipped left to right half of the time. The last, partial batch is dropped.

    Args:
        data: The dataset; batches are made on its device.
        batch_size: Images in each batch.
        seed: The run's seed.
        epoch: The number of the epoch.
        augment: Whether to crop and flip; the order of the images is the same either way.
        part: The slice of a batch of so many images that is made; the others are another process's.

    Raises:
        LabError: at once, if the batch size is not between 1 and the number of images.

    Example:
        >>> x, y = torch.zeros(10, 3, 32, 32, dtype=torch.uint8), torch.arange(10)
        >>> data = Dataset("ten", x, y, x, y, tuple("abcdefghij"), mean=(0.5, 0.5, 0.5), std=(0.2, 0.2, 0.2))
        >>> [tuple(x.shape) for x, y in train_batches(data, 4, seed=0, epoch=1)]
        [(4, 3, 32, 32), (4, 3, 32, 32)]
    """
    n, _, height, width = data.x_train.shape
    if not 1 <= batch_size <= n:
        raise LabError(f"batch size {batch_size}: expected between 1 and the {n} training images of {data.name}")
    return _train_batches(data, batch_size, plan(n, height, width, seed=seed, epoch=epoch), augment, part)


def eval_batches(
    data: Dataset, batch_size: int, part: Part = "test", share: Callable[[int], slice] = everything
) -> Iterator[Batch]:
    """The test or validation images, normalised, in their order; the last batch may be smaller.

    Args:
        data: The dataset; batches are made on its device.
        batch_size: Images in each batch but the last.
        part: "test" or "validation".
        share: The slice of a batch of so many images that is made; it can be empty.

    Raises:
        LabError: at once, if the batch size is less than 1 or there are no validation images.
    """
    check_at_least("batch_size", batch_size)
    x, y = (data.x_test, data.y_test) if part == "test" else (data.x_validation, data.y_validation)
    if x is None or y is None:
        raise LabError(f"{data.name} has no validation images: draw some with Dataset.split")
    pairs = zip(torch.split(x, batch_size), torch.split(y, batch_size), strict=True)
    slices = ((x[share(len(y))], y[share(len(y))]) for x, y in pairs)
    return ((normalised(x, data.mean, data.std), y) for x, y in slices)


def crop_and_flip(x: Tensor, top: Tensor, left: Tensor, flip: Tensor) -> Tensor:
    """Crop each padded image at its own offsets, then mirror those that `flip` marks.

    Args:
        x: Images (B, C, H, W), padded here with `padding(H)` rows and `padding(W)` columns of zeros a side.
        top: First row of each crop, 0 to 2 padding(H).
        left: First column of each crop, 0 to 2 padding(W).
        flip: Which images to mirror.
    """
    n, _, height, width = x.shape
    rows, columns = padding(height), padding(width)
    padded = functional.pad(x, (columns, columns, rows, rows))
    # All crops are views of the padded images, (B, C, top, left, H, W); one of each is then a single gather.
    crops = padded.unfold(2, height, 1).unfold(3, width, 1)
    chosen = crops[torch.arange(n, device=x.device), :, top, left]
    return torch.where(flip[:, None, None, None], chosen.flip(3), chosen)


def normalised(x: Tensor, mean: tuple[float, ...], std: tuple[float, ...]) -> Tensor:
    """Pixels scaled to [0, 1], then shifted and scaled to mean 0 and deviation 1 by channel, in float32.

    Example:
        >>> x = torch.tensor([0, 51, 255], dtype=torch.uint8).reshape(1, 3, 1, 1)
        >>> [f"{value:.2f}" for value in normalised(x, (0.5, 0.5, 0.5), (0.25, 0.25, 0.25)).flatten()]
        ['-2.00', '-1.20', '2.00']
    """
    scale = torch.tensor([1 / (255 * s) for s in std], device=x.device)[:, None, None]
    shift = torch.tensor([-m / s for m, s in zip(mean, std, strict=True)], device=x.device)[:, None, None]
    return torch.addcmul(shift, x.to(torch.float32), scale)


def _train_batches(
    data: Dataset, batch_size: int, plan: Plan, augment: bool, part: Callable[[int], slice]
) -> Iterator[Batch]:
    device = data.x_train.device
    order, top, left, flip = (t.to(device) for t in (plan.order, plan.top, plan.left, plan.flip))
    whole = len(order) // batch_size * batch_size
    for batch in torch.split(order[:whole], batch_size):
        chosen = batch[part(batch_size)]
        x = data.x_train[chosen]
        if augment:
            x = crop_and_flip(x, top[chosen], left[chosen], flip[chosen])
        yield normalised(x, data.mean, data.std), data.y_train[chosen]

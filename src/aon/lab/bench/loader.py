"""torch's DataLoader with per-image transforms, for comparison only."""

import torch
from torch import Tensor
from torch.nn.functional import pad
from torch.utils import data

from aon.lab.data import Dataset
from aon.lab.data.batches import padding


class TransformedImages(data.Dataset[tuple[Tensor, int]]):
    """The training images of a dataset, one at a time: padded, cropped, flipped, made float and normalised.

    The same augmentation as `aon.lab.data.batches` makes of whole batches, written as a user of per-image
    transforms writes it.
    """

    def __init__(self, images: Dataset) -> None:
        self.images = images
        self.mean = torch.tensor(images.mean)[:, None, None]
        self.std = torch.tensor(images.std)[:, None, None]

    def __len__(self) -> int:
        return len(self.images.x_train)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image = self.images.x_train[index]
        _, height, width = image.shape
        rows, columns = padding(height), padding(width)
        top = int(torch.randint(2 * rows + 1, ()))
        left = int(torch.randint(2 * columns + 1, ()))
        image = pad(image, (columns, columns, rows, rows))[:, top : top + height, left : left + width]
        if torch.rand(()) < 0.5:
            image = image.flip(2)
        scaled = image.to(torch.float32).div(255).sub(self.mean).div(self.std)
        return scaled, int(self.images.y_train[index])


def loader(images: Dataset, batch_size: int, workers: int) -> data.DataLoader[tuple[Tensor, int]]:
    """A shuffling loader that drops the partial batch, with processes of its own that stay between epochs."""
    return data.DataLoader(
        TransformedImages(images),
        batch_size=batch_size,
        shuffle=True,
        drop_last=True,
        num_workers=workers,
        persistent_workers=workers > 0,
    )

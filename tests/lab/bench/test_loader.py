"""The usual loader makes the same kind of batch as ours does."""

import torch

from aon.lab.bench.loader import TransformedImages, loader
from aon.lab.data import Dataset, load
from aon.lab.data.batches import normalised


def constant(value, n=3):
    x = torch.full((n, 3, 32, 32), value, dtype=torch.uint8)
    return Dataset("constant", x, torch.arange(n), x, torch.arange(n), tuple("abc"), (0.5, 0.4, 0.3), (0.2, 0.3, 0.4))


def test_an_image_is_normalised_inside_and_zero_outside():
    data = constant(255)
    inside = normalised(data.x_train[:1], data.mean, data.std)[0, :, 0, 0]
    outside = normalised(data.x_train[:1] * 0, data.mean, data.std)[0, :, 0, 0]
    images = TransformedImages(data)
    torch.manual_seed(0)
    for image, label in (images[2] for _ in range(20)):
        assert image.shape == (3, 32, 32)
        assert label == 2
        pixels = image.flatten(1).T.unique(dim=0)
        assert all(torch.allclose(p, inside, atol=1e-6) or torch.allclose(p, outside, atol=1e-6) for p in pixels)
        assert image[:, 16, 16].allclose(inside, atol=1e-6)


def test_crops_and_flips_vary():
    images = TransformedImages(load("cifar10-sample").split(10, None, 10))
    torch.manual_seed(0)
    assert len({images[0][0].numpy().tobytes() for _ in range(20)}) > 10


def test_batches_are_whole_and_shuffled():
    torch.manual_seed(0)
    batches = list(loader(load("cifar10-sample").split(50, None, 10), 20, 0))
    assert [tuple(x.shape) for x, _ in batches] == [(20, 3, 32, 32)] * 2
    assert batches[0][0].dtype == torch.float32
    labels = torch.cat([y for _, y in batches])
    assert labels.dtype == torch.int64
    assert not torch.equal(labels, load("cifar10-sample").split(50, None, 10).y_train[:40])

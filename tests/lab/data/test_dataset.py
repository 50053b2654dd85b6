import numpy as np
import pytest
import torch

from aon.lab.data.dataset import Dataset, channel_statistics
from aon.lab.errors import LabError


def dataset(labels, size=(4, 4), **changed):
    y_train, y_test = torch.tensor(labels), torch.tensor([0, 1])
    values = {
        "name": "own",
        "x_train": torch.arange(len(y_train), dtype=torch.uint8)[:, None, None, None].expand(-1, 3, *size),
        "y_train": y_train,
        "x_test": torch.arange(len(y_test), dtype=torch.uint8)[:, None, None, None].expand(-1, 3, *size),
        "y_test": y_test,
        "classes": ("a", "b", "c"),
        "mean": (0.5, 0.5, 0.5),
        "std": (0.2, 0.2, 0.2),
    }
    return Dataset(**(values | changed))


def test_a_subset_takes_the_first_of_each_class_in_their_order():
    part = dataset([0, 0, 0, 1, 2, 1, 2, 0]).subset(6, 1)
    assert part.y_train.tolist() == [0, 0, 1, 2, 1, 2]
    assert part.x_train[:, 0, 0, 0].tolist() == [0, 1, 3, 4, 5, 6]
    assert part.y_test.tolist() == [0]


@pytest.mark.parametrize("n", [1, 2, 3, 7, 10, 17])
def test_a_subset_is_as_balanced_as_its_size_allows(n):
    y = torch.arange(30) % 3
    counts = torch.bincount(dataset(y[torch.randperm(30)].tolist()).subset(n, None).y_train, minlength=3)
    assert counts.sum() == n
    assert counts.max() - counts.min() <= 1


def test_a_class_that_runs_out_is_made_up_for_by_the_others():
    assert dataset([0, 1, 1, 1, 1, 2]).subset(5, None).y_train.bincount().tolist() == [1, 3, 1]


def test_none_keeps_everything_in_order():
    data = dataset([2, 1, 0, 0])
    assert data.subset(None, None).x_train is data.x_train
    assert data.subset(None, None).y_test is data.y_test


@pytest.mark.parametrize(
    ("n_train", "n_test", "message"),
    [
        (5, None, "cannot take 5 training images of own: expected between 1 and 4"),
        (0, None, "cannot take 0 training images"),
        (None, 3, "cannot take 3 test images of own: expected between 1 and 2"),
        (None, -1, "cannot take -1 test images"),
    ],
)
def test_an_impossible_subset_is_refused(n_train, n_test, message):
    with pytest.raises(LabError, match=message):
        dataset([0, 1, 2, 0]).subset(n_train, n_test)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"x_train": torch.zeros(2, 3, 4, 4)}, r"x_train must be uint8 \(N, 3, H, W\), not float32 \(2, 3, 4, 4\)"),
        ({"x_test": torch.zeros(2, 1, 4, 4, dtype=torch.uint8)}, r"x_test must be uint8 \(N, 3, H, W\)"),
        (
            {"y_train": torch.zeros(3, dtype=torch.int64)},
            r"y_train must be int64, one for each image, not int64 \(3,\)",
        ),
        ({"y_test": torch.zeros(2)}, "y_test must be int64"),
        ({"x_test": torch.zeros(2, 3, 5, 4, dtype=torch.uint8)}, "images are 4x4 in train, 5x4 in test"),
    ],
)
def test_tensors_of_the_wrong_form_are_refused(changed, message):
    with pytest.raises(LabError, match=message):
        dataset([0, 1], **changed)


def test_to_moves_every_tensor():
    data = dataset([0, 1]).to("meta")
    assert {t.device.type for t in (data.x_train, data.y_train, data.x_test, data.y_test)} == {"meta"}


def test_statistics_are_those_of_numpy():
    x = torch.randint(0, 256, (7, 3, 9, 5), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    mean, std = channel_statistics(x)
    pixels = x.numpy().astype(np.float64) / 255
    np.testing.assert_allclose(mean, pixels.mean(axis=(0, 2, 3)), atol=1e-14)
    np.testing.assert_allclose(std, pixels.std(axis=(0, 2, 3)), atol=1e-14)


def test_a_constant_channel_has_a_deviation_to_divide_by():
    assert channel_statistics(torch.zeros(2, 3, 2, 2, dtype=torch.uint8))[1] == (1 / 255,) * 3

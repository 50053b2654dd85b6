"""Datasets: validation, subsets, limits."""

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


def test_images_are_drawn_by_seed_and_stay_in_their_order():
    data = dataset(list(range(3)) * 20)
    chosen = [data.split(6, seed=seed).x_train[:, 0, 0, 0].tolist() for seed in (0, 0, 1)]
    assert chosen[0] == chosen[1] == sorted(chosen[0])
    assert chosen[0] != chosen[2]


@pytest.mark.parametrize("n", [1, 2, 3, 7, 10, 17])
def test_a_part_is_as_balanced_as_its_size_allows(n):
    y = torch.arange(60) % 3
    part = dataset(y[torch.randperm(60)].tolist()).split(n, n)
    for labels, most in ((part.y_train, 1), (part.y_validation, 2)):  # a round of classes may be cut at both ends
        counts = torch.bincount(labels, minlength=3)
        assert counts.sum() == n
        assert counts.max() - counts.min() <= most


def test_a_class_that_runs_out_is_made_up_for_by_the_others():
    assert dataset([0, 1, 1, 1, 1, 2]).split(5).y_train.bincount().tolist() == [1, 3, 1]


def test_validation_images_are_other_training_images():
    data = dataset([0, 1, 2] * 10)
    part = data.split(12, 9, seed=3)
    trained, validated = (set(x[:, 0, 0, 0].tolist()) for x in (part.x_train, part.x_validation))
    assert not trained & validated
    assert (len(trained), len(validated)) == (12, 9)


def test_training_images_do_not_depend_on_the_validation_size():
    data = dataset([0, 1, 2] * 10)
    assert data.split(12, 9, seed=3).x_train.equal(data.split(12, None, seed=3).x_train)


def test_all_images_but_those_of_validation_are_trained_on():
    part = dataset([0, 1, 2] * 4).split(None, 3)
    assert sorted(part.x_train[:, 0, 0, 0].tolist() + part.x_validation[:, 0, 0, 0].tolist()) == list(range(12))


def test_the_first_test_images_are_kept():
    data = dataset([0, 1, 2], y_test=torch.tensor([0, 0, 1, 1]), x_test=torch.zeros(4, 3, 4, 4, dtype=torch.uint8))
    assert data.split(None, None, 2).y_test.tolist() == [0, 1]


def test_none_keeps_everything_in_order():
    data = dataset([2, 1, 0, 0])
    assert data.split().x_train is data.x_train
    assert data.split().y_test is data.y_test
    assert data.split().x_validation is None


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((5,), "cannot take 5 training and 0 validation images from the 4 training images of own"),
        ((0,), "cannot take 0 training"),
        ((2, 3), "cannot take 2 training and 3 validation images from the 4"),
        ((None, 4), "cannot take all other training and 4 validation images from the 4"),
        ((None, None, 3), "cannot take 3 test images of own: expected between 1 and 2"),
        ((None, None, -1), "cannot take -1 test images"),
    ],
)
def test_an_impossible_split_is_refused(sizes, message):
    with pytest.raises(LabError, match=message):
        dataset([0, 1, 2, 0]).split(*sizes)


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

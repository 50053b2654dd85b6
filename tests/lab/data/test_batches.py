"""Batches: contents, order, augmentation, and their dependence on seed and epoch."""

import numpy as np
import pytest
import torch
from torch import Tensor

from aon.lab.data import batches, sample
from aon.lab.data.dataset import Dataset
from aon.lab.errors import LabError


def numbered(n: int, height: int = 32, width: int = 32) -> Dataset:
    """Random images; the label of an image is its number."""
    generator = torch.Generator().manual_seed(3)
    x = torch.randint(0, 256, (n, 3, height, width), dtype=torch.uint8, generator=generator)
    y = torch.arange(n)
    return Dataset("numbered", x, y, x, y, tuple(map(str, range(n))), (0.5, 0.4, 0.3), (0.2, 0.3, 0.1))


def epoch(data: Dataset, batch_size: int, **options) -> tuple[Tensor, Tensor]:
    x, y = zip(*batches.train_batches(data, batch_size, **options), strict=True)
    return torch.cat(x), torch.cat(y)


def by_label(x: Tensor, y: Tensor) -> dict[int, bytes]:
    return {int(label): image.numpy().tobytes() for image, label in zip(x, y, strict=True)}


def cropped_one_by_one(x: Tensor, top: Tensor, left: Tensor, flip: Tensor) -> np.ndarray:
    """The obvious way: pad one image with zeros, cut, mirror."""
    images = []
    for image, first_row, first_column, mirror in zip(
        x.numpy(), top.tolist(), left.tolist(), flip.tolist(), strict=True
    ):
        _, height, width = image.shape
        padded = np.pad(image, ((0, 0), (height // 8, height // 8), (width // 8, width // 8)))
        crop = padded[:, first_row : first_row + height, first_column : first_column + width]
        images.append(crop[:, :, ::-1] if mirror else crop)
    return np.stack(images)


@pytest.mark.parametrize("size", [(32, 32), (16, 24), (7, 7), (64, 40)])
def test_crop_and_flip_is_what_one_image_at_a_time_gives(size):
    data = numbered(50, *size)
    plan = batches.plan(50, *size, seed=1, epoch=2)
    fast = batches.crop_and_flip(data.x_train, plan.top, plan.left, plan.flip)
    np.testing.assert_array_equal(fast.numpy(), cropped_one_by_one(data.x_train, plan.top, plan.left, plan.flip))


def test_a_batch_is_the_normalised_crop_of_its_images():
    data = numbered(40)
    plan = batches.plan(40, 32, 32, seed=5, epoch=1)
    x, y = epoch(data, 10, seed=5, epoch=1)
    assert y.equal(plan.order)
    crops = cropped_one_by_one(data.x_train[y], plan.top[y], plan.left[y], plan.flip[y]) / 255
    expected = (crops - np.reshape(data.mean, (3, 1, 1))) / np.reshape(data.std, (3, 1, 1))
    np.testing.assert_allclose(x.numpy(), expected, atol=10 * np.finfo(np.float32).eps * 10)
    assert x.dtype == torch.float32


def test_offsets_and_flips_are_spread_over_all_their_values():
    plan = batches.plan(20_000, 32, 32, seed=0, epoch=0)
    places = torch.bincount(9 * plan.top + plan.left, minlength=81)
    # 20,000 draws from 81 places: 247 each, deviation 15.6; five deviations.
    assert 169 < places.min() <= places.max() < 325
    assert abs(plan.flip.double().mean() - 0.5) < 5 * 0.5 / 20_000**0.5


def test_every_image_of_a_batch_has_its_own_offsets():
    data = numbered(1)
    same = Dataset(
        "same",
        data.x_train.expand(100, -1, -1, -1),
        torch.arange(100),
        data.x_test,
        data.y_test,
        ("a",),
        data.mean,
        data.std,
    )
    x, _ = epoch(same, 100, seed=0, epoch=0)
    assert len({image.numpy().tobytes() for image in x}) > 60


def test_an_epoch_depends_on_seed_and_number_alone():
    data = numbered(64)
    first = epoch(data, 16, seed=7, epoch=3)
    torch.manual_seed(1234)
    torch.rand(10)
    before = torch.get_rng_state()
    again = epoch(data, 16, seed=7, epoch=3)
    assert first[0].equal(again[0])
    assert first[1].equal(again[1])
    assert torch.get_rng_state().equal(before)


def test_the_augmentation_of_an_image_does_not_depend_on_the_batch_size():
    data = numbered(60)
    assert by_label(*epoch(data, 60, seed=1, epoch=1)) == by_label(*epoch(data, 4, seed=1, epoch=1))


@pytest.mark.parametrize(("seed", "number"), [(7, 4), (8, 3), (8, 2), (6, 4), (-7, 3)])
def test_another_seed_or_epoch_is_another_stream(seed, number):
    data = numbered(64)
    x, y = epoch(data, 64, seed=7, epoch=3)
    other_x, other_y = epoch(data, 64, seed=seed, epoch=number)
    assert not y.equal(other_y)
    assert by_label(x, y) != by_label(other_x, other_y)


def test_the_order_is_the_same_without_augmentation_and_the_images_whole():
    data = numbered(20)
    _, order = epoch(data, 5, seed=0, epoch=0)
    x, plain_order = epoch(data, 5, seed=0, epoch=0, augment=False)
    assert plain_order.equal(order)
    assert x.equal(batches.normalised(data.x_train[order], data.mean, data.std))


def test_the_last_partial_batch_is_dropped_and_no_image_comes_twice():
    sizes = [len(y) for _, y in batches.train_batches(numbered(23), 5, seed=0, epoch=0)]
    assert sizes == [5, 5, 5, 5]
    _, y = epoch(numbered(23), 5, seed=0, epoch=0)
    assert len(y.unique()) == 20


def test_which_images_are_dropped_changes_from_epoch_to_epoch():
    dropped = {frozenset(range(23)) - frozenset(epoch(numbered(23), 5, seed=0, epoch=e)[1].tolist()) for e in range(5)}
    assert len(dropped) > 1


def test_evaluation_sees_every_test_image_once_in_order():
    data = numbered(23)
    x, y = zip(*batches.eval_batches(data, 10), strict=True)
    assert [len(part) for part in y] == [10, 10, 3]
    assert torch.cat(y).equal(data.y_test)
    assert torch.cat(x).equal(batches.normalised(data.x_test, data.mean, data.std))


def test_normalised_real_images_have_mean_0_and_deviation_1():
    data = sample.load()
    x = batches.normalised(data.x_train, data.mean, data.std)
    assert x.mean((0, 2, 3)).abs().max() < 0.02
    assert (x.std((0, 2, 3)) - 1).abs().max() < 0.02


@pytest.mark.parametrize("batch_size", [0, -3, 24])
def test_a_batch_size_without_a_whole_batch_is_refused_at_once(batch_size):
    message = f"batch size {batch_size}: expected between 1 and the 23 training images of numbered"
    with pytest.raises(LabError, match=message):
        batches.train_batches(numbered(23), batch_size, seed=0, epoch=0)


def test_a_batch_size_of_zero_is_refused_for_evaluation():
    with pytest.raises(LabError, match="batch_size = 0: should be at least 1"):
        batches.eval_batches(numbered(3), 0)

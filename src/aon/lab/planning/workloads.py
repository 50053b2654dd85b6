"""Sizes of workloads: a comparison's data and network, a ResNet-50, a transformer."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from aon.lab.data import Dataset, load
from aon.lab.experiment.config import RunConfig
from aon.lab.methods.grammar import compose, parse
from aon.lab.models import classifier_names
from aon.lab.planning.flops import Sizes, in_step, layer_sizes, of_layer, of_map_in_step
from aon.lab.training.preparation import network

# Methods whose penalty multiplies each weight by its Gram matrix: three products of 2 k k l.
_GRAM_PENALTIES = frozenset({"orth", "dso", "mc", "srip"})
# Methods with products of their own, which torch's counter counts.
_BY_COUNTER = frozenset({"iternorm", "dbn", "polar", "oni"})


@dataclass(frozen=True)
class Images:
    """How many images a dataset has, their classes and their side."""

    train: int
    test: int
    classes: int
    side: int = 32


_KNOWN = {"cifar10": Images(50_000, 10_000, 10), "cifar100": Images(50_000, 10_000, 100)}


def images_of(config: RunConfig, root: Path | None = None) -> Images:
    """The images of a run; those of CIFAR are known without its files.

    Args:
        config: The run.
        root: Where datasets are kept; the usual place if not given.

    Raises:
        LabError: if the dataset is not known and not there.
    """
    whole = _KNOWN.get(config.dataset)
    if whole is None:
        data = load(config.dataset, root)
        whole = Images(len(data.y_train), len(data.y_test), len(data.classes), data.x_train.shape[-1])
    left = whole.train - (config.validation_size or 0)
    return Images(config.train_size or left, config.test_size or whole.test, whole.classes, whole.side)


def random_images(sizes: Images) -> Dataset:
    """Images of noise: what they show makes no difference to the time.

    Args:
        sizes: How many, and how large.
    """
    draw = torch.Generator().manual_seed(0)
    shape = (sizes.train + sizes.test, 3, sizes.side, sizes.side)
    x = torch.randint(256, shape, generator=draw, dtype=torch.uint8)
    y = torch.arange(sizes.train + sizes.test) % sizes.classes
    names, half = tuple(str(number) for number in range(sizes.classes)), (0.5, 0.5, 0.5)
    n = sizes.train
    return Dataset("noise", x[:n], y[:n], x[n:], y[n:], names, half, half)


@dataclass(frozen=True)
class Operations:
    """Floating-point operations of one step: the network's, and what the method's map or penalty adds to them."""

    network: int
    added: int

    @property
    def step(self) -> int:
        """Both together."""
        return self.network + self.added


def operations(config: RunConfig, images: Images) -> Operations:
    """Count a training step of a run; elementwise work, eigendecompositions and steps between epochs are left out.

    Args:
        config: The run.
        images: Its data.
    """
    plain = config.but(method="bn" if ":" not in config.network else "none")
    with torch.random.fork_rng(devices=[]):
        model = network(plain, images.classes, (3, images.side, images.side)).model
    per_image = layer_sizes(model, torch.zeros(1, 3, images.side, images.side))
    sizes = {name: _batch_of(one, config.batch_size) for name, one in per_image.items()}
    left = () if config.include_classifier else classifier_names(model)
    mapped = [one for name, one in sizes.items() if name not in left]
    added = _added(config.method, mapped) + _added_by_counter(config, images)
    return Operations(sum(of_layer(one) for one in sizes.values()), added)


def _added_by_counter(config: RunConfig, images: Images) -> int:
    """What whitening, polar and ONI add: a step with them less one without."""
    parts = [part for part in parse(config.method).parts if part.name in _BY_COUNTER]
    if not parts:
        return 0

    def step(method: str) -> int:
        one, shape = config.but(method=method), (3, images.side, images.side)
        return in_step(lambda: network(one, images.classes, shape).model, shape, config.batch_size)

    with torch.random.fork_rng(devices=[]):
        return step(str(compose(parts))) - step("none")


def _batch_of(sizes: Sizes, batch: int) -> Sizes:
    return Sizes(sizes.groups, sizes.rows, sizes.columns, sizes.positions * batch, sizes.is_first)


def _added(method: str, sizes: Sequence[Sizes]) -> int:
    parts = {part.name: part for part in parse(method).parts}
    total = 0
    if "aon" in parts:
        total += sum(of_map_in_step(one, int(parts["aon"]["order"])) for one in sizes)
    if "sn" in parts:
        total += sum(of_map_in_step(one, 0) for one in sizes)
    if _GRAM_PENALTIES & parts.keys():
        total += sum(3 * 2 * one.groups * min(one.rows, one.columns) * one.rows * one.columns for one in sizes)
    return total


def resnet50(batch: int) -> list[Sizes]:
    """The convolutions and the classifier of a ResNet-50 on images of 224 x 224.

    Args:
        batch: Images in a step.

    Example:
        >>> sizes = resnet50(1)
        >>> len(sizes), round(sum(2 * s.rows * s.columns * s.positions for s in sizes) / 1e9, 1)
        (54, 8.2)
    """
    sizes = [Sizes(1, 64, 3 * 49, 112 * 112 * batch, is_first=True)]
    inputs, side = 64, 56
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width = 64 * 2**stage
        for block in range(blocks):
            before, side = side, side // 2 if stage and not block else side
            inner, outer = side * side * batch, before * before * batch
            sizes += [
                Sizes(1, width, inputs, outer),
                Sizes(1, width, 9 * width, inner),
                Sizes(1, 4 * width, width, inner),
            ]
            if not block:
                sizes.append(Sizes(1, 4 * width, inputs, inner))
            inputs = 4 * width
    return [*sizes, Sizes(1, 1000, 2048, batch)]


@dataclass(frozen=True)
class Transformer:
    """The weights of a decoder: layers of attention (4 square matrices) and a gated network (3 matrices).

    Example:
        >>> round(SEVEN_B.weights / 1e9, 2)
        6.48
    """

    layers: int = 32
    width: int = 4096
    inner: int = 11008

    def matrices(self) -> list[tuple[int, int]]:
        """Shapes of the weights that a map acts on; embedding and head are left."""
        layer = 4 * [(self.width, self.width)] + 2 * [(self.inner, self.width)] + [(self.width, self.inner)]
        return self.layers * layer

    @property
    def weights(self) -> int:
        """How many numbers they are."""
        return sum(rows * columns for rows, columns in self.matrices())


SEVEN_B = Transformer()

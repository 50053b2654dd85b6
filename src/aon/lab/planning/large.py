"""Estimates for large workloads: ResNet-50 on ImageNet, and the cost of the map in a large transformer."""

from collections.abc import Sequence
from dataclasses import dataclass

from aon.lab.planning.flops import Sizes, of_layer, of_map, of_map_in_step
from aon.lab.planning.prediction import Device
from aon.lab.planning.workloads import SEVEN_B, Transformer, resnet50

IMAGENET_TRAIN, IMAGENET_TEST = 1_281_167, 50_000
TOKENS = (250_000, 1_000_000, 4_000_000)
RANKS = (8, 64, 256, 1024)


@dataclass(frozen=True)
class ImageNetRow:
    """A ResNet-50 on ImageNet: operations of a step, what the map adds to them, hours in all, bytes on a device."""

    batch: int
    ranks: int
    network: int
    map: int
    hours: float
    memory: int

    @property
    def added(self) -> float:
        """The map's share over the network's operations, each rank doing the whole map."""
        return self.map * self.ranks / self.network


def imagenet(device: Device, *, epochs: int = 90, batch: int = 256, order: int = 2) -> ImageNetRow:
    """The time of one training on ImageNet, on all devices together.

    Args:
        device: Its speed and number.
        epochs: Passes over the images.
        batch: Images in a step, over all devices.
        order: Of the map.
    """
    device.check()
    assert device.flops
    whole, each = resnet50(batch), resnet50(-(-batch // device.count))
    network, map = sum(of_layer(one) for one in whole), sum(of_map_in_step(one, order) for one in each)
    steps, judged = IMAGENET_TRAIN // batch, IMAGENET_TEST / batch
    operations = epochs * (steps * (network / device.count + map) + judged * network / 3 / device.count)
    hours = operations / (device.flops * device.efficiency) / 3600
    return ImageNetRow(batch, device.count, network, map, hours, _memory(each))


def _memory(sizes: Sequence[Sizes]) -> int:
    """Bytes of a step of SGD with momentum in float32.

    Weights, gradients, momentum and mapped weights; and for backward the output of every convolution, as its batch
    normalisation needs it, and what comes out of that, as the next convolution needs it.
    """
    weights = sum(one.rows * one.columns for one in sizes)
    outputs = sum(one.rows * one.positions for one in sizes)
    return 4 * (4 * weights + 2 * outputs)


@dataclass(frozen=True)
class TransformerRow:
    """One size of step of a transformer: what the map adds if every rank does all of it, and if it is shared out."""

    tokens: int
    ranks: int
    added: float
    added_shared: float


def transformer(
    model: Transformer = SEVEN_B, tokens: Sequence[int] = TOKENS, ranks: Sequence[int] = RANKS, order: int = 2
) -> list[TransformerRow]:
    """What the map adds to the operations of a step, by tokens in it and devices it is spread over.

    The network takes 6 operations for each weight and token, spread over the ranks; the map does not depend on the
    tokens. Under DDP and FSDP every rank maps every weight; shared out, each maps its part of the weights.

    Args:
        model: The weights.
        tokens: Tokens in a step, over all ranks.
        ranks: Devices.
        order: Of the map.

    Example:
        >>> transformer(tokens=[4_000_000], ranks=[8])[0].added < 0.02
        True
    """
    map = sum(of_map(rows, columns, order) for rows, columns in model.matrices())
    return [
        TransformerRow(size, number, map * number / (6 * model.weights * size), map / (6 * model.weights * size))
        for size in tokens
        for number in ranks
    ]

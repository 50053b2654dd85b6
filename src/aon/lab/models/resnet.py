"""Residual networks of He et al. 2016 for small images."""

from collections.abc import Callable, Iterator
from functools import partial

from torch import Tensor, nn
from torch.nn.functional import pad

from aon.lab.models.ingredients import ImageClassifier, Ingredients, Unit, convolution, scaled


def resnet18(*, classes: int, width: float, in_channels: int, ingredients: Ingredients) -> nn.Module:
    """ResNet-18 with the stem for small images: one 3x3 convolution, no max-pool. 11.17 M parameters."""
    stages = [scaled(channels, width) for channels in (64, 128, 256, 512)]
    block = partial(BasicBlock, ingredients, projection)
    features = nn.Sequential(Unit(ingredients, in_channels, stages[0]), *residual_stages(block, stages[0], stages, 2))
    return ImageClassifier(features, stages[-1], classes, ingredients.maybe_dropout())


def resnet20(*, classes: int, width: float, in_channels: int, ingredients: Ingredients) -> nn.Module:
    """ResNet-20, He's own network for CIFAR: three stages of three blocks. 0.27 M parameters."""
    return _cifar_resnet(3, classes, width, in_channels, ingredients)


def resnet56(*, classes: int, width: float, in_channels: int, ingredients: Ingredients) -> nn.Module:
    """ResNet-56 for CIFAR: three stages of nine blocks. 0.85 M parameters."""
    return _cifar_resnet(9, classes, width, in_channels, ingredients)


def resnet110(*, classes: int, width: float, in_channels: int, ingredients: Ingredients) -> nn.Module:
    """ResNet-110 for CIFAR: three stages of 18 blocks. 1.73 M parameters."""
    return _cifar_resnet(18, classes, width, in_channels, ingredients)


def _cifar_resnet(blocks: int, classes: int, width: float, in_channels: int, ingredients: Ingredients) -> nn.Module:
    """He's network for CIFAR with 6 n + 2 layers, n being `blocks`."""
    stages = [scaled(channels, width) for channels in (16, 32, 64)]
    block = partial(BasicBlock, ingredients, padding)
    inner = residual_stages(block, stages[0], stages, blocks)
    features = nn.Sequential(Unit(ingredients, in_channels, stages[0]), *inner)
    return ImageClassifier(features, stages[-1], classes, ingredients.maybe_dropout())


def residual_stages(
    block: Callable[[int, int, int], nn.Module], inputs: int, stages: list[int], blocks: int
) -> Iterator[nn.Module]:
    """The blocks of a residual network: `blocks` to a stage, each stage but the first halving the image.

    Args:
        block: Makes a block from its input channels, output channels and stride.
        inputs: Channels that the first block is given.
        stages: Channels of each stage.
        blocks: Number of blocks of each stage.
    """
    for stage, outputs in enumerate(stages):
        for position in range(blocks):
            yield block(inputs, outputs, 2 if stage > 0 and position == 0 else 1)
            inputs = outputs


class BasicBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut; the second activation function comes after their sum."""

    def __init__(
        self,
        ingredients: Ingredients,
        make_shortcut: Callable[[Ingredients, int, int, int], nn.Module],
        inputs: int,
        outputs: int,
        stride: int,
    ) -> None:
        super().__init__()
        self.conv1 = convolution(ingredients, inputs, outputs, stride=stride)
        self.norm1 = ingredients.norm(outputs)
        self.activation1 = ingredients.activation()
        self.conv2 = convolution(ingredients, outputs, outputs)
        self.norm2 = ingredients.norm(outputs)
        same = stride == 1 and inputs == outputs
        self.shortcut = nn.Identity() if same else make_shortcut(ingredients, inputs, outputs, stride)
        self.activation2 = ingredients.activation()

    def forward(self, x: Tensor) -> Tensor:
        """(batch, inputs, height, width) -> (batch, outputs, height / stride, width / stride)."""
        inner = self.activation1(self.norm1(self.conv1(x)))
        out: Tensor = self.activation2(self.norm2(self.conv2(inner)) + self.shortcut(x))
        return out


def projection(ingredients: Ingredients, inputs: int, outputs: int, stride: int) -> nn.Module:
    """He's option B: a 1x1 convolution with its normaliser."""
    return nn.Sequential(convolution(ingredients, inputs, outputs, size=1, stride=stride), ingredients.norm(outputs))


def padding(_: Ingredients, inputs: int, outputs: int, stride: int) -> nn.Module:
    """He's option A, as a function of the same arguments as `projection`."""
    return PaddedShortcut(inputs, outputs, stride)


class PaddedShortcut(nn.Module):
    """He's option A: every second pixel, and zeros for the channels that are new. It has no parameters."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        self.before = (outputs - inputs) // 2
        self.after = outputs - inputs - self.before

    def forward(self, x: Tensor) -> Tensor:
        """(batch, inputs, height, width) -> (batch, outputs, height / stride, width / stride)."""
        return pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, self.before, self.after))

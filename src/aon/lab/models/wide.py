"""Wide residual networks of Zagoruyko and Komodakis 2016."""

from functools import partial

from torch import Tensor, nn

from aon.lab.models.ingredients import ImageClassifier, Ingredients, convolution, scaled
from aon.lab.models.resnet import residual_stages


def wrn_28_10(*, classes: int, width: float, in_channels: int, ingredients: Ingredients) -> nn.Module:
    """WRN-28-10: three stages of four blocks, ten times as wide as ResNet's. 36.5 M parameters at width 1.

    Dropout, where asked for, sits between the two convolutions of each block, as in its paper.
    """
    stem, *stages = (scaled(channels, width) for channels in (16, 160, 320, 640))
    features = nn.Sequential(
        convolution(ingredients, in_channels, stem),
        *residual_stages(partial(PreActivationBlock, ingredients), stem, stages, 4),
        ingredients.norm(stages[-1]),
        ingredients.activation(),
    )
    return ImageClassifier(features, stages[-1], classes, nn.Identity())


class PreActivationBlock(nn.Module):
    """Normaliser and activation function come before each convolution; the shortcut takes the sum as it is.

    Where channels or size change, the shortcut is a 1x1 convolution of the activated input.
    """

    def __init__(self, ingredients: Ingredients, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.norm1 = ingredients.norm(inputs)
        self.activation1 = ingredients.activation()
        self.conv1 = convolution(ingredients, inputs, outputs, stride=stride)
        self.norm2 = ingredients.norm(outputs)
        self.activation2 = ingredients.activation()
        self.dropout = ingredients.maybe_dropout()
        self.conv2 = convolution(ingredients, outputs, outputs)
        same = stride == 1 and inputs == outputs
        self.shortcut = None if same else convolution(ingredients, inputs, outputs, size=1, stride=stride)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, inputs, height, width) -> (batch, outputs, height / stride, width / stride)."""
        active = self.activation1(self.norm1(x))
        inner = self.dropout(self.activation2(self.norm2(self.conv1(active))))
        kept = x if self.shortcut is None else self.shortcut(active)
        out: Tensor = self.conv2(inner) + kept
        return out

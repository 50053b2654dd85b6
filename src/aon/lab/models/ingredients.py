"""Parts of a network that a method chooses, and the pieces that all networks share."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn

LINEAR_STD = 0.01


@dataclass(frozen=True)
class Ingredients:
    """The parts of a network that a method chooses; the network itself chooses the rest.

    Attributes:
        norm: Number of channels -> the layer that normalises them (`nn.Identity` for none).
        activation: Makes the activation function, one for each place.
        dropout: Makes the dropout layer, or None where no dropout is asked for.
        normalises: Whether `norm` normalises. Where it does, convolutions carry no bias: it would be removed.
        token_norm: Number of channels -> the layer that normalises each token of (batch, tokens, channels) by itself;
            None where the method's normaliser has no such form.

    Example:
        >>> Ingredients().norm(8)
        BatchNorm2d(8, eps=1e-05, momentum=0.1, affine=True, ...)
    """

    norm: Callable[[int], nn.Module] = nn.BatchNorm2d
    activation: Callable[[], nn.Module] = nn.ReLU
    dropout: Callable[[], nn.Module] | None = None
    normalises: bool = True
    token_norm: Callable[[int], nn.Module] | None = None

    def maybe_dropout(self) -> nn.Module:
        """A dropout layer, or the identity where none is asked for."""
        return nn.Identity() if self.dropout is None else self.dropout()


def scaled(channels: int, width: float) -> int:
    """The number of channels at a width multiplier, never less than one.

    Example:
        >>> scaled(64, 0.25), scaled(16, 0.01)
        (16, 1)
    """
    return max(1, round(channels * width))


def convolution(ingredients: Ingredients, inputs: int, outputs: int, size: int = 3, stride: int = 1) -> nn.Conv2d:
    """A convolution that keeps the image size (at stride 1), initialised as torch does.

    # Note [torch's initialisation everywhere]
    U(+-1/sqrt(fan_in)) puts the eigenvalues of W W^T near 1/3, inside (0, 2) where the expansion of AON
    converges. Deviation: residual networks usually have He's initialisation, which would start them near 2; under
    a normaliser the size of W does not matter for the function, so nothing is lost.
    """
    return nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=not ingredients.normalises)


class Unit(nn.Sequential):
    """Convolution, normaliser, activation function: the brick of the VGG networks and of the stems."""

    def __init__(self, ingredients: Ingredients, inputs: int, outputs: int) -> None:
        super().__init__(convolution(ingredients, inputs, outputs), ingredients.norm(outputs), ingredients.activation())


class ImageClassifier(nn.Module):
    """Features of an image, averaged over its area, then one linear layer.

    The average is over whatever area the features have left, so images other than 32x32 are taken too.
    The linear layer starts as in the recipe: weights N(0, 0.01), bias 0.
    """

    def __init__(self, features: nn.Module, channels: int, classes: int, dropout: nn.Module) -> None:
        super().__init__()
        self.features = features
        self.dropout = dropout
        self.classifier = nn.Linear(channels, classes)
        nn.init.normal_(self.classifier.weight, std=LINEAR_STD)
        nn.init.zeros_(self.classifier.bias)

    def forward(self, images: Tensor) -> Tensor:
        """Logits (batch, classes) of images (batch, channels, height, width)."""
        logits: Tensor = self.classifier(self.dropout(self.features(images).mean((2, 3))))
        return logits

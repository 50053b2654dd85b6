"""A deep multilayer perceptron on flattened images."""

from collections.abc import Iterator

from torch import nn

from aon.lab.models.ingredients import ImageClassifier, Ingredients, scaled

DEPTH, HIDDEN = 8, 512


def mlp(
    *, classes: int, width: float, in_channels: int, image_size: tuple[int, int], ingredients: Ingredients
) -> nn.Module:
    """Eight hidden layers of 512 units, each with normaliser and activation. 3.42 M parameters at width 1 on 32x32.

    A unit is a channel of an image of 1x1, so normalisers mean what they mean elsewhere: `ln` is over the units of a
    layer. Instance normalisation has one value to normalise, which torch refuses.
    """
    hidden = scaled(HIDDEN, width)
    sizes = [in_channels * image_size[0] * image_size[1], *[hidden] * DEPTH]
    features = nn.Sequential()
    for inputs in sizes[:-1]:
        features.extend(_layer(ingredients, inputs, hidden))
    return ImageClassifier(features, hidden, classes, ingredients.maybe_dropout())


def _layer(ingredients: Ingredients, inputs: int, outputs: int) -> Iterator[nn.Module]:
    yield nn.Flatten()
    yield nn.Linear(inputs, outputs, bias=not ingredients.normalises)
    yield nn.Unflatten(1, (outputs, 1, 1))
    yield ingredients.norm(outputs)
    yield ingredients.activation()

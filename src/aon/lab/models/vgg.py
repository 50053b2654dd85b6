"""Two networks called VGG16: the one that the paper trained, and the textbook's.

Both are 3x3 convolutions, each followed by a normaliser and an activation function, with max-pools between;
neither has a hidden fully connected layer.
"""

from torch import nn

from aon.lab.models.ingredients import ImageClassifier, Ingredients, Unit, scaled

POOL = 0
ITERNORM = (64, 64, POOL, 128, 128, POOL, *(256,) * 4, POOL, *(512,) * 4, POOL, *(512,) * 4)
CONFIG_D = (64, 64, POOL, 128, 128, POOL, *(256,) * 3, POOL, *(512,) * 3, POOL, *(512,) * 3, POOL)


def vgg16_iternorm(*, classes: int, width: float, in_channels: int, ingredients: Ingredients) -> nn.Module:
    """The network behind the paper's tables: the "VGG16" of IterNorm's code, with 16 convolutions.

    Four max-pools, then the mean over the 2x2 area that is left of a 32x32 image (the recipe's AvgPool2d(2)).
    20.0 M convolution weights at width 1.
    """
    return _vgg(ITERNORM, classes, width, in_channels, ingredients)


def vgg16(*, classes: int, width: float, in_channels: int, ingredients: Ingredients) -> nn.Module:
    """Configuration D of Simonyan and Zisserman for small images: 13 convolutions, five max-pools.

    14.7 M convolution weights at width 1. Deviation: the textbook's hidden fully connected layers, made for images of
    224x224, are left out, as is usual for 32x32.
    """
    return _vgg(CONFIG_D, classes, width, in_channels, ingredients)


def _vgg(plan: tuple[int, ...], classes: int, width: float, channels: int, ingredients: Ingredients) -> nn.Module:
    features = nn.Sequential()
    for entry in plan:
        if entry == POOL:
            features.append(nn.MaxPool2d(2))
        else:
            features.append(Unit(ingredients, channels, scaled(entry, width)))
            channels = scaled(entry, width)
    return ImageClassifier(features, channels, classes, ingredients.maybe_dropout())

"""A small vision transformer (Dosovitskiy et al. 2021) for small images."""

from torch import Tensor, nn, zeros
from torch.nn.functional import scaled_dot_product_attention

from aon.lab.errors import LabError
from aon.lab.models.ingredients import ImageClassifier, Ingredients, scaled

PATCH, DEPTH, HEADS, HEAD_CHANNELS, EXPANSION = 4, 6, 3, 64, 4
POSITION_STD = 0.02


def vit(
    *, classes: int, width: float, in_channels: int, image_size: tuple[int, int], ingredients: Ingredients
) -> nn.Module:
    """Six pre-norm blocks of 192 channels and 3 heads on patches of 4x4 pixels. 2.69 M parameters at width 1.

    Deviation: the head averages the tokens instead of reading a class token, the activation function is the method's
    (ReLU unless it says otherwise) instead of GELU, and all layers start from torch's initialisation.

    What is left of an image beyond whole patches is not seen.

    Raises:
        LabError: If the normaliser is not layer normalisation or none.
    """
    if ingredients.token_norm is None:
        found = type(ingredients.norm(1)).__name__
        raise LabError(f"network 'vit' takes the normalisers ln and none, for example ln+aon; got {found}")
    channels = HEADS * scaled(HEAD_CHANNELS, width)
    features = nn.Sequential(
        Patches(in_channels, channels, image_size),
        *(Block(ingredients, channels) for _ in range(DEPTH)),
        ingredients.token_norm(channels),
        AsImage(),
    )
    return ImageClassifier(features, channels, classes, ingredients.maybe_dropout())


class Patches(nn.Module):
    """Cut images into patches: (batch, inputs, height, width) -> (batch, tokens, channels), positions added."""

    def __init__(self, inputs: int, channels: int, image_size: tuple[int, int]) -> None:
        super().__init__()
        # No bias: the learned positions contain one.
        self.projection = nn.Conv2d(inputs, channels, PATCH, stride=PATCH, bias=False)
        tokens = (image_size[0] // PATCH) * (image_size[1] // PATCH)
        self.positions = nn.Parameter(nn.init.normal_(zeros(1, tokens, channels), std=POSITION_STD))

    def forward(self, images: Tensor) -> Tensor:
        """Tokens, row by row of the image."""
        tokens: Tensor = self.projection(images).flatten(2).transpose(1, 2) + self.positions
        return tokens


class Block(nn.Module):
    """Self-attention, then a two-layer perceptron; each behind a normaliser and beside a shortcut."""

    def __init__(self, ingredients: Ingredients, channels: int) -> None:
        super().__init__()
        assert ingredients.token_norm is not None
        self.norm1 = ingredients.token_norm(channels)
        self.attention = Attention(channels)
        self.norm2 = ingredients.token_norm(channels)
        self.expand = nn.Linear(channels, EXPANSION * channels)
        self.activation = ingredients.activation()
        self.contract = nn.Linear(EXPANSION * channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, tokens, channels) -> the same shape."""
        x = x + self.attention(self.norm1(x))
        out: Tensor = x + self.contract(self.activation(self.expand(self.norm2(x))))
        return out


class Attention(nn.Module):
    """Self-attention with one linear layer each for query, key, value and output, so that maps act on all four."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.query = nn.Linear(channels, channels)
        self.key = nn.Linear(channels, channels)
        self.value = nn.Linear(channels, channels)
        self.output = nn.Linear(channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, tokens, channels) -> the same shape."""
        query, key, value = (
            layer(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        out: Tensor = self.output(scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2))
        return out


class AsImage(nn.Module):
    """(batch, tokens, channels) -> (batch, channels, tokens, 1), which `ImageClassifier` averages."""

    def forward(self, x: Tensor) -> Tensor:
        """The same numbers as an image one pixel wide."""
        return x.transpose(1, 2).unsqueeze(-1)

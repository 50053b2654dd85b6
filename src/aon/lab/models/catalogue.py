"""Build a network by name: one of the laboratory's, or a user's as `package.module:function`."""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from torch import nn

from aon.lab.errors import LabError
from aon.lab.models import mlp, resnet, vgg, vit, wide
from aon.lab.models.ingredients import Ingredients
from aon.lab.models.user import build_user_network
from aon.lab.system.checks import check_at_least
from aon.lab.system.suggest import unknown


@dataclass(frozen=True)
class _Network:
    make: Callable[..., nn.Module]
    smallest_image: int
    takes_image_size: bool = False
    ingredients: Ingredients = field(default_factory=Ingredients)


_NETWORKS = {
    "vgg16-iternorm": _Network(vgg.vgg16_iternorm, smallest_image=16),
    "vgg16": _Network(vgg.vgg16, smallest_image=32),
    "resnet18": _Network(resnet.resnet18, smallest_image=8),
    "resnet20": _Network(resnet.resnet20, smallest_image=4),
    "resnet56": _Network(resnet.resnet56, smallest_image=4),
    "resnet110": _Network(resnet.resnet110, smallest_image=4),
    "wrn-28-10": _Network(wide.wrn_28_10, smallest_image=4),
    "mlp": _Network(mlp.mlp, smallest_image=1, takes_image_size=True),
    "vit": _Network(
        vit.vit, smallest_image=vit.PATCH, takes_image_size=True, ingredients=Ingredients(token_norm=nn.LayerNorm)
    ),
}


def names() -> tuple[str, ...]:
    """The names of the laboratory's own networks.

    Example:
        >>> names()
        ('vgg16-iternorm', 'vgg16', 'resnet18', 'resnet20', 'resnet56', 'resnet110', 'wrn-28-10', 'mlp', 'vit')
    """
    return tuple(_NETWORKS)


def build(
    name: str,
    *,
    classes: int,
    width: float = 1.0,
    in_channels: int = 3,
    image_size: tuple[int, int] = (32, 32),
    ingredients: Ingredients | None = None,
) -> nn.Module:
    """A freshly initialised network (from torch's global random stream).

    Args:
        name: One of `names()`, or `package.module:function`.
        classes: Number of outputs.
        width: Factor on the number of channels of every hidden layer.
        in_channels: Channels of the images.
        image_size: Height and width of the images; only `mlp` and `vit` depend on it.
        ingredients: Normaliser, activation function and dropout; if None, ReLU and batch normalisation (layer
            normalisation for `vit`).

    Raises:
        LabError: If the name is unknown, or a number is not what it should be.

    Example:
        >>> model = build("resnet20", classes=10)
        >>> sum(p.numel() for p in model.parameters())
        269722
    """
    check_name(name)
    _check_numbers(classes, width, in_channels)
    given: dict[str, Any] = {"classes": classes, "width": width, "in_channels": in_channels}
    if ":" in name:
        return build_user_network(name, {**given, "image_size": image_size}, ingredients or Ingredients())
    network = _NETWORKS[name]
    if network.takes_image_size:
        check_image_size(name, *image_size)
        given["image_size"] = image_size
    return network.make(**given, ingredients=ingredients or network.ingredients)


def check_name(name: str) -> None:
    """Refuse a name that is neither a network here nor has the form `package.module:function`.

    Raises:
        LabError: With the names there are, and the nearest one.
    """
    if name not in _NETWORKS and ":" not in name:
        raise unknown("network", name, _NETWORKS, also="package.module:function")


def check_image_size(name: str, height: int, width: int) -> None:
    """Refuse images that the network's pooling would shrink to nothing; a user's network is not judged.

    Raises:
        LabError: If a side of the image is too small.

    Example:
        >>> check_image_size("vgg16", 28, 28)
        Traceback (most recent call last):
        aon.lab.errors.LabError: images of 28x28 are too small for 'vgg16', which needs 32x32 at least
    """
    check_name(name)
    smallest = _NETWORKS[name].smallest_image if name in _NETWORKS else 1
    if min(height, width) < smallest:
        least = f"{smallest}x{smallest}"
        raise LabError(f"images of {height}x{width} are too small for {name!r}, which needs {least} at least")


def _check_numbers(classes: int, width: float, in_channels: int) -> None:
    check_at_least("classes", classes)
    if not (isfinite(width) and width > 0):
        raise LabError(f"width = {width}: should be a positive number")
    check_at_least("in_channels", in_channels)

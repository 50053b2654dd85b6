"""Apply a method to a model and its loss. Only this module knows what each word of the grammar does.

Activation normalisers, activation functions and dropout are ingredients of which a network is built. Weight maps
are installed in its layers afterwards, penalties are added to its loss, steps come between epochs. The last
three act on convolutions and hidden linear layers, and leave the classifier plain by default.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

import aon
from aon import bounding, penalties
from aon.lab.errors import LabError
from aon.lab.methods.grammar import Method, Part, parse, parse_list
from aon.lab.models import Ingredients, classifier_names
from aon.maps import AON, ONI, CentredWeightNorm, Polar, WeightMap, WeightNorm
from aon.model.layers import NormalisedLinear
from aon.model.matrices import is_supported
from aon.model.selection import select
from aon.renorm import BatchRenorm
from aon.whitening import DecorrelatedBatchNorm, IterNorm

# Weight decay is written as a penalty and done by the optimiser.
DECAY = "wd"

__all__ = ["Method", "Prepared", "ingredients_of", "parse", "parse_list", "prepare"]


@dataclass(frozen=True)
class Prepared:
    """A model made ready for a method, and what the training loop has to do besides.

    Attributes:
        model: Built, initialised, with its weight map installed.
        penalty: Gives the scalar to add to the loss of each step; None for a method without penalties.
        after_epoch: To be called between epochs, after validation; None for a method without such a step.
        after_epoch_every: Epochs from one call of `after_epoch` to the next.
        weight_decay: What the optimiser has to be given.
    """

    model: nn.Module
    penalty: Callable[[], Tensor] | None = None
    after_epoch: Callable[[], None] | None = None
    after_epoch_every: int = 1
    weight_decay: float = 0.0


def prepare(method: Method, make: Callable[[Ingredients], nn.Module], *, include_classifier: bool = False) -> Prepared:
    """Build a model and change it, and its loss, as the method says.

    Args:
        method: What `parse` gives.
        make: Builds the network from the method's ingredients; see `models.build`.
        include_classifier: Whether maps and penalties act on the final linear layer too.

    Raises:
        LabError: If the network has no layer that the method could act on.

    Example:
        >>> from aon.lab.models import build
        >>> method = parse("bn+aon+orth")
        >>> prepared = prepare(method, lambda given: build("resnet20", classes=10, width=0.25, ingredients=given))
        >>> prepared.model.classifier
        Linear(in_features=16, out_features=10, bias=True)
        >>> prepared.penalty().shape
        torch.Size([])
    """
    model = make(ingredients_of(method))
    if method.one("activation"):
        _initialise_for_selu(model)
    exclude = [] if include_classifier else classifier_names(model)
    _check_something_is_left(model, method, exclude)
    if weight_map := method.one("map"):
        _install(model, _MAPS[weight_map.name](weight_map), method.gain, exclude)
        if include_classifier and method.classifier_gain:
            _give_gain(model)
    step = method.one("step")
    return Prepared(
        model,
        penalty=_penalty(model, method, exclude),
        after_epoch=partial(_bound, step, model, exclude) if step else None,
        after_epoch_every=step["every"] if step else 1,
        weight_decay=sum(part["rate"] for part in method.of("penalty") if part.name == DECAY),
    )


def ingredients_of(method: Method) -> Ingredients:
    """What networks are to be built of under a method.

    Example:
        >>> ingredients_of(parse("gn:groups=4")).norm(8)
        GroupNorm(4, 8, eps=1e-05, affine=True, ...)
    """
    norm, dropout, selu = method.one("norm"), method.one("dropout"), method.one("activation")
    drop = nn.AlphaDropout if selu else nn.Dropout
    return Ingredients(
        norm=partial(_NORMS[norm.name], norm) if norm else _identity,
        activation=nn.SELU if selu else nn.ReLU,
        dropout=partial(drop, dropout["rate"]) if dropout else None,
        normalises=norm is not None,
        token_norm=_token_norm(norm),
    )


def _token_norm(norm: Part | None) -> Callable[[int], nn.Module] | None:
    """Layer normalisation of each token for `ln`, none for `none`; the other words have no such form."""
    if norm is None:
        return _identity
    return partial(nn.LayerNorm, eps=norm["eps"]) if norm.name == "ln" else None


def _identity(_: int) -> nn.Module:
    return nn.Identity()


def _check_something_is_left(model: nn.Module, method: Method, exclude: list[str]) -> None:
    acting = [part for family in ("map", "penalty", "step") for part in method.of(family) if part.name != DECAY]
    if acting and not select(model, exclude=exclude):
        raise LabError(
            f"{acting[0].name!r} finds no convolution and no hidden linear layer to act on in {type(model).__name__}"
        )


def _install(model: nn.Module, weight_map: WeightMap, gain: bool, exclude: list[str]) -> None:
    try:
        aon.normalise(model, exclude=exclude, gain=gain, map=weight_map)
    except ValueError as error:  # a layer of a user's network that cannot be normalised
        raise LabError(str(error)) from error


def _give_gain(model: nn.Module) -> None:
    """Give the classifier a gain if it has none: no normaliser follows that would remove its scale."""
    for name in classifier_names(model):
        layer = model.get_submodule(name)
        if isinstance(layer, NormalisedLinear) and layer.gain is None:
            ones = torch.ones(layer.out_features, dtype=layer.weight.dtype, device=layer.weight.device)
            layer.gain = nn.Parameter(ones, requires_grad=layer.weight.requires_grad)


def _penalty(model: nn.Module, method: Method, exclude: list[str]) -> Callable[[], Tensor] | None:
    terms = [
        partial(_PENALTIES[part.name], part, model, exclude) for part in method.of("penalty") if part.name != DECAY
    ]
    return partial(_total, terms) if terms else None


def _total(terms: Sequence[Callable[[], Tensor]]) -> Tensor:
    return torch.stack([term() for term in terms]).sum()


def _bound(part: Part, model: nn.Module, exclude: list[str]) -> None:
    bounding.bound_singular_values(model, eps=part["eps"], exclude=exclude)


def _initialise_for_selu(model: nn.Module) -> None:
    """LeCun's initialisation, N(0, 1 / fan_in) and bias 0, of which SELU keeps the variance (Klambauer et al.)."""
    for layer in model.modules():
        if is_supported(layer):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="linear")
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


def _divisor(channels: int, most: int) -> int:
    """The largest divisor of `channels` that is not above `most`."""
    return next(size for size in range(min(most, channels), 0, -1) if channels % size == 0)


def _batch(part: Part, channels: int) -> nn.Module:
    return nn.BatchNorm2d(channels, eps=part["eps"], momentum=part["momentum"])


def _layer(part: Part, channels: int) -> nn.Module:
    # One group is layer normalisation over channels and area, with a scale for each channel: unlike
    # nn.LayerNorm it need not know the size of the image.
    return nn.GroupNorm(1, channels, eps=part["eps"])


def _instance(part: Part, channels: int) -> nn.Module:
    return nn.InstanceNorm2d(channels, eps=part["eps"], affine=True)


def _group(part: Part, channels: int) -> nn.Module:
    return nn.GroupNorm(_divisor(channels, part["groups"]), channels, eps=part["eps"])


def _renorm(part: Part, channels: int) -> nn.Module:
    # Deviation: the ramps keep the proportions of Ioffe's schedule (5,000, 25,000 and 40,000 steps), but start
    # after as few steps as a run here can have; with his numbers most runs would be batch normalisation.
    start = part["warm_up"]
    ramps = {"warm_up": start, "d_ramp_end": 5 * start, "r_ramp_end": 8 * start}
    limits = {"r_max": part["r_max"], "d_max": part["d_max"]}
    return BatchRenorm(channels, eps=part["eps"], momentum=part["momentum"], **ramps, **limits)


def _decorrelated(part: Part, channels: int) -> nn.Module:
    # Deviation: where `size` does not divide the channels, its authors make the last group smaller; here all groups
    # are as large as the largest divisor below `size`.
    return DecorrelatedBatchNorm(channels, num_channels=part["size"], eps=part["eps"], momentum=part["momentum"])


def _iternorm(part: Part, channels: int) -> nn.Module:
    options = {"num_groups": _divisor(channels, part["groups"]), "eps": part["eps"], "momentum": part["momentum"]}
    return IterNorm(channels, n_iterations=part["iterations"], **options)


_NORMS: dict[str, Callable[[Part, int], nn.Module]] = {
    "bn": _batch,
    "ln": _layer,
    "in": _instance,
    "gn": _group,
    "brn": _renorm,
    "dbn": _decorrelated,
    "iternorm": _iternorm,
}


def _aon(part: Part) -> WeightMap:
    scale = None if part["scale"] == "none" else part["scale"]
    options = {name: part[name] for name in ("centre", "prescale", "expansion", "lower")}
    try:
        return AON(part["order"], scale=scale, n_power_iterations=part["iterations"], **options)
    except ValueError as error:  # an order that is too high for the minimax polynomial
        raise LabError(f"{part}: {error}") from None


_MAPS: dict[str, Callable[[Part], WeightMap]] = {
    "aon": _aon,
    # Deviation: its gain starts at 1, like that of every map here; its authors set it by a first batch, torch by |W_i|.
    "wn": lambda _: WeightNorm(),
    "cwn": lambda part: CentredWeightNorm(part["magnitude"]),
    "polar": lambda _: Polar(),
    "oni": lambda part: ONI(part["iterations"], centre=part["centre"]),
}


def _orthonormal(part: Part, model: nn.Module, exclude: list[str]) -> Tensor:
    return penalties.orthonormal(model, beta=part["beta"], exclude=exclude)


def _double_sided(part: Part, model: nn.Module, exclude: list[str]) -> Tensor:
    return penalties.double_sided(model, beta=part["beta"], exclude=exclude)


def _coherence(part: Part, model: nn.Module, exclude: list[str]) -> Tensor:
    return penalties.mutual_coherence(model, beta=part["beta"], exclude=exclude)


def _isometry(part: Part, model: nn.Module, exclude: list[str]) -> Tensor:
    steps = part["iterations"]
    return penalties.restricted_isometry(model, beta=part["beta"], n_power_iterations=steps, exclude=exclude)


def _spectral(part: Part, model: nn.Module, exclude: list[str]) -> Tensor:
    steps = part["iterations"]
    return penalties.spectral_norm(model, beta=part["beta"], n_power_iterations=steps, exclude=exclude)


_PENALTIES: dict[str, Callable[[Part, nn.Module, list[str]], Tensor]] = {
    "orth": _orthonormal,
    "dso": _double_sided,
    "mc": _coherence,
    "srip": _isometry,
    "snr": _spectral,
}

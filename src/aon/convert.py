"""The user's verbs: normalise a model, read h(W), fold the model back into plain layers."""

from __future__ import annotations

import copy
import logging
from typing import cast

import torch
from torch import Tensor, nn

from aon.fast_paths import keep_off_fast_paths
from aon.layers import NORMALISED, PLAIN, NormalisedLayer
from aon.maps import AON, WeightMap
from aon.matrices import is_supported, layout
from aon.selection import Words
from aon.settings import GAIN_INITS, check_settings, check_word
from aon.surveys import LAZY, Survey, survey

log = logging.getLogger("aon")


def normalise(
    model: nn.Module,
    order: int = 2,
    *,
    include: Words = None,
    exclude: Words = None,
    scale: str | None = "spectral",
    centre: str = "one",
    prescale: bool = False,
    gain: bool = True,
    gain_init: str = "ones",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    map: WeightMap | None = None,
) -> nn.Module:
    """Make every Linear and convolution of a model compute with h(W) = P_q(W) W / sigma, in place.

    P_q is the Taylor polynomial of (W W^T)^(-1/2) about I of the given order, sigma the spectral norm of P_q(W) W by
    power iteration. `weight` stays the raw W: optimisers and checkpoints see what they saw before. In training
    mode the kept vector u moves once for each update of W; in evaluation it rests, and h(W) is computed once.
    `survey` tells beforehand what would be changed, and what left and why; so does the logger "aon".

    Args:
        model: A model, or a single layer.
        order: q of the Taylor polynomial, 0 or more; 0 is spectral normalisation.
        include: Names, shell-style patterns, module types or predicates (name, module) -> bool of what to
            normalise; None is everything but depthwise convolutions, which must be included by their own name.
        exclude: The same words, for what to leave.
        scale: Divide by the "spectral" norm, the "frobenius" norm, or by nothing (None).
        centre: Expand about "one", or about the "mean" eigenvalue of the smaller Gram matrix, which makes h
            independent of the size of W.
        prescale: Divide W by its spectral norm before the expansion (Remark 1).
        gain: Whether each output gets a learnable scale (equation 5).
        gain_init: Start the scale with "ones", or so that each row keeps the norm it had ("match").
        n_power_iterations: Power steps for each update of W.
        eps: A norm that is not above this is not divided by.
        map: Another weight map of `aon.maps` in the place of AON; the options of AON then stay at their defaults.

    Returns:
        The model that was given.

    Raises:
        TypeError: `map` is not a weight map, or a word is of none of the four kinds.
        ValueError: An option has no such value, a word matches nothing, nothing is left to normalise, a layer
            that was asked for by name cannot be normalised, or a lazy layer has no weight yet. The model is
            unchanged then.

    Example:
        >>> model = normalise(nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8, 2)), exclude="3")
        >>> model(torch.ones(1, 3, 3, 3)).shape
        torch.Size([1, 2])
        >>> type(fold(model)[0])
        <class 'torch.nn.modules.conv.Conv2d'>
    """
    settings = check_settings(order, scale, centre, prescale, n_power_iterations, eps)
    _check_gain(gain, gain_init)
    if map is not None and not isinstance(map, WeightMap):
        raise TypeError(f"map={map!r}: expected a weight map such as aon.maps.WeightNorm(), not {_kind(map)}")
    if map is not None and settings != check_settings(2, "spectral", "one", False, 1, 1e-12):
        raise ValueError(f"map={map!r} was given with options of AON: give those to the map, or leave map out")
    prototype = map if map is not None else AON(**settings._asdict())
    report = survey(model, include, exclude)
    _refuse(report)
    layers = [row.module for row in report if row.taken]
    for layer in layers:
        _install(layer, copy.deepcopy(prototype), gain, gain_init)
    log.info("normalised %d layers, left %d\n%s", len(layers), len(report.rows) - len(layers), report)
    return model


def _check_gain(gain: bool, gain_init: str) -> None:
    check_word("gain_init", gain_init, GAIN_INITS)
    if not isinstance(gain, bool):
        raise ValueError(f"gain={gain!r}: expected True or False")
    if not gain and gain_init != "ones":
        raise ValueError(f"gain_init={gain_init!r} was given with gain=False: there is no gain to start")


def _kind(value: object) -> str:
    return "a class" if isinstance(value, type) else f"a {type(value).__name__}"


def fold(model: nn.Module) -> nn.Module:
    """Plain torch layers again, in place, with gain times h(W) stored as their weight.

    The function that the model computes in evaluation stays the same. What has no normalised layer stays as it is.

    Returns:
        The model that was given; loading its file needs no `aon`.

    Raises:
        ValueError: A normalised layer was parametrised afterwards (`torch.nn.utils.parametrize`), or the model is
            under FSDP, which would bring back the raw weight. The model is unchanged then.
    """
    layers = [(name, layer) for name, layer in model.named_modules() if isinstance(layer, NormalisedLayer)]
    if any(kind.__name__ == "FSDPModule" for module in model.modules() for kind in type(module).__mro__):
        raise ValueError("cannot fold under FSDP: load the full state dict into a model that is not sharded, fold that")
    for name, layer in layers:
        if type(layer) not in PLAIN:
            raise ValueError(f"cannot fold {name or type(layer).__name__!r}: remove its other parametrisation first")
    for _, layer in layers:
        _remove(layer)
    return model


def normalised_weight(layer: nn.Module) -> Tensor:
    """h(W) of a normalised layer as it stands, in the shape of its weight, without the gain; differentiable.

    Reading it changes nothing: u does not move.

    Raises:
        TypeError: The layer is not normalised.

    Example:
        >>> layer = normalise(nn.Linear(3, 3))
        >>> torch.linalg.matrix_norm(normalised_weight(layer), 2) < 1.01
        tensor(True)
    """
    if not isinstance(layer, NormalisedLayer):
        raise TypeError(f"{type(layer).__name__} is not a normalised layer: expected one changed by aon.normalise")
    return layer.mapped_weight(scaled=False)


def _refuse(report: Survey) -> None:
    """Raise where a layer that was meant cannot be normalised, or no layer is left."""
    for row in report:
        asked = row.explicit and row.reason not in ("", "excluded")
        if asked or row.reason == LAZY:
            raise ValueError(f"cannot normalise {row.name or row.kind!r} ({row.kind}): {row.reason}")
    if not any(row.taken for row in report):
        reasons = "; ".join(f"{row.name or row.kind}: {row.reason}" for row in report)
        raise ValueError(f"nothing to normalise: {reasons or 'the model has no Linear or convolution'}")


def _install(layer: nn.Module, map: WeightMap, gain: bool, gain_init: str) -> None:
    assert is_supported(layer)
    weight, form = layer.weight, layout(layer)
    layer.__class__ = NORMALISED[type(layer)]  # type: ignore[assignment]
    ours = cast(NormalisedLayer, layer)
    keep_off_fast_paths(map)
    ours.map, ours.gain_init, ours._stored, ours._shared = map.train(layer.training), gain_init, None, None
    scale = nn.Parameter(weight.new_ones(form.outputs), requires_grad=weight.requires_grad)
    ours.register_parameter("gain", scale if gain else None)
    ours.start()


def _remove(layer: NormalisedLayer) -> None:
    with torch.no_grad():
        layer.weight.copy_(layer.mapped_weight())
    for name in ("map", "gain", "gain_init", "_stored", "_shared"):
        delattr(layer, name)
    layer.__class__ = PLAIN[type(layer)]  # type: ignore[assignment]

"""Normalise a model, read h(W), refresh its state."""

from __future__ import annotations

import copy
import logging
import warnings
from dataclasses import dataclass
from typing import cast

from torch import Tensor, nn

from aon.kernels.radius import warning
from aon.kernels.settings import GAIN_INITS, Settings, check_settings, check_word
from aon.maps import AON, WeightMap
from aon.model.classes import NORMALISED
from aon.model.fast_paths import keep_off_fast_paths
from aon.model.layers import NormalisedLayer, initial_gain, matrix_of
from aon.model.matrices import LAZY, Layout, is_mappable, layout, weight_matrix, weight_name
from aon.model.selection import Selection
from aon.model.survey import Survey, survey
from aon.model.together import Together

log = logging.getLogger("aon")


def normalise(
    model: nn.Module,
    order: int = 2,
    *,
    include: Selection = None,
    exclude: Selection = None,
    scale: str | None = "spectral",
    centre: str = "one",
    prescale: bool = False,
    gain: bool = True,
    gain_init: str = "ones",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    expansion: str = "taylor",
    lower: float = 0.2,
    map: WeightMap | None = None,
) -> nn.Module:
    """Make every Linear, convolution and MultiheadAttention compute with h(W) = P_q(W) W / sigma, in place.

    P_q is the Taylor polynomial of (W W^T)^(-1/2) about I of the given order, sigma the spectral norm of P_q(W) W by
    power iteration. `weight` stays the raw W: optimisers and checkpoints see what they saw before. In training
    mode the kept vector u moves once for each update of W; in evaluation it rests, and h(W) is computed once.
    Make the optimiser afterwards: gains are new parameters, which an earlier one does not train.
    `survey` tells beforehand what would be changed, and what left and why; so does the logger "aon". A UserWarning
    names layers whose weights start outside the radius of the Taylor expansion, where expansion="minimax" helps.

    Args:
        model: A model, or a single layer.
        order: q of the Taylor polynomial, 0 or more; 0 is spectral normalisation.
        include: Names, shell-style patterns, module types or predicates (name, module) -> bool of what to
            normalise; None is everything but depthwise convolutions, which must be included by their own name.
        exclude: The same, for layers to leave.
        scale: Divide by the "spectral" norm, the "frobenius" norm, or by nothing (None).
        centre: Expand about "one", or about the "mean" eigenvalue of the smaller Gram matrix, or about the multiple of
            its largest ("top") that flattens most and keeps the order of the singular values. The latter two make h
            independent of the size of W; only "top" holds for every W.
        prescale: Divide W by its spectral norm before the expansion (Remark 1).
        gain: Whether each output gets a learnable scale (equation 5).
        gain_init: Start the scale with "ones", or so that each row keeps the norm it had ("match").
        n_power_iterations: Power steps for each update of W. With one, sigma lags behind large steps of training, and
            |h(W)| is above 1 meanwhile; five follow them closely. After a jump of W call `refresh`.
        eps: A norm that is not above this is not divided by.
        expansion: The "taylor" polynomial of the paper, or "minimax": of W, divided by 1.03 times its spectral norm,
            the odd polynomial of degree 2 order + 1 that deviates least from 1 on [lower, 1]. It holds for every W,
            and is what to take for square weights and transformers.
        lower: Where the interval of "minimax" begins, from 0.001 to 0.9; smaller singular values are raised less.
        map: Another weight map of `aon.maps` instead of AON; the options of AON then stay at their defaults.

    Returns:
        The model that was given.

    Raises:
        TypeError: `map` is not a weight map, or a word is of none of the four kinds.
        ValueError: An option has no such value, a word matches nothing, nothing is left to normalise, a layer
            that was selected by name cannot be normalised, a lazy layer has no weight yet, or the model is in
            DistributedDataParallel already. The model is unchanged after any error.

    Example:
        >>> import torch
        >>> model = normalise(nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8, 2)), exclude="3")
        >>> model(torch.ones(1, 3, 3, 3)).shape
        torch.Size([1, 2])
        >>> model[0].weight.shape  # the raw W
        torch.Size([8, 3, 3, 3])
    """
    settings = check_settings(order, scale, centre, prescale, n_power_iterations, eps, expansion, lower)
    _check_gain(gain, gain_init)
    if map is not None and not isinstance(map, WeightMap):
        raise TypeError(f"map={map!r}: expected a weight map such as aon.maps.WeightNorm(), not {_kind(map)}")
    if map is not None and settings != Settings():
        raise ValueError(f"map={map!r} was given with options of AON: give those to the map, or leave map out")
    prototype = map if map is not None else AON(**settings._asdict())
    _refuse_wrapped(model)
    report = survey(model, include, exclude)
    _refuse(report)
    plans = [_plan(row.module, prototype, gain, gain_init) for row in report if row.taken]
    for message in (_left(report), _outside(report, prototype)):
        if message:
            warnings.warn(message, stacklevel=2)
    for plan in plans:  # nothing raises from here on
        plan.install(gain_init)
    if len(plans) > 1:
        Together().install(model)
    log.info("normalised %d layers, left %d\n%s", len(plans), len(report.rows) - len(plans), report)
    return model


def _check_gain(gain: bool, gain_init: str) -> None:
    check_word("gain_init", gain_init, GAIN_INITS)
    if not isinstance(gain, bool):
        raise ValueError(f"gain={gain!r}: expected True or False")
    if not gain and gain_init != "ones":
        raise ValueError(f"gain_init={gain_init!r} was given with gain=False: there is no gain to start")


def _kind(value: object) -> str:
    return "a class" if isinstance(value, type) else f"a {type(value).__name__}"


def refresh(model: nn.Module) -> nn.Module:
    """Restart the state of every map from the current weights, after re-initialising or loading them by hand.

    u follows a weight that moves by steps of training. After a jump it needs some steps to find the leading vector
    again; until then sigma is too small and |h(W)| above 1. Gains stay as they are.

    Returns:
        The model that was given.

    Example:
        >>> import torch
        >>> layer = normalise(nn.Linear(8, 4))
        >>> _ = nn.init.xavier_normal_(layer.weight)
        >>> torch.linalg.matrix_norm(normalised_weight(refresh(layer)), 2) < 1.01
        tensor(True)
    """
    for layer in model.modules():
        if isinstance(layer, NormalisedLayer):
            layer.restart_map()
    return model


def normalised_weight(layer: nn.Module) -> Tensor:
    """The current h(W) of a normalised layer, in the shape of its weight, without the gain; differentiable.

    Reading it changes nothing: u does not move.

    Raises:
        TypeError: The layer is not normalised.

    Example:
        >>> import torch
        >>> layer = normalise(nn.Linear(3, 3))
        >>> torch.linalg.matrix_norm(normalised_weight(layer), 2) < 1.01
        tensor(True)
    """
    if not isinstance(layer, NormalisedLayer):
        raise TypeError(f"{type(layer).__name__} is not a normalised layer: expected one changed by aon.normalise")
    return layer.mapped_weight(scaled=False)


def _refuse_wrapped(model: nn.Module) -> None:
    """Raise for a model in a wrapper that has listed the parameters already: it would never synchronise the gains."""
    for module in model.modules():
        if isinstance(module, nn.parallel.DistributedDataParallel):
            raise ValueError("cannot normalise a model in DistributedDataParallel: normalise first, then wrap it")


def _left(report: Survey) -> str:
    """A warning of the weights that stay out for a reason that the user may not know, or nothing."""
    left = [f"{row.name or row.kind} ({row.reason})" for row in report if row.unexpected]
    if not left:
        return ""
    return (
        f"aon.normalise left {len(left)} weight{'s' * (len(left) > 1)} as they are: {'; '.join(left)}; "
        "exclude them to say that this is meant"
    )


def _refuse(report: Survey) -> None:
    """Raise if a layer that was selected cannot be normalised, or if no layer is left."""
    for row in report:
        refused = row.explicit and row.reason not in ("", "excluded")
        if refused or row.reason == LAZY:
            raise ValueError(f"cannot normalise {row.name or row.kind!r} ({row.kind}): {row.reason}")
    if not any(row.taken for row in report):
        reasons = "; ".join(f"{row.name or row.kind}: {row.reason}" for row in report)
        raise ValueError(f"nothing to normalise: {reasons or 'the model has no Linear or convolution'}")


def _outside(report: Survey, map: WeightMap) -> str:
    """A warning of the weights that lie outside the radius of the map's expansion, or nothing."""
    weights = {row.name: weight_matrix(row.module) for row in report if row.taken and is_mappable(row.module)}
    return warning(weights, map.settings) if isinstance(map, AON) else ""


@dataclass(frozen=True)
class _Plan:
    """What a layer will get; made for all layers before any of them is changed."""

    layer: nn.Module
    form: Layout
    map: WeightMap
    gain: nn.Parameter | None

    def install(self, gain_init: str) -> None:
        """Turn the plain layer into a normalised one."""
        self.layer.__class__ = NORMALISED[type(self.layer)]
        ours = cast(NormalisedLayer, self.layer)
        ours.form, ours.map, ours.gain_init, ours._stored = self.form, self.map, gain_init, None
        ours._shared = ours._together = None
        ours.register_parameter("gain", self.gain)


def _plan(layer: nn.Module, prototype: WeightMap, gain: bool, gain_init: str) -> _Plan:
    assert is_mappable(layer)
    form, map, weight = layout(layer), copy.deepcopy(prototype), getattr(layer, weight_name(layer))
    W = matrix_of(weight, form)
    keep_off_fast_paths(map)
    map.attach(W)
    map.train(layer.training)
    scale = initial_gain(W, map, gain_init) if gain else None
    parameter = None if scale is None else nn.Parameter(scale.to(W.dtype), requires_grad=weight.requires_grad)
    return _Plan(layer, form, map, parameter)

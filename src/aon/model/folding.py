"""Fold a normalised model back into plain layers."""

from __future__ import annotations

import warnings
from typing import cast

import torch
from torch import Tensor, nn

from aon.kernels.radius import largest_over_centre
from aon.kernels.settings import Settings
from aon.maps import AON
from aon.model.classes import PLAIN
from aon.model.layers import NormalisedLayer
from aon.model.matrices import Mappable, to_matrix
from aon.model.survey import other_owners, shared_parameters
from aon.model.together import Together

JUMPED = 1.2  # |h(W)| that only a u far from the leading vector lets through; training with one power step has less


def fold(model: nn.Module) -> nn.Module:
    """Plain torch layers again, in place, with gain times h(W) stored as their weight.

    The function that the model computes in evaluation stays the same. What has no normalised layer stays as it is.

    Returns:
        The model that was given; loading its file needs no `aon`.

    Raises:
        ValueError: A normalised layer was parametrised, pruned, given `weight_norm`, another forward or a weight of
            another module afterwards, or the model is under FSDP, which would bring back the raw weight. The model is
            unchanged then.

    Warns:
        UserWarning: |h(W)| of a layer is above 1.2, since W jumped after u had moved; `refresh` first.

    Example:
        >>> from aon import normalise
        >>> type(fold(normalise(nn.Linear(4, 3))))
        <class 'torch.nn.modules.linear.Linear'>
    """
    layers = [(name, layer) for name, layer in model.named_modules() if isinstance(layer, NormalisedLayer)]
    if any(kind.__name__ == "FSDPModule" for module in model.modules() for kind in type(module).__mro__):
        raise ValueError("cannot fold under FSDP: load the full state dict into a model that is not sharded, fold that")
    shared = shared_parameters(model)
    for name, layer in layers:
        obstacle = _obstacle_to_folding(name, layer, shared)
        if obstacle:
            raise ValueError(f"cannot fold {name or type(layer).__name__!r}: {obstacle}")
    with torch.no_grad():
        weights = [layer.mapped_weight() for _, layer in layers]
    if message := _stale(layers):
        warnings.warn(message, stacklevel=2)
    for (_, layer), weight in zip(layers, weights, strict=True):
        _remove(layer, weight)
    Together.remove(model)
    return model


def _obstacle_to_folding(name: str, layer: NormalisedLayer, shared: dict[int, list[str]]) -> str:
    """Why a layer cannot be folded, with what to do instead; empty if it can."""
    if type(layer) not in PLAIN:
        return "remove its other parametrisation first"
    if layer.weight_name not in layer._parameters:
        return "its weight is computed by a hook (pruning, weight_norm), past which no map goes; remove that first"
    if "forward" in layer.__dict__:
        return "its forward was replaced on the instance and would go on asking for the map; put it back first"
    others = other_owners(name, cast(Mappable, layer), shared)
    return (
        f"its weight is shared with {', '.join(others)}, which would get h(W) too; untie them first" if others else ""
    )


@torch.no_grad()
def _stale(layers: list[tuple[str, NormalisedLayer]]) -> str:
    """A warning of layers whose h(W) should have the norm 1 and has a much larger one, or nothing."""
    norms = {
        name: largest_over_centre(to_matrix(layer.mapped_weight(scaled=False), layer.form), Settings()) ** 0.5
        for name, layer in layers
        if isinstance(layer.map, AON) and layer.map.settings.scale == "spectral"
    }
    stale = [f"{name or 'the model'} ({norm:.1f})" for name, norm in norms.items() if norm > JUMPED]
    if not stale:
        return ""
    return (
        f"aon.fold: |h(W)| is far above 1 in {', '.join(stale)}: W jumped after its vector u had moved, as by "
        "re-initialising; call aon.refresh(model) before fold"
    )


def _remove(layer: NormalisedLayer, weight: Tensor) -> None:
    """Turn a normalised layer into a plain one with this weight."""
    with torch.no_grad():
        layer.weight.copy_(weight)
    for name in ("map", "gain", "gain_init", "form", "_stored", "_shared", "_together"):
        delattr(layer, name)
    layer.__class__ = PLAIN[type(layer)]  # type: ignore[assignment]

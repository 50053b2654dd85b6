"""The user's verbs: normalise a model, say what would become of it, fold it back into plain layers."""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from aon.fast_paths import disable_fast_paths, restore_fast_paths
from aon.layers import NORMALISED, PLAIN, NormalisedLayer
from aon.maps import AON, WeightMap
from aon.matrices import Layer, is_supported, layout
from aon.selection import Choice, Words, choose
from aon.settings import GAIN_INITS, check_settings, check_word
from aon.text import table

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
    check_word("gain_init", gain_init, GAIN_INITS)
    if map is not None and settings != check_settings(2, "spectral", "one", False, 1, 1e-12):
        raise ValueError(f"map={map!r} was given with options of AON: give those to the map, or leave map out")
    prototype = map if map is not None else AON(**settings._asdict())
    report = survey(model, include, exclude)
    _refuse(report)
    layers = [cast(nn.Module, row.module) for row in report if row.taken]
    for layer in layers:
        _install(layer, copy.deepcopy(prototype), gain, gain_init)
    disable_fast_paths(model, set(layers))
    log.info("normalised %d layers, left %d\n%s", len(layers), len(report.rows) - len(layers), report)
    return model


def fold(model: nn.Module) -> nn.Module:
    """Plain torch layers again, in place, with gain times h(W) stored as their weight.

    The function that the model computes in evaluation stays the same. What has no normalised layer stays as it is.

    Returns:
        The model that was given; loading its file needs no `aon`.
    """
    for layer in list(model.modules()):
        if isinstance(layer, NormalisedLayer):
            _remove(layer)
    restore_fast_paths(model)
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


@dataclass(frozen=True)
class SurveyRow:
    """What becomes of one module with a weight matrix, and why; the reason is empty where it is normalised."""

    name: str
    kind: str
    shape: tuple[int, ...]
    reason: str
    module: nn.Module
    explicit: bool = False

    @property
    def taken(self) -> bool:
        """Whether the module is normalised."""
        return not self.reason


@dataclass(frozen=True)
class Survey:
    """What `normalise` would change and what it would leave, row by row; prints as a table."""

    rows: tuple[SurveyRow, ...]

    def __iter__(self) -> Iterator[SurveyRow]:
        return iter(self.rows)

    def __str__(self) -> str:
        cells = [
            (row.name or "(the model)", row.kind, "x".join(str(d) for d in row.shape), row.reason or "normalise")
            for row in self.rows
        ]
        return table(("module", "kind", "weight", "verdict"), cells, left=4)


def survey(model: nn.Module, include: Words = None, exclude: Words = None) -> Survey:
    """What `normalise` with these words would change in a model, and what it would leave and why.

    Example:
        >>> print(survey(nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 4), nn.Conv1d(4, 4, 3, groups=4))))
        module  kind       weight  verdict
        0       Embedding  9x4     not a Linear or convolution
        1       Linear     4x4     normalise
        2       Conv1d     4x1x3   depthwise convolution; give its own name to include it
    """
    shared = _shared_parameters(model)
    parents = {id(child): parent for parent in model.modules() for child in parent.children()}
    rows = {
        choice.name: _row(choice, shared, parents.get(id(choice.layer))) for choice in choose(model, include, exclude)
    }
    for name, module in model.named_modules():
        own = [p for p in module.parameters(recurse=False) if isinstance(p, nn.UninitializedParameter) or p.dim() > 1]
        if name not in rows and own:
            rows[name] = SurveyRow(name, type(module).__name__, _shape(own[0]), "not a Linear or convolution", module)
    order = {name: place for place, (name, _) in enumerate(model.named_modules())}
    return Survey(tuple(sorted(rows.values(), key=lambda row: order[row.name])))


def _row(choice: Choice, shared: dict[int, list[str]], parent: nn.Module | None) -> SurveyRow:
    layer = choice.layer
    reason = choice.reason or _obstacle(choice.name, layer, shared, parent)
    return SurveyRow(choice.name, type(layer).__name__, _shape(layer.weight), reason, layer, choice.explicit)


_LAZY = "lazy, without a weight yet; run one batch through the model first"


def _obstacle(name: str, layer: Layer, shared: dict[int, list[str]], parent: nn.Module | None) -> str:
    """Why a layer cannot be normalised, with what to do instead; empty if it can."""
    if isinstance(layer, NormalisedLayer):
        return "normalised already; fold it first"
    if parametrize.is_parametrized(layer) or "weight" not in layer._parameters:
        return "its weight is computed by another parametrisation or hook; remove that first"
    weight = layer.weight
    if isinstance(weight, nn.UninitializedParameter):
        return _LAZY
    if isinstance(parent, nn.MultiheadAttention):
        return "MultiheadAttention reads its weight directly; write the attention with Linear layers instead"
    if type(layer) not in NORMALISED:
        return f"{type(layer).__name__} is a subclass with code of its own; use torch's own class"
    if not weight.is_floating_point():
        return f"weight is {weight.dtype}; only real floating point is normalised"
    if weight.is_meta:
        return "its weight is on the meta device; give it memory first"
    if min(layout(layer)[:3]) == 0:
        return "its weight is empty"
    others = [owner for owner in shared[id(weight)] if owner != f"{name}.weight".lstrip(".")]
    if others:
        return f"its weight is shared with {', '.join(others)}; untie them first"
    return ""


def _shared_parameters(model: nn.Module) -> dict[int, list[str]]:
    names: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    # One module under two names is not two owners of a weight.
    twice = {
        alias
        for alias, module in model.named_modules(remove_duplicate=False)
        if alias not in {name for name, _ in model.named_modules()} and is_supported(module)
    }
    return {key: [n for n in owners if n.rpartition(".")[0] not in twice] for key, owners in names.items()}


def _shape(weight: Tensor) -> tuple[int, ...]:
    return () if isinstance(weight, nn.UninitializedParameter | nn.UninitializedBuffer) else tuple(weight.shape)


def _refuse(report: Survey) -> None:
    """Raise where a layer that was meant cannot be normalised, or no layer is left."""
    for row in report:
        asked = row.explicit and row.reason not in ("", "excluded")
        if asked or row.reason == _LAZY:
            raise ValueError(f"cannot normalise {row.name or row.kind!r} ({row.kind}): {row.reason}")
    if not any(row.taken for row in report):
        reasons = "; ".join(f"{row.name or row.kind}: {row.reason}" for row in report)
        raise ValueError(f"nothing to normalise: {reasons or 'the model has no Linear or convolution'}")


def _install(layer: nn.Module, map: WeightMap, gain: bool, gain_init: str) -> None:
    assert is_supported(layer)
    weight, form = layer.weight, layout(layer)
    layer.__class__ = NORMALISED[type(layer)]  # type: ignore[assignment]
    ours = cast(NormalisedLayer, layer)
    ours.map, ours.gain_init, ours._stored, ours._shared = map.train(layer.training), gain_init, None, None
    ours.register_parameter("gain", nn.Parameter(weight.new_ones(form.outputs)) if gain else None)
    ours.start()


def _remove(layer: NormalisedLayer) -> None:
    with torch.no_grad():
        layer.weight.copy_(layer.mapped_weight())
    for name in ("map", "gain", "gain_init", "_stored", "_shared"):
        delattr(layer, name)
    layer.__class__ = PLAIN[type(layer)]  # type: ignore[assignment]

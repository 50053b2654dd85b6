"""What would become of a model: which layers can be normalised, and why the others cannot."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn.utils import parametrize

from aon.layers import NORMALISED, NormalisedLayer, is_sharded
from aon.matrices import Layer, layout
from aon.selection import Choice, Words, choose
from aon.text import table


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
        if name not in rows and own and not isinstance(module, parametrize.ParametrizationList):
            reason = _ATTENTION if isinstance(module, nn.MultiheadAttention) else "not a Linear or convolution"
            rows[name] = SurveyRow(name, type(module).__name__, _shape(own[0]), reason, module)
    order = {name: place for place, (name, _) in enumerate(model.named_modules())}
    return Survey(tuple(sorted(rows.values(), key=lambda row: order[row.name])))


def _row(choice: Choice, shared: dict[int, list[str]], parent: nn.Module | None) -> SurveyRow:
    layer = choice.layer
    reason = choice.reason or _obstacle(choice.name, layer, shared, parent)
    return SurveyRow(choice.name, type(layer).__name__, _shape(layer.weight), reason, layer, choice.explicit)


LAZY = "lazy, without a weight yet; run one batch through the model first"
_ATTENTION = "MultiheadAttention reads its weights directly; write the attention with Linear layers instead"


def _obstacle(name: str, layer: Layer, shared: dict[int, list[str]], parent: nn.Module | None) -> str:
    """Why a layer cannot be normalised, with what to do instead; empty if it can."""
    if isinstance(layer, NormalisedLayer):
        return "normalised already; fold it first"
    if parametrize.is_parametrized(layer) or "weight" not in layer._parameters:
        return "its weight is computed by another parametrisation or hook; remove that first"
    weight = layer.weight
    if isinstance(weight, nn.UninitializedParameter):
        return LAZY
    if isinstance(parent, nn.MultiheadAttention):
        return _ATTENTION
    if type(layer) not in NORMALISED:
        return f"{type(layer).__name__} is a subclass with code of its own; use torch's own class"
    if is_sharded(weight):
        return "its weight is sharded (a DTensor); normalise before sharding"
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
    once = {name for name, _ in model.named_modules()}
    return {key: [n for n in owners if n.rpartition(".")[0] in once] for key, owners in names.items()}


def _shape(weight: Tensor) -> tuple[int, ...]:
    return () if isinstance(weight, nn.UninitializedParameter | nn.UninitializedBuffer) else tuple(weight.shape)

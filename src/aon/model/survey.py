"""Report which layers `normalise` would change, and why it leaves the others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn.utils import parametrize

from aon.kernels.radius import HELP, STRETCHED, largest_over_centre
from aon.kernels.settings import Settings
from aon.model.attention import NormalisedMultiheadAttention
from aon.model.classes import NORMALISED
from aon.model.layers import NormalisedLayer, is_sharded
from aon.model.matrices import LAZY, Mappable, is_mappable, layout, weight_matrix, weight_name
from aon.model.selection import DEPTHWISE, EXCLUDED, NOT_INCLUDED, Choice, Selection, choose
from aon.model.table import table


@dataclass(frozen=True)
class SurveyRow:
    """Verdict on one module with a weight matrix; `reason` is empty if it is normalised."""

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

    @property
    def unexpected(self) -> bool:
        """Whether it is left although it was not excluded and is not of a kind that is always left.

        These are embeddings, depthwise convolutions, and parameters that no name calls a weight.
        """
        if self.taken or self.reason in (EXCLUDED, NOT_INCLUDED, DEPTHWISE, DONE):
            return False
        named = any("weight" in name for name, p in self.module.named_parameters(recurse=False) if p.dim() > 1)
        return named and not isinstance(self.module, nn.Embedding | nn.EmbeddingBag)

    @property
    def verdict(self) -> str:
        """The reason, or that it is normalised; with a note where the default map would start outside its radius."""
        if self.reason or not is_mappable(self.module):
            return self.reason
        reach = largest_over_centre(weight_matrix(self.module), Settings())
        return "normalise" if not reach > STRETCHED else f"normalise; eigenvalues up to {reach:.1f}, {HELP}"


@dataclass(frozen=True)
class Survey:
    """Verdicts of `survey`, row by row; prints as a table."""

    rows: tuple[SurveyRow, ...]

    def __iter__(self) -> Iterator[SurveyRow]:
        return iter(self.rows)

    def __str__(self) -> str:
        cells = [
            (row.name or "(the model)", row.kind, "x".join(str(d) for d in row.shape), row.verdict) for row in self.rows
        ]
        return table(("module", "kind", "weight", "verdict"), cells, left=4)


def survey(model: nn.Module, include: Selection = None, exclude: Selection = None) -> Survey:
    """What `normalise` with these arguments would change in a model, and what it would leave and why.

    The table also names weights with eigenvalues of W W^T so far beyond 2 that the Taylor polynomial about 1 does not
    hold for them; it holds below 2.

    Example:
        >>> import torch
        >>> _ = torch.manual_seed(0)
        >>> print(survey(nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 4), nn.Conv1d(4, 4, 3, groups=4))))
        module  kind       weight  verdict
        0       Embedding  9x4     not a Linear or convolution
        1       Linear     4x4     normalise
        2       Conv1d     4x1x3   depthwise convolution; give its own name to include it
    """
    shared = shared_parameters(model)
    parents = {id(child): parent for parent in model.modules() for child in parent.children()}
    rows: dict[str, SurveyRow] = {}
    attentions: set[int] = set()  # those that are normalised, or will be
    for choice in choose(model, include, exclude):
        row = rows[choice.name] = _row(choice, shared, parents.get(id(choice.layer)), attentions)
        if row.taken or isinstance(choice.layer, NormalisedMultiheadAttention):
            attentions.add(id(choice.layer))
    for name, module in model.named_modules():
        own = [p for p in module.parameters(recurse=False) if isinstance(p, nn.UninitializedParameter) or p.dim() > 1]
        if name not in rows and own and not isinstance(module, parametrize.ParametrizationList):
            rows[name] = SurveyRow(name, type(module).__name__, _shape(own[0]), "not a Linear or convolution", module)
    order = {name: place for place, (name, _) in enumerate(model.named_modules())}
    return Survey(tuple(sorted(rows.values(), key=lambda row: order[row.name])))


def _row(choice: Choice, shared: dict[int, list[str]], parent: nn.Module | None, attentions: set[int]) -> SurveyRow:
    layer = choice.layer
    reason = choice.reason or _obstacle(choice.name, layer, shared)
    if not reason and isinstance(parent, nn.MultiheadAttention) and id(parent) not in attentions:
        reason = "its MultiheadAttention reads the weight; normalise that, of which it is a part"
    weight = getattr(layer, weight_name(layer))
    shape = () if weight is None else _shape(weight)
    return SurveyRow(choice.name, type(layer).__name__, shape, reason, layer, choice.explicit)


DONE = "normalised already; fold it first"


def _obstacle(name: str, layer: Mappable, shared: dict[int, list[str]]) -> str:
    """Why a layer cannot be normalised, with what to do instead; empty if it can."""
    if isinstance(layer, NormalisedLayer):
        return DONE
    if isinstance(layer, nn.MultiheadAttention) and layer.in_proj_weight is None:
        return "its keys or values have another size than its queries (kdim, vdim); project them by Linear layers first"
    own = weight_name(layer)
    if parametrize.is_parametrized(layer) or own not in layer._parameters:
        return "its weight is computed by another parametrisation or hook; remove that first"
    weight = getattr(layer, own)
    if isinstance(weight, nn.UninitializedParameter):
        return LAZY
    if type(layer) not in NORMALISED:
        return f"{type(layer).__name__} is a subclass with code of its own; use torch's own class"
    if "forward" in layer.__dict__:
        return "its forward was replaced on the instance, past which no map goes; normalise before that is done"
    if is_sharded(weight):
        return "its weight is sharded (a DTensor); normalise before sharding"
    if not weight.is_floating_point():
        return f"weight is {weight.dtype}; only real floating point is normalised"
    if weight.is_meta:
        return "its weight is on the meta device; give it memory first"
    if min(layout(layer)[:3]) == 0:
        return "its weight is empty"
    others = other_owners(name, layer, shared)
    if others:
        return f"its weight is shared with {', '.join(others)}; untie them first"
    return ""


def other_owners(name: str, layer: Mappable, shared: dict[int, list[str]]) -> list[str]:
    """Names of the same parameter elsewhere in the model."""
    own = weight_name(layer)
    return [owner for owner in shared[id(getattr(layer, own))] if owner != f"{name}.{own}".lstrip(".")]


def shared_parameters(model: nn.Module) -> dict[int, list[str]]:
    """The names of every parameter of a model, by its id; one module under two names counts once."""
    names: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    # One module under two names is not two owners of a weight.
    once = {name for name, _ in model.named_modules()}
    return {key: [n for n in owners if n.rpartition(".")[0] in once] for key, owners in names.items()}


def _shape(weight: Tensor) -> tuple[int, ...]:
    return () if isinstance(weight, nn.UninitializedParameter | nn.UninitializedBuffer) else tuple(weight.shape)

"""Compute the maps of a model's small layers together, at the beginning of its forward.

`normalise` gives the model an object of this kind, as a hook before and one after its forward. In training it computes
the mapped weights of all small layers at once, and the layers take theirs from it. Whatever is out of the ordinary
leaves a layer to compute its own: no forward of the model is under way, its weight is another one or was changed since,
the layer has a hook of its own that could change it, activation checkpointing or another use of saved tensors, a
backward under way, a compiler, a transform of functorch, forward-mode differentiation, several processes.

With several processes the maps would make every gradient of a small layer wait for the last one, where
DistributedDataParallel sends what is ready, and would make layers that were left out look as if they were used.
"""

from __future__ import annotations

import threading
import weakref
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from aon.kernels import several
from aon.kernels.first_order import once_only
from aon.kernels.gram import in_full_precision
from aon.kernels.power import State
from aon.kernels.settings import Settings
from aon.maps import AON
from aon.model.matrices import Layout

Layer = Any  # a NormalisedLayer, whose module imports this one
SMALL = 2**16  # entries of a weight up to which its calls cost more than its products
FILLED_UP = 64  # rows up to which k x k matrices of several sizes are filled up to one
CHANGED = "a weight was changed in place between its forward and its backward"
_PLAIN = (Tensor, nn.Parameter)
_DTYPES = (torch.float32, torch.float64)


class _Member(NamedTuple):
    """A layer that takes part, with what is looked up at every forward: nn.Module's own way takes long."""

    layer: Layer
    parameters: Mapping[str, Tensor | None]
    buffers: Mapping[str, Any]  # of its map
    form: Layout
    settings: Settings
    group: tuple[object, ...]  # what layers that are computed together have in common and never changes

    @property
    def weight(self) -> Any:
        """The parameter; None or another object where the layer was changed since."""
        return self.parameters.get("weight")

    def state(self) -> State:
        """State of the power iteration."""
        return State(self.buffers["u"], self.buffers["previous"], self.buffers["seen"])

    def made_from(self) -> tuple[object, ...]:
        """The tensors that the mapped weight is made from, where they lie, and how often they have been written to."""
        weight, gain = self.weight, self.parameters.get("gain")
        return tuple((id(x), x.data_ptr(), x._version) for x in (weight, gain) if x is not None)

    def kind(self) -> tuple[object, ...] | None:
        """What layers that are computed together have in common; None if this one cannot take part now."""
        weight, gain = self.weight, self.parameters.get("gain")
        dtype = weight.dtype if type(weight) in _PLAIN else None
        ready = (
            self.layer.training
            and self.layer._shared is None
            and not self.layer._forward_pre_hooks
            and dtype in _DTYPES
            and dtype == self.buffers["u"].dtype
            and (gain is None or (type(gain) in _PLAIN and gain.dtype == dtype))
            and _is_dense(weight)
            and (weight.requires_grad or (gain is not None and gain.requires_grad))
        )
        return (self.group, gain is None, dtype, weight.device) if ready else None


class _Ready(NamedTuple):
    """A mapped weight, and what it was made from."""

    weight: Tensor
    member: _Member
    made_from: tuple[object, ...]


class _Forward(threading.local):
    """The mapped weights that are ready for the forward under way in a thread."""

    def __init__(self) -> None:
        self.ready: dict[Layer, _Ready] = {}
        self.taken: set[Layer] = set()


class Together:
    """The maps of a model's small layers, computed together; see the module's docstring.

    A layer that does not take what was made for it, as in a model that leaves out layers at random, computes its own
    from then on.
    """

    def __init__(self) -> None:
        self._model: weakref.ref[nn.Module] | None = None
        self._members: list[_Member] = []
        self._under_way = _Forward()

    def __deepcopy__(self, _: dict[int, Any]) -> Together:
        return Together()  # finds the copies of the layers itself

    def __reduce__(self) -> tuple[Any, ...]:
        return Together, ()

    def install(self, model: nn.Module) -> None:
        """Become the hooks of a model."""
        model.register_forward_pre_hook(self.begin)
        model.register_forward_hook(self.end)

    @staticmethod
    def remove(model: nn.Module) -> None:
        """Take the hooks from a model and its parts."""
        for module in model.modules():
            for hooks in (module._forward_pre_hooks, module._forward_hooks):
                ours = [key for key, hook in hooks.items() if isinstance(getattr(hook, "__self__", None), Together)]
                for key in ours:
                    del hooks[key]

    def begin(self, model: nn.Module, _: Any) -> None:
        """Compute the maps, where a forward in training begins."""
        if torch.compiler.is_compiling() or not model.training or not is_ordinary():
            return
        if self._model is None:
            self._find(model)
        elif self._model() is not model:  # a replica of DataParallel
            return
        here = self._under_way
        groups: dict[tuple[object, ...], list[_Member]] = defaultdict(list)
        here.ready, here.taken = {}, set()
        for member in self._members:
            owner = member.layer.__dict__.get("_together")  # gone if the layer was folded
            kind = None if owner is None or owner() is not self else member.kind()
            if kind is not None:
                groups[kind].append(member)
        for members in groups.values():
            if len(members) > 1:
                here.ready |= _prepared(members)

    def take(self, layer: Layer) -> Tensor | None:
        """The mapped weight of a layer, if it is ready and was made from what the layer has now."""
        here = self._under_way
        found = here.ready.get(layer)
        if found is None or found.made_from != found.member.made_from() or not is_ordinary():
            return None
        here.taken.add(layer)
        return found.weight

    def end(self, _: nn.Module, __: Any, ___: Any) -> None:
        """Drop what is left, where a forward ends."""
        if torch.compiler.is_compiling():
            return
        here = self._under_way
        if len(here.taken) < len(here.ready):
            self._members = [
                member for member in self._members if member.layer in here.taken or member.layer not in here.ready
            ]
        here.ready, here.taken = {}, set()

    def _find(self, model: nn.Module) -> None:
        self._model = weakref.ref(model)
        layers: Iterator[Layer] = model.modules()
        for layer in layers:
            if hasattr(layer, "_together") and is_small(layer):
                layer._together = weakref.ref(self)  # weak, so that a model is freed at once when it is dropped
                form, settings = layer.form, layer.map.settings
                size = form.rows if settings.relative_to == "mean" else max(FILLED_UP, form.rows)
                self._members.append(
                    _Member(layer, layer._parameters, layer.map._buffers, form, settings, (size, settings))
                )


def is_ordinary() -> bool:
    """Whether a forward is a plain one with gradients, of one process."""
    return (
        torch.is_grad_enabled()
        and torch._C._current_graph_task_id() == -1
        and torch._C._autograd._top_saved_tensors_default_hooks(True) is None
        and forward_ad._current_level < 0
        and not torch._C._are_functorch_transforms_active()
        and not (torch.distributed.is_available() and torch.distributed.is_initialized())
    )


def is_small(layer: Layer) -> bool:
    """Whether a layer is of the kind that takes part."""
    form = layer.form
    return (
        isinstance(layer.map, AON)
        and not layer.map.is_spectral
        and form.groups == 1
        and not form.transposed
        and form.rows <= form.columns
        and form.rows * form.columns <= SMALL
    )


def _prepared(members: list[_Member]) -> dict[Layer, _Ready]:
    """The mapped weights of layers of one kind; moves the state of those whose weight is new."""
    states = [member.state() for member in members]
    parameters = [member.weight for member in members]
    if members[0].parameters.get("gain") is not None:
        parameters += [member.parameters["gain"] for member in members]
    moved: list[several.Moved] = []
    mapped = _Mapped.apply([member.form for member in members], states, members[0].settings, moved, *parameters)
    for targets, values in zip(zip(*states, strict=True), moved[0], strict=True):
        torch._foreach_copy_(targets, values)
    return {
        member.layer: _Ready(weight, member, member.made_from()) for member, weight in zip(members, mapped, strict=True)
    }


class _Mapped(torch.autograd.Function):
    """Weights, then their gains if there are any -> mapped weights. The moved states are appended to `moved`.

    What the backward needs is kept on the context, not by `save_for_backward`: one forward may be followed by a
    backward for some of the weights and another one for the rest, and autograd frees what it has saved in the first.
    """

    @staticmethod
    def forward(
        ctx: Any,
        forms: list[Layout],
        states: list[State],
        settings: Settings,
        moved: list[several.Moved],
        *parameters: Tensor,
    ) -> tuple[Tensor, ...]:
        weights, gains = parameters[: len(forms)], parameters[len(forms) :]
        with in_full_precision(weights[0]):
            matrices = [_matrix(weight, form) for weight, form in zip(weights, forms, strict=True)]
            gain = several.vectors(gains, [len(gain) for gain in gains]).unsqueeze(-1) if gains else None
            mapped, kept, u, states_moved = several.forward(matrices, gain, states, settings)
        moved.append(states_moved)
        ctx.forms, ctx.weights, ctx.versions = forms, weights, [weight._version for weight in weights]
        ctx.matrices, ctx.gain, ctx.u, ctx.kept, ctx.settings = matrices, gain, u, kept, settings
        ctx.set_materialize_grads(False)
        return tuple(_shaped(H, weight) for H, weight in zip(mapped, weights, strict=True))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        weights, forms = ctx.weights, ctx.forms
        for weight, version, gradient in zip(weights, ctx.versions, gradients, strict=True):
            if gradient is not None and weight._version != version:
                raise RuntimeError(CHANGED)
        with torch.no_grad(), in_full_precision(weights[0]):
            dH = [
                None if dh is None else _matrix(_lying_as(weight, dh), form)
                for weight, dh, form in zip(weights, gradients, forms, strict=True)
            ]
            dW, dgain = several.backward(ctx.matrices, ctx.gain, dH, ctx.u, ctx.kept, ctx.settings)
            shaped = [None if d is None else _shaped(d, weight) for d, weight in zip(dW, weights, strict=True)]
        sources = [*weights, *(gradient for gradient in gradients if gradient is not None)]
        return None, None, None, None, *(once_only(d, *sources) for d in (*shaped, *dgain))


# As `to_matrix` and `from_matrix`, in one call each. The weights are dense and not transposed, so that a row of the
# matrix is what lies in a row in memory.


def _matrix(weight: Tensor, form: Layout) -> Tensor:
    return weight.as_strided((form.rows, form.columns), (form.columns, 1))


def _shaped(matrix: Tensor, weight: Tensor) -> Tensor:
    return matrix.as_strided(weight.shape, weight.stride())


def _lying_as(weight: Tensor, gradient: Tensor) -> Tensor:
    """The gradient in the memory format of its weight."""
    if gradient.stride() == weight.stride():
        return gradient
    return torch.empty_like(weight).copy_(gradient)


def _is_dense(weight: Tensor) -> bool:
    """Whether the weight fills its memory, in torch's usual order or with the channels last."""
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return weight.is_contiguous() or (
        weight.dim() in formats and weight.is_contiguous(memory_format=formats[weight.dim()])
    )

"""Linear and convolutional layers that compute with a mapped weight; `weight` stays the raw parameter W.

The classes are static and differ from torch's own in their forward only: a plain layer becomes one by taking its class
(`convert.py`), and goes back the same way. `layer.map` holds the map with its state, `layer.gain` the scale of the
paper's equation (5), or None.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from aon.kernels.gram import autocast_dtype, working_dtype
from aon.maps import WeightMap
from aon.model.matrices import Layout, from_matrix, to_matrix
from aon.model.sharing import Mapped, SharedWeight
from aon.model.stored import Mark, Stored, is_transformed, mark, stored_weight
from aon.model.together import Together

if TYPE_CHECKING:
    _Base = nn.Module
else:  # the layers bring nn.Module themselves
    _Base = object
# What a position costs over what a column costs, products and passes together (docs/performance.md).
APPLYING_OVER_FORMING = 2
NOT_RECORDED = (
    "torch.jit and torch.fx cannot record a normalised layer: fold a copy first, "
    "aon.fold(copy.deepcopy(model)), or use torch.export"
)
_POINTWISE = (None, functional.conv1d, functional.conv2d, functional.conv3d)
_TRANSPOSED = (None, functional.conv_transpose1d, functional.conv_transpose2d, functional.conv_transpose3d)


class NormalisedLayer(_Base):
    """Mixin of all normalised layers: the mapped weight and its checkpoints."""

    weight_name = "weight"  # of the parameter that is mapped
    weight: Tensor
    map: WeightMap
    gain: nn.Parameter | None
    gain_init: str
    form: Layout  # how the weight is a matrix
    _stored: Stored | None
    _shared: SharedWeight | None
    _together: weakref.ref[Together] | None

    def mapped_weight(self, *, scaled: bool = True) -> Tensor:
        """h(W), or its rows times the gain, in the shape of the weight; differentiable. Does not change any state.

        Raises:
            RuntimeError: This rank holds only a part of the weight.
        """
        require_whole(self.weight)
        return self._shaped(self.map.read(self._matrix(), self.gain if scaled else None))

    def mapped_parameters(self) -> list[Tensor]:
        """The parameters that the mapped weight is made from: weight and gain."""
        return [self.weight] if self.gain is None else [self.weight, self.gain]

    def start(self) -> None:
        """Initialise the map's state and the gain for the current weight."""
        W = self.restart_map()
        if self.gain is not None:
            with torch.no_grad():
                self.gain.copy_(initial_gain(W, self.map, self.gain_init))

    def restart_map(self) -> Tensor:
        """Initialise the map's state for the current weight; returns the weight as a matrix."""
        self._stored = None
        W = matrix_of(self.weight, self.form)
        self.map.attach(W)
        return W

    def __prepare_scriptable__(self) -> Any:
        """Refuse torch.jit.script, which calls this first."""
        raise RuntimeError(NOT_RECORDED)

    def train(self, mode: bool = True) -> Any:
        """As `nn.Module.train`. A change of mode drops the stored weight (see `Mark`)."""
        if mode != self.training:
            self._stored = None
        return super().train(mode)

    # Note [The weight of a forward]
    # `_mapped` alone decides what a forward computes with. In training, small layers take what was computed for all of
    # them together. Evaluation without gradients uses the stored weight; a forward inside `aon.accumulate` shares the
    # weight with the other forwards of the same update; any other computes it. What is computed (`_new`) is either the
    # mapped weight, or the factor F, applied after W, if that costs less.

    def _mapped(self, input: Tensor | None) -> Mapped:
        """The tensor used in forward: the mapped weight, or F where that is cheaper for this input (None: never F)."""
        compiling = torch.compiler.is_compiling()
        together = None if self._together is None or compiling else self._together()
        ready = None if together is None else together.take(self)
        if ready is not None:
            return Mapped(ready, applied=False)
        if not self.training and not compiling and not self._wants_gradient():
            if not is_transformed(self.mapped_parameters()):  # otherwise torch tells if the map has no rule for it
                return Mapped(self._stored_weight(), applied=False)
        elif self._shared is not None and self.training and not compiling and self._wants_gradient():
            parameter = next(p for p in self.mapped_parameters() if p.requires_grad)
            return self._shared.use(lambda uses: self._new(input, uses), self._mark(), parameter)
        return self._new(input)

    def _new(self, input: Tensor | None, uses: int = 1) -> Mapped:
        """F where applying it is cheaper than forming the mapped weight, otherwise the mapped weight.

        Forming costs three products of m x m by m x n (forward, and backward to W and to F), applying F three of
        m x m by m x positions, and more passes over the activations.
        """
        require_whole(self.weight)  # under FSDP2 it is, in forward
        W = self._matrix()
        if input is not None and self.training:
            positions = self._positions(input) * uses
            if positions * APPLYING_OVER_FORMING < self.form.columns and not in_half_range(W):
                F = self.map.factor(W, self.gain)
                if F is not None:
                    return Mapped(F, applied=True)
        return Mapped(self._shaped(self.map(W, self.gain)), applied=False)

    def _positions(self, input: Tensor) -> int:
        """About how many positions the output has, over the whole batch."""
        raise NotImplementedError

    def _stored_weight(self) -> Tensor:
        self._stored = stored_weight(self._stored, self.weight, self._small(), self.mapped_weight)
        return self._stored.weight

    def _small(self) -> list[Tensor]:
        """The tensors other than W that the mapped weight depends on."""
        return [*self.mapped_parameters()[1:], *self.map.buffers()]

    def _mark(self) -> Mark:
        return mark(self.weight, self.mapped_parameters()[1:])

    def flush_shared(self) -> None:
        """Send the gradients that were gathered in `aon.accumulate` through the map."""
        if self._shared is not None:
            self._shared.flush(self._mark())

    def end_sharing(self) -> None:
        """Leave `aon.accumulate`."""
        if self._shared is not None:
            self._shared.close()
        self._shared = None

    def _wants_gradient(self) -> bool:
        """Whether a backward will need gradients of weight or gain."""
        return torch.is_grad_enabled() and any(p.requires_grad for p in self.mapped_parameters())

    def _matrix(self) -> Tensor:
        return to_matrix(self.weight, self.form)

    def _shaped(self, matrix: Tensor) -> Tensor:
        return from_matrix(matrix, self.form, self.weight)

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, metadata: Any, strict: bool,
        missing: list[str], unexpected: list[str], errors: list[str],
    ) -> None:  # fmt: skip
        super()._load_from_state_dict(state_dict, prefix, metadata, strict, missing, unexpected, errors)
        kept = [f"{prefix}map.{name}" for name, _ in self.map.named_buffers()]
        gain, found = f"{prefix}gain", any(key in state_dict for key in kept)
        if f"{prefix}{self.weight_name}" in state_dict and gain not in state_dict and not found:
            if gain in missing:
                missing.remove(gain)
            self.start()  # a plain model's checkpoint: state and gain begin with its weight
        elif not found:
            missing.extend(kept)  # a normalised model's with a part left out, which the map cannot know

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what can be computed from the weight."""
        return {**self.__dict__, "_stored": None, "_shared": None, "_together": None}


class _WithReset(NormalisedLayer):
    """What torch's Linear and convolutions have and its attention has not."""

    def reset_parameters(self) -> None:
        """As torch's layer; state and gain begin again with the new weight."""
        super().reset_parameters()  # type: ignore[misc]
        self.start()


class NormalisedLinear(_WithReset, nn.Linear):
    """`nn.Linear` that computes with the mapped weight."""

    def forward(self, input: Tensor) -> Tensor:
        """As `nn.Linear`."""
        refuse_tracing(input)
        mapped, applied = self._mapped(input)
        if not applied:
            return functional.linear(input, mapped, self.bias)
        return functional.linear(functional.linear(input, self.weight), mapped, self.bias)

    def _positions(self, input: Tensor) -> int:
        return input.numel() // max(1, self.in_features)


class _Convolution(_WithReset):
    """What convolutions and transposed ones have in common."""

    def _positions(self, input: Tensor) -> int:
        layer: Any = self
        dimensions = len(layer.kernel_size)
        count: int = input.shape[0] if input.dim() == dimensions + 2 else 1
        for size, step in zip(input.shape[-dimensions:], layer.stride, strict=True):
            count *= size * step if self.form.transposed else -(-size // step)
        return count


class _NormalisedConvolution(_Convolution):
    """The forward of convolutions, in one, two or three dimensions."""

    def forward(self, input: Tensor) -> Tensor:
        """As torch's convolution."""
        refuse_tracing(input)
        mapped, applied = self._mapped(input)
        if not applied:
            return self._conv_forward(input, mapped, self.bias)  # type: ignore[operator, no-any-return]
        output: Tensor = self._conv_forward(input, self.weight, None)  # type: ignore[operator]
        return _apply_pointwise(output, mapped, self)


class _NormalisedTransposed(_Convolution):
    """The forward of transposed convolutions."""

    bias: Tensor | None

    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        """As torch's transposed convolution."""
        if self.padding_mode != "zeros":
            raise ValueError(f"padding_mode={self.padding_mode!r}: transposed convolutions take 'zeros' only")
        refuse_tracing(input)
        mapped, applied = self._mapped(input)
        if not applied:
            return self._transpose(input, mapped, self.bias, output_size)
        return _apply_pointwise(self._transpose(input, self.weight, None, output_size), mapped, self)

    def _transpose(self, input: Tensor, weight: Tensor, bias: Tensor | None, output_size: list[int] | None) -> Tensor:
        dimensions = len(self.kernel_size)  # type: ignore[arg-type]
        padding = self._output_padding(  # type: ignore[operator]
            input, output_size, self.stride, self.padding, self.kernel_size, dimensions, self.dilation
        )
        convolve: Any = _TRANSPOSED[dimensions]
        return convolve(input, weight, bias, self.stride, self.padding, padding, self.groups, self.dilation)  # type: ignore[no-any-return]


class NormalisedConv1d(_NormalisedConvolution, nn.Conv1d):
    """`nn.Conv1d` that computes with the mapped weight."""


class NormalisedConv2d(_NormalisedConvolution, nn.Conv2d):
    """`nn.Conv2d` that computes with the mapped weight."""


class NormalisedConv3d(_NormalisedConvolution, nn.Conv3d):
    """`nn.Conv3d` that computes with the mapped weight."""


class NormalisedConvTranspose1d(_NormalisedTransposed, nn.ConvTranspose1d):
    """`nn.ConvTranspose1d` that computes with the mapped weight."""


class NormalisedConvTranspose2d(_NormalisedTransposed, nn.ConvTranspose2d):
    """`nn.ConvTranspose2d` that computes with the mapped weight."""


class NormalisedConvTranspose3d(_NormalisedTransposed, nn.ConvTranspose3d):
    """`nn.ConvTranspose3d` that computes with the mapped weight."""


def is_sharded(weight: Tensor) -> bool:
    """Whether the weight is a DTensor, of which each rank holds a part, as under FSDP2 outside forward and backward."""
    return hasattr(weight, "full_tensor")


def refuse_tracing(input: Tensor) -> None:
    """Raise a RuntimeError inside of torch.jit.trace and torch.fx, which cannot record a map with state."""
    compiling = torch.compiler.is_compiling()
    if isinstance(input, torch.fx.Proxy) or (not compiling and torch.jit.is_tracing()):  # type: ignore[attr-defined]
        raise RuntimeError(NOT_RECORDED)


def require_whole(weight: Tensor) -> None:
    """Raise a RuntimeError if this rank holds only a part of the weight."""
    if is_sharded(weight):
        raise RuntimeError(
            "this rank holds only a part of the weight (a DTensor): gather it first, under FSDP2 by `unshard()`; "
            "tensor parallelism cannot be used, since h(W) needs all of W in forward"
        )


def matrix_of(weight: Tensor, form: Layout) -> Tensor:
    """The weight as a matrix without a graph, whole."""
    require_whole(weight)
    return to_matrix(weight.detach(), form)


@torch.no_grad()
def initial_gain(W: Tensor, map: WeightMap, gain_init: str) -> Tensor:
    """Ones, or gains that give every row of the mapped weight its norm in W ("match")."""
    if gain_init == "ones":
        return W.new_ones(W.shape[:-1]).flatten()
    rows, mapped = (torch.linalg.vector_norm(A.to(working_dtype(A)), dim=-1) for A in (W, map.read(W)))
    return torch.where(mapped > 0, rows / mapped, 1).flatten()


def in_half_range(W: Tensor) -> bool:
    """Whether the layer computes in float16, whose range F can leave where the mapped weight does not."""
    return torch.float16 in (W.dtype, autocast_dtype(W))


def _apply_pointwise(output: Tensor, F: Tensor, layer: Any) -> Tensor:
    """F at every position of a convolution's output, then the bias."""
    dimensions = len(layer.kernel_size)
    convolve: Any = _POINTWISE[dimensions]
    weight = F.reshape(-1, F.shape[-1], *(1,) * dimensions)
    return convolve(output, weight, layer.bias, groups=layer.groups)  # type: ignore[no-any-return]

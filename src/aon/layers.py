"""torch's Linear and convolutions with a weight map in their forward; `weight` stays the raw parameter W.

The classes are static and differ from torch's own in their forward only: a plain layer becomes one by taking its class
(`convert.py`), and goes back the same way. `layer.map` holds the map with its state, `layer.gain` the scale of the
paper's equation (5), or None.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from aon.gram import working_dtype
from aon.maps import WeightMap
from aon.matrices import CONVOLUTIONS, TRANSPOSED, Layout, from_matrix, layout, to_matrix
from aon.sharing import SharedWeight

if TYPE_CHECKING:
    _Base = nn.Module
else:  # the layers bring nn.Module themselves
    _Base = object
# What a position costs over what a column costs, products and passes together (docs/performance.md).
APPLYING_OVER_FORMING = 2
_POINTWISE = (None, functional.conv1d, functional.conv2d, functional.conv3d)
_TRANSPOSED = (None, functional.conv_transpose1d, functional.conv_transpose2d, functional.conv_transpose3d)


class _Stored(NamedTuple):
    """A mapped weight that was computed in evaluation, with what tells whether it still holds."""

    versions: tuple[object, ...]
    evidence: list[Tensor]
    weight: Tensor


class NormalisedLayer(_Base):
    """What the normalised layers have in common: the mapped weight, its store for evaluation, its checkpoints."""

    weight: Tensor
    map: WeightMap
    gain: nn.Parameter | None
    gain_init: str
    _stored: _Stored | None
    _shared: SharedWeight | None

    @property
    def form(self) -> Layout:
        """How the weight is a matrix."""
        return layout(self)  # type: ignore[arg-type]

    def mapped_weight(self, *, scaled: bool = True) -> Tensor:
        """h(W), or its rows times the gain, as it stands, in the shape of the weight; differentiable. Nothing moves.

        Raises:
            RuntimeError: This rank holds only a part of the weight.
        """
        self._require_whole()
        return self._shaped(self.map.read(self._matrix(), self.gain if scaled else None))

    def _matrix(self) -> Tensor:
        return to_matrix(self.weight, self.form)

    def _shaped(self, matrix: Tensor) -> Tensor:
        return from_matrix(matrix, self.form, tuple(self.weight.shape))

    def _require_whole(self) -> None:
        if is_sharded(self.weight):
            raise RuntimeError(
                "this rank holds only a part of the weight (a DTensor): gather it first, under FSDP2 by `unshard()`"
            )

    def start(self) -> None:
        """Begin anew for the weight as it is: the map's state, and the gain by its rule."""
        self._require_whole()
        self._stored = None
        with torch.no_grad():
            self.map.attach(self._matrix())
            if self.gain is not None:
                self.gain.copy_(self._initial_gain())

    def _initial_gain(self) -> Tensor:
        """Ones, or what gives every row the norm that it has in W."""
        W = self._matrix()
        if self.gain_init == "ones":
            return W.new_ones(self.form.outputs)
        rows, mapped = (torch.linalg.vector_norm(A.to(working_dtype(A)), dim=-1) for A in (W, self.map.read(W)))
        return torch.where(mapped > 0, rows / mapped, 1).flatten()

    def _weight(self) -> Tensor:
        """What the forward computes with: in evaluation without gradients the stored weight, else a new or shared."""
        if not self.training and not self._wants_gradient() and not torch.compiler.is_compiling():
            return self._stored_weight()
        shared = self._sharing()
        if shared is None:
            return self._shaped(self.map(self._matrix(), self.gain))
        if shared.mapped is None:
            with _kept_from_checkpointing():
                shared.hold(self._shaped(self.map(self._matrix(), self.gain)), self._weight_version(), applied=False)
        return shared.use(self._weight_version())

    def _wants_gradient(self) -> bool:
        """Whether a backward will want the gradient of what the mapped weight is made of."""
        return torch.is_grad_enabled() and any(p.requires_grad for p in (self.weight, self.gain) if p is not None)

    def _sharing(self) -> SharedWeight | None:
        """What this forward shares with others to the same update (`aon.accumulate`), if it does."""
        shares = self._shared is not None and self.training and not torch.compiler.is_compiling()
        return self._shared if shares and self._wants_gradient() else None

    def _weight_version(self) -> tuple[object, ...]:
        return self._versions()[:1]

    def _stored_weight(self) -> Tensor:
        """The mapped weight, computed once and kept until the weight, the gain or the map's state changes.

        A version counter tells of most writes, and costs nothing; it does not count writes through `.data`, which the
        evidence does: one pass over W, and the gain and the map's state themselves.
        """
        with torch.inference_mode(False), torch.no_grad():
            versions, evidence, stored = self._versions(), self._evidence(), self._stored
            if stored is None or stored.versions != versions or not _same(stored.evidence, evidence):
                evidence = [tensor.clone() for tensor in evidence]
                stored = self._stored = _Stored(versions, evidence, self.mapped_weight())
        return stored.weight

    def _versions(self) -> tuple[object, ...]:
        return tuple((t.data_ptr(), _count(t), t.dtype, t.device) for t in (self.weight, *self._small()))

    def _evidence(self) -> list[Tensor]:
        return [_bits(tensor) for tensor in (_probe(self.weight), *self._small())]

    def _small(self) -> list[Tensor]:
        """What the mapped weight depends on beside W."""
        return [*([] if self.gain is None else [self.gain]), *self.map.buffers()]

    def _factor(self, positions: int) -> Tensor | None:
        """F with mapped weight = F W, where computing with W and then with F costs less than forming F W."""
        shared = self._sharing()
        if shared is None:
            return self._new_factor(positions)
        if shared.mapped is None:
            with _kept_from_checkpointing():
                F = self._new_factor(positions * shared.micro_batches)
            if F is not None:
                shared.hold(F, self._weight_version(), applied=True)
        return shared.use(self._weight_version()) if shared.applied else None

    def _new_factor(self, positions: int) -> Tensor | None:
        """F, where it pays for so many output positions, be they of one forward or of several that share it.

        Forming costs three products of m x m by m x n (forward, and backward to W and to F), applying F three of
        m x m by m x positions, and more passes over the activations.
        """
        if not self.training or positions * APPLYING_OVER_FORMING >= self.form.columns:
            return None
        return self.map.factor(self._matrix(), self.gain)

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, metadata: Any, strict: bool,
        missing: list[str], unexpected: list[str], errors: list[str],
    ) -> None:  # fmt: skip
        super()._load_from_state_dict(state_dict, prefix, metadata, strict, missing, unexpected, errors)
        kept = [f"{prefix}map.{name}" for name, _ in self.map.named_buffers()]
        gain, found = f"{prefix}gain", any(key in state_dict for key in kept)
        if f"{prefix}weight" in state_dict and gain not in state_dict and not found:
            if gain in missing:
                missing.remove(gain)
            self.start()  # a plain model's checkpoint: state and gain begin with its weight
        elif not found:
            missing.extend(kept)  # a normalised model's with a part left out, which the map cannot know

    def __getstate__(self) -> dict[str, Any]:
        """Copies and files go without what was computed from the weight."""
        return {**self.__dict__, "_stored": None, "_shared": None}


class NormalisedLinear(NormalisedLayer, nn.Linear):
    """`nn.Linear` that computes with the mapped weight."""

    def forward(self, input: Tensor) -> Tensor:
        """As `nn.Linear`."""
        F = self._factor(input.numel() // max(1, self.in_features))
        if F is None:
            return functional.linear(input, self._weight(), self.bias)
        return functional.linear(functional.linear(input, self.weight), F, self.bias)


class _NormalisedConvolution(NormalisedLayer):
    """The forward of convolutions, in one, two or three dimensions."""

    def forward(self, input: Tensor) -> Tensor:
        """As torch's convolution."""
        F = self._factor(_positions(self, input))
        if F is None:
            return self._conv_forward(input, self._weight(), self.bias)  # type: ignore[operator, no-any-return]
        output: Tensor = self._conv_forward(input, self.weight, None)  # type: ignore[operator]
        return _apply_pointwise(output, F, self)


class _NormalisedTransposed(NormalisedLayer):
    """The forward of transposed convolutions."""

    bias: Tensor | None

    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        """As torch's transposed convolution."""
        if self.padding_mode != "zeros":
            raise ValueError(f"padding_mode={self.padding_mode!r}: transposed convolutions take 'zeros' only")
        F = self._factor(_positions(self, input))
        if F is None:
            return self._transpose(input, self._weight(), self.bias, output_size)
        return _apply_pointwise(self._transpose(input, self.weight, None, output_size), F, self)

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


NORMALISED: dict[type[nn.Module], type[NormalisedLayer]] = {
    nn.Linear: NormalisedLinear,
    **dict(zip(CONVOLUTIONS, (NormalisedConv1d, NormalisedConv2d, NormalisedConv3d), strict=True)),
    **dict(
        zip(
            TRANSPOSED,
            (NormalisedConvTranspose1d, NormalisedConvTranspose2d, NormalisedConvTranspose3d),
            strict=True,
        )
    ),
}
PLAIN: dict[type[NormalisedLayer], type[nn.Module]] = {ours: theirs for theirs, ours in NORMALISED.items()}


def is_sharded(weight: Tensor) -> bool:
    """Whether it is a DTensor, of which a rank holds a part, as under FSDP2 outside of forward and backward."""
    return hasattr(weight, "full_tensor")


def _kept_from_checkpointing() -> AbstractContextManager[object]:
    """Hides a shared map from activation checkpointing, which would look for it when it recomputes a forward."""
    return torch.autograd.graph.saved_tensors_hooks(_itself, _itself)


def _itself(tensor: Tensor) -> Tensor:
    return tensor


def _positions(layer: Any, input: Tensor) -> int:
    """About how many output positions a convolution has, over the whole batch."""
    dimensions = len(layer.kernel_size)
    count: int = input.shape[0] if input.dim() == dimensions + 2 else 1
    for size, step in zip(input.shape[-dimensions:], layer.stride, strict=True):
        count *= size * step if isinstance(layer, TRANSPOSED) else -(-size // step)
    return count


def _apply_pointwise(output: Tensor, F: Tensor, layer: Any) -> Tensor:
    """F at every position of a convolution's output, then the bias."""
    dimensions = len(layer.kernel_size)
    convolve: Any = _POINTWISE[dimensions]
    weight = F.reshape(-1, F.shape[-1], *(1,) * dimensions)
    return convolve(output, weight, layer.bias, groups=layer.groups)  # type: ignore[no-any-return]


def _count(tensor: Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version


def _probe(weight: Tensor) -> Tensor:
    """The rows of W, as W lies in memory, times fixed factors without pattern.

    It moves with every change that is more than the rounding of its sum; a smaller one is below rounding in h(W) too.
    """
    dimensions = sorted(range(weight.dim()), key=weight.stride, reverse=True)
    W = weight.detach().permute(dimensions).flatten(1)
    factors = torch.arange(1, W.shape[1] + 1, dtype=torch.float32, device=W.device).cos_()
    exact = working_dtype(W)
    return W.to(exact) @ factors.to(exact)


def _bits(tensor: Tensor) -> Tensor:
    """The same memory as whole numbers, so that equal means equal, for NaN too."""
    return tensor.detach().view(
        (torch.int8, torch.int16, torch.int32, torch.int64)[tensor.element_size().bit_length() - 1]
    )


def _same(before: list[Tensor], now: list[Tensor]) -> bool:
    return len(before) == len(now) and all(map(torch.equal, before, now))

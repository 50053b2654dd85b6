"""Which plain class becomes which normalised class, and back."""

from __future__ import annotations

from torch import nn
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear

from aon.model.attention import NormalisedMultiheadAttention, NormalisedOutputProjection
from aon.model.layers import (
    NormalisedConv1d,
    NormalisedConv2d,
    NormalisedConv3d,
    NormalisedConvTranspose1d,
    NormalisedConvTranspose2d,
    NormalisedConvTranspose3d,
    NormalisedLayer,
    NormalisedLinear,
)

NORMALISED: dict[type[nn.Module], type[NormalisedLayer]] = {
    nn.Linear: NormalisedLinear,
    nn.Conv1d: NormalisedConv1d,
    nn.Conv2d: NormalisedConv2d,
    nn.Conv3d: NormalisedConv3d,
    nn.ConvTranspose1d: NormalisedConvTranspose1d,
    nn.ConvTranspose2d: NormalisedConvTranspose2d,
    nn.ConvTranspose3d: NormalisedConvTranspose3d,
    nn.MultiheadAttention: NormalisedMultiheadAttention,
    NonDynamicallyQuantizableLinear: NormalisedOutputProjection,
}
PLAIN: dict[type[NormalisedLayer], type[nn.Module]] = {ours: theirs for theirs, ours in NORMALISED.items()}

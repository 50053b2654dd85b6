"""torch's MultiheadAttention with a weight map: q, k and v are one matrix each, the output projection is the fourth."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear

from aon.model.layers import NormalisedLayer, NormalisedLinear, refuse_tracing


class NormalisedOutputProjection(NormalisedLinear, NonDynamicallyQuantizableLinear):
    """The output projection of an attention, whose weight the attention reads itself."""


class NormalisedMultiheadAttention(NormalisedLayer, nn.MultiheadAttention):
    """`nn.MultiheadAttention` that computes with mapped projections.

    `in_proj_weight` holds three matrices, for q, k and v; `gain` has a number for each of their rows. `out_proj` is a
    normalised layer of its own, or plain if it was excluded.
    """

    weight_name = "in_proj_weight"

    @property
    def weight(self) -> Tensor:  # type: ignore[override]
        """The raw projections of q, k and v, one above the other."""
        return self.in_proj_weight

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """As `nn.MultiheadAttention`; its fused path is taken for nested tensors only, which know no other."""
        refuse_tracing(query)
        if query.is_nested or key.is_nested or value.is_nested:
            if query is not key or key is not value or self.training:
                raise ValueError("nested tensors: expected self-attention in evaluation; pad them for anything else")
            return self._fused(query, need_weights, average_attn_weights)
        swap = self.batch_first and query.dim() == 3
        if swap:
            query, key, value = _swapped(query, key, value)
        output, weights = functional.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self._mapped(None).tensor,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self._output_weight(),
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return (output.transpose(1, 0) if swap else output), weights

    def _fused(self, x: Tensor, need_weights: bool, average: bool) -> tuple[Tensor, Tensor | None]:
        """Self-attention of a nested tensor, which `nn.TransformerEncoder` makes of padded input in evaluation."""
        fused: Any = torch._native_multi_head_attention
        weights = self._mapped(None).tensor, self.in_proj_bias, self._output_weight(), self.out_proj.bias
        return fused(x, x, x, self.embed_dim, self.num_heads, *weights, None, need_weights, average, None)  # type: ignore[no-any-return]

    def _output_weight(self) -> Tensor:
        projection: Any = self.out_proj
        return projection._mapped(None).tensor if isinstance(projection, NormalisedLayer) else projection.weight


def _swapped(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Sequence first; what is one tensor stays one, by which torch knows self-attention and saves work."""
    swapped = {id(x): x.transpose(1, 0) for x in (query, key, value)}
    return swapped[id(query)], swapped[id(key)], swapped[id(value)]

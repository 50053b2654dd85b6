"""torch's transformer encoder reads the weights of its linear layers directly in evaluation: keep it from doing so.

`nn.TransformerEncoderLayer` has a fused path without gradients that never calls `linear1` and `linear2`, and
`nn.TransformerEncoder` feeds it nested tensors. Both look at a flag first; what the flag was is kept beside it.
"""

from __future__ import annotations

from torch import nn

_FLAGS: dict[type[nn.Module], str] = {
    nn.TransformerEncoderLayer: "activation_relu_or_gelu",
    nn.TransformerEncoder: "use_nested_tensor",
}
_KEPT = "_aon_fast_path"


def disable_fast_paths(model: nn.Module, layers: set[nn.Module]) -> None:
    """Make transformer encoders that contain one of the layers call their modules, as they do in training."""
    for module in model.modules():
        for kind, flag in _FLAGS.items():
            if isinstance(module, kind) and not hasattr(module, _KEPT) and not layers.isdisjoint(module.modules()):
                setattr(module, _KEPT, getattr(module, flag))
                setattr(module, flag, 0)


def restore_fast_paths(model: nn.Module) -> None:
    """Give the encoders their fused path back."""
    for module in model.modules():
        for kind, flag in _FLAGS.items():
            if isinstance(module, kind) and hasattr(module, _KEPT):
                setattr(module, flag, getattr(module, _KEPT))
                delattr(module, _KEPT)

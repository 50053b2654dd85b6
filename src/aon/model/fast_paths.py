"""Keep torch's transformer encoder from its fused path, which would compute with W instead of h(W).

`nn.TransformerEncoderLayer` has a fused path without gradients that never calls `linear1` and `linear2`, and would
compute with W instead of h(W). It does not take that path where any module inside it has a forward hook, which it would
have to call. So every map of a normalised layer gets a hook that does nothing: whoever the parent is, wherever the
layer is moved to, it is called, and when `fold` removes the map the fused path is back.
"""

from __future__ import annotations

from typing import Any

from torch import nn


def keep_off_fast_paths(module: nn.Module) -> None:
    """Make transformer encoders around `module` call their modules in evaluation, as they do in training."""
    module.register_forward_pre_hook(_be_called)


def _be_called(module: nn.Module, args: Any) -> None:
    """No-op. Module-level so that it can be pickled."""

"""Diagnose a run whose loss is no longer finite: which layers are not finite, and which were large before."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

SHOWN = 3


def is_sound(model: nn.Module) -> bool:
    """Whether every parameter is finite; waits for the device once.

    Args:
        model: The network.
    """
    parts = [parameter.detach().isfinite().all() for parameter in model.parameters()]
    return bool(torch.stack(parts).all()) if parts else True


def diagnose(model: nn.Module, good: Mapping[str, Tensor] | None = None) -> str:
    """A diagnosis from the weights of a run whose loss is not finite.

    Args:
        model: The network as it is now.
        good: Its state in the last good checkpoint, if there is one; its singular values say more than those of now.

    Example:
        >>> layer = nn.Linear(2, 2)
        >>> _ = layer.weight.data.copy_(torch.tensor([[3.0, 0.0], [0.0, torch.nan]]))
        >>> diagnose(layer, {"weight": torch.diag(torch.tensor([3.0, 1.0]))})
        'not finite now: weight; largest singular values in the last good checkpoint: weight 3'
    """
    broken = [name for name, parameter in model.named_parameters() if not bool(parameter.isfinite().all())]
    more = f" and {len(broken) - SHOWN} more" if len(broken) > SHOWN else ""
    now = f"not finite now: {', '.join(broken[:SHOWN])}{more}" if broken else "all weights are still finite"
    largest = _largest(good if good is not None else dict(model.named_parameters()))
    values = ", ".join(f"{name} {value:.3g}" for name, value in largest) or "none"
    where = "in the last good checkpoint" if good is not None else "of the weights that are still finite"
    return f"{now}; largest singular values {where}: {values}"


def _largest(state: Mapping[str, Tensor]) -> list[tuple[str, float]]:
    matrices = {name: t.detach() for name, t in state.items() if t.dim() >= 2 and t.is_floating_point() and t.numel()}
    finite = {name: t for name, t in matrices.items() if bool(t.isfinite().all())}
    found = [(name, torch.linalg.matrix_norm(t.double().flatten(1), 2).item()) for name, t in finite.items()]
    return sorted(found, key=lambda pair: -pair[1])[:SHOWN]

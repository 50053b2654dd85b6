"""Initial weights: torch's own, or drawn again by Xavier's or He's rule."""

from collections.abc import Callable

from torch import Tensor, nn

from aon.lab.models.heads import classifier_names
from aon.model.matrices import is_supported

_RULES: dict[str, Callable[[Tensor], Tensor]] = {
    "xavier": nn.init.xavier_uniform_,
    "he": lambda weight: nn.init.kaiming_normal_(weight, nonlinearity="relu"),
}


def redraw(model: nn.Module, initialisation: str) -> nn.Module:
    """Draw the weights of linear layers and convolutions again and set their biases to zero; "torch" leaves all alone.

    The classifier keeps its small start, and torch's MultiheadAttention its own, which is Xavier's.

    Args:
        model: A fresh network, changed in place.
        initialisation: "torch", "xavier" (uniform; Glorot and Bengio 2010) or "he" (normal; He et al. 2015).

    Example:
        >>> layers = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 2))
        >>> std = float(redraw(layers, "he")[0].weight.detach().std())
        >>> abs(std / (2 / 512) ** 0.5 - 1) < 0.02
        True
    """
    if initialisation == "torch":
        return model
    kept = classifier_names(model)
    for name, layer in model.named_modules():
        if is_supported(layer) and name not in kept:
            _RULES[initialisation](layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
    return model

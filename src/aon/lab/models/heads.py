"""Find the classifier of a network, which maps and penalties leave plain."""

from torch import nn

from aon.lab.models.ingredients import ImageClassifier


def classifier_names(model: nn.Module) -> list[str]:
    """Names of the final linear layer: `classifier` in the networks here, else the last `nn.Linear` there is.

    A network without a linear layer (one that ends in a 1x1 convolution, say) has none: the list is empty.

    Example:
        >>> classifier_names(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2)))
        ['2']
    """
    if isinstance(model, ImageClassifier):
        return ["classifier"]
    linear = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    return linear[-1:]

"""Singular value bounding: clip the spectrum of each weight to a narrow band, between epochs.

    for epoch in range(epochs):
        train(model)
        validate(model)
        if epoch + 1 < epochs:
            aon.bounding.bound_singular_values(model)

It writes to the weights in place; gradients and the optimiser's momentum are not touched. Its authors bound once an
epoch, after validation (the running averages of batch normalisation belong to the weights before), and not after the
last epoch. They pair it, optionally, with bounded batch normalisation, which clips the scales of batch normalisation
layers: `bound_scales`.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from aon.kernels.gram import working_dtype
from aon.model.matrices import from_matrix, layout, require_real, weight_matrix
from aon.model.selection import Selection, select


@torch.no_grad()
def bound_singular_values(
    model: nn.Module, *, eps: float = 0.5, include: Selection = None, exclude: Selection = None
) -> None:
    """Clip the singular values of every chosen weight matrix to [1 / (1 + eps), 1 + eps], in place.

    W = U S V^T becomes U clip(S) V^T: the nearest matrix with its spectrum in the band. Where W lacks rank, the
    missing directions are arbitrary orthonormal ones. A matrix that is not finite is left as it is, for the
    training loop to find. On a normalised layer it is the raw weight that is bounded.

    Args:
        model: A model or a single layer.
        eps: Width of the band; its authors use 0.5 with batch normalisation and 0.05 without.
        include: Layers to take; None means all. As in `aon.normalise`.
        exclude: Layers to leave out.

    Raises:
        ValueError: eps is not above 0, no layer is chosen, or one has no real weight.

    Reference: Jia et al., Orthogonal Deep Neural Networks, 2019, algorithm 1 (and Jia et al., CVPR 2017).

    Example:
        >>> layer = nn.Linear(2, 2)
        >>> _ = layer.weight.data.copy_(torch.diag(torch.tensor([9.0, 0.1])))
        >>> bound_singular_values(layer, eps=1.0)
        >>> torch.linalg.svdvals(layer.weight.detach())
        tensor([2.0000, 0.5000])
    """
    _check_eps(eps)
    chosen = select(model, include, exclude)
    if not chosen:
        raise ValueError("nothing to bound: no Linear or convolution of the model is chosen")
    for name, layer in chosen:
        require_real(name, layer)
        W = weight_matrix(layer)
        bounded = _bounded(W.to(working_dtype(W)), eps).to(W.dtype)
        layer.weight.copy_(from_matrix(bounded, layout(layer), layer.weight))


@torch.no_grad()
def bound_scales(model: nn.Module, *, eps: float = 0.2) -> None:
    """Bounded batch normalisation: clip the scales of batch normalisation layers, in place.

    With a_i = weight_i / sqrt(running_var_i + eps_layer), what the layer multiplies channel i by, and their mean a,
    every a_i is clipped to [a / (1 + eps), a (1 + eps)], so that the layer stretches all channels much alike. Layers
    without scale or running statistics are passed over; so are those that do not normalise by batch variance.

    Args:
        model: A model or a single layer.
        eps: Width of the band; 0.2 is the value of the authors' OrthDNNs code, their earlier code has a factor of 2.

    Raises:
        ValueError: eps is not above 0.

    Reference: Jia et al., 2019, section on bounded batch normalisation.

    Example:
        >>> layer = nn.BatchNorm1d(3)
        >>> _ = layer.weight.data.copy_(torch.tensor([1.0, 1.0, 4.0]))
        >>> bound_scales(layer, eps=0.25)
        >>> layer.weight.data
        tensor([1.6000, 1.6000, 2.5000])
    """
    _check_eps(eps)
    for layer in model.modules():
        if isinstance(layer, _BatchNorm) and layer.affine and layer.running_var is not None:
            std = (layer.running_var + layer.eps).sqrt()
            stretch = layer.weight / std
            middle = stretch.mean()
            # The mean may be negative; then the bounds change places.
            ends = torch.stack([middle / (1 + eps), middle * (1 + eps)])
            layer.weight.copy_(stretch.clamp(ends.min(), ends.max()) * std)


def _bounded(W: Tensor, eps: float) -> Tensor:
    finite = W.isfinite().all(-1, keepdim=True).all(-2, keepdim=True)  # W is no square matrix: zeros stand for it
    U, s, Vh = torch.linalg.svd(torch.where(finite, W, 0), full_matrices=False)
    clipped = (U * s.clamp(1 / (1 + eps), 1 + eps).unsqueeze(-2)) @ Vh
    return torch.where(finite, clipped, W)


def _check_eps(eps: float) -> None:
    if not eps > 0:
        raise ValueError(f"eps={eps!r}: expected a number above 0")

"""Singular values of W and h(W), layer by layer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from aon.functional import orthonormality_error
from aon.kernels.gram import finite_or_identity, gram
from aon.kernels.radius import share_outside
from aon.kernels.settings import Settings
from aon.maps import AON
from aon.model.convert import normalised_weight
from aon.model.layers import NormalisedLayer
from aon.model.matrices import Mappable, is_mappable, is_supported, layout, to_matrix, weight_name
from aon.model.table import table


@dataclass(frozen=True)
class Spectrum:
    """One layer: singular values of W and of h(W), and how well the normalisation does.

    Attributes:
        name: Name of the layer in the model.
        shape: (m, n), or (groups, m, n).
        weight_min: Smallest singular value of W.
        weight_median: Median of the singular values of W.
        weight_max: Largest singular value of W.
        normalised_min: Smallest singular value of h(W), without the gain.
        normalised_median: Median of the singular values of h(W).
        normalised_max: Largest singular value of h(W).
        outside: Share of the k = min(m, n) eigenvalues that the expansion sees outside of the interval where it holds:
            (0, 2) for W W^T with the paper's settings (equation 11), (0, 2 r) about another centre r. Zeros that a
            tall W has by its shape do not count. A matrix of full rank has none with `prescale`, centre="top" or
            expansion="minimax". Maps without an expansion and plain layers are judged by the paper's settings.
        error: Orthonormality error of h(W), see `aon.functional.orthonormality_error`; the worst group.
        agreement: |h(W)^T u| over the true spectral norm: 1 where u is as good as the leading vector, which
            need not be unique in a flat spectrum. The worst group; None for maps that keep no u.
    """

    name: str
    shape: tuple[int, ...]
    weight_min: float
    weight_median: float
    weight_max: float
    normalised_min: float
    normalised_median: float
    normalised_max: float
    outside: float
    error: float
    agreement: float | None


@dataclass(frozen=True)
class Spectra:
    """Rows of `Spectrum`; prints as a table."""

    rows: tuple[Spectrum, ...]

    def __iter__(self) -> Iterator[Spectrum]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def to_list(self) -> list[dict[str, Any]]:
        """Plain data: one dict for each layer."""
        return [asdict(row) for row in self.rows]

    def __str__(self) -> str:
        header = (
            "layer",
            "shape",
            "W min",
            "median",
            "max",
            "h(W) min",
            "median",
            "max",
            "outside",
            "error",
            "u",
        )
        return table(header, [_cells(row) for row in self.rows])


@torch.no_grad()
def spectra(model: nn.Module, *, plain: bool = False) -> Spectra:
    """The spectrum of each normalised layer of a model; reading changes nothing.

    Args:
        model: A model or a layer.
        plain: Whether to list Linear and convolutional layers that are not normalised too, with h(W) = W.

    Example:
        >>> from aon import normalise
        >>> layer = nn.Linear(2, 2)
        >>> _ = layer.weight.data.copy_(torch.tensor([[1.0, 0.0], [0.0, 0.5]]))
        >>> print(spectra(normalise(layer)))
        layer        shape  W min  median    max  h(W) min  median    max  outside  error      u
        (the model)    2x2  0.500   0.750  1.000     0.793   0.896  1.000       0%  0.222  1.000
    """
    rows = [
        _spectrum(name, module)
        for name, module in model.named_modules()
        if (isinstance(module, NormalisedLayer) or (plain and is_supported(module)))
        and is_mappable(module)
        and _has_matrix(module)
    ]
    return Spectra(tuple(rows))


def singular_values(W: Tensor) -> Tensor:
    """Singular values in float64, largest first, from the smaller Gram matrix; NaN where W is not finite."""
    G, finite = finite_or_identity(gram(W.double()))
    eigenvalues: Tensor = torch.linalg.eigvalsh(G).flip(-1).clamp_min(0)
    return torch.where(finite[..., 0], eigenvalues, torch.nan).sqrt()


def _has_matrix(layer: Mappable) -> bool:
    weight = getattr(layer, weight_name(layer))
    return not isinstance(weight, nn.UninitializedParameter) and weight.is_floating_point() and weight.numel() > 0


def _spectrum(name: str, layer: Mappable) -> Spectrum:
    W = to_matrix(getattr(layer, weight_name(layer)), layout(layer))
    normalised = isinstance(layer, NormalisedLayer)
    H = to_matrix(normalised_weight(layer), layout(layer)) if normalised else W
    s, t = singular_values(W), singular_values(H)
    u = layer.map.kept_vector() if isinstance(layer, NormalisedLayer) else None
    agreement = None if u is None else _agreement(H.double(), u.double(), t)
    return Spectrum(
        name, tuple(W.shape), *_summary(s), *_summary(t), share_outside(s, _settings(layer)),
        _worst(orthonormality_error(H.double()), max), agreement,
    )  # fmt: skip


def _summary(s: Tensor) -> tuple[float, float, float]:
    values = s.flatten()
    return float(values.min()), float(torch.quantile(values, 0.5)), float(values.max())


def _settings(layer: Mappable) -> Settings:
    """The settings of a layer's map, or the paper's."""
    weight_map = layer.map if isinstance(layer, NormalisedLayer) else None
    return weight_map.settings if isinstance(weight_map, AON) else Settings()


def _agreement(H: Tensor, u: Tensor, s: Tensor) -> float:
    reached = torch.linalg.vector_norm((H.mT @ u.unsqueeze(-1)).squeeze(-1), dim=-1)
    return _worst(torch.where(s[..., 0] > 0, reached / s[..., 0], 1), min)


def _worst(values: Tensor, choose: Any) -> float:
    return float(choose(values.flatten().tolist()))


def _cells(row: Spectrum) -> tuple[str, ...]:
    numbers = (
        row.weight_min,
        row.weight_median,
        row.weight_max,
        row.normalised_min,
        row.normalised_median,
        row.normalised_max,
    )
    return (
        row.name or "(the model)",
        "x".join(map(str, row.shape)),
        *(f"{x:.3f}" for x in numbers),
        f"{row.outside:.0%}",
        f"{row.error:.3f}",
        "-" if row.agreement is None else f"{row.agreement:.3f}",
    )

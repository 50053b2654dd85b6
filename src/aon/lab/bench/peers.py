"""Weight maps to compare: ours, torch's, and those of other packages (extra `[bench]`).

Each works on the same matrices (m, n): a convolution's weight as the paper reads it. torch's and geotorch's orthogonal
maps would take a convolution kernel by kernel, so every peer is given the matrix, in the place of a Linear's weight.
No map has a gain, except weight normalisation, whose g is part of it.
"""

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize
from torch.nn.utils import parametrizations, parametrize

from aon.kernels.polynomials import expansion_coefficients
from aon.kernels.reference import normalise_reference
from aon.maps import AON, Polar, WeightMap

Read = Callable[[], Tensor]


@dataclass(frozen=True)
class Peer:
    """A weight map that can be measured.

    Attributes:
        name: In tables and on the command line; ours begin with `aon`.
        install: W -> what reads the mapped weight once, and the parameters it is computed from.
        orthogonalises: Whether it aims at orthonormal rows, as AON does.
        package: What has to be installed, if it is not torch or ours.
        slow: Whether one forward and backward over a VGG's weights takes longer than seconds.
    """

    name: str
    install: Callable[[Tensor], tuple[Read, Sequence[Tensor]]]
    orthogonalises: bool = False
    package: str | None = None
    slow: bool = False

    @property
    def is_installed(self) -> bool:
        """Whether its package is there."""
        try:
            return self.package is None or importlib.util.find_spec(self.package) is not None
        except ModuleNotFoundError:  # the package that it is a part of is missing
            return False

    @property
    def may_fail(self) -> bool:
        """Whether its failure (another package's, or for want of memory) should be noted and not end a benchmark."""
        return self.package is not None or self.slow


def plain_autograd(W: Tensor, u: Tensor, order: int = 2) -> tuple[Tensor, Tensor]:
    """h(W) and the moved u by plain autograd: the most direct form, without superfluous products.

    `aon.kernels.reference` multiplies by the identity for clarity; this is the fairer comparison.
    """
    G = W @ W.mT
    X = torch.eye(len(G), dtype=G.dtype, device=G.device) - G
    first, *others = expansion_coefficients(order)
    P, power = torch.eye(len(G), dtype=G.dtype, device=G.device) * first, X
    for k, coefficient in enumerate(others):
        power = power if k == 0 else power @ X
        P = P + coefficient * power
    B = P @ W
    with torch.no_grad():
        v = normalize(B.mT @ u, dim=0)
        moved = normalize(B @ v, dim=0)
    return B / (moved @ (B @ v)), moved


def _map(make: Callable[[], WeightMap], W: Tensor) -> tuple[Read, Sequence[Tensor]]:
    weight, h = nn.Parameter(W.clone()), make().to(W.device)
    h.attach(weight.detach())
    return lambda: h(weight), [weight]


def _stateful(function: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]], W: Tensor) -> tuple[Read, Sequence[Tensor]]:
    """A function (W, u) -> (h(W), u), with u kept from one call to the next."""
    weight = nn.Parameter(W.clone())
    state = [normalize(torch.ones(len(W), device=W.device), dim=0)]

    def read() -> Tensor:
        H, state[0] = function(weight, state[0])
        return H

    return read, [weight]


def _svd(W: Tensor) -> tuple[Read, Sequence[Tensor]]:
    weight = nn.Parameter(W.clone())

    def read() -> Tensor:
        U, _, Vh = torch.linalg.svd(weight, full_matrices=False)
        polar: Tensor = U @ Vh
        return polar

    return read, [weight]


def _linear(W: Tensor) -> nn.Linear:
    """A Linear layer that holds the matrix as its weight."""
    layer = nn.utils.skip_init(nn.Linear, W.shape[1], W.shape[0], bias=False, device=W.device)
    with torch.no_grad():
        layer.weight.copy_(W)
    return cast(nn.Linear, layer)


def _parametrised(install: Callable[[nn.Linear], object], W: Tensor) -> tuple[Read, Sequence[Tensor]]:
    """Whatever `install` does to a Linear's weight by torch's parametrisation."""
    layer = _linear(W)
    install(layer)
    return lambda: layer.weight, [p for p in layer.parameters() if p.requires_grad]


def _hooked(W: Tensor) -> tuple[Read, Sequence[Tensor]]:
    """torch's older spectral_norm, a hook before the forward: the hook is called in the place of a forward."""
    from torch.nn.utils.spectral_norm import spectral_norm

    layer = spectral_norm(_linear(W))
    (hook,) = layer._forward_pre_hooks.values()

    def read() -> Tensor:
        hook(layer, ())
        return layer.weight

    return read, list(layer.parameters())


def _geotorch(trivialisation: str, layer: nn.Linear) -> None:
    geotorch: Any = importlib.import_module("geotorch")
    geotorch.orthogonal(layer, "weight", triv=trivialisation)


def _torchlip(layer: nn.Linear) -> None:
    """As its SpectralLinear does: spectral normalisation, then Bjorck's iteration."""
    torchlip: Any = importlib.import_module("deel.torchlip.utils")
    parametrizations.spectral_norm(layer)
    torchlip.bjorck_norm(layer)


def _orthogonium(parameters: str, layer: nn.Linear) -> None:
    """As its OrthoLinear does: its normaliser, then its orthogonaliser."""
    chosen: Any = getattr(importlib.import_module("orthogonium.reparametrizers"), parameters)
    shape = tuple(layer.weight.shape)
    parametrize.register_parametrization(layer, "weight", chosen.spectral_normalizer(weight_shape=shape))
    parametrize.register_parametrization(layer, "weight", chosen.orthogonalizer(weight_shape=shape))


def _orthogonal(kind: str, layer: nn.Linear) -> object:
    return parametrizations.orthogonal(layer, orthogonal_map=kind)


def _peer(name: str, install: Callable[[nn.Linear], object], **facts: Any) -> Peer:
    return Peer(name, partial(_parametrised, install), **facts)


def ours(order: int) -> str:
    """Name of AON of an order among the peers, as the grammar of methods spells it.

    Example:
        >>> ours(2), ours(4)
        ('aon', 'aon:order=4')
    """
    return "aon" if order == 2 else f"aon:order={order}"


def aon_peer(order: int, **options: Any) -> Peer:
    """AON of an order, with other options of the map.

    Example:
        >>> aon_peer(2, expansion="minimax").name
        'aon:expansion=minimax'
    """
    words = ",".join(f"{option}={value}" for option, value in options.items())
    name = f"{ours(order)}{',' if order != 2 else ':'}{words}" if words else ours(order)
    return Peer(name, partial(_map, partial(AON, order, **options)), orthogonalises=order > 0)


ORDERS = (0, 2, 4, 8)
PLAIN = "aon-plain-autograd"
REFERENCE = "aon-reference"
PEERS: tuple[Peer, ...] = (
    *(aon_peer(order) for order in ORDERS),
    Peer(PLAIN, partial(_stateful, plain_autograd), True),
    Peer(REFERENCE, partial(_stateful, normalise_reference), True),
    _peer("torch-spectral-norm", parametrizations.spectral_norm),
    Peer("torch-spectral-norm-hook", _hooked),
    _peer("torch-weight-norm", parametrizations.weight_norm),
    Peer("polar-svd", _svd, True),
    Peer("aon-polar", partial(_map, Polar), True),
    _peer("torchlip-bjorck", _torchlip, orthogonalises=True, package="deel.torchlip"),
    _peer(
        "orthogonium-bjorck", partial(_orthogonium, "DEFAULT_ORTHO_PARAMS"), orthogonalises=True, package="orthogonium"
    ),
    _peer(
        "orthogonium-cholesky",
        partial(_orthogonium, "CHOLESKY_ORTHO_PARAMS"),
        orthogonalises=True,
        package="orthogonium",
    ),
    _peer("orthogonium-qr", partial(_orthogonium, "QR_ORTHO_PARAMS"), orthogonalises=True, package="orthogonium"),
    _peer("torch-orthogonal-cayley", partial(_orthogonal, "cayley"), orthogonalises=True, slow=True),
    _peer("torch-orthogonal-exp", partial(_orthogonal, "matrix_exp"), orthogonalises=True, slow=True),
    _peer("torch-orthogonal-householder", partial(_orthogonal, "householder"), orthogonalises=True, slow=True),
    _peer("geotorch-cayley", partial(_geotorch, "cayley"), orthogonalises=True, package="geotorch", slow=True),
    _peer("geotorch-exp", partial(_geotorch, "expm"), orthogonalises=True, package="geotorch", slow=True),
)

"""Weight maps: modules that turn a weight matrix into the one that a layer computes with.

A map takes W of shape (m, n) or (groups, m, n) and returns a matrix of that shape, its rows times `gain` if given.
`normalise` copies the map once for each layer, as `layer.map`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from aon.kernels.checks import check_count
from aon.kernels.fused import Normalise
from aon.kernels.fused import factor as factor_of
from aon.kernels.gram import gram, in_full_precision, is_tall, working_dtype
from aon.kernels.on_cpu import NormaliseOnCPU, find, suits
from aon.kernels.orthogonal import PolarFactor, newton_orthonormal
from aon.kernels.power import State, ascend, nan_for_infinity, unit
from aon.kernels.settings import Settings, check_settings
from aon.kernels.spectral import Spectral

WARM_UP_STEPS = 30  # power steps that a new u takes on its weight before training begins
NORM_EPS = 1e-12  # of a row, for weight normalisation; torch's own


class WeightMap(nn.Module):
    """Base class of weight maps. Subclasses define `forward`; state is optional."""

    def attach(self, W: Tensor) -> None:
        """Initialise the map's state for a weight matrix W."""

    def forward(self, W: Tensor, gain: Tensor | None = None) -> Tensor:
        """The mapped matrix, rows times gain. In training mode the state may change, once for each new W."""
        raise NotImplementedError

    def read(self, W: Tensor, gain: Tensor | None = None) -> Tensor:
        """The mapped matrix without changing any state, in training mode too."""
        return self.forward(W, gain)

    def factor(self, W: Tensor, gain: Tensor | None = None) -> Tensor | None:  # noqa: ARG002
        """F (m, m) with forward(W, gain) = F W, if the map has one that is cheap to compute; otherwise None."""
        return None

    def kept_vector(self) -> Tensor | None:
        """The estimate of the leading left singular vector, for maps that keep one."""
        return None

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, metadata: Any, strict: bool,
        missing: list[str], unexpected: list[str], errors: list[str],
    ) -> None:  # fmt: skip
        # A plain model's checkpoint has no state for the map; the layer has initialised it (layers.py).
        plain = not any(key.startswith(prefix) for key in state_dict)
        super()._load_from_state_dict(
            state_dict, prefix, metadata, strict, [] if plain else missing, unexpected, errors
        )


class AON(WeightMap):
    """Approximated orthonormal normalisation, h(W) = P_q(W) W / sigma (the paper's Algorithm 1).

    `u` estimates the leading left singular vector of P_q(W) W (of W with expansion="minimax"); it moves by
    `n_power_iterations` steps for each update of W in training mode, and rests in evaluation
    (Note [u moves once for each update] in power.py).

    Args: as in `aon.normalise`.

    Example:
        >>> h = AON(order=2)
        >>> W = torch.diag(torch.tensor([1.0, 0.8, 0.6]))
        >>> h.attach(W)
        >>> h(W).diagonal()
        tensor([1.0000, 0.9829, 0.8842])
    """

    u: Tensor
    previous: Tensor
    seen: Tensor

    def __init__(
        self,
        order: int = 2,
        *,
        scale: str | None = "spectral",
        centre: str = "one",
        prescale: bool = False,
        n_power_iterations: int = 1,
        eps: float = 1e-12,
        expansion: str = "taylor",
        lower: float = 0.2,
    ) -> None:
        super().__init__()
        self.settings = check_settings(order, scale, centre, prescale, n_power_iterations, eps, expansion, lower)

    @property
    def is_spectral(self) -> bool:
        """Whether this is plain spectral normalisation, which needs no Gram matrix."""
        return self.settings.order == 0 and self.settings.scale == "spectral"

    @torch.no_grad()
    def attach(self, W: Tensor) -> None:
        """Start u from a vector of its own random stream, then warm it up."""
        dtype = working_dtype(W)
        stream = torch.Generator("cpu").manual_seed(0)  # not the global one, so that a seeded run does not change
        u = unit(torch.randn(W.shape[:-1], generator=stream, device="cpu")).to(W.device, dtype)
        A = W.detach().to(dtype)
        with in_full_precision(W):
            u = self._warmed_up(A, u)
        size = W.shape[-2] if self.is_spectral else min(W.shape[-2:])
        self.register_buffer("u", u)
        self.register_buffer("previous", u.clone())
        # No sum of a Gram matrix is NaN for a finite W, so that the first forward finds its weight new.
        self.register_buffer("seen", torch.full((*W.shape[:-2], size), torch.nan, dtype=dtype, device=W.device))

    def _warmed_up(self, A: Tensor, u: Tensor) -> Tensor:
        """u after power steps on W, or on P_q(W) W where that has another leading vector."""
        G, settings = gram(A), self.settings._replace(n_power_iterations=WARM_UP_STEPS)
        if settings.keeps_order:
            return ascend(A, G, None, u, WARM_UP_STEPS, settings.eps).u
        return factor_of(A, G, u, settings)[1]

    def forward(self, W: Tensor, gain: Tensor | None = None) -> Tensor:
        """h(W), rows times gain; in training mode u moves if W is new."""
        return self._mapped(W, gain, self.training)

    def read(self, W: Tensor, gain: Tensor | None = None) -> Tensor:
        """h(W), rows times gain; u does not move."""
        return self._mapped(W, gain, False)

    def factor(self, W: Tensor, gain: Tensor | None = None) -> Tensor | None:
        """F = gain P_q / sigma, where W is not tall and the order is not 0; in training mode u moves if W is new."""
        if self.is_spectral or is_tall(W):
            return None
        return self._normalised(W, gain, self.training, formed=False)

    def _mapped(self, W: Tensor, gain: Tensor | None, moving: bool) -> Tensor:
        if self.is_spectral:
            return self._keep(Spectral.apply(W, gain, self.state(), self.settings), moving)
        if gain is None or not is_tall(W):
            return self._normalised(W, gain, moving, formed=True)
        return _scaled(self._mapped(W, None, moving), gain)

    def _normalised(self, W: Tensor, gain: Tensor | None, moving: bool, *, formed: bool) -> Tensor:
        """h(W) or F, by the way with the fewest calls."""
        state, settings = self.state(), self.settings
        found = find(W, state, settings) if suits(W, gain, state, settings) else None
        if found is None:
            return self._keep(Normalise.apply(W, gain, state, settings, formed), moving)
        out = NormaliseOnCPU.apply(W, gain, found, formed)
        return self._keep((out, found.start, found.end.u, found.fingerprint), moving)

    def kept_vector(self) -> Tensor:
        """u."""
        return self.u

    def extra_repr(self) -> str:
        """Options that differ from the defaults, and the order always."""
        default = Settings()._asdict()
        given = {k: v for k, v in self.settings._asdict().items() if k == "order" or v != default[k]}
        return ", ".join(f"{k}={v!r}" for k, v in given.items())

    def state(self) -> State:
        """The buffers of the power iteration."""
        return State(self.u, self.previous, self.seen)

    def _keep(self, result: tuple[Tensor, ...], moving: bool) -> Tensor:
        out, start, moved, fingerprint, *_ = result
        if moving:
            torch._foreach_copy_((self.previous, self.u, self.seen), (start, moved, fingerprint))
        return out

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> AON:
        """`.half()` and `.to(bfloat16)` move the state but leave it in float32: see working_dtype."""
        before = dict(self.named_buffers(recurse=False))
        super()._apply(fn, recurse)
        for name, buffer in before.items():
            after = self.get_buffer(name)
            if torch.promote_types(after.dtype, torch.float32) != after.dtype:
                setattr(self, name, buffer.to(after.device))
        return self


class WeightNorm(WeightMap):
    """Weight normalisation: each row divided by its norm (Salimans and Kingma 2016); `gain` is its g.

    Example:
        >>> WeightNorm()(torch.tensor([[3.0, 4.0]]))
        tensor([[0.6000, 0.8000]])
    """

    def forward(self, W: Tensor, gain: Tensor | None = None) -> Tensor:
        """W_i / |W_i|, zero for a row of zeros, and NaN where the norm overflows."""
        A = W.to(working_dtype(W))
        norm = nan_for_infinity(torch.linalg.vector_norm(A, dim=-1, keepdim=True))
        return _scaled(A / norm.clamp_min(NORM_EPS), gain).to(W.dtype)


class CentredWeightNorm(WeightMap):
    """Centred weight normalisation: rows centred, divided by their norm (Huang et al. 2017).

    Args:
        magnitude: What the rows are multiplied by; the published code has 1.414, for ReLU.
        eps: Added to the norm.

    Example:
        >>> CentredWeightNorm(magnitude=1.0)(torch.tensor([[3.0, 5.0]]))
        tensor([[-0.7071,  0.7071]])
    """

    def __init__(self, magnitude: float = 1.414, eps: float = 1e-5) -> None:
        super().__init__()
        self.magnitude, self.eps = magnitude, eps

    def forward(self, W: Tensor, gain: Tensor | None = None) -> Tensor:
        """magnitude (W_i - mean) / (|W_i - mean| + eps), and NaN where the norm overflows."""
        A = W.to(working_dtype(W))
        A = A - A.mean(-1, keepdim=True)
        # vector_norm has the subgradient 0 at a row of zeros, so that a constant row stays finite.
        norm = nan_for_infinity(torch.linalg.vector_norm(A, dim=-1, keepdim=True))
        A = A * (self.magnitude / (norm + self.eps))
        return _scaled(A, gain).to(W.dtype)


class Polar(WeightMap):
    """Exact orthonormalisation: the polar factor (W W^T)^(-1/2) W, the limit of AON's order going to infinity.

    By eigendecomposition of the smaller Gram matrix, with a gradient that stays finite where singular values
    coincide. Directions in which W is zero stay zero.

    Example:
        >>> Polar()(torch.tensor([[2.0, 0.0, 0.0], [0.0, 0.5, 0.0]]))
        tensor([[1., 0., 0.],
                [0., 1., 0.]])
    """

    def forward(self, W: Tensor, gain: Tensor | None = None) -> Tensor:
        """(W W^T)^(-1/2) W."""
        A = W.to(working_dtype(W))
        with in_full_precision(W):
            return _scaled(PolarFactor.apply(A)[0], gain).to(W.dtype)


class ONI(WeightMap):
    """Orthogonalisation by Newton's iteration (Huang et al. 2020).

    Deviation: the authors' code always centres the rows, adds 1e-5 to the diagonal of Z Z^T, multiplies the weights of
    convolutions by 1.414, and does not divide the Gram matrix of a tall weight by its norm. Here centring is an option,
    off by default; nothing is added; the scale is left to the gain; and both sides are divided.

    Args:
        iterations: Newton steps T; more steps, nearer to orthonormal.
        centre: Whether the rows are centred first.

    Example:
        >>> ONI(iterations=12)(torch.tensor([[2.0, 0.0, 0.0], [0.0, 0.5, 0.0]])).diagonal()
        tensor([1., 1.])
    """

    def __init__(self, iterations: int = 5, centre: bool = False) -> None:
        super().__init__()
        check_count("iterations", iterations, least=0)
        self.iterations, self.centre = iterations, centre

    def forward(self, W: Tensor, gain: Tensor | None = None) -> Tensor:
        """B_T Z / |Z Z^T|_F^(1/2), B_{t+1} = (3 B_t - B_t^3 S) / 2."""
        A = W.to(working_dtype(W))
        with in_full_precision(W):
            Z = A - A.mean(-1, keepdim=True) if self.centre else A
            return _scaled(newton_orthonormal(Z, self.iterations), gain).to(W.dtype)


def _scaled(H: Tensor, gain: Tensor | None) -> Tensor:
    return H if gain is None else H * gain.unflatten(0, H.shape[:-1])[..., None]

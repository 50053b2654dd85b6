"""Weight maps: functions of a weight matrix, each a small Module that keeps what it needs beside it.

A map gets W as (m, n), or (groups, m, n), and gives a matrix of that shape, its rows times `gain` if there is one.
`normalise` copies the map that it is given once for each layer; the copy is that layer's `map`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from aon.fused import Normalise, Spectral, State
from aon.gram import gram, is_tall, working_dtype
from aon.orthogonal import PolarFactor, newton_orthonormal
from aon.power import ascend, unit
from aon.settings import Settings, check_settings

WARM_UP_STEPS = 30  # power steps that a new u takes on its weight before training begins


class WeightMap(nn.Module):
    """What a layer computes with instead of its weight. Subclasses give `forward`; state is optional."""

    def attach(self, W: Tensor) -> None:
        """Make, or make anew, what the map keeps for a weight matrix W."""

    def forward(self, W: Tensor, gain: Tensor | None = None) -> Tensor:
        """The mapped matrix, rows times gain. In training mode state may move, once for each new W."""
        raise NotImplementedError

    def read(self, W: Tensor, gain: Tensor | None = None) -> Tensor:
        """The mapped matrix as it stands, in training mode too: no state moves."""
        return self.forward(W, gain)

    def factor(self, W: Tensor, gain: Tensor | None = None) -> Tensor | None:  # noqa: ARG002
        """F (m, m) with forward(W, gain) = F W for those maps that have one and can give it cheaply, else None."""
        return None

    def kept_vector(self) -> Tensor | None:
        """The estimate of the leading left singular vector, for maps that keep one."""
        return None

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, metadata: Any, strict: bool,
        missing: list[str], unexpected: list[str], errors: list[str],
    ) -> None:  # fmt: skip
        # A plain model's checkpoint has nothing for the map; the layer has started it anew (layers.py).
        plain = not any(key.startswith(prefix) for key in state_dict)
        super()._load_from_state_dict(
            state_dict, prefix, metadata, strict, [] if plain else missing, unexpected, errors
        )


class AON(WeightMap):
    """Approximated orthonormal normalisation, h(W) = P_q(W) W / sigma (the paper's Algorithm 1).

    `u` estimates the leading left singular vector of P_q(W) W; it moves by `n_power_iterations` steps for each
    update of W in training mode, and rests in evaluation (Note [u moves once for each update] in power.py).

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
    ) -> None:
        super().__init__()
        self.settings = check_settings(order, scale, centre, prescale, n_power_iterations, eps)

    @property
    def is_spectral(self) -> bool:
        """Whether this is plain spectral normalisation, which needs no Gram matrix."""
        return self.settings.order == 0 and self.settings.scale == "spectral"

    @torch.no_grad()
    def attach(self, W: Tensor) -> None:
        """Start u from a vector of its own random stream, then warm it up on W."""
        dtype = working_dtype(W)
        stream = torch.Generator().manual_seed(0)  # not the global one: a seeded run stays as it was
        u = unit(torch.randn(W.shape[:-1], generator=stream)).to(W.device, dtype)
        A = W.detach().to(dtype)
        with torch.autocast(W.device.type, enabled=False):
            # Without sigma's history P_q cannot be had for free; W itself leads to the same vector (even order).
            u = ascend(A, gram(A), None, u, WARM_UP_STEPS, self.settings.eps).u
        size = W.shape[-2] if self.is_spectral else min(W.shape[-2:])
        self.register_buffer("u", u)
        self.register_buffer("previous", u.clone())
        # No sum of a Gram matrix is NaN for a finite W, so that the first forward finds its weight new.
        self.register_buffer("seen", torch.full((*W.shape[:-2], size), torch.nan, dtype=dtype, device=W.device))

    def forward(self, W: Tensor, gain: Tensor | None = None) -> Tensor:
        """h(W), rows times gain; in training mode u moves if W is new."""
        return self._mapped(W, gain, self.training)

    def read(self, W: Tensor, gain: Tensor | None = None) -> Tensor:
        """h(W), rows times gain; u rests."""
        return self._mapped(W, gain, False)

    def factor(self, W: Tensor, gain: Tensor | None = None) -> Tensor | None:
        """F = gain P_q / sigma, where W is not tall and the order is not 0; in training mode u moves if W is new."""
        if self.is_spectral or is_tall(W):
            return None
        return self._keep(Normalise.apply(W, gain, self._state(), self.settings, False), self.training)

    def _mapped(self, W: Tensor, gain: Tensor | None, moving: bool) -> Tensor:
        if self.is_spectral:
            return self._keep(Spectral.apply(W, gain, self._state(), self.settings), moving)
        if gain is None or not is_tall(W):
            return self._keep(Normalise.apply(W, gain, self._state(), self.settings, True), moving)
        return _scaled(self._mapped(W, None, moving), gain)

    def kept_vector(self) -> Tensor:
        """u."""
        return self.u

    def extra_repr(self) -> str:
        """Options that differ from the defaults, and the order always."""
        default = Settings()._asdict()
        given = {k: v for k, v in self.settings._asdict().items() if k == "order" or v != default[k]}
        return ", ".join(f"{k}={v!r}" for k, v in given.items())

    def _state(self) -> State:
        return State(self.u, self.previous, self.seen)

    def _keep(self, result: tuple[Tensor, ...], moving: bool) -> Tensor:
        out, start, moved, fingerprint, *_ = result
        if moving:
            self.previous.copy_(start)
            self.u.copy_(moved)
            self.seen.copy_(fingerprint)
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
        """W_i / |W_i|, and zero for a row of zeros."""
        A = W.to(working_dtype(W))
        return _scaled(normalize(A, dim=-1), gain).to(W.dtype)


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
        """magnitude (W_i - mean) / (|W_i - mean| + eps)."""
        A = W.to(working_dtype(W))
        A = A - A.mean(-1, keepdim=True)
        # vector_norm has the subgradient 0 at a row of zeros, so that a constant row stays finite.
        A = A * (self.magnitude / (torch.linalg.vector_norm(A, dim=-1, keepdim=True) + self.eps))
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
        with torch.autocast(W.device.type, enabled=False):
            return _scaled(PolarFactor.apply(A)[0], gain).to(W.dtype)


class ONI(WeightMap):
    """Orthogonalisation by Newton's iteration (Huang et al. 2020): the road the paper chose not to take.

    Args:
        iterations: Newton steps T; more steps, nearer to orthonormal.
        centre: Whether the rows are centred first.

    Example:
        >>> ONI(iterations=12)(torch.tensor([[2.0, 0.0, 0.0], [0.0, 0.5, 0.0]])).diagonal()
        tensor([1., 1.])
    """

    def __init__(self, iterations: int = 5, centre: bool = False) -> None:
        super().__init__()
        if isinstance(iterations, bool) or not isinstance(iterations, int) or iterations < 0:
            raise ValueError(f"iterations={iterations!r}: expected a whole number, 0 or more")
        self.iterations, self.centre = iterations, centre

    def forward(self, W: Tensor, gain: Tensor | None = None) -> Tensor:
        """B_T Z / |Z Z^T|_F^(1/2), B_{t+1} = (3 B_t - B_t^3 S) / 2."""
        A = W.to(working_dtype(W))
        with torch.autocast(W.device.type, enabled=False):
            Z = A - A.mean(-1, keepdim=True) if self.centre else A
            return _scaled(newton_orthonormal(Z, self.iterations), gain).to(W.dtype)


def _scaled(H: Tensor, gain: Tensor | None) -> Tensor:
    return H if gain is None else H * gain.unflatten(0, H.shape[:-1])[..., None]

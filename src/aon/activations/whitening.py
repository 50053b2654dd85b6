"""Layers that whiten activations: IterNorm and decorrelated batch normalisation.

Both make y = W (x - mean), then scale and shift each channel. Mean and covariance S are those of the batch;
W is S^(-1/2), nearly (IterNorm) or exactly (ZCA). The mathematics: roots.py and fused_whitening.py.
"""

from __future__ import annotations

from typing import TypedDict, Unpack

import torch
import torch.distributed as dist
from torch import Tensor, nn

from aon.activations.fused_whitening import Whitened, eigen_whiten, newton_whiten
from aon.activations.processes import group_of
from aon.kernels.checks import check_count, check_that


class Options(TypedDict, total=False):
    """The arguments that all whitening layers take; `IterNorm` says what they mean."""

    num_groups: int
    num_channels: int | None
    eps: float
    momentum: float
    affine: bool
    sync: bool
    process_group: dist.ProcessGroup | None


class _Whitening(nn.Module):
    """What the layers share: everything but the inverse root."""

    running_mean: Tensor
    running_whitening: Tensor

    def __init__(
        self,
        num_features: int,
        *,
        num_groups: int = 1,
        num_channels: int | None = None,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = True,
        sync: bool = False,
        process_group: dist.ProcessGroup | None = None,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        check_count("num_features", num_features)
        self.num_groups = self._groups(num_groups, num_channels)
        self.num_channels = num_features // self.num_groups
        check_that(eps > 0, "eps", eps, "a number above 0")
        check_that(0 <= momentum <= 1, "momentum", momentum, "a number from 0 to 1")
        self.eps, self.momentum, self.affine = eps, momentum, affine
        self.sync, self.process_group = sync, process_group
        self.weight = nn.Parameter(torch.ones(num_features)) if affine else None
        self.bias = nn.Parameter(torch.zeros(num_features)) if affine else None
        self.register_buffer("running_mean", torch.zeros(num_features))
        eye = torch.eye(self.num_channels)
        self.register_buffer("running_whitening", eye.repeat(self.num_groups, 1, 1))

    def _groups(self, num_groups: int, num_channels: int | None) -> int:
        """Number of groups from either of the two ways to say it."""
        if num_channels is None:
            if num_groups < 1 or self.num_features % num_groups:
                raise ValueError(f"num_groups={num_groups!r}: expected a divisor of num_features={self.num_features}")
            return num_groups
        if num_groups != 1 or num_channels < 1:
            raise ValueError(f"num_channels={num_channels!r}: expected from 1 on, and without num_groups")
        return self.num_features // self._divisor(num_channels)

    def _divisor(self, num_channels: int) -> int:
        """A divisor of the number of channels that is not above `num_channels`."""
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        """Whiten x of shape (N, C, ...): by the batch in training mode, else by the running averages."""
        self._check(x)
        # Half precision cannot hold a covariance: float32 at least inside, whatever autocast says.
        with torch.autocast(x.device.type, enabled=False):
            wide = x if x.dtype in (torch.float32, torch.float64) else x.float()
            y = self._by_batch(wide) if self.training else self._by_running_averages(wide)
            return y.to(x.dtype)

    def _by_batch(self, x: Tensor) -> Tensor:
        y, mean, W = self._whiten(x, *self._scale_and_shift(x))
        with torch.no_grad():
            self.running_mean.lerp_(mean.to(self.running_mean.dtype), self.momentum)
            self.running_whitening.lerp_(W.to(self.running_whitening.dtype), self.momentum)
        return y

    def _by_running_averages(self, x: Tensor) -> Tensor:
        weight, bias = self._scale_and_shift(x)
        V = self.running_whitening.to(x.dtype) * weight.view(self.num_groups, -1, 1)
        shift = bias - (V @ self.running_mean.to(x.dtype).view(self.num_groups, -1, 1)).flatten()
        # A convolution by one value: no transposition of x, and a graph that every exporter knows.
        kernel = V.reshape(self.num_features, self.num_channels, 1)
        if x.dim() == 4:  # keeps channels_last
            return nn.functional.conv2d(x, kernel.unsqueeze(-1), shift, groups=self.num_groups)
        flat = x.unsqueeze(-1).flatten(2)
        return nn.functional.conv1d(flat, kernel, shift, groups=self.num_groups).view(x.shape)

    def _whiten(self, x: Tensor, weight: Tensor, bias: Tensor) -> Whitened:
        raise NotImplementedError

    def _shared(self) -> bool | dist.ProcessGroup:
        return self.sync and (self.process_group or True)

    def _scale_and_shift(self, x: Tensor) -> tuple[Tensor, Tensor]:
        if self.weight is None or self.bias is None:
            return x.new_ones(self.num_features), x.new_zeros(self.num_features)
        return self.weight.to(x.dtype), self.bias.to(x.dtype)

    def _check(self, x: Tensor) -> None:
        if x.dim() < 2 or x.shape[1] != self.num_features or not x.is_floating_point():
            expected = f"expected a floating-point input of shape (N, {self.num_features}, ...)"
            raise ValueError(f"{expected}, got {x.dtype} of shape {tuple(x.shape)}")
        if self.training and x.numel() < 2 * self.num_features and group_of(self._shared()) is None:
            raise ValueError(f"expected more than 1 value per channel when training, got {tuple(x.shape)}")

    def extra_repr(self) -> str:
        """The layer's numbers, as torch's own layers print theirs."""
        return (
            f"{self.num_features}, num_groups={self.num_groups}, eps={self.eps}, "
            f"momentum={self.momentum}, affine={self.affine}, sync={self.sync}"
        )


class IterNorm(_Whitening):
    r"""Iterative normalisation: approximate whitening by T steps of Newton's iteration.

    y = weight * W (x - mean) + bias with W = P_T / sqrt(t), P_0 = I, P_{k+1} = (3 P_k - P_k^3 S / t) / 2,
    where S = cov(x) + eps I over all axes of x but the second and t is its trace. A few steps leave the small
    eigenvalues of S partly unwhitened, on purpose: they are the noisy ones.

    In training mode the batch's statistics are used and their running averages kept (of the mean and of the
    matrix W itself); in evaluation mode the averages are used. Statistics are float32 at least.

    Args:
        num_features: Number C of channels.
        n_iterations: Number T of Newton steps.
        num_groups: Groups of channels whitened apart; must divide `num_features`.
        num_channels: Instead of `num_groups`: channels in a group, halved until it divides `num_features`.
        eps: Added to the diagonal of the covariance.
        momentum: Weight of the batch in the running averages.
        affine: Learn a scale and a shift for each channel.
        sync: Take the statistics over all processes of `process_group`, as SyncBatchNorm does.
        process_group: The processes for `sync`; None means all. A layer that holds a group cannot be pickled.

    Raises:
        ValueError: An argument is out of range, an input has another number of channels, or a training batch has too
            few values: fewer than two per channel, or with `sync` none in any process.

    Reference: Huang et al., Iterative Normalization, CVPR 2019, algorithm 1.

    Example:
        >>> layer = IterNorm(8, num_groups=2)
        >>> layer(torch.randn(32, 8, 4, 4)).shape
        torch.Size([32, 8, 4, 4])
    """

    def __init__(self, num_features: int, *, n_iterations: int = 5, **options: Unpack[Options]) -> None:
        super().__init__(num_features, **options)
        check_count("n_iterations", n_iterations)
        self.n_iterations = n_iterations

    def _divisor(self, num_channels: int) -> int:
        while self.num_features % num_channels:  # as in the authors' code
            num_channels //= 2
        return num_channels

    def _whiten(self, x: Tensor, weight: Tensor, bias: Tensor) -> Whitened:
        return newton_whiten(
            x,
            weight,
            bias,
            num_groups=self.num_groups,
            eps=self.eps,
            n_iterations=self.n_iterations,
            sync=self._shared(),
        )

    def extra_repr(self) -> str:
        """The layer's numbers, as torch's own layers print theirs."""
        return f"{super().extra_repr()}, n_iterations={self.n_iterations}"


class DecorrelatedBatchNorm(_Whitening):
    r"""Decorrelated batch normalisation: exact (ZCA) whitening by eigendecomposition.

    y = weight * W (x - mean) + bias with W = S^(-1/2), S = cov(x) + eps I over all axes of x but the second.
    ZCA, and not PCA: of all whitening matrices it moves the activations least, so that channels keep their
    meaning from batch to batch. The gradient is finite for equal eigenvalues as well.

    Training, evaluation and the arguments are those of `IterNorm`, without `n_iterations`. Groups of about 16
    channels are usual: to whiten hundreds of channels takes more samples than a batch has. A `num_channels` that does
    not divide `num_features` is lowered to the largest divisor below it, not halved.

    Reference: Huang et al., Decorrelated Batch Normalization, CVPR 2018.

    Example:
        >>> y = DecorrelatedBatchNorm(4)(torch.randn(1000, 4))
        >>> torch.allclose(y.T @ y / 1000, torch.eye(4), atol=1e-3)
        True
    """

    def __init__(self, num_features: int, **options: Unpack[Options]) -> None:
        super().__init__(num_features, **options)

    def _divisor(self, num_channels: int) -> int:
        sizes = range(min(num_channels, self.num_features), 0, -1)
        return next(size for size in sizes if self.num_features % size == 0)

    def _whiten(self, x: Tensor, weight: Tensor, bias: Tensor) -> Whitened:
        groups, shared = self.num_groups, self._shared()
        return eigen_whiten(x, weight, bias, num_groups=groups, eps=self.eps, sync=shared)

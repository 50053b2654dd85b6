"""Batch renormalisation (Ioffe, 2017): batch normalisation that uses its running statistics in training too."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from aon.activations.processes import check_not_empty, group_of, sum_over
from aon.kernels.checks import check_count, check_that


class BatchRenorm(nn.Module):
    r"""Batch renormalisation of (N, C, ...), each channel on its own.

    y = weight * ((x - m_B) / s_B * r + d) + bias, with r = s_B / s clipped to [1 / r_max, r_max] and
    d = (m_B - m) / s clipped to [-d_max, d_max], both constants of the gradient. m_B and s_B = sqrt(var + eps) are the
    batch's, m and s their running averages before this batch. Unclipped, y is exactly what evaluation makes of x:
    weight * (x - m) / s + bias.

    The limits follow the paper's schedule, counted in training batches: plain batch normalisation (r_max = 1,
    d_max = 0) up to `warm_up`; from there r_max rises in a straight line to its value at `r_ramp_end`,
    and d_max at `d_ramp_end`. The default numbers are the paper's, for ImageNet; a run shorter than `warm_up` is a
    run of batch normalisation, so scale them to yours. `limits` tells where the schedule stands.

    Statistics are float32 at least; with `sync` they are those of all processes.

    Args:
        num_features: Number C of channels.
        r_max: Final limit of r, at least 1.
        d_max: Final limit of d, at least 0.
        warm_up: Batches of plain batch normalisation at the start.
        r_ramp_end: Batch from which r_max has its final value.
        d_ramp_end: Batch from which d_max has its final value.
        eps: Added to the variance.
        momentum: Weight of the batch in the running averages; the paper's is smaller than torch's 0.1.
        affine: Learn a scale and a shift for each channel.
        sync: Take the statistics over all processes of `process_group`, as SyncBatchNorm does.
        process_group: The processes for `sync`; None means all. A layer that holds a group cannot be pickled.

    Raises:
        ValueError: An argument is out of range, an input has another number of channels, or a training batch has
            fewer than two values per channel and shares its statistics with no other process, or none in any.

    Reference: Ioffe, Batch Renormalization, NeurIPS 2017, algorithm 1 and section 4.

    Example:
        >>> layer = BatchRenorm(8, warm_up=100, r_ramp_end=800, d_ramp_end=500)
        >>> layer(torch.randn(32, 8, 4, 4)).shape
        torch.Size([32, 8, 4, 4])
        >>> [limit.item() for limit in layer.limits()]
        [1.0, 0.0]
    """

    running_mean: Tensor
    running_std: Tensor
    num_batches_tracked: Tensor

    def __init__(
        self,
        num_features: int,
        *,
        r_max: float = 3.0,
        d_max: float = 5.0,
        warm_up: int = 5000,
        r_ramp_end: int = 40000,
        d_ramp_end: int = 25000,
        eps: float = 1e-5,
        momentum: float = 0.01,
        affine: bool = True,
        sync: bool = False,
        process_group: dist.ProcessGroup | None = None,
    ) -> None:
        super().__init__()
        check_count("num_features", num_features)
        check_that(r_max >= 1, "r_max", r_max, "a number from 1 on")
        check_that(d_max >= 0, "d_max", d_max, "a number from 0 on")
        check_count("warm_up", warm_up, least=0)
        check_that(r_ramp_end >= warm_up, "r_ramp_end", r_ramp_end, f"at least warm_up={warm_up}")
        check_that(d_ramp_end >= warm_up, "d_ramp_end", d_ramp_end, f"at least warm_up={warm_up}")
        check_that(eps > 0, "eps", eps, "a number above 0")
        check_that(0 <= momentum <= 1, "momentum", momentum, "a number from 0 to 1")
        self.num_features, self.affine = num_features, affine
        self.r_max, self.d_max = r_max, d_max
        self.warm_up, self.r_ramp_end, self.d_ramp_end = warm_up, r_ramp_end, d_ramp_end
        self.eps, self.momentum = eps, momentum
        self.sync, self.process_group = sync, process_group
        self.weight = nn.Parameter(torch.ones(num_features)) if affine else None
        self.bias = nn.Parameter(torch.zeros(num_features)) if affine else None
        self.register_buffer("running_mean", torch.zeros(num_features))
        self.register_buffer("running_std", torch.ones(num_features))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x: Tensor) -> Tensor:
        """Renormalise x: by the batch, corrected, in training mode; else by the running averages."""
        self._check(x)
        with torch.autocast(x.device.type, enabled=False):
            wide = x.to(torch.promote_types(x.dtype, torch.float32))
            y = self._by_batch(wide) if self.training else self._by_running_averages(wide)
            return y.to(x.dtype)

    def limits(self) -> tuple[Tensor, Tensor]:
        """The values of r_max and d_max for the next training batch, as scalars."""
        dtype = torch.promote_types(self.running_std.dtype, torch.float32)
        seen = (self.num_batches_tracked - self.warm_up).to(dtype)
        # A ramp of no length jumps to its end; tensors all the way, so that a compiled layer is not recompiled.
        rise_r = (seen / max(self.r_ramp_end - self.warm_up, 1)).clamp(0, 1)
        rise_d = (seen / max(self.d_ramp_end - self.warm_up, 1)).clamp(0, 1)
        return 1 + (self.r_max - 1) * rise_r, self.d_max * rise_d

    def _by_batch(self, x: Tensor) -> Tensor:
        group = self._group()
        return self._by_this_batch(x) if group is None else self._by_all_batches(x, group)

    def _group(self) -> Any:
        return group_of(self.sync and (self.process_group or True))

    def _by_this_batch(self, x: Tensor) -> Tensor:
        weight, bias = self._scale_and_shift(x)
        others = [i for i in range(x.dim()) if i != 1]
        with torch.no_grad():
            variance, mean = torch.var_mean(x, others, correction=0)
        r, d = self._follow(mean, variance)
        # r and d are constants, so they join the scale and shift of torch's own fused kernel.
        return nn.functional.batch_norm(x, None, None, weight * r, weight * d + bias, training=True, eps=self.eps)

    def _by_all_batches(self, x: Tensor, group: dist.ProcessGroup) -> Tensor:
        """The same with the statistics of all processes, which may have batches of different sizes."""
        weight, bias = self._scale_and_shift(x)
        others, shape = [i for i in range(x.dim()) if i != 1], (-1, *[1] * (x.dim() - 2))
        total = sum_over(group, torch.cat([x.sum(others), x.new_full((1,), x.numel() / self.num_features)]))
        check_not_empty(x, total[-1])
        mean = total[:-1] / total[-1]
        centred = x - mean.view(shape)
        variance = sum_over(group, centred.square().sum(others)) / total[-1]
        r, d = self._follow(mean.detach(), variance.detach())
        scale, shift = weight * r * (variance + self.eps).rsqrt(), weight * d + bias
        return torch.addcmul(shift.view(shape), centred, scale.view(shape))

    def _follow(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """r and d of a batch, whose statistics then join the running averages."""
        with torch.no_grad():
            std = (variance + self.eps).sqrt()
            r, d = self._correction(mean, std)
            self.running_mean.lerp_(mean.to(self.running_mean.dtype), self.momentum)
            self.running_std.lerp_(std.to(self.running_std.dtype), self.momentum)
            self.num_batches_tracked.add_(1)
        return r, d

    def _correction(self, mean: Tensor, std: Tensor) -> tuple[Tensor, Tensor]:
        """r and d of this batch, from the running averages as they were before it."""
        r_max, d_max = self.limits()
        running_std = self.running_std.to(std.dtype)
        r = (std / running_std).clamp(1 / r_max, r_max)
        d = ((mean - self.running_mean.to(mean.dtype)) / running_std).clamp(-d_max, d_max)
        return r.to(std.dtype), d.to(mean.dtype)

    def _by_running_averages(self, x: Tensor) -> Tensor:
        weight, bias = self._scale_and_shift(x)
        scale = weight / self.running_std.to(x.dtype)
        shift = bias - scale * self.running_mean.to(x.dtype)
        shape = (-1, *[1] * (x.dim() - 2))
        return torch.addcmul(shift.view(shape), x, scale.view(shape))

    def _scale_and_shift(self, x: Tensor) -> tuple[Tensor, Tensor]:
        if self.weight is None or self.bias is None:
            return x.new_ones(self.num_features), x.new_zeros(self.num_features)
        return self.weight.to(x.dtype), self.bias.to(x.dtype)

    def _check(self, x: Tensor) -> None:
        if x.dim() < 2 or x.shape[1] != self.num_features or not x.is_floating_point():
            expected = f"expected a floating-point input of shape (N, {self.num_features}, ...)"
            raise ValueError(f"{expected}, got {x.dtype} of shape {tuple(x.shape)}")
        few = x.numel() < 2 * self.num_features  # a variance of none would make the averages NaN
        if self.training and few and self._group() is None:
            raise ValueError(f"expected more than 1 value per channel when training, got {tuple(x.shape)}")

    def extra_repr(self) -> str:
        """The layer's numbers, as torch's own layers print theirs."""
        return (
            f"{self.num_features}, r_max={self.r_max}, d_max={self.d_max}, warm_up={self.warm_up}, "
            f"r_ramp_end={self.r_ramp_end}, d_ramp_end={self.d_ramp_end}, eps={self.eps}, momentum={self.momentum}"
        )

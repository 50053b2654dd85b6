"""Batch whitening: IterNorm and decorrelated batch normalisation."""

from aon.activations.whitening import DecorrelatedBatchNorm, IterNorm

__all__ = ["DecorrelatedBatchNorm", "IterNorm"]

"""Batch renormalisation."""

from aon.activations.renorm import BatchRenorm

__all__ = ["BatchRenorm"]

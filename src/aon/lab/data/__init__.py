"""Datasets: load them, make batches, download and check the official ones."""

from aon.lab.data.batches import Part, eval_batches, train_batches
from aon.lab.data.catalogue import NAMES, check, default_root, load
from aon.lab.data.dataset import Dataset
from aon.lab.data.download import Progress
from aon.lab.data.fetching import fetch
from aon.lab.data.status import Status, available, verify

__all__ = [
    "NAMES",
    "Dataset",
    "Part",
    "Progress",
    "Status",
    "available",
    "check",
    "default_root",
    "eval_batches",
    "fetch",
    "load",
    "train_batches",
    "verify",
]

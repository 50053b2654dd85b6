"""Datasets of the laboratory: load them, cut batches from them, fetch and check the official ones."""

from aon.lab.data.batches import eval_batches, train_batches
from aon.lab.data.catalogue import NAMES, check, default_root, load
from aon.lab.data.dataset import Dataset

__all__ = ["NAMES", "Dataset", "check", "default_root", "eval_batches", "load", "train_batches"]

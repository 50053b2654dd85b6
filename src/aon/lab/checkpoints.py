"""Checkpoints: complete, atomic, and read without the power to run code.

A checkpoint holds the state of model, optimiser, scheduler and gradient scaler, every random stream, the
position within the run and the record so far. Whatever the moment a run is killed, the file on disk is one
whole checkpoint, and a run continued from it ends with the bits of one that was never interrupted.
"""

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy
import safetensors
import safetensors.torch
import torch
from torch import Tensor

from aon.lab.errors import LabError
from aon.lab.files import replacing

CHECKPOINT = "checkpoint.pt"
LAST = "model.safetensors"
BEST = "best.safetensors"
FORMAT = 1


def save(path: Path, state: Mapping[str, Any]) -> None:
    """Write a checkpoint, whole or not at all.

    Args:
        path: The file to make or replace.
        state: Tensors, numbers, strings and containers of them.
    """
    with replacing(path) as file:
        torch.save({"format": FORMAT, **state}, file)


def load(path: Path, device: torch.device | str = "cpu") -> dict[str, Any]:
    """Read a checkpoint of ours.

    Args:
        path: The file.
        device: Where its tensors go.

    Raises:
        LabError: if it is missing, damaged or not one of ours.
    """
    state = load_any(path, device)
    if state.get("format") != FORMAT:
        raise LabError(f"{path} is not a checkpoint of format {FORMAT}; delete it to begin this run again")
    return state


def load_any(path: Path, device: torch.device | str = "cpu") -> dict[str, Any]:
    """Read a file of `torch.save`, whoever wrote it; it can hold tensors and plain data, nothing that runs.

    Args:
        path: The file.
        device: Where its tensors go.

    Raises:
        LabError: if it is missing or damaged, or holds anything else.
    """
    try:
        state = torch.load(path, map_location=device, weights_only=True)
    except FileNotFoundError as error:
        raise LabError(f"there is no {path}") from error
    except Exception as error:  # a damaged file can fail in any of a dozen ways inside torch
        raise LabError(f"{path} is damaged, or holds more than tensors and plain data") from error
    if not isinstance(state, dict):
        raise LabError(f"{path} holds a {type(state).__name__}, expected a checkpoint or a state dict")
    return state


def random_states() -> dict[str, Any]:
    """The state of every random stream a run can draw from, as tensors and plain data."""
    name, keys, *rest = numpy.random.get_state(legacy=True)
    states: dict[str, Any] = {
        "python": random.getstate(),
        "numpy": (name, torch.from_numpy(numpy.asarray(keys, dtype=numpy.int64)), *rest),
        "torch": torch.get_rng_state(),
    }
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state_all()
    if torch.backends.mps.is_available():
        states["mps"] = torch.mps.get_rng_state()
    return states


def restore_random_states(states: Mapping[str, Any]) -> None:
    """Put every random stream back to where `random_states` found it.

    Args:
        states: What it returned, perhaps through a file.
    """
    version, internal, gauss = states["python"]
    random.setstate((version, tuple(internal), gauss))
    name, keys, *rest = states["numpy"]
    numpy.random.set_state((name, keys.cpu().numpy().astype(numpy.uint32), *rest))
    torch.set_rng_state(states["torch"].cpu())
    if "cuda" in states and torch.cuda.device_count() == len(states["cuda"]):
        torch.cuda.set_rng_state_all([state.cpu() for state in states["cuda"]])
    if "mps" in states and torch.backends.mps.is_available():
        torch.mps.set_rng_state(states["mps"].cpu())


def save_weights(path: Path, state: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
    """Write a state dict as safetensors, with plain data that says what it belongs to.

    Args:
        path: The file to make or replace.
        state: Tensors by name.
        about: Data for the file's header, e.g. the run's configuration.
    """
    # Cloned: safetensors refuses tensors that share memory, which tied weights do. One entry in the header: the
    # order of several changes from process to process, and the same run shall give the same bytes.
    tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in state.items()}
    with replacing(path) as file:
        file.write(safetensors.torch.save(tensors, {"aon": json.dumps(dict(about))}))


def load_weights(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what `save_weights` wrote; other safetensors files come with empty data.

    Args:
        path: The file.

    Returns:
        Tensors by name, and the data of the header.

    Raises:
        LabError: if it is missing or damaged.
    """
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {}).get("aon", "{}"))
            return {name: file.get_tensor(name) for name in file.keys()}, about  # noqa: SIM118
    except FileNotFoundError as error:
        raise LabError(f"there is no {path}") from error
    except (OSError, ValueError, safetensors.SafetensorError) as error:
        raise LabError(f"{path} is damaged or not a safetensors file") from error

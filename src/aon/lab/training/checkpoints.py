"""Checkpoints: complete, written atomically, and read without running code.

A checkpoint holds the state of model, optimiser, scheduler and gradient scaler, every random stream, the
position within the run and the record so far. Whatever the moment a run is killed, the file on disk is one
whole checkpoint, and a run continued from it ends with the bits of one that was never interrupted.
"""

import json
import random
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy
import safetensors
import safetensors.torch
import torch
from torch import Tensor

from aon.lab.errors import LabError
from aon.lab.system import checksums
from aon.lab.system.files import keep_under, replacing

CHECKPOINT, PREVIOUS = "checkpoint.pt", "checkpoint-before.pt"
LAST = "model.safetensors"
BEST = "best.safetensors"
# The first format had no checksum; it is still read.
FORMAT, FORMATS = 2, (1, 2)


def save(path: Path, state: Mapping[str, Any]) -> None:
    """Write a checkpoint, whole or not at all; the one before it is kept beside it.

    Args:
        path: The file to make or replace.
        state: Tensors, numbers, strings and containers of them.
    """
    if path.exists():
        keep_under(path, path.with_name(PREVIOUS))
    with replacing(path, sealed=True) as file:
        torch.save({"format": FORMAT, **state}, file)
        _comment(file, f'"{checksums.MARK}": "{checksums.BLANK}"'.encode())


def _comment(file: BinaryIO, text: bytes) -> None:
    """Give a zip archive, as torch writes it, a comment: its length is the last field of the archive."""
    file.seek(-2, 2)
    file.write(len(text).to_bytes(2, "little") + text)


def exists(folder: Path) -> bool:
    """Whether a run's folder holds a checkpoint, or the one before the last.

    Args:
        folder: The run's folder.
    """
    return any((folder / name).exists() for name in (CHECKPOINT, PREVIOUS))


def latest(folder: Path) -> tuple[Path, str | None]:
    """A run's last checkpoint, or the one before it if the last is damaged or was never finished.

    Args:
        folder: The run's folder.

    Returns:
        The file, and what is wrong with the last one if it is not that.

    Raises:
        LabError: if neither can be used.
    """
    try:
        _require_sound(folder / CHECKPOINT)
    except LabError as error:
        if not (folder / PREVIOUS).exists():
            raise
        _require_sound(folder / PREVIOUS)
        return folder / PREVIOUS, str(error)
    return folder / CHECKPOINT, None


def _require_sound(path: Path) -> None:
    try:
        with path.open("rb") as file:
            carried = checksums.check(file, path)
    except OSError as error:
        raise LabError(f"cannot read {path}: {error.strerror}") from error
    if not carried:  # of the first format, or cut short
        load(path)


def remove(folder: Path) -> None:
    """Remove a run's checkpoints.

    Args:
        folder: The run's folder.
    """
    for name in (CHECKPOINT, PREVIOUS):
        (folder / name).unlink(missing_ok=True)


def load(path: Path, device: torch.device | str = "cpu") -> dict[str, Any]:
    """Read a checkpoint of ours.

    Args:
        path: The file.
        device: Where its tensors go.

    Raises:
        LabError: if it is missing, damaged or not one of ours.
    """
    state, carried = _load(path, device)
    if state.get("format") not in FORMATS:
        raise LabError(f"{path} is not a checkpoint of format {FORMAT}; delete it to begin this run again")
    if state["format"] == FORMAT and not carried:
        raise LabError(f"{path} is damaged: its checksum is missing")
    return state


def load_any(path: Path, device: torch.device | str = "cpu") -> dict[str, Any]:
    """Read a file of `torch.save`, whoever wrote it; it can hold tensors and plain data, nothing that runs.

    Args:
        path: The file.
        device: Where its tensors go.

    Raises:
        LabError: if it is missing or damaged, or holds anything else.
    """
    return _load(path, device)[0]


def _load(path: Path, device: torch.device | str) -> tuple[dict[str, Any], bool]:
    """The content of a file, and whether it has a checksum, which then fits."""
    try:
        with path.open("rb") as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's words about the pickles of others
            carried = checksums.check(file, path)
            file.seek(0)
            state = torch.load(file, map_location=device, weights_only=True)
    except FileNotFoundError as error:
        raise LabError(f"there is no {path}") from error
    except LabError:
        raise
    except Exception as error:  # a damaged file can fail in any of a dozen ways inside torch
        raise LabError(f"{path} is damaged, or holds more than tensors and plain data") from error
    if not isinstance(state, dict):
        raise LabError(f"{path} holds a {type(state).__name__}, expected a checkpoint or a state dict")
    return state, carried


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
    header = json.dumps({**about, "format": FORMAT, checksums.MARK: checksums.BLANK})
    with replacing(path, sealed=True) as file:
        file.write(safetensors.torch.save(tensors, {"aon": header}))


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
        with path.open("rb") as opened:
            carried = checksums.check(opened, path)
        with safetensors.safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {}).get("aon", "{}"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError as error:
        raise LabError(f"there is no {path}") from error
    except (OSError, ValueError, RecursionError, safetensors.SafetensorError) as error:
        raise LabError(f"{path} is damaged or not a safetensors file") from error
    if not isinstance(about, dict):
        raise LabError(f"{path}: its header holds a {type(about).__name__}, expected a table")
    if about.pop("format", 1) != 1 and not carried:
        raise LabError(f"{path} is damaged: its checksum is missing")
    about.pop(checksums.MARK, None)
    return tensors, about

"""Weights that a run, or anyone, left in a file: what they look like, and how to get them out plain."""

import logging
import warnings
from collections.abc import Mapping
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, nn

import aon
from aon.lab import checkpoints
from aon.lab.config import RunConfig, make
from aon.lab.errors import LabError
from aon.lab.files import replacing
from aon.lab.preparation import network

_WEIGHTS = (checkpoints.LAST, checkpoints.CHECKPOINT, checkpoints.BEST)
_SUFFIXES = (".safetensors", ".onnx")


def spectra(path: Path) -> aon.Spectra:
    """Singular values of every layer in a file of weights.

    Args:
        path: A run's folder, its checkpoint or weights, or any state dict in safetensors or torch's format.

    Raises:
        LabError: if the file is missing, damaged, or has no weights.
    """
    state, about = read(path)
    if _says_what_it_is(about):
        return aon.spectra(rebuilt(state, about), plain=True)
    return aon.spectra(_bare(state, path), plain=True)


def fold(path: Path, out: Path) -> None:
    """Write the plain network of a run: h(W) as weights, loaded without `aon`.

    Args:
        path: A run's folder, its checkpoint or its weights.
        out: The file to write: .safetensors for the state dict of the plain network, .onnx for the network itself.

    Raises:
        LabError: if the file is not of a run, or the suffix of `out` is neither of the two.
    """
    if out.suffix not in _SUFFIXES:
        raise LabError(f"{out}: the name should end in {' or '.join(_SUFFIXES)}")
    state, about = read(path)
    if not _says_what_it_is(about):
        raise LabError(f"{path} does not say which network it belongs to; give a run's folder or its weights")
    model = aon.fold(rebuilt(state, about)).eval()
    if out.suffix == ".onnx":
        _write_onnx(model, torch.zeros(1, *about["image"]), out)
    else:
        tensors = {name: tensor.contiguous().clone() for name, tensor in model.state_dict().items()}
        with replacing(out) as file:
            file.write(safetensors.torch.save(tensors, {"format": "pt"}))


def read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The state dict in a file, and what the file says of its run.

    Args:
        path: See `spectra`.

    Raises:
        LabError: if there is none.
    """
    if path.is_dir():
        found = [path / name for name in _WEIGHTS if (path / name).exists()]
        if not found:
            raise LabError(f"{path} holds no weights: none of {', '.join(_WEIGHTS)}")
        path = found[0]
    if path.suffix == ".safetensors":
        return checkpoints.load_weights(path)
    state = checkpoints.load_any(path)
    if "about" in state and "model" in state:
        return state["model"], state["about"]
    return _tensors(state, path), {}


def rebuilt(state: Mapping[str, Tensor], about: Mapping[str, Any]) -> nn.Module:
    """The network of a run, with its weights.

    Args:
        state: Its state dict.
        about: Its configuration, classes and image shape.

    Raises:
        LabError: if the weights do not fit the configuration.
    """
    config: RunConfig = make(about["config"])
    model = network(config, len(about["classes"]), about["image"][0]).model
    try:
        model.load_state_dict(dict(state))
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:200]
        raise LabError(f"these weights do not fit {config.network} with {config.method}: {reason}") from error
    return model.eval()


def _says_what_it_is(about: Mapping[str, Any]) -> bool:
    return {"config", "classes", "image"} <= about.keys()


def _tensors(state: Mapping[str, Any], path: Path) -> dict[str, Tensor]:
    """The tensors of a state dict as others write it, perhaps under `state_dict` or `model`."""
    for key in ("state_dict", "model"):
        if isinstance(state.get(key), dict):
            return _tensors(state[key], path)
    return {name: value for name, value in state.items() if isinstance(value, Tensor)}


def _bare(state: Mapping[str, Tensor], path: Path) -> nn.Module:
    """Layers that hold the matrices of a state dict and nothing else."""
    matrices = {n: t for n, t in state.items() if t.dim() >= 2 and t.is_floating_point() and t.numel()}
    if not matrices:
        raise LabError(f"{path} holds no weight matrices")
    model = nn.Module()
    for name, tensor in matrices.items():
        layer = nn.Linear(1, 1, bias=False)
        layer.weight = nn.Parameter(tensor.float().flatten(1))
        layer.out_features, layer.in_features = layer.weight.shape
        # A module's name has no dots of its own.
        model.add_module(name.removesuffix(".weight").replace(".", "/"), layer)
    return model


def _write_onnx(model: nn.Module, example: Tensor, out: Path) -> None:
    # The exporter tells its progress, torch's own deprecations and that torchvision is missing: of no use to a user.
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings(), redirect_stdout(StringIO()):
        warnings.simplefilter("ignore")
        batch = torch.export.Dim.AUTO
        program = torch.onnx.export(
            model, (example.repeat(2, 1, 1, 1),), dynamo=True, dynamic_shapes=({0: batch},), verbose=False
        )
    assert program is not None
    with replacing(out) as file:
        file.write(program.model_proto.SerializeToString())

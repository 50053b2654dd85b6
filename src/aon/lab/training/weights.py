"""Inspect and fold the weights in a file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import aon
from aon.lab import models
from aon.lab.errors import LabError
from aon.lab.experiment.config import RunConfig, make
from aon.lab.system.shown import shown
from aon.lab.training import about, checkpoints, folding
from aon.lab.training.preparation import network

_WEIGHTS = (checkpoints.LAST, checkpoints.CHECKPOINT, checkpoints.BEST)


def spectra(path: Path, network: str | None = None) -> aon.Spectra:
    """Singular values of every layer in a file of weights.

    Args:
        path: A run's folder, its checkpoint or weights, or any state dict in safetensors or torch's format.
        network: The user's own network that the weights belong to, as `package.module:function`.

    Raises:
        LabError: if the file is missing, damaged, has no weights, or belongs to a network that is not ours.
    """
    state, header = read(path)
    if _says_what_it_is(header):
        return aon.spectra(rebuilt(state, header, network), plain=True)
    return aon.spectra(_bare(state, path), plain=True)


def fold(path: Path, out: Path, network: str | None = None) -> None:
    """Write the plain network of a run: h(W) as weights, loaded without `aon`.

    Either file says which pixels it wants and what its outputs mean (see `folding.description`).

    Args:
        path: A run's folder, its checkpoint or its weights.
        out: The file to write: .safetensors for the state dict of the plain network, .onnx for the network itself.
        network: The user's own network that the weights belong to, as `package.module:function`.

    Raises:
        LabError: if the file is not of a run, or the suffix of `out` is neither of the two.
    """
    if out.suffix not in folding.SUFFIXES:
        raise LabError(f"{out}: the name should end in {' or '.join(folding.SUFFIXES)}")
    state, header = read(path)
    if not _says_what_it_is(header):
        raise LabError(f"{path} does not say which network it belongs to; give a run's folder or its weights")
    model = aon.fold(rebuilt(state, header, network)).eval()
    folding.write(model, about.parse(header), out)


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
    if isinstance(state.get("about"), dict) and isinstance(state.get("model"), dict):
        return _tensors(state["model"], path), state["about"]
    return _tensors(state, path), {}


def rebuilt(state: Mapping[str, Tensor], header: Mapping[str, Any], own: str | None = None) -> nn.Module:
    """The network of a run, with its weights.

    A file names networks of ours only: to build a network is to run its code, and a file may come from anyone.

    Args:
        state: Its state dict.
        header: The file's metadata.
        own: The user's own network that the weights belong to, as `package.module:function`.

    Raises:
        LabError: if the weights do not fit the configuration, or it names a network that is not ours.
    """
    said = about.parse(header)
    config = make({**said.config, **({"network": own} if own else {})})
    if own is None and config.network not in models.names():
        raise LabError(
            f"these weights belong to {shown(config.network)}, which is not one of our networks; "
            f"if you trust its code, give it with --network"
        )
    _check_need(config, said, state)
    model = network(config, len(said.classes), said.image).model
    try:
        model.load_state_dict(dict(state))
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:200]
        raise LabError(f"these weights do not fit {config.network} with {config.method}: {reason}") from error
    return model.eval()


def _check_need(config: RunConfig, said: about.About, state: Mapping[str, Tensor]) -> None:
    """Refuse a header that asks for far more memory than the weights in the file take."""
    if config.network not in models.names():
        return
    with torch.device("meta"):
        model = models.build(config.network, classes=len(said.classes), width=config.width, in_channels=said.image[0])
    need, held = sum(p.numel() for p in model.parameters()), sum(tensor.numel() for tensor in state.values())
    if need > 2 * held + 1000:
        raise LabError(f"these weights do not fit {config.network}: {held:,} numbers where about {need:,} are needed")


def _says_what_it_is(header: Mapping[str, Any]) -> bool:
    return {"config", "classes", "image"} <= header.keys()


def _tensors(state: Mapping[str, Any], path: Path) -> dict[str, Tensor]:
    """The tensors of a state dict as others write it, perhaps under `state_dict` or `model`."""
    for key in ("state_dict", "model"):
        if isinstance(state.get(key), dict):
            return _tensors(state[key], path)
    return {name: value for name, value in state.items() if isinstance(value, Tensor) and isinstance(name, str)}


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

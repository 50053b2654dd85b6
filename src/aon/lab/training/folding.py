"""Write folded networks to files, with the normalisation of the input and the names of the classes."""

import json
import logging
import warnings
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import torch
from torch import Tensor, nn

from aon.lab.system.files import replacing
from aon.lab.training import checkpoints
from aon.lab.training.about import About

SUFFIXES = (".safetensors", ".onnx")


class FromPixels(nn.Module):
    """A network behind the normalisation of its pixels.

    Args:
        model: The network.
        mean: Of each channel of pixels from 0 to 1.
        std: Of the same.
    """

    def __init__(self, model: nn.Module, mean: list[float], std: list[float]) -> None:
        super().__init__()
        self.model = model
        self.mean: Tensor
        self.std: Tensor
        self.register_buffer("mean", torch.tensor(mean)[:, None, None])
        self.register_buffer("std", torch.tensor(std)[:, None, None])

    def forward(self, pixels: Tensor) -> Tensor:
        """The network's output for pixels from 0 to 1, of shape (N, C, H, W)."""
        output: Tensor = self.model((pixels - self.mean) / self.std)
        return output


def write(model: nn.Module, said: About, out: Path) -> None:
    """Write a plain network with its description.

    Args:
        model: The network, folded and in evaluation.
        said: What its weights say of themselves.
        out: A name that ends in .safetensors or .onnx.
    """
    if out.suffix == ".onnx":
        _write_onnx(model, said, out)
    else:
        checkpoints.save_weights(out, model.state_dict(), description(said, normalised=False))


def description(said: About, *, normalised: bool) -> dict[str, object]:
    """What a user of the file needs: the network, its classes, its images and how their pixels are normalised.

    Args:
        said: What the weights say of themselves.
        normalised: Whether the file itself normalises the pixels.
    """
    known = said.mean is not None and said.std is not None
    first = "pixels from 0 to 1" if normalised else "(pixels - mean) / std, by channel, of pixels from 0 to 1"
    return {
        "network": said.config.get("network"),
        "width": said.config.get("width"),
        "method": said.config.get("method"),
        "classes": said.classes,
        "image": said.image,
        "mean": said.mean,
        "std": said.std,
        "input": f"float32 NCHW: {first if known else 'normalised pixels; mean and std are not known'}",
        "output": "float32, one logit for each class",
    }


def _write_onnx(model: nn.Module, said: About, out: Path) -> None:
    whole = said.mean is not None and said.std is not None
    if said.mean is not None and said.std is not None:
        model = FromPixels(model, said.mean, said.std).eval()
    example = torch.zeros(2, *said.image)
    # The exporter tells its progress, torch's own deprecations and that torchvision is missing: of no use to a user.
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings(), redirect_stdout(StringIO()):
        warnings.simplefilter("ignore")
        batch = torch.export.Dim.AUTO
        program = torch.onnx.export(
            model,
            (example,),
            dynamo=True,
            dynamic_shapes=({0: batch},),
            input_names=["pixels"],
            output_names=["logits"],
            verbose=False,
        )
    assert program is not None
    proto = program.model_proto
    for key, value in description(said, normalised=whole).items():
        entry = proto.metadata_props.add()
        entry.key, entry.value = key, value if isinstance(value, str) else json.dumps(value)
    with replacing(out) as file:
        file.write(proto.SerializeToString())

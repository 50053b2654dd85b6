"""Fold a trained network, export it to ONNX, and serve it with onnxruntime.

The folded network is made of plain torch layers with h(W) as their weight, so the exported file holds neither the map
nor its cost, and the machine that serves it needs neither torch nor `aon`.

Needs: pip install onnx onnxscript onnxruntime

    python examples/serve_onnx.py
"""

import logging
import tempfile
import warnings
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from torch import nn

import aon


def network() -> nn.Module:
    """A small convolutional network for 16 x 16 images with three channels."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(32, 10),
    )  # fmt: skip


def trained() -> nn.Module:
    """A normalised network after a few steps on noise; what it learns does not matter here."""
    model, x, y = aon.normalise(network()), torch.randn(64, 3, 16, 16), torch.randint(10, (64,))
    optimiser = torch.optim.SGD(model.parameters(), 0.05)
    for _ in range(10):
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimiser.step()
    return model.eval()


def export(model: nn.Module, path: Path) -> None:
    """Write the network to an ONNX file that takes batches of any size."""
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter warns about torch's own deprecated names
        torch.onnx.export(
            model, (torch.randn(2, 3, 16, 16),), path, dynamo=True, input_names=["images"],
            dynamic_shapes=({0: torch.export.Dim("batch")},), verbose=False,
        )  # fmt: skip


def main() -> None:
    """Train, fold, export, serve, compare."""
    torch.manual_seed(0)
    model, images = trained(), torch.randn(5, 3, 16, 16)
    with torch.no_grad():
        expected = model(images).numpy()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        export(aon.fold(model), path)
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        (found,) = session.run(None, {"images": images.numpy()})
        print(f"file: {path.stat().st_size / 1024:.0f} KB, batch of {len(found)} images served by onnxruntime")
    print(f"largest difference from the normalised network: {np.abs(found - expected).max():.1e}")
    print(f"outputs are equal: {np.allclose(found, expected, atol=1e-5)}")


if __name__ == "__main__":
    main()

"""Use a normalised network in a Lightning module, and export it folded.

The network is normalised in `__init__`; `training_step` and `configure_optimizers` are those of any module. A
checkpoint of Lightning holds the raw weights, so training continues from it as usual.

Needs: pip install lightning

    python examples/lightning_module.py
"""

import copy
import logging
import tempfile
import warnings
from pathlib import Path

import lightning
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import aon


class Classifier(lightning.LightningModule):
    """A normalised convolutional network and how it is trained."""

    def __init__(self) -> None:
        super().__init__()
        self.network = aon.normalise(
            nn.Sequential(
                nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, stride=2, padding=1), nn.ReLU(),
                nn.Flatten(), nn.Linear(16 * 4 * 4, 2),
            )
        )  # fmt: skip

    def training_step(self, batch: list[Tensor], index: int) -> Tensor:
        """The loss of one batch."""
        images, labels = batch
        return nn.functional.cross_entropy(self.network(images), labels)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Adam, with torch's defaults but for the step size."""
        return torch.optim.Adam(self.parameters(), 3e-3)


def stripes(size: int) -> tuple[Tensor, Tensor]:
    """Noisy 8 x 8 images of horizontal (0) or vertical (1) stripes."""
    labels = torch.randint(2, (size,))
    wave = torch.sin(torch.arange(8) * torch.pi / 2 + 2 * torch.pi * torch.rand(size, 1))
    images = torch.where(
        labels.view(-1, 1, 1) == 1, wave.unsqueeze(1).expand(-1, 8, 8), wave.unsqueeze(2).expand(-1, 8, 8)
    )
    return (images + 0.8 * torch.randn(size, 8, 8)).unsqueeze(1), labels


def main() -> None:
    """Train, save and load a checkpoint, fold."""
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", category=UserWarning, module="lightning")  # advice on workers and logging
    torch.manual_seed(0)
    module, (images, labels) = Classifier(), stripes(500)
    with tempfile.TemporaryDirectory() as folder:
        trainer = lightning.Trainer(
            max_epochs=3, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
            enable_model_summary=False, default_root_dir=folder,
        )  # fmt: skip
        trainer.fit(module, DataLoader(TensorDataset(*stripes(2000)), batch_size=64, shuffle=True))
        trainer.save_checkpoint(Path(folder, "last.ckpt"), weights_only=True)
        again = Classifier.load_from_checkpoint(Path(folder, "last.ckpt"), weights_only=True).eval()
    with torch.no_grad():
        found = module.eval().network(images)
        same = torch.equal(again.network(images), found)
        folded = aon.fold(copy.deepcopy(module.network))(images)
    print(f"accuracy on new images: {100 * (found.argmax(1) == labels).float().mean():.1f} %")
    print(f"the checkpoint gives the same outputs: {same}")
    print(f"fold keeps the outputs: {torch.allclose(folded, found, atol=1e-5)}")


if __name__ == "__main__":
    main()

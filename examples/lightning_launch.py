"""Train a Lightning module on one device or on several: the trainer starts the processes, the module does not change.

The network is normalised in `__init__`, before Lightning wraps it in DDP. The batch of 64 is divided by the number of
processes, and the sampler deals each batch out to them, so the weights are those of one process to rounding.

Needs: pip install lightning

    python examples/lightning_launch.py
    python examples/lightning_launch.py 2
"""

import hashlib
import logging
import sys
import tempfile
import warnings

import lightning
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import aon

BATCH = 64


class Classifier(lightning.LightningModule):
    """A normalised network, its data and its training."""

    def __init__(self) -> None:
        super().__init__()
        draw = torch.Generator().manual_seed(0)
        self.x = torch.randn(1280, 32, generator=draw)
        self.labels = (self.x[:, :4].sum(1) > 0).long()
        self.network = aon.normalise(
            nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
        )

    def train_dataloader(self) -> DataLoader[tuple[Tensor, ...]]:
        """This process's part of each batch, in the order of the data."""
        data, world = TensorDataset(self.x, self.labels), self.trainer.world_size
        sampler: DistributedSampler[tuple[Tensor, ...]]
        sampler = DistributedSampler(data, world, self.trainer.global_rank, shuffle=False)
        return DataLoader(data, batch_size=BATCH // world, sampler=sampler)

    def training_step(self, batch: list[Tensor], index: int) -> Tensor:
        """The loss of one batch."""
        x, labels = batch
        return nn.functional.cross_entropy(self.network(x), labels)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """SGD with momentum."""
        return torch.optim.SGD(self.parameters(), 0.1, momentum=0.9)


def digest(model: nn.Module) -> str:
    """A short hash of all tensors of a model: equal for equal bits."""
    bits = b"".join(tensor.cpu().numpy().tobytes() for tensor in model.state_dict().values())
    return hashlib.sha256(bits).hexdigest()[:16]


def main() -> None:
    """Train; every process prints its loss on all the data and the hash of its network, which are the same."""
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    for kind in (UserWarning, FutureWarning):  # advice on workers and logging, and to Lightning's own authors
        warnings.filterwarnings("ignore", category=kind, module="lightning")
    devices = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    torch.manual_seed(0)
    module = Classifier()
    with tempfile.TemporaryDirectory() as folder:
        trainer = lightning.Trainer(
            max_epochs=3, accelerator="auto", devices=devices, strategy="ddp" if devices > 1 else "auto", logger=False,
            enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False, default_root_dir=folder,
        )  # fmt: skip
        trainer.fit(module)
    with torch.no_grad():
        loss = float(nn.functional.cross_entropy(module.cpu().eval().network(module.x), module.labels))
    process = f"process {trainer.global_rank} of {trainer.world_size}"
    sys.stdout.write(f"{process}: loss {loss:.6f}, model {digest(module.network)}\n")


if __name__ == "__main__":
    main()

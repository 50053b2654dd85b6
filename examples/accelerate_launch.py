"""Train on one process or on several with Accelerate: the launcher changes, the program does not.

`aon.normalise` comes before `accelerator.prepare`, which wraps the model in DDP where there are several processes.
`split_batches` keeps batches of 64 whatever their number, so the weights are those of one process to rounding.

Needs: pip install accelerate

    python examples/accelerate_launch.py
    accelerate launch --multi_gpu --num_processes 2 examples/accelerate_launch.py

Without GPUs the second command trains on as many processes of the CPU.
"""

import hashlib
import sys

import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import aon


def digest(model: nn.Module) -> str:
    """A short hash of all tensors of a model: equal for equal bits."""
    bits = b"".join(tensor.cpu().numpy().tobytes() for tensor in model.state_dict().values())
    return hashlib.sha256(bits).hexdigest()[:16]


def main() -> None:
    """Train; every process prints its loss on all the data and the hash of its model, which are the same."""
    accelerator = Accelerator(
        cpu=not torch.cuda.is_available(), dataloader_config=DataLoaderConfiguration(split_batches=True)
    )
    torch.manual_seed(0)
    x = torch.randn(1280, 32)
    labels = (x[:, :4].sum(1) > 0).long()
    network = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
    model = aon.normalise(network)
    optimiser = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    batches = DataLoader(TensorDataset(x, labels), batch_size=64)
    wrapped, optimiser, batches = accelerator.prepare(model, optimiser, batches)
    for _ in range(3):
        for inputs, targets in batches:
            optimiser.zero_grad()
            accelerator.backward(nn.functional.cross_entropy(wrapped(inputs), targets))
            optimiser.step()
    with torch.no_grad():
        outputs = model.eval()(x.to(accelerator.device)).cpu()
    loss = float(nn.functional.cross_entropy(outputs, labels))
    process = f"process {accelerator.process_index} of {accelerator.num_processes}"
    sys.stdout.write(f"{process}: loss {loss:.6f}, model {digest(model)}\n")
    accelerator.end_training()


if __name__ == "__main__":
    main()

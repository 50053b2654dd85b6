"""Statistics over several processes: two real processes compute what one computes for the whole batch."""

import os
import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from tests.processes import PATIENCE, started
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from aon.renorm import BatchRenorm
from aon.whitening import DecorrelatedBatchNorm, IterNorm

LAYERS = {
    "iternorm": partial(IterNorm, num_groups=2),
    "dbn": partial(DecorrelatedBatchNorm, num_groups=2),
    "brn": partial(BatchRenorm, warm_up=0, r_ramp_end=1, d_ramp_end=1),
}
RANKS = 2
CASES = {  # layer, samples for each process, whether statistics are shared
    "iternorm_equal": ("iternorm", (8, 8), True),
    "iternorm_unequal": ("iternorm", (3, 13), True),
    "iternorm_nothing_for_one": ("iternorm", (0, 16), True),
    "dbn_unequal": ("dbn", (3, 13), True),
    "brn_unequal": ("brn", (3, 13), True),
    "brn_nothing_for_one": ("brn", (0, 16), True),
    "iternorm_alone": ("iternorm", (8, 8), False),
}


def model_and_batch(kind: str, sync: bool) -> tuple[nn.Module, Tensor]:
    generator = torch.Generator().manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), LAYERS[kind](8, sync=sync), nn.ReLU(), nn.Conv2d(8, 4, 3)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    if kind == "brn":  # past its first batches, whose r and d are those of batch normalisation
        model[1].num_batches_tracked.fill_(1)
        model[1].running_mean.fill_(0.5)
        model[1].running_std.fill_(2.0)
    x = torch.randn(16, 3, 6, 6, generator=generator, dtype=torch.float64)
    return model, x * torch.linspace(0.1, 3, 16, dtype=torch.float64).view(-1, 1, 1, 1)


def step(model: nn.Module, x: Tensor) -> dict[str, Tensor]:
    """Output, gradients and state after one forward and backward of a sum over the samples."""
    x = x.detach().requires_grad_()
    y = model(x)
    y.pow(2).sum().backward()
    inner = model.module if isinstance(model, DistributedDataParallel) else model
    gradients = {f"grad.{name}": p.grad for name, p in inner.named_parameters()}
    return {"y": y.detach(), "x.grad": x.grad, **gradients, **inner[1].state_dict()}


def worker(rank: int, folder: Path) -> None:
    """One process: its share of the batch under DDP, for every case; writes what it got."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=RANKS)
    results = {}
    for name, (kind, split, sync) in CASES.items():
        model, x = model_and_batch(kind, sync)
        results[name] = step(DistributedDataParallel(model), x.split(split)[rank])
    torch.save(results, folder / f"{rank}.pt")
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, dict[str, Tensor]]]:
    """What each process got, by case. Real processes of this very file; gloo is told to stay on the loopback."""
    folder = tmp_path_factory.mktemp("ranks")
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    command = [sys.executable, __file__]
    with ExitStack() as stack:
        commands = [[*command, str(rank), str(folder)] for rank in range(RANKS)]
        processes = [stack.enter_context(started(words, env=environment)) for words in commands]
        assert [process.wait(timeout=PATIENCE) for process in processes] == [0] * RANKS
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(RANKS)]


@pytest.mark.parametrize("case", [case for case in CASES if CASES[case][2]])
def test_two_processes_equal_one(ranks: list[dict[str, dict[str, Tensor]]], case: str) -> None:
    parts = [rank[case] for rank in ranks]
    whole = step(*model_and_batch(CASES[case][0], sync=False))
    for name in ("y", "x.grad"):
        torch.testing.assert_close(torch.cat([part[name] for part in parts]), whole[name])
    for part in parts:
        averages = [name for name in whole if name.startswith("running")]
        assert len(averages) == 2
        for name in averages:
            torch.testing.assert_close(part[name], whole[name])
        for name in whole:
            if name.startswith("grad."):  # DDP takes the mean of the processes' gradients, ours is a sum
                torch.testing.assert_close(part[name] * RANKS, whole[name])


def test_without_sync_each_process_is_on_its_own(ranks: list[dict[str, dict[str, Tensor]]]) -> None:
    whole = step(*model_and_batch("iternorm", sync=False))
    apart = torch.cat([rank["iternorm_alone"]["y"] for rank in ranks])
    assert not torch.allclose(apart, whole["y"], rtol=0.01)


def test_sync_alone_is_no_sync() -> None:
    model, x = model_and_batch("iternorm", sync=True)
    plain, _ = model_and_batch("iternorm", sync=False)
    torch.testing.assert_close(model(x), plain(x), rtol=0, atol=0)


if __name__ == "__main__":
    worker(int(sys.argv[1]), Path(sys.argv[2]))

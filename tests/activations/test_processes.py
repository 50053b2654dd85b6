"""The process group that shares statistics, and what it refuses."""

from pathlib import Path

import pytest
import torch
from tests.lab.training import torchrun

from aon.activations.processes import check_not_empty, group_of


def test_a_process_that_is_alone_shares_with_nobody():
    """Sums over several processes, and their gradients: tests/lab/training/test_ranks.py (IterNorm, DBN, BRN)."""
    assert group_of(False) is None
    assert group_of(True) is None


def test_only_a_batch_that_is_empty_everywhere_is_refused() -> None:
    check_not_empty(torch.zeros(0, 4), torch.tensor(1.0))
    check_not_empty(torch.zeros(2, 4), torch.empty((), device="meta"))  # not looked at, which would be a wait
    with pytest.raises(ValueError, match=r"more than 1 value per channel when training, got \(0, 4\), and none in any"):
        check_not_empty(torch.zeros(0, 4), torch.tensor(0.0))


# Numbers of images on the two ranks: nothing anywhere is refused on both, and leaves the averages as they were.
EMPTY = """
import os
import torch
import torch.distributed as dist
from aon.renorm import BatchRenorm
from aon.whitening import DecorrelatedBatchNorm, IterNorm

torch.set_num_threads(1)
dist.init_process_group("gloo")
for kind in (BatchRenorm, IterNorm, DecorrelatedBatchNorm):
    for shape in ((4,), (4, 3, 3)):
        layer = kind(4, sync=True)
        for images in ((8, 5), (8, 0), (1, 0)):
            layer(torch.randn(images[dist.get_rank()], *shape)).sum().backward()
        before = {name: tensor.clone() for name, tensor in layer.state_dict().items()}
        assert all(tensor.isfinite().all() for tensor in before.values())
        try:
            layer(torch.zeros(0, *shape))
        except ValueError as error:
            assert str(error).startswith("expected more than 1 value per channel when training, got (0, 4"), error
        else:
            raise AssertionError(f"{kind.__name__} took statistics of nothing")
        assert all(torch.equal(before[name], tensor) for name, tensor in layer.state_dict().items())
        layer(torch.randn(8, *shape))  # no process waits for another
dist.barrier()
dist.destroy_process_group()
print("done", flush=True)
os._exit(0)
"""


@pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch is built without distributed")
def test_statistics_of_nothing_are_refused_in_every_process(tmp_path: Path) -> None:
    torchrun.script(tmp_path, 2, EMPTY, [])

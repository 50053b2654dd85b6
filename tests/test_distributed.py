"""Real processes over gloo on 127.0.0.1: ranks agree, DDP trains as one process would, FSDP2 shards and gathers."""

import os
import sys
from pathlib import Path

import pytest
import torch
from tests.processes import completed

PRELUDE = """
import copy, os, sys, warnings
import torch, aon
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()


def network():
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(72, 6), nn.Linear(6, 12)).double()


def data():
    return torch.randn(8, 3, 5, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def train(model, parameters, x, steps, finish=lambda: None):
    optimiser = torch.optim.SGD(parameters, 0.1, momentum=0.9)
    for _ in range(steps):
        optimiser.zero_grad()
        (model(x) - 1).square().mean().backward()
        finish()
        optimiser.step()


def alone(options, steps=4):
    "The same training in one process on the whole batch."
    torch.manual_seed(0)
    model = aon.normalise(network(), **options)
    train(model, model.parameters(), data(), steps)
    return model


def agree(state):
    "All ranks hold the same tensors."
    for name, tensor in sorted(state.items()):
        gathered = [torch.empty_like(tensor) for _ in range(world)]
        dist.all_gather(gathered, tensor.contiguous())
        for other in gathered:
            assert torch.equal(other.nan_to_num(), tensor.nan_to_num()), name


def equal(model, expected, tolerance):
    for (name, mine), theirs in zip(model.state_dict().items(), expected.state_dict().values(), strict=True):
        torch.testing.assert_close(mine, theirs, atol=tolerance, rtol=0, msg=lambda m: f"{name}: {m}")
"""
END = """
dist.barrier()
dist.destroy_process_group()
print("done", flush=True)
os._exit(0)  # not by way of gloo's threads, which now and then end a process that is done with "terminate called"
"""


def run(tmp_path: Path, body: str, ranks: int = 2) -> None:
    """The body in several processes that meet at 127.0.0.1; a failure shows what they wrote."""
    script = tmp_path / "ranks.py"
    script.write_text(PRELUDE + body + END)
    command = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={ranks}", "--local-addr=127.0.0.1",
               "--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0", str(script)]  # fmt: skip
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    done = completed(command, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("done") == ranks


pytestmark = pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch is built without distributed")


# Each rank has its part of the batch: u, weights and gains end as in one process, to rounding; ranks agree to the bit.
DDP = """
ways = [{}, {"broadcast_buffers": False}, {"gradient_as_bucket_view": True}, {"static_graph": True},
        {"find_unused_parameters": True}]
for options in ({}, {"order": 0}, {"map": aon.maps.CentredWeightNorm()}):
    expected = alone(options, 50)
    for way in ways if options == {} else ways[:2]:
        torch.manual_seed(0)
        model = aon.normalise(network(), **options)
        ddp = DistributedDataParallel(model, **way)
        train(ddp, model.parameters(), data().chunk(world)[rank], 50)
        agree(model.state_dict())
        equal(model, expected, 1e-10)
"""


def test_ddp(tmp_path):
    """Also: a model that is wrapped already is refused, since its new gains would never be synchronised."""
    run(
        tmp_path,
        DDP
        + """
try:
    aon.normalise(DistributedDataParallel(network()))
except ValueError as error:
    assert "\\n" not in str(error) and "DistributedDataParallel" in str(error), error
else:
    raise AssertionError("normalise(DDP(model)) must be refused")
""",
    )


def test_ranks_agree_whatever_their_seed(tmp_path):
    """Starting vectors come from no stream: the same weights give the same u on every rank."""
    run(
        tmp_path,
        """
torch.manual_seed(0)
model = network()
torch.manual_seed(rank)
torch.rand(rank + 3)
aon.normalise(model)
agree(model.state_dict())
""",
    )


# Recomputed forwards, two forwards to one backward and micro-batches under no_sync repeat the same step.
NO_SYNC = """
from torch.utils.checkpoint import checkpoint

class Checkpointed(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner
    def forward(self, x):
        return checkpoint(self.inner, x, use_reentrant=False)

for wrapper in (nn.Sequential, Checkpointed):
    torch.manual_seed(0)
    model = aon.normalise(network())
    ddp = DistributedDataParallel(wrapper(model))
    first, second = data().chunk(world)[rank].chunk(2)
    optimiser = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    for _ in range(50):
        optimiser.zero_grad()
        with ddp.no_sync():
            ((ddp(first) - 1).square().mean() / 2).backward()
        ((ddp(second) - 1).square().mean() / 2).backward()
        optimiser.step()
    agree(model.state_dict())
    equal(model, alone({}, 50), 1e-10)
"""


def test_no_sync_and_checkpointing_under_ddp(tmp_path):
    run(tmp_path, NO_SYNC)


def test_accumulate_under_ddp(tmp_path):
    """The map once for two micro-batches, the first under no_sync: h(W) shared (1000 expected), or F (1 expected)."""
    run(
        tmp_path,
        """
for expected in (1, 1000):
    torch.manual_seed(0)
    model = aon.normalise(network())
    ddp = DistributedDataParallel(model)
    first, second = data().chunk(world)[rank].chunk(2)
    optimiser = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    for _ in range(4):
        optimiser.zero_grad()
        with aon.accumulate(ddp, expected):
            with ddp.no_sync():
                ((ddp(first) - 1).square().mean() / 2).backward()
            assert model[3]._shared.mapped.applied == (expected == 1)
            ((ddp(second) - 1).square().mean() / 2).backward()
        optimiser.step()
    agree(model.state_dict())
    equal(model, alone({}), 1e-12)
""",
    )


# The last stage of the compiler, which takes most of the time, is left out.
COMPILED = """
torch.manual_seed(0)
model = aon.normalise(network())
compiled = torch.compile(DistributedDataParallel(model), backend="aot_eager")
train(compiled, model.parameters(), data().chunk(world)[rank], 50)
agree(model.state_dict())
equal(model, alone({}, 50), 1e-10)
"""


def test_compiled_ddp(tmp_path):
    run(tmp_path, COMPILED)


# fully_shard after normalise: each rank keeps its share of W, and trains as one process would.
FSDP = """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor

mesh = init_device_mesh("cpu", (world,))


def sharded(options, **ways):
    torch.manual_seed(0)
    model = aon.normalise(network(), **options)
    for layer in model:
        if list(layer.parameters()):
            fully_shard(layer, mesh=mesh, **ways)
    return fully_shard(model, mesh=mesh, **ways)


def gathered(model):
    return {name: t.full_tensor() if isinstance(t, DTensor) else t for name, t in model.state_dict().items()}


single = MixedPrecisionPolicy(param_dtype=torch.float32, reduce_dtype=torch.float64, output_dtype=torch.float64)
half = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32, output_dtype=torch.float64)
# The last number is the tolerance over 50 steps, that of the precision of forward and backward; bfloat16 measured: 0.1.
for options, ways, tolerance in [
    ({}, {}, 1e-10),
    ({"order": 0}, {"reshard_after_forward": False}, 1e-10),
    ({}, {"reshard_after_forward": True}, 1e-10),
    ({}, {"mp_policy": single}, 1e-4),
    ({}, {"mp_policy": half}, 0.3),
]:
    model = sharded(options, **ways)
    assert isinstance(model[0].weight, DTensor)
    train(model, model.parameters(), data().chunk(world)[rank], 50)
    expected, whole = alone(options, 50), gathered(model)
    agree(whole)
    for name, tensor in expected.state_dict().items():
        torch.testing.assert_close(whole[name], tensor, atol=tolerance, rtol=0, msg=lambda m: f"{name}: {m}")
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(model.eval()(data()), expected.eval()(data()), atol=10 * tolerance, rtol=0)
"""
# Files of torch.distributed.checkpoint: from shards into a plain model, and from there into shards again.
FILES = """
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict

folder = os.path.dirname(os.path.abspath(__file__))
model = sharded({})
train(model, model.parameters(), data().chunk(world)[rank], 3)
whole = gathered(model)
dcp.save(get_model_state_dict(model), checkpoint_id=f"{folder}/shards")
torch.manual_seed(5)
plain = aon.normalise(network())
state = plain.state_dict()
dcp.load(state, checkpoint_id=f"{folder}/shards")
plain.load_state_dict(state)
for name, tensor in plain.state_dict().items():
    assert torch.equal(tensor.nan_to_num(), whole[name].nan_to_num()), name
dcp.save(plain.state_dict(), checkpoint_id=f"{folder}/plain")
other = sharded({"gain_init": "match"})
state = get_model_state_dict(other)
dcp.load(state, checkpoint_id=f"{folder}/plain")
set_model_state_dict(other, state)
for name, tensor in gathered(other).items():
    assert torch.equal(tensor.nan_to_num(), whole[name].nan_to_num()), name
"""


def test_fsdp2(tmp_path):
    run(tmp_path, FSDP + FILES)


def test_four_ranks(tmp_path):
    """The same, with weights whose rows do not divide by the number of ranks."""
    run(tmp_path, DDP + NO_SYNC + COMPILED + FSDP + FILES, ranks=4)


def test_what_shards_cannot_do_is_said_plainly(tmp_path):
    """Outside of forward a rank has a part of W: no reading without `unshard`, no folding, no normalising then.

    Under tensor parallelism it has a part in forward too, which is refused.
    """
    run(
        tmp_path,
        """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

def refused(error, message, call):
    try:
        call()
    except error as found:
        assert message in str(found), found
    else:
        raise AssertionError(f"expected: {message}")

mesh = init_device_mesh("cpu", (world,))
torch.manual_seed(0)
plain = network()
late = copy.deepcopy(plain)
fully_shard(late, mesh=mesh)
refused(ValueError, "its weight is sharded (a DTensor); normalise before sharding", lambda: aon.normalise(late))
assert type(late[0]) is nn.Conv2d

model = aon.normalise(copy.deepcopy(plain))
expected = aon.normalised_weight(model[0]).detach().clone()
fully_shard(model, mesh=mesh)
part = "this rank holds only a part of the weight"
refused(RuntimeError, part, lambda: aon.normalised_weight(model[0]))
refused(RuntimeError, part, lambda: aon.spectra(model))
refused(ValueError, "cannot fold under FSDP", lambda: aon.fold(model))
model.unshard()
torch.testing.assert_close(aon.normalised_weight(model[0]), expected, atol=0, rtol=0)
assert len(aon.spectra(model)) == 3
refused(ValueError, "cannot fold under FSDP", lambda: aon.fold(model))

from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

model = parallelize_module(aon.normalise(copy.deepcopy(plain), include="3"), mesh, {"3": ColwiseParallel()})
refused(RuntimeError, "tensor parallelism cannot be used, since h(W) needs all of W", lambda: model(data()))
""",
    )

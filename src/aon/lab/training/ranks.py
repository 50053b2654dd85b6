"""The processes of a run under torchrun, and what they exchange.

# Note [One run on several processes]
Every process sees its slice of each batch; the batches, their augmentation and their order are those of one process.
DDP averages the gradients. What a run decides (to stop, to save) is decided by all at the same step, and rank 0
alone writes and prints. A checkpoint therefore does not depend on the number of processes.

# Note [Meeting after a restart]
torchrun keeps one store for all its restarts, and torch writes the addresses of every attempt under the same keys: a
process that starts before its peers reads where they lived in the attempt before, and fails to connect. So rank 0
names each meeting anew, the others answer with a word of their own, and all go on under the name of a meeting that
has seen their word. Restart counts would not do: with several machines each counts its own.
"""

import hashlib
import os
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._C._distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous
from torch.nn.parallel import DistributedDataParallel

from aon.lab.errors import LabError, ReportedError

_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
_MEETING = "aon meeting"
_PATIENCE = 1800  # seconds, as torch waits for its groups
_PAUSE = 0.02  # seconds between two looks at a meeting that is not complete
_NUMBERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")


@dataclass(frozen=True)
class Ranks:
    """This process among those of its run; by default it is alone, and everything below costs nothing.

    Attributes:
        rank: Its number.
        world: How many there are.
        local: Its number on its machine.
        local_world: How many there are on its machine.
        control: The group over which processes agree, on the CPU whatever the device.
    """

    rank: int = 0
    world: int = 1
    local: int = 0
    local_world: int = 1
    control: dist.ProcessGroup | None = None

    @property
    def first(self) -> bool:
        """Whether this process is the one that writes and prints."""
        return self.rank == 0

    def part(self, n: int) -> slice:
        """The slice of n images that this process sees; slices differ by one image at most.

        Args:
            n: Images in the whole batch.

        Example:
            >>> [Ranks(rank, 4).part(10) for rank in range(4)]
            [slice(0, 3, None), slice(3, 6, None), slice(6, 8, None), slice(8, 10, None)]
        """
        size, rest = divmod(n, self.world)
        begin = self.rank * size + min(self.rank, rest)
        return slice(begin, begin + size + (self.rank < rest))

    def sum(self, tensor: Tensor) -> Tensor:
        """Sum of the tensors of all processes, in place.

        Args:
            tensor: On the run's device.
        """
        if self.world > 1:
            dist.all_reduce(tensor)
        return tensor

    def agree(self, *flags: bool) -> tuple[bool, ...]:
        """For each flag, whether any process has set it.

        Args:
            *flags: Those of this process.
        """
        if self.world == 1:
            return flags
        votes = torch.tensor(flags, dtype=torch.int32)
        dist.all_reduce(votes, group=self.control)
        return tuple(bool(vote) for vote in votes)

    def from_first(self, make: Callable[[], bytes]) -> bytes:
        """What rank 0 makes, on every rank.

        Args:
            make: Called on rank 0 alone.

        Raises:
            ToldError: on the others, if it fails there.
        """
        if self.world == 1:
            return make()
        length = torch.full((1,), -1, dtype=torch.int64)
        if not self.first:
            dist.broadcast(length, 0, group=self.control)
            return self._receive(int(length))
        try:
            data = make()
            length.fill_(len(data))
        finally:  # also when it fails: the others wait
            dist.broadcast(length, 0, group=self.control)
        if data:
            dist.broadcast(torch.frombuffer(bytearray(data), dtype=torch.uint8), 0, group=self.control)
        return data

    def _receive(self, length: int) -> bytes:
        if length < 0:
            raise ReportedError("rank 0 failed")
        data = torch.empty(length, dtype=torch.uint8)
        if length:
            dist.broadcast(data, 0, group=self.control)
        return data.numpy().tobytes()

    @contextmanager
    def copy_of(self, path: Path) -> Iterator[Path]:
        """A file of rank 0 that every rank can read, whether or not they share a file system.

        Args:
            path: The file on rank 0's machine.
        """
        if self.world == 1:
            yield path
            return
        data = self.from_first(path.read_bytes)
        if self.first:
            yield path
            return
        with tempfile.TemporaryDirectory(prefix="aon-") as folder:
            copy = Path(folder) / path.name
            copy.write_bytes(data)
            yield copy

    def wrap(self, model: nn.Module, device: torch.device) -> nn.Module:
        """The network whose backward averages gradients over the processes; itself if there is one process.

        Args:
            model: The network.
            device: Where it is computed.
        """
        if self.world == 1:
            return model
        return DistributedDataParallel(model, device_ids=[device.index] if device.type == "cuda" else None)

    def share_buffers(self, model: nn.Module) -> None:
        """Give all processes the buffers of rank 0, such as the running statistics of batch normalisation.

        Args:
            model: The network.
        """
        if self.world > 1:
            for buffer in model.buffers():
                dist.broadcast(buffer, 0)

    def draw_own(self, seed: int, step: int) -> None:
        """Give this process random numbers of its own (for dropout) that depend on the seed and the step alone.

        Args:
            seed: The run's.
            step: The step within the run.
        """
        if self.world > 1:
            digest = hashlib.sha256(f"aon rank {seed} {step} {self.rank}".encode()).digest()
            torch.manual_seed(int.from_bytes(digest[:7], "big"))

    def device(self, name: str) -> str:
        """The device setting of this process: one GPU of its machine each.

        Args:
            name: The run's setting.

        Raises:
            LabError: if the setting names one device for all, or there are fewer than processes.
        """
        if self.world == 1 or name == "cpu":
            return name
        if name not in ("auto", "cuda"):
            raise LabError(f"device = {name!r}: {self.world} processes need a device each; use auto, cuda or cpu")
        count = torch.cuda.device_count()
        if name == "auto" and count == 0:
            return "cpu"
        if count < self.local_world:
            raise LabError(f"device = {name!r}: {self.local_world} processes here, but {count} CUDA devices")
        return f"cuda:{self.local}"


ALONE = Ranks()


def launched() -> bool:
    """Whether torchrun, or anything that sets its variables, started this process as one of several.

    Raises:
        LabError: if one of the numbers among them is none.
    """
    if not all(name in os.environ for name in _VARIABLES):
        return False
    for name in _NUMBERS:
        if not os.environ.get(name, "1").isdecimal():
            raise LabError(
                f"the environment has {name}={os.environ[name]!r}: should be a whole number, as torchrun sets it"
            )
    return int(os.environ["WORLD_SIZE"]) > 1


@contextmanager
def joined(device: str) -> Iterator[Ranks]:
    """Meet the other processes of this run, if torchrun started several; else this process is alone.

    Args:
        device: The run's setting: NCCL joins GPUs, gloo joins CPUs.

    Raises:
        ToldError: instead of any other error, if another process has already reported its own.
    """
    if not launched():
        yield ALONE
        return
    ranks = Ranks(*(int(os.environ.get(name, "1")) for name in _NUMBERS))  # type: ignore[arg-type]
    chosen = torch.device(ranks.device(device))
    if chosen.type == "cuda":
        torch.cuda.set_device(chosen)
    backend = "nccl" if chosen.type == "cuda" else "gloo"
    store, _, _ = next(rendezvous("env://"))
    dist.init_process_group(backend, store=_meet(store, ranks), rank=ranks.rank, world_size=ranks.world)
    try:
        yield replace(ranks, control=dist.new_group(backend="gloo"))
        dist.barrier()
    except Exception as error:
        if isinstance(error, ReportedError) or not _is_first_to_report():
            raise ReportedError(str(error)) from error
        raise
    finally:
        dist.destroy_process_group()


def _meet(store: Store, ranks: Ranks) -> Store:
    """The part of the store that this attempt alone uses; see Note [Meeting after a restart]."""
    word = secrets.token_hex(8)
    if ranks.first:
        store.set(_MEETING, word)
        words = [store.get(f"{_MEETING} {word} {rank}").decode() for rank in range(1, ranks.world)]  # waits for each
        store.set(f"{_MEETING} {word}", " ".join(words))
        return PrefixStore(word, store)
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        meeting = store.get(_MEETING).decode()
        store.set(f"{_MEETING} {meeting} {ranks.rank}", word)
        complete = f"{_MEETING} {meeting}"
        if store.check([complete]) and word in store.get(complete).decode().split():
            return PrefixStore(meeting, store)
        time.sleep(_PAUSE)
    raise LabError(f"rank {ranks.rank} waited {_PATIENCE} s for rank 0 of {ranks.world} processes")


def _is_first_to_report() -> bool:
    """Whether no other process of this attempt has failed before; the store outlives the processes."""
    store = dist.distributed_c10d._get_default_store()
    try:
        return int(store.add("aon reported", 1)) == 1
    except RuntimeError:  # the store is gone with rank 0, which has reported the error
        return False

"""`bench calls`: how many operations one weight map calls, forward and backward.

On small weights the calls are the cost, and on a GPU each is the launch of a kernel. Views are none. A map on the meta
device takes the way of every device but the CPU: its calls are those that a GPU would be given.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from aon.lab.bench import record
from aon.lab.bench.cases.step import Subject
from aon.lab.bench.peers import PEERS, PLAIN, Peer, aon_peer
from aon.lab.bench.rounds import Measured
from aon.model.layers import NormalisedLayer
from aon.model.together import Together

SHAPES = {"16 x 144": (16, 144), "144 x 16": (144, 16)}
DEVICES = {"the CPU": torch.device("cpu"), "another device": torch.device("meta")}
VIEWS = {
    *("transpose", "diagonal", "unsqueeze", "squeeze", "view", "_unsafe_view", "expand", "detach", "alias", "t"),
    *("as_strided", "permute", "unbind", "select", "slice"),
}
NETWORK = "resnet20"
TOGETHER, SEPARATE = "bn+aon", "bn+aon, each layer on its own"
MAPS = (
    next(peer for peer in PEERS if peer.name == PLAIN),
    aon_peer(2),
    aon_peer(0),
    aon_peer(4),
    aon_peer(2, centre="top"),
    aon_peer(2, expansion="minimax"),
)


class Calls(TorchDispatchMode):
    """Counts the operations that run while it is active.

    Attributes:
        names: Of the operations, without views.

    Example:
        >>> with Calls() as calls:
        ...     _ = torch.ones(2, 3).mT + 1
        >>> calls.names
        ['ones', 'add']
    """

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Do the operation and note its name."""
        name = str(func).removeprefix("aten.").split(".")[0]
        if name not in VIEWS:
            self.names.append(name)
        return func(*args, **(kwargs or {}))


def count(peer: Peer, shape: tuple[int, int], device: torch.device) -> tuple[list[str], list[str]]:
    """The operations of a map, forward and backward."""
    W = torch.randn(shape, generator=torch.Generator().manual_seed(0)) / shape[1] ** 0.5
    read, parameters = peer.install(W.to(device))
    for _ in range(2):  # the second time, the weight is not new; in training it always is
        with torch.no_grad():
            parameters[0].mul_(0.99)
        with Calls() as there:
            H = read()
        gradient = torch.ones_like(H)
        with Calls() as back:
            torch.autograd.grad(H, parameters, gradient)
    return there.names, back.names


def count_in_network(device: torch.device) -> dict[str, tuple[float, float]]:
    """What the maps of a network add to the calls of its step, for each map: together, and each layer on its own."""
    x = torch.randn(2, 3, 32, 32, device=device)
    plain = _step(Subject(NETWORK, batch=2, device=device).plain(), x)
    found = {}
    for name in (TOGETHER, SEPARATE):
        model = Subject(NETWORK, batch=2, device=device).prepare("bn+aon").model
        if name == SEPARATE:
            Together.remove(model)
        layers = sum(isinstance(module, NormalisedLayer) for module in model.modules())
        there, back = ((a - b) / layers for a, b in zip(_step(model, x), plain, strict=True))
        found[name] = there, back
    return found


def _step(model: nn.Module, x: Tensor) -> tuple[int, int]:
    """The number of calls of a step, forward and backward; of the second step, as `count` has it."""
    for _ in range(2):
        model.zero_grad()
        with Calls() as there:
            y = model(x).sum()
        with Calls() as back:
            y.backward()
    return len(there.names), len(back.names)


def bench_calls(*, notify: Callable[[str], None] = lambda _: None) -> record.BenchRecord:
    """Count the calls of AON with several options, and of AON by plain autograd."""
    cases = []
    for where, device in DEVICES.items():
        for title, shape in SHAPES.items():
            notify(f"{title} on {where}")
            found = {peer.name: [len(names) for names in count(peer, shape, device)] for peer in MAPS}
            cases.append(_case(f"calls of a map of {title} on {where}", found))
    for where, device in DEVICES.items():
        notify(f"{NETWORK} on {where}")
        cases.append(_case(f"calls of the maps of {NETWORK}, for each of them, on {where}", count_in_network(device)))
    settings = {"shapes": list(SHAPES.values()), "maps": [peer.name for peer in MAPS]}
    return record.make("calls", settings, cases, unit="calls")


def _case(name: str, found: Mapping[str, Sequence[float]]) -> record.Case:
    totals = {each: float(there + back) for each, (there, back) in found.items()}
    facts = {each: {"forward": there, "backward": back} for each, (there, back) in found.items()}
    measured = Measured({each: [total] for each, total in totals.items()}, dict.fromkeys(totals, 1))
    return record.case(name, next(iter(found)), measured, facts_of=facts)

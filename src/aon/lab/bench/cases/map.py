"""`bench map`: forward and backward of weight maps alone, ours and others', over the convolutions of a network."""

from collections import Counter
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor

from aon.lab.bench import record
from aon.lab.bench.cases.step import Subject
from aon.lab.bench.peers import ORDERS, PEERS, Peer, ours
from aon.lab.bench.rounds import CLOCKS, Plan, Run, measure
from aon.lab.errors import LabError
from aon.lab.models import classifier_names
from aon.lab.planning import flops
from aon.model.matrices import weight_matrix
from aon.model.selection import select


def choose(patterns: str | None, *, slow: bool = True) -> list[Peer]:
    """The peers that patterns name, in the order of the patterns; all of them if there are none.

    Args:
        patterns: Names or shell-style patterns, separated by commas.
        slow: Whether the slow ones are among them where no pattern is given.

    Raises:
        LabError: if a pattern matches nothing.

    Example:
        >>> [peer.name for peer in choose("aon,torch-spectral*")]
        ['aon', 'torch-spectral-norm', 'torch-spectral-norm-hook']
    """
    if patterns is None:
        return [peer for peer in PEERS if slow or not peer.slow]
    chosen: dict[str, Peer] = {}
    for pattern in (part.strip() for part in patterns.split(",")):
        found = {peer.name: peer for peer in PEERS if fnmatchcase(peer.name, pattern)}
        if not found:
            raise LabError(f"no variant {pattern!r}: there are {', '.join(peer.name for peer in PEERS)}")
        chosen |= found
    return list(chosen.values())


def matrices(subject: Subject) -> list[Tensor]:
    """The weights that methods act on, as matrices (m, n)."""
    model = subject.plain()
    layers = select(model, exclude=classifier_names(model))
    found = [weight_matrix(layer).detach() for _, layer in layers]
    return [W for matrix in found for W in (matrix if matrix.dim() == 3 else [matrix])]


class RoundTrip:
    """Forward and backward of every weight, layer by layer, so that the largest peers fit into memory."""

    def __init__(self, peer: Peer, weights: Sequence[Tensor]) -> None:
        # The weight itself serves as the gradient from above: any matrix would, and this one takes no memory.
        self.parts = [(*peer.install(W), W) for W in weights]

    def __call__(self) -> None:
        """Compute all."""
        for read, parameters, dH in self.parts:
            torch.autograd.grad(read(), parameters, dH)


class Extrapolated:
    """The same for a peer that takes minutes: one layer of each shape, its time times the number of such layers."""

    def __init__(self, peer: Peer, weights: Sequence[Tensor], clock: Callable[[], float]) -> None:
        self.clock = clock
        self.counts = Counter(W.shape for W in weights)
        first = {W.shape: W for W in weights}
        self.trips = {shape: RoundTrip(peer, [W]) for shape, W in first.items()}

    def __call__(self) -> float:
        """Seconds that all weights would take."""
        seconds = 0.0
        for shape, trip in self.trips.items():
            began = self.clock()
            trip()
            seconds += self.counts[shape] * (self.clock() - began)
        return seconds


def bench_map(
    subject: Subject,
    plan: Plan,
    *,
    variants: str | None = None,
    slow: bool = True,
    notify: Callable[[str], None] = lambda _: None,
) -> record.BenchRecord:
    """Measure forward and backward of each map over all weights of the network.

    Args:
        subject: The network; its batch does not matter.
        plan: How often. A variant's limit ends it after the call that passes it.
        variants: Names or patterns of those to measure, the first being what others are divided by.
        slow: Whether the slow ones are measured where no variants are named.
        notify: Called with a line for each thing that is being done.

    Raises:
        LabError: if a pattern matches nothing, or the base cannot be measured.
    """
    chosen = choose(variants, slow=slow)
    weights = matrices(subject)
    absent = {peer.name: f"package {peer.package} is not installed" for peer in chosen if not peer.is_installed}
    runs: dict[str, Run] = {}
    for peer in chosen:
        if peer.is_installed:
            notify(f"installing {peer.name}")
            _install(peer, weights, plan, runs, absent)
    measured = measure(
        runs, plan, may_fail={peer.name for peer in chosen if peer.may_fail}, notify=notify, wait=subject.wait
    )
    base = "aon" if any(peer.name == "aon" for peer in chosen) and variants is None else chosen[0].name
    facts = {"shapes": [list(W.shape) for W in weights], "parameters": sum(W.numel() for W in weights)}
    facts_of: dict[str, dict[str, Any]] = {
        peer.name: {"orthogonalises": peer.orthogonalises, "extrapolated": peer.slow} for peer in chosen
    }
    for order in ORDERS:
        facts_of.setdefault(ours(order), {})["flops"] = flops.of_maps(weights, order)
    case = record.case(f"weight map, {subject.name}", base, measured, absent=absent, facts=facts, facts_of=facts_of)
    return record.make("map", subject.settings(), [case], plan=plan, device=subject.device)


def _install(peer: Peer, weights: Sequence[Tensor], plan: Plan, runs: dict[str, Run], absent: dict[str, str]) -> None:
    """Install a peer; a failure in other packages is recorded instead of raised."""
    try:
        clock = CLOCKS[plan.clock]
        runs[peer.name] = Extrapolated(peer, weights, clock) if peer.slow else RoundTrip(peer, weights)
    except Exception as error:
        if not peer.may_fail:
            raise
        absent[peer.name] = " ".join(f"{type(error).__name__}: {error}".split())[:200]

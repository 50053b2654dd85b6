"""`bench map`: forward and backward of the weight map alone over the convolutions of a network, ours and others'."""

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase

import torch
from torch import Tensor

from aon.lab.bench import record
from aon.lab.bench.peers import PEERS, Peer, Read
from aon.lab.bench.rounds import Plan, Run, measure
from aon.lab.bench.step import Subject
from aon.lab.errors import LabError
from aon.lab.models import classifier_names
from aon.matrices import weight_matrix
from aon.selection import select


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


def round_trip(peer: Peer, weights: Sequence[Tensor]) -> Run:
    """A function that computes every mapped weight and its gradient once."""
    stream = torch.Generator().manual_seed(1)
    parts = [(*peer.install(W), torch.randn(W.shape, generator=stream).to(W.device)) for W in weights]
    return lambda: [_there_and_back(*part) for part in parts]


def _there_and_back(read: Read, parameters: Sequence[Tensor], dH: Tensor) -> None:
    torch.autograd.grad(read(), parameters, dH)


def bench_map(
    subject: Subject,
    plan: Plan,
    *,
    variants: str | None = None,
    slow: bool = True,
    tell: Callable[[str], None] = lambda _: None,
) -> record.BenchRecord:
    """Measure forward and backward of each map over all weights of the network.

    Args:
        subject: The network; its batch does not matter.
        plan: How often. A variant's limit ends it after the call that passes it.
        variants: Names or patterns of those to measure, the first being what others are divided by.
        slow: Whether the slow ones are measured where no variants are named.
        tell: Told what is being done.

    Raises:
        LabError: if a pattern matches nothing, or the base cannot be measured.
    """
    chosen = choose(variants, slow=slow)
    weights = matrices(subject)
    absent = {peer.name: f"package {peer.package} is not installed" for peer in chosen if not peer.is_installed}
    runs, theirs = {}, {peer.name for peer in chosen if not peer.name.startswith("aon")}
    for peer in chosen:
        if peer.is_installed:
            tell(f"installing {peer.name}")
            runs[peer.name] = _guarded(peer, weights, absent) if peer.name in theirs else round_trip(peer, weights)
    measured = measure({k: run for k, run in runs.items() if run}, plan, may_fail=theirs, tell=tell, wait=subject.wait)
    base = "aon" if any(peer.name == "aon" for peer in chosen) and variants is None else chosen[0].name
    facts = {"shapes": [list(W.shape) for W in weights], "parameters": sum(W.numel() for W in weights)}
    facts_of = {peer.name: {"orthogonalises": peer.orthogonalises} for peer in PEERS}
    case = record.case(f"weight map, {subject.network}", base, measured, absent=absent, facts=facts, facts_of=facts_of)
    return record.make("map", subject.settings(), [case], plan=plan, device=subject.device)


def _guarded(peer: Peer, weights: Sequence[Tensor], absent: dict[str, str]) -> Run | None:
    """Other people's code may fail while it is installed; that is noted."""
    try:
        return round_trip(peer, weights)
    except Exception as error:
        absent[peer.name] = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        return None

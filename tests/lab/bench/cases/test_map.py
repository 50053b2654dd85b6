"""The maps are measured over the network's convolutions; those that cannot be measured are named."""

import pytest
import torch

from aon.lab.bench.cases import map as weight_map
from aon.lab.bench.cases.map import Extrapolated, RoundTrip, bench_map, choose, matrices
from aon.lab.bench.cases.step import Subject
from aon.lab.bench.peers import PEERS, Peer
from aon.lab.bench.rounds import Plan
from aon.lab.errors import LabError

TINY = Subject("resnet20", 0.25, 1)
QUICK = Plan(rounds=2, warm_up=1, least=0)
BY_NAME = {peer.name: peer for peer in PEERS}


def test_the_matrices_are_those_of_the_convolutions():
    found = matrices(Subject("vgg16-iternorm", 0.125))
    assert len(found) == 16
    assert found[0].shape == (8, 27)
    assert found[-1].shape == (64, 64 * 9)


def test_choosing_by_pattern_keeps_the_order_given():
    assert [peer.name for peer in choose("polar-svd,aon,aon*")][:3] == ["polar-svd", "aon", "aon:order=0"]
    assert choose(None) == list(PEERS)
    assert all(not peer.slow for peer in choose(None, slow=False))
    with pytest.raises(LabError, match="no variant 'polr': there are aon:order=0, aon"):
        choose("aon,polr")


def test_the_record_of_the_maps():
    found = bench_map(TINY, QUICK, variants="aon,aon:order=0,torch-spectral-norm,polar-svd")
    (case,) = found.cases
    assert case.base == "aon"
    assert [variant.name for variant in case.variants] == ["aon", "aon:order=0", "torch-spectral-norm", "polar-svd"]
    assert case.facts["parameters"] == sum(W.numel() for W in matrices(TINY))
    assert case.variant("aon").facts["orthogonalises"]
    assert not case.variant("torch-spectral-norm").facts["orthogonalises"]
    assert case.variant("aon").facts["flops"] > case.variant("aon:order=0").facts["flops"] > 0
    assert "flops" not in case.variant("polar-svd").facts


def test_the_absent_and_the_broken_are_named(monkeypatch):
    def broken(_):
        raise RuntimeError("no\nmemory")

    def late(W):
        weight = torch.nn.Parameter(W.clone())
        return lambda: broken(weight), [weight]

    others = (
        Peer("gone", broken, package="no_such.package"),
        Peer("broken", broken, package="torch"),
        Peer("late", late, slow=True),
    )
    monkeypatch.setattr(weight_map, "PEERS", (BY_NAME["aon"], *others))
    (case,) = bench_map(TINY, QUICK).cases
    assert case.absent == {
        "gone": "package no_such.package is not installed",
        "broken": "RuntimeError: no memory",
        "late": "RuntimeError: no memory",
    }
    assert [variant.name for variant in case.variants] == ["aon"]


def test_our_own_failure_is_not_excused(monkeypatch):
    def broken(_):
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(weight_map, "PEERS", (Peer("aon", broken),))
    with pytest.raises(RuntimeError, match="a fault of ours"):
        bench_map(TINY, QUICK)


def test_an_extrapolation_multiplies_by_the_number_of_layers():
    reads, now = [], [0.0]

    def install(W):
        weight = torch.nn.Parameter(W.clone())

        def read():
            reads.append(tuple(W.shape))
            now[0] += W.shape[0]
            return 2 * weight

        return read, [weight]

    weights = [torch.ones(2, 3), torch.ones(4, 5), torch.ones(2, 3), torch.ones(2, 3)]
    trip = Extrapolated(Peer("slow", install, slow=True), weights, lambda: now[0])
    assert trip() == 3 * 2 + 1 * 4
    assert reads == [(2, 3), (4, 5)]


def test_a_round_trip_goes_through_every_weight():
    reads = []

    def install(W):
        weight = torch.nn.Parameter(W.clone())
        weight.register_hook(lambda _: reads.append(("back", len(W))))
        return lambda: reads.append(("there", len(W))) or weight * 1, [weight]

    RoundTrip(Peer("a", install), [torch.ones(2, 3), torch.ones(4, 5)])()
    assert [each for each in reads if each[0] == "there"] == [("there", 2), ("there", 4)]

"""Ideas are measured beside what they would replace, on small sizes here."""

import torch

from aon.lab.bench.cases import tried
from aon.lab.bench.cases.tried import bench_tried
from aon.lab.bench.rounds import Plan


def test_the_record_of_what_was_tried(monkeypatch):
    monkeypatch.setattr(tried, "ROWS", 8)
    monkeypatch.setattr(tried, "COLUMNS", 24)
    monkeypatch.setattr(torch, "compile", lambda function: function)  # the compiler has its tests, and takes its time
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
    found = bench_tried(Plan(rounds=1, warm_up=1, least=0))
    cases = {case.name: case for case in found.cases}
    assert len(cases) == 6 + len(tried.POSITIONS)
    errors = [variant.facts["error"] for variant in cases["the map's products in bfloat16"].variants]
    assert errors[0] < 1e-6 < errors[1] < 1e-1
    assert all(variant.facts["error"] < 1e-6 for variant in cases["C W by Strassen"].variants)
    assert not any(case.absent for case in found.cases)


def test_both_ways_of_applying_give_the_same_output():
    layer = tried.aon.normalise(torch.nn.Linear(24, 8), gain=False)
    x = torch.randn(5, 24)
    outputs = []
    for kind in (tried._Formed, tried._Applied):
        layer.__class__ = kind
        assert layer._mapped(x).applied == (kind is tried._Applied)
        outputs.append(layer(x))
    assert torch.allclose(*outputs, atol=1e-6)


def test_strassen_is_a_product():
    A, B = torch.randn(6, 8, dtype=torch.float64), torch.randn(8, 10, dtype=torch.float64)
    assert torch.allclose(tried.strassen(A, B), A @ B, atol=1e-13)

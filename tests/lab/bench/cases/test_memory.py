"""Peak memory of a step: counted for known allocations, and measured for a real process."""

import pytest
import torch
from torch import nn

from aon.lab.bench.cases import memory
from aon.lab.bench.cases.memory import bench_memory, peak_bytes, peak_resident, resident_peak, weight_bytes
from aon.lab.bench.cases.step import Subject, TrainingStep
from aon.lab.errors import LabError

TINY = Subject("resnet20", 0.25, 4)
MEGABYTE = 2**20


class Known(TrainingStep):
    """A step that holds a parameter and its gradient, and makes a tensor of known size."""

    def __init__(self, extra):
        self.model = nn.Linear(1000, 1, bias=False)
        self.optimiser = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.x, self.y = torch.zeros(1000), torch.zeros(1000)
        self.extra = extra

    def __call__(self):
        self.model.weight.grad = torch.zeros(1, 1000)
        self.optimiser.step()
        torch.zeros(self.extra)


def test_the_peak_of_a_known_step():
    # parameter, momentum, gradient, x, y, and the extra tensor
    assert peak_bytes(Known(50_000)) == (5 * 1000 + 50_000) * 4
    assert peak_bytes(Known(90_000)) - peak_bytes(Known(50_000)) == 40_000 * 4


def test_the_peak_is_the_same_each_time():
    assert len({peak_bytes(TrainingStep(TINY, "bn+aon")) for _ in range(2)}) == 1


def test_resident_memory_sees_what_is_allocated():
    before = resident_peak()
    held = torch.ones(64 * MEGABYTE // 4)
    assert resident_peak() - before >= 0
    assert resident_peak() >= held.numel() * 4


def test_a_process_of_its_own_tells_its_peak():
    small, large = (peak_resident(Subject("resnet20", 0.25, batch), "bn") for batch in (1, 256))
    # He's first stage at batch 256 keeps 4 channels of 32 x 32 for each layer: far more than an allocator's noise.
    assert large - small > 20 * MEGABYTE


def test_a_process_that_fails_is_told_in_one_line():
    with pytest.raises(LabError, match=r"resident memory of bn\+nothing failed: .*LabError.*nothing") as caught:
        peak_resident(TINY, "bn+nothing")
    assert "\n" not in str(caught.value)


def test_the_bytes_of_the_weights_leave_classifier_and_norms_out():
    expected = sum(m.weight.numel() * 4 for m in TINY.plain().modules() if isinstance(m, nn.Conv2d))
    assert weight_bytes(TINY) == expected


def test_the_record_of_memory(monkeypatch):
    peaks = iter([100.0, 300.0, 110.0, 340.0, 120.0, 330.0])
    monkeypatch.setattr(memory, "peak_resident", lambda *_: next(peaks))
    found = bench_memory(TINY, "bn,bn+aon")
    live, resident = found.cases
    assert found.unit == "bytes"
    unit = live.facts["unit_bytes"]
    bn, ours = live.variants
    assert bn.facts == {"beyond": 0, "units": 0}
    assert ours.facts["beyond"] == ours.repeats[0] - bn.repeats[0] > 0
    assert ours.facts["units"] == pytest.approx(ours.facts["beyond"] / unit)
    assert [variant.repeats for variant in resident.variants] == [(100, 110, 120), (300, 340, 330)]
    assert resident.variants[1].facts["beyond"] == 210


def test_without_the_cross_check_there_is_one_case():
    assert len(bench_memory(TINY, "bn", resident=False).cases) == 1

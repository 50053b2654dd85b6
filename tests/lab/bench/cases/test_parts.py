"""The parts of what AON adds to a step are parts of it, and their table says so."""

import pytest
import torch

from aon.lab.bench.cases.parts import BASE, MAPS, OURS, PRODUCTS, Layer, bench_parts
from aon.lab.bench.cases.step import Subject
from aon.lab.bench.output.document import parts_table
from aon.lab.bench.rounds import Plan
from aon.lab.planning import flops

FORMED = flops.Sizes(groups=1, rows=6, columns=20, positions=100)
TALL = flops.Sizes(groups=1, rows=20, columns=6, positions=100)
APPLIED = flops.Sizes(groups=1, rows=130, columns=600, positions=10)


@pytest.mark.parametrize("sizes", [FORMED, TALL, APPLIED], ids=["formed", "tall", "applied"])
def test_the_products_alone_are_those_that_are_counted(sizes):
    assert flops.is_formed(sizes) == (sizes is not APPLIED)
    layer = Layer(sizes)
    with torch.utils.flop_counter.FlopCounterMode(display=False, custom_mapping=flops._PASSED_OVER) as counter:
        layer.products()
    assert counter.get_total_flops() == flops.of_map_in_step(sizes)
    layer.step()


def test_the_record_and_its_table():
    found = bench_parts(Subject("resnet20", 0.25, 4), Plan(rounds=2, warm_up=1, least=0))
    (case,) = found.cases
    assert {variant.name for variant in case.variants} == {BASE, OURS, PRODUCTS, MAPS}
    table = parts_table([found])
    assert table.splitlines()[2].startswith(f"| resnet20 at width 0.25, batch 4 | {case.facts['counted']:.3f} | ")
    assert parts_table([]) == ""

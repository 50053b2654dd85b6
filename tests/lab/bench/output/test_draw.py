"""Figures of records: every bar and line is there; files are complete and reproducible."""

import pytest

from aon.lab.bench.output.draw import draw, figure
from aon.lab.bench.record import BenchRecord, Case, variant
from aon.lab.errors import LabError


def made(bench, *cases, unit="seconds"):
    return BenchRecord(bench=bench, settings={}, environment={}, unit=unit, cases=cases)


def bars(**repeats):
    base = next(iter(repeats.values()))
    variants = tuple(variant(name, values, base) for name, values in repeats.items())
    return Case(name="a long name " * 12, base=next(iter(repeats)), variants=variants)


def line(costs, flops):
    variants = tuple(
        variant(f"width={i}", [cost], costs[:1], {"size": i, "flops": count})
        for i, (cost, count) in enumerate(zip(costs, flops, strict=True), start=1)
    )
    return Case(name="over width", base="width=1", variants=variants, facts={"slope": 1.0, "flops_slope": None})


def test_bars_are_the_ratios():
    made_figure = figure(made("step", bars(bn=[1.0, 1.0], aon=[1.2, 1.4], gone=[None, None])))
    (axes,) = made_figure.axes
    assert [patch.get_width() for patch in axes.patches] == [1.0, pytest.approx(1.3)]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["bn", "aon"]
    assert axes.get_xscale() == "linear"


def test_many_bars_are_sorted_and_far_ones_drawn_by_their_logarithm():
    made_figure = figure(made("map", bars(aon=[1.0], b=[70.0], c=[2.0], d=[0.1], e=[3.0], f=[9.0])))
    (axes,) = made_figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["d", "aon", "c", "e", "f", "b"]
    assert axes.get_xscale() == "log"


def test_each_case_has_its_panel():
    assert len(figure(made("memory", bars(bn=[1.0]), bars(bn=[2.0]), unit="bytes")).axes) == 2
    lines = figure(made("scale", *[line([1.0, 2.0], [10, 40])] * 3))
    assert [axes.get_visible() for axes in lines.axes] == [True, True, True, False]


def test_lines_are_the_costs_and_the_counts_through_the_first_point():
    axes = figure(made("scale", line([1.0, 2.0, -0.5], [10, 40, 90]))).axes[0]
    measured, counted = axes.get_lines()
    assert list(measured.get_ydata()) == [1.0, 2.0]  # a difference of times below zero has no logarithm
    assert list(counted.get_ydata()) == [1.0, 4.0]


def test_files_are_made_and_repeat_themselves(tmp_path):
    record = made("step", bars(**{"bn": [1.0, 1.0], "$x$": [1.2, 1.4]}))
    made_files = draw(record, tmp_path, "step")
    assert [path.name for path in made_files] == ["step.png", "step.svg"]
    first = [path.read_bytes() for path in made_files]
    assert first == [path.read_bytes() for path in draw(record, tmp_path, "step")]


def test_nothing_to_draw_is_said():
    with pytest.raises(LabError, match="the record of bench step has nothing that could be drawn"):
        figure(made("step", bars(bn=[None])))

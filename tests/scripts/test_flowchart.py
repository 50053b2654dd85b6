"""Flowcharts as SVG: every node once, arrows point down, bad lines are refused."""

import re

import pytest
from scripts.flowchart import draw, parse, rows

TEXT = "flowchart TD\n    a --> b\n    a --> c\n    b --> d\n    c --> d\n"


def test_nodes_stand_above_what_they_point_to():
    assert rows(parse(TEXT)) == [["a"], ["b", "c"], ["d"]]


def test_every_node_and_arrow_is_drawn():
    svg = draw(TEXT)
    assert re.findall(r">(\w)</text>", svg) == ["a", "b", "c", "d"]
    assert svg.count("marker-end") == 4
    assert svg.startswith('<svg class="flowchart"')


@pytest.mark.parametrize("text", ["graph LR\n a --> b", "flowchart TD\n a -- b", "flowchart TD\n --> b"])
def test_what_it_does_not_understand_is_refused(text):
    with pytest.raises(ValueError, match="expected"):
        draw(text)


def test_names_are_escaped():
    assert "&lt;a&gt;" in draw("flowchart TD\n    <a> --> b\n")

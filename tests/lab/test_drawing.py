"""Colours that can be told apart, files that are whole and the same each time."""

import matplotlib as mpl
import pytest
from tests.lab import factory

from aon.lab import drawing
from aon.lab.errors import LabError
from aon.lab.summary import rows


def simple():
    with drawing.styled():
        figure = drawing.new_figure(3, 2)
        figure.subplots().plot([1, 2], [3, 4], label="x")
        figure.suptitle("$not maths")
    return figure


def test_bn_is_grey_and_no_two_methods_look_alike():
    labels = ["BN", *(f"M{i}" for i in range(30))]
    found = drawing.styles(rows([factory.record("bn", label=label, done=1, spectra=False) for label in labels]))
    assert found[0] == drawing.Style(drawing.GREY, "")
    assert len(set(found)) == len(labels)


@pytest.mark.parametrize("suffix", drawing.FORMATS)
def test_the_same_figure_is_the_same_bytes(tmp_path, suffix):
    files = []
    for name in ("a", "b"):
        files += drawing.save(simple(), tmp_path, name, [suffix])
    first, second = (path.read_bytes() for path in files)
    assert first == second
    assert first.startswith({"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[suffix])
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"a.{suffix}", f"b.{suffix}"]


def test_our_look_leaves_the_users_settings_alone():
    before = dict(mpl.rcParams)
    with drawing.styled():
        assert mpl.rcParams["svg.hashsalt"] == "aon"
    assert dict(mpl.rcParams) == before


def test_an_unknown_format_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(LabError, match="figures can be png, svg, pdf, not 'gif'"):
        drawing.save(simple(), tmp_path, "a", ["png", "gif"])
    assert list(tmp_path.iterdir()) == []


def test_long_names_are_cut():
    assert drawing.plain("x" * 100) == "x" * 39 + "…"
    assert drawing.plain("BN+AON(q=2)") == "BN+AON(q=2)"


def test_a_name_the_font_lacks_is_drawn_without_a_warning(tmp_path):
    with drawing.styled():
        figure = drawing.new_figure(3, 2)
        figure.suptitle(drawing.plain("数据\n\x07"))
    assert drawing.save(figure, tmp_path, "a", ["png"])[0].stat().st_size > 0

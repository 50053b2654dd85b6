"""Distinguishable colours; complete and reproducible files."""

import matplotlib as mpl
import numpy as np
import pytest
from tests.lab import factory

from aon.lab.errors import LabError
from aon.lab.report import style
from aon.lab.report.summary import summarise_runs


def simple():
    with style.styled():
        figure = style.new_figure(3, 2)
        figure.subplots().plot([1, 2], [3, 4], label="x")
        figure.suptitle("$not maths")
    return figure


def test_the_base_is_grey_and_no_two_methods_look_alike():
    labels = ["BN", *(f"M{i}" for i in range(60))]
    runs = [factory.record("bn", label=label, done=1, spectra=False) for label in labels]
    found = style.styles(summarise_runs(runs))
    assert found["BN"] == style.Style(style.GREY, "")
    assert len(set(found.values())) == len(labels)


def test_the_first_twelve_methods_differ_by_colour_and_can_be_told_apart():
    """Distance in Oklab, where about 0.02 is the least that people notice."""
    colours = [oklab(colour) for colour in (style.GREY, *style.COLOURS)]
    gaps = [np.linalg.norm(a - b) for i, a in enumerate(colours) for b in colours[i + 1 :]]
    assert len(colours) == 13
    assert min(gaps) > 0.06


def oklab(colour):
    rgb = np.array(mpl.colors.to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    cones = np.array([[0.4122, 0.5363, 0.0514], [0.2119, 0.6807, 0.1074], [0.0883, 0.2817, 0.6300]]) @ linear
    mix = np.array([[0.2105, 0.7936, -0.0041], [1.9780, -2.4286, 0.4506], [0.0259, 0.7828, -0.8087]])
    return mix @ np.cbrt(cones)


@pytest.mark.parametrize("suffix", style.FORMATS)
def test_the_same_figure_is_the_same_bytes(tmp_path, suffix):
    files = []
    for name in ("a", "b"):
        files += style.save(simple(), tmp_path, name, [suffix])
    first, second = (path.read_bytes() for path in files)
    assert first == second
    assert first.startswith({"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[suffix])
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"a.{suffix}", f"b.{suffix}"]


def test_our_look_leaves_the_users_settings_alone():
    before = dict(mpl.rcParams)
    with style.styled():
        assert mpl.rcParams["svg.hashsalt"] == "aon"
    assert dict(mpl.rcParams) == before


def test_an_unknown_format_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(LabError, match="figures can be png, svg, pdf, not 'gif'"):
        style.save(simple(), tmp_path, "a", ["png", "gif"])
    assert list(tmp_path.iterdir()) == []


def test_long_names_are_cut():
    assert style.plain("x" * 100) == "x" * 39 + "…"
    assert style.plain("BN+AON(q=2)") == "BN+AON(q=2)"


def test_a_name_the_font_lacks_is_drawn_without_a_warning(tmp_path):
    with style.styled():
        figure = style.new_figure(3, 2)
        figure.suptitle(style.plain("数据\n\x07"))
    assert style.save(figure, tmp_path, "a", ["png"])[0].stat().st_size > 0

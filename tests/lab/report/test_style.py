"""Distinguishable colours; complete and reproducible files."""

import re

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


def test_ticks_are_the_values_themselves_without_an_offset():
    with style.styled():
        figure = style.new_figure(3, 2)
        axes = figure.subplots()
        axes.plot([1, 2], [1, 1 + 1e-8])
        figure.draw_without_rendering()
    assert axes.yaxis.get_offset_text().get_text() == ""


def test_an_unknown_format_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(LabError, match="figures can be png, svg, pdf, not 'gif'"):
        style.save(simple(), tmp_path, "a", ["png", "gif"])
    assert list(tmp_path.iterdir()) == []


def test_long_names_lose_their_middle():
    assert style.plain("x" * 50 + "y" * 50) == "x" * 20 + "…" + "y" * 19
    assert style.plain("BN+AON(q=2)") == "BN+AON(q=2)"


def settings_of(*changes):
    return summarise_runs([factory.record("bn", done=1, **change) for change in changes]).rows


def test_a_setting_is_named_by_what_distinguishes_it_from_the_usual_one():
    # The usual one comes second here: it is the one that the others differ least from.
    rows = settings_of({"learning_rate": 0.2}, {}, {"schedule": "linear"}, {"weight_decay": 5e-4})
    assert list(style.short_settings(rows).values()) == [
        "learning rate 0.2",
        "learning rate 0.1 · weight decay 0.0 · schedule steps",
        "schedule linear",
        "weight decay 0.0005",
    ]


def test_settings_that_differ_in_several_ways_have_different_names():
    grid = [{"learning_rate": rate, "schedule": name} for rate in (0.1, 0.2) for name in ("steps", "linear", "cosine")]
    names = style.short_settings(settings_of(*grid))
    assert len(set(names.values())) == len(grid) == len(names)
    assert style.short_settings(settings_of({})) == {"": ""}


@pytest.mark.parametrize("weight", ["normal", "bold"])
def test_text_is_wrapped_between_settings_then_words_then_anywhere(weight):
    settings = "learning rate 0.1 · weight decay 0.0 · schedule steps"
    assert style.wrapped(settings, 1.5, 9, weight).splitlines() == settings.split(" · ")
    assert style.wrapped(settings, 9.0, 9, weight) == settings
    assert style.wrapped("BN+AON(q=2, expansion=minimax)", 1.6, 9, weight) == "BN+AON(q=2,\nexpansion=minimax)"
    assert style.wrapped("BN", 2.0, 9, weight) == "BN"
    for text in (settings, "W" * 40, "a b c" + "m" * 50, "数据" * 30):
        lines = style.wrapped(text, 1.0, 9, weight).splitlines()
        assert all(style.text_width(line, 9, weight) <= 1.0 for line in lines)
        assert re.sub("[ ·]", "", "".join(lines)) == re.sub("[ ·]", "", text)


def test_a_name_the_font_lacks_is_drawn_without_a_warning(tmp_path):
    with style.styled():
        figure = style.new_figure(3, 2)
        figure.suptitle(style.plain("数据\n\x07"))
    assert style.save(figure, tmp_path, "a", ["png"])[0].stat().st_size > 0

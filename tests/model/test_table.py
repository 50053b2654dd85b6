"""The plain table."""

from aon.model.table import table


def test_columns_are_as_wide_as_their_widest_cell():
    lines = table(("a", "number"), [("long name", "1"), ("b", "22")]).split("\n")
    assert lines == ["a          number", "long name       1", "b              22"]


def test_left_columns_are_aligned_to_the_left():
    assert table(("a", "b"), [("x", "yy")], left=2).split("\n") == ["a  b", "x  yy"]


def test_without_rows_the_header_stands_alone():
    assert table(("a", "b"), []) == "a  b"

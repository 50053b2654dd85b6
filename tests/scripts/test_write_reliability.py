"""docs/reliability.md is made from the figures."""

from scripts.write_reliability import PAGE, page


def test_the_page_is_that_of_the_figures():
    assert PAGE.read_text(encoding="utf-8") == page(), "run `python scripts/write_reliability.py`"

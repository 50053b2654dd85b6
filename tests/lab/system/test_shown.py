"""Values quoted in messages."""

from aon.lab.system.shown import printable, shortened, shown


def test_a_long_value_is_not_echoed_whole():
    for value in ("x" * 100_000, b"x" * 100_000, list(range(100_000)), "é\n" * 50_000):
        assert len(shown(value)) < 200
        assert "characters)" in shown(value)
    assert len(shortened("word " * 100_000)) < 2_100


def test_short_values_are_shown_as_they_are():
    assert shown(3) == "3"
    assert shown("a\nb") == r"'a\nb'"


def test_half_characters_can_be_printed():
    assert printable("a\udc80") == r"a\udc80"
    shown("\udc80" * 1000).encode()

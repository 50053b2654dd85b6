"""Records on a terminal."""

from rich.console import Console

from aon.lab.bench.output.show import amount, spread, tables
from aon.lab.bench.record import BenchRecord, Case, variant


def shown(found, unit="seconds"):
    record = BenchRecord(bench="x", settings={}, environment={}, unit=unit, cases=(found,))
    console = Console(width=120, color_system=None)
    with console.capture() as capture:
        console.print(tables(record))
    return capture.get()


def test_a_table_names_everything():
    variants = (variant("bn", [1.0, 2.0], [1.0, 2.0]), variant("[b]x", [2.0, None], [1.0, 2.0], {"flops": 1e9}))
    text = shown(Case(name="a [red]case", base="bn", variants=variants, absent={"gone": "not [there]"}))
    assert "a [red]case" in text
    assert "[b]x" in text
    assert "2.000 [2.000, 2.000]" in text
    assert "GFLOP" in text
    assert "│     1 │" in text
    assert "not measured: gone: not [there]" in text


def test_slopes_stand_below():
    found = Case(name="c", base="a", variants=(variant("a", [1.0], [1.0]),), facts={"slope": 2.5, "flops_slope": None})
    assert "slope 2.50; of the count of operations -" in shown(found)


def test_amounts():
    assert amount(1.2345, "seconds") == "1.23 s"
    assert amount(123456789, "bytes") == "123 MB"
    assert amount(1.483e9, "bytes") == "1.48 GB"
    assert amount(1234.56, "images a second") == "1235 images/s"
    assert spread(None) == "-"

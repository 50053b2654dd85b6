"""Generated parts of documents: made from records, and the same as in docs/."""

from pathlib import Path

import pytest

from aon.lab.bench import record
from aon.lab.bench.cases.step import PLAIN_STEP
from aon.lab.bench.output.document import BEGIN, END, counts_table, extras_table, put, summary_part, tables_part
from aon.lab.bench.output.targets import targets_table
from aon.lab.bench.record import BenchRecord, Case, variant
from aon.lab.errors import LabError

ROOT = Path(__file__).parents[4]


def made(**facts):
    variants = (variant("bn", [1.0], [1.0]), variant("a|b", [2.0], [1.0], {"flops": 3e9, **facts}))
    found = Case(name="a_step", base="bn", variants=variants, absent={"gone": "not <here>"}, facts={})
    where = {
        "cpu": "a CPU",
        "threads": 2,
        "cores": 2,
        "torch": "2",
        "python": "3",
        "commit": "c" * 40,
        "modified": True,
    }
    return BenchRecord(
        bench="step", settings={}, environment=where, unit="seconds", cases=(found,), command=("aon", "bench", "step")
    )


def test_what_the_part_holds():
    assert summary_part([made()]).startswith(targets_table([made()]))
    text = tables_part([made()])
    assert "## a\\_step" in text
    assert "| a\\|b | 2 s | 2.000 [2.000, 2.000] | 1 | 3 |" in text
    assert "| gone | not measured: not \\<here\\> |" in text
    assert "`aon bench step`" in text
    assert "- step: a CPU, 2 threads of 2 cores, torch 2, Python 3, commit cccccccccc with changes" in text


def test_what_a_step_takes_longer_stands_beside_its_count():
    settings = {"network": "vgg16-iternorm", "batch": 256, "width": 1.0, "compiled": False, "device": "cpu"}
    names = {"bn": 1.0, "bn+aon": 1.15, PLAIN_STEP: 1.3}
    variants = tuple(variant(name, [seconds], [1.0]) for name, seconds in names.items())
    found = made().model_copy(
        update={"settings": settings, "cases": (Case(name="step", base="bn", variants=variants, facts={}),)}
    )
    cells = extras_table([found]).splitlines()[2].strip("| ").split(" | ")
    assert cells[0] == "vgg16-iternorm, batch 256"
    assert 0.1 < float(cells[1]) < 0.12
    assert cells[2] == "0.150"
    assert float(cells[3]) == pytest.approx(0.15 / float(cells[1]), abs=0.02)
    assert cells[4] == "0.300"
    assert extras_table([made()]) == ""


def test_an_extrapolated_time_is_called_so():
    assert "| a\\|b | about 2 s |" in tables_part([made(extrapolated=True)])


def test_of_two_records_of_the_same_case_the_newer_is_shown():
    old, new = made(), made(extrapolated=True)
    assert tables_part([old, new]) == tables_part([new])


def test_counts_of_the_steps():
    lines = counts_table().splitlines()[2:]
    assert len(lines) == 5
    cells = lines[0].strip("| ").split(" | ")
    assert cells[:2] == ["vgg16-iternorm, batch 256", "610.6 GFLOP"]
    formed, chosen, fourth = (float(cell) for cell in cells[2:])
    assert chosen < formed < 0.17
    assert chosen < fourth


def test_putting_is_exact_and_idempotent(tmp_path):
    path = tmp_path / "doc.md"
    path.write_text(f"head\n{BEGIN}\nold\n{END}\ntail\n")
    assert put(path, "new")
    assert path.read_text() == f"head\n{BEGIN}\n\nnew\n\n{END}\ntail\n"
    assert not put(path, "new")


@pytest.mark.parametrize("text", ["", BEGIN, END, f"{END}\n{BEGIN}", f"{BEGIN}{BEGIN}{END}", f"{BEGIN}{END}{END}"])
def test_a_document_without_a_place_is_left_alone(tmp_path, text):
    path = tmp_path / "doc.md"
    path.write_text(text)
    with pytest.raises(LabError, match=r"doc.md has no place for the table"):
        put(path, "new")
    assert path.read_text() == text


def test_a_document_that_is_not_there(tmp_path):
    with pytest.raises(LabError, match=r"cannot read .*doc.md: No such file"):
        put(tmp_path / "doc.md", "new")


@pytest.mark.parametrize(("name", "part"), [("performance.md", summary_part), ("performance_tables.md", tables_part)])
def test_the_documentation_holds_what_was_measured(name, part):
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    found = text.partition(BEGIN)[2].partition(END)[0]
    records = record.load_all(ROOT / "results" / "bench")
    assert found.strip() == part(records), "run: aon bench table --write docs"

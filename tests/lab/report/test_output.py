"""Directories in, files out: complete, reproducible, in every state of a comparison."""

import json
import math
import re
import time

import pytest
from tests.lab import factory

from aon.lab.errors import LabError
from aon.lab.report import output
from aon.lab.report.figures import FIGURES
from aon.lab.report.page import html

GENEROUS = 120  # seconds to read and summarise 2,000 runs; on two quiet cores it takes about 4


def report(out, *, formats=()):
    """Tables and page, and figures in the formats wanted."""
    return output.write(*output.load_results([out]), out, formats=formats)


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    methods = ("bn", "bn+orth", "bn+aon", "bn+aon:order=4")
    return factory.write(tmp_path_factory.mktemp("comparison"), factory.comparison(methods, epochs=6))


@pytest.fixture(scope="module")
def written(out):
    return report(out, formats=["png"])


def test_everything_is_written_where_it_says(out, written):
    assert written.page == out / "report.html"
    assert {path.name for path in written.tables} == set(output.TABLES)
    assert {path.name for path in written.figures} == {f"{name}.png" for name in FIGURES}
    for path in (written.page, *written.tables, *written.figures):
        assert path.stat().st_size > 0
    assert {path.parent for path in (*written.tables, *written.figures)} == {out / "report"}
    assert {path.name for path in (out / "report").iterdir()} == {p.name for p in (*written.tables, *written.figures)}


def test_writing_again_changes_no_byte(out, written):
    before = {path: path.read_bytes() for path in (written.page, *written.tables, *written.figures)}
    report(out, formats=["png"])
    assert {path: path.read_bytes() for path in before} == before


def test_a_figure_that_has_no_data_any_more_is_removed(tmp_path):
    report(factory.write(tmp_path, factory.comparison(("bn", "bn+aon"), seeds=[0], epochs=1)), formats=["png"])
    assert (tmp_path / "report" / "spectra-by-layer.png").exists()
    report(factory.write(tmp_path, factory.comparison(("bn", "bn+aon"), seeds=[0], epochs=1, spectra=False)))
    assert not (tmp_path / "report" / "spectra-by-layer.png").exists()


def test_the_base_is_the_one_named_then_that_of_the_comparison_then_bn(tmp_path):
    records = factory.comparison(epochs=1)
    assert output.load_results([factory.write(tmp_path, records)])[0].base == "BN"
    factory.write(tmp_path, records, baseline="bn+orth")
    assert output.load_results([tmp_path])[0].base == "BN+orthonormal"
    assert output.load_results([tmp_path], "bn+aon")[0].base == "BN+AON(q=2)"
    with pytest.raises(LabError, match="base = 'iternorm': there is no run of it"):
        output.load_results([tmp_path], "iternorm")


def test_several_directories_make_one_report(tmp_path):
    folders = [
        factory.write(tmp_path / name, factory.comparison(epochs=2, dataset=name), name=f"on {name}")
        for name in ("cifar10", "cifar100")
    ]
    results, plans = output.load_results(folders)
    assert results.settings == ["dataset cifar10", "dataset cifar100"]
    paths = output.write(results, plans, tmp_path / "both", formats=["png"])
    assert "on cifar10 and on cifar100" in paths.page.read_text()
    assert (tmp_path / "both" / "report" / "paper-figure-2.png").exists()
    assert not (folders[0] / "report").exists()


def test_a_run_in_several_directories_counts_once(tmp_path):
    """Also where a copy was made at another time on another machine, with other spectra, and a loss is NaN."""
    runs = factory.comparison(("bn", "bn+aon"), seeds=[0, 1], epochs=2)
    broken = runs[0].epochs[0].model_copy(update={"val_loss": math.nan})
    runs = [runs[0].but(epochs=(broken, *runs[0].epochs[1:])), *runs[1:]]
    copies = [run.but(environment=factory.environment(cpu="another"), epochs=_slower(run)) for run in runs]
    copies = [run.but(config=run.config.but(threads=2, spectra_every=0)) for run in copies]
    folder, copy = factory.write(tmp_path / "a", runs), factory.write(tmp_path / "b", copies)
    for folders in ([folder, folder], [folder, copy], [folder, next((folder / "runs").iterdir())]):
        results, _ = output.load_results(folders)
        assert [row.count for row in results.rows] == ["2", "2"]
        assert results.runs[1:] == runs[1:]  # the first does not equal itself


def _slower(run):
    return tuple(row.model_copy(update={"seconds": 99.0, "spectra": None}) for row in run.epochs)


def test_a_comparison_in_several_directories_is_told_once(tmp_path):
    runs = factory.comparison(("bn", "bn+aon"), seeds=[0, 1], epochs=2)
    folder, other = (factory.write(tmp_path / name, runs, name=name, seeds=(0, 1, 2)) for name in ("a", "b"))
    assert output.load_results([folder, folder])[1] == output.load_results([folder])[1]
    assert "2 not begun" in html(*output.load_results([folder, other]))


def test_different_records_of_one_run_are_refused(tmp_path):
    run = factory.record("bn", epochs=2)
    other = run.epochs[1].model_copy(update={"val_accuracy": 12.0})
    first = factory.write(tmp_path / "a", [run])
    for name, changed in {"b": run.but(epochs=(run.epochs[0], other)), "c": run.but(status="failed")}.items():
        second = factory.write(tmp_path / name, [changed])
        message = rf"^{first} \(bn-s0-\w+\) and {second} \(bn-s0-\w+\) hold different records of one run; leave"
        with pytest.raises(LabError, match=message):
            output.load_results([first, second])


def test_one_damaged_record_is_named_and_skipped(tmp_path):
    factory.write(tmp_path, factory.comparison(("bn",), seeds=[0, 1], epochs=1))
    victim = min(tmp_path.glob("runs/*/record.json"))
    victim.write_text(victim.read_text()[:-40])
    paths = report(tmp_path)
    assert str(victim) in paths.page.read_text()
    data = json.loads((tmp_path / "report" / "table.json").read_text())
    assert [line["finished"] for line in data["rows"]] == [1]
    assert str(victim) in data["skipped"][0]


def test_if_every_record_is_damaged_there_is_no_report(tmp_path):
    factory.write(tmp_path, factory.comparison(("bn",), seeds=[0], epochs=1))
    (victim,) = tmp_path.glob("runs/*/record.json")
    victim.write_text("{")
    with pytest.raises(LabError, match=re.escape(str(victim))):
        report(tmp_path)
    assert not (tmp_path / "report").exists()


def test_the_folder_of_one_run_has_a_report_too(tmp_path):
    out = factory.write(tmp_path, [factory.record("bn+aon", epochs=2)])
    (run,) = (out / "runs").iterdir()
    assert report(run).page.exists()


def test_a_directory_without_records_is_refused(tmp_path):
    with pytest.raises(LabError, match="holds no records"):
        report(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_place_of_the_folder_is_named(tmp_path):
    factory.write(tmp_path, [factory.record("bn", epochs=1)])
    (tmp_path / "report").write_text("mine")
    with pytest.raises(LabError, match=r"cannot make .*report"):
        report(tmp_path)


def test_two_thousand_runs_are_read_and_summarised_in_seconds(tmp_path):
    methods = ["bn", *(f"bn+orth:beta={n}" for n in range(1, 20))]
    for run in factory.comparison(methods, seeds=range(100), epochs=2, spectra=False):
        folder = tmp_path / "runs" / run.config.run_id()
        folder.mkdir(parents=True)
        (folder / "record.json").write_text(run.but(format=1).model_dump_json())  # no checksum, no wait for the disk
    begun = time.monotonic()
    results, _ = output.load_results([tmp_path])
    assert time.monotonic() - begun < GENEROUS
    assert sum(len(row.finished) for row in results.rows) == 2000
    assert len(results.matrix) == 20 * 19

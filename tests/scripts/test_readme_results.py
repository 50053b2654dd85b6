"""README.md and docs/reproducing.md hold what the records say."""

import pytest
from scripts.readme_results import (
    ROOT,
    between,
    comparisons,
    documents,
    finished,
    main,
    main_comparisons,
    reading,
    table,
    versions,
)
from tests.lab import factory

from aon.lab.errors import LabError
from aon.lab.report.cells import p_value
from aon.lab.report.statistics import difference
from scripts import claims


def test_the_documents_are_up_to_date():
    for path, text in documents().items():
        assert path.read_text(encoding="utf-8") == text, "run `python scripts/readme_results.py`"
    assert main(["--check"]) == 0


def test_a_table_has_every_method_with_n_difference_and_p(tmp_path):
    factory.write(tmp_path, factory.comparison(seeds=range(5), epochs=3), name="ours")
    caption, rows = table(tmp_path).split("\n\n")
    assert caption.startswith(
        "**ours**: vgg16-iternorm at width 1/4, 5,000 training images of cifar10-sample, 3 epochs"
    )
    bn, orth, aon = rows.splitlines()[2:]
    assert bn.startswith("| BN | 5 | ")
    assert bn.endswith("| - | - |")
    assert orth.startswith("| BN+orthonormal | 5 | ")
    assert float(aon.split("|")[6]) <= 1


def test_one_seed_has_no_p(tmp_path):
    factory.write(tmp_path, factory.comparison(seeds=[0], epochs=2))
    assert all(line.endswith("| - |") for line in table(tmp_path).splitlines() if line.startswith("| BN"))


def test_the_words_to_read_tables_by_say_how_epochs_are_chosen_and_p_corrected(tmp_path):
    study = factory.write(tmp_path / "study" / "a", factory.comparison(seeds=[0], epochs=2, validation_size=50))
    other = factory.write(tmp_path / "b", factory.comparison(seeds=[0], epochs=2, validation_size=50))
    paper = factory.write(tmp_path / "c", factory.comparison(seeds=[0], epochs=2))
    assert "chosen by validation accuracy, on images that are neither" in reading([study])
    assert "outside the study" not in reading([study])
    assert "(outside the study: over the table)" in reading([study, other])
    assert "chosen on the test set, as in the paper" in reading([paper])
    assert "in runs with validation images, and on the test set in runs without" in reading([study, paper])


def test_every_comparison_is_found_the_study_first(tmp_path):
    for name in ("a", "study/b"):
        factory.write(tmp_path / name, factory.comparison(seeds=[0], epochs=1))
    factory.write(tmp_path / "c", [factory.record("bn", status="running", done=1, epochs=2)])
    assert comparisons(tmp_path) == [tmp_path / "study" / "b", tmp_path / "a"]


def test_each_setting_has_a_table_and_its_caption_says_which(tmp_path):
    runs = [run for rate in (0.05, 0.2) for run in factory.comparison(epochs=2, learning_rate=rate)]
    factory.write(tmp_path, runs)
    captions = [line for line in table(tmp_path).splitlines() if line.startswith("**")]
    assert [caption.partition(" epochs, ")[2].partition(" (")[0] for caption in captions] == [
        "batch size 128, learning rate 0.05",
        "batch size 128, learning rate 0.2",
    ]
    assert table(tmp_path, ("bn", "bn+aon")).count("| BN |") == 1


def test_p_values_of_the_study_are_those_of_its_plan(tmp_path):
    folder = factory.write(tmp_path / "study" / "cifar10", factory.comparison(seeds=range(4), dataset="cifar10"))
    text = table(folder, ("bn", "bn+aon"))
    planned = claims.p_to_bn({"cifar10": finished(folder)}, "cifar10")["bn+aon"]
    assert text.startswith("**The study on CIFAR-10**: ")
    assert f"| {p_value(planned)} |" in text
    assert planned > difference_to_bn(folder)


def difference_to_bn(folder):
    scores = {method: {} for method in ("bn", "bn+orth", "bn+aon")}
    for run in finished(folder):
        scores[run.config.method][run.config.seed] = run.last.test_accuracy
    return difference(scores["bn+aon"], scores["bn"]).p


def test_transformers_are_compared_with_layer_normalisation(tmp_path):
    factory.write(tmp_path, factory.comparison(("ln+aon", "ln"), epochs=2))
    lines = table(tmp_path).splitlines()
    assert "| last: difference to LN |" in lines[2]
    assert lines[4].startswith("| LN | 3 |")


def test_unfinished_runs_do_not_count(tmp_path):
    runs = [*factory.comparison(seeds=[0, 1], epochs=4), factory.record("bn", 2, status="running", done=1, epochs=4)]
    factory.write(tmp_path, runs)
    assert "| BN | 2 |" in table(tmp_path)


def test_the_study_replaces_the_quick_comparison_when_it_has_runs(tmp_path):
    assert main_comparisons(tmp_path) == [tmp_path / "quick"]
    factory.write(tmp_path / "study" / "cifar10", factory.comparison(epochs=2))
    assert main_comparisons(tmp_path) == [tmp_path / "study" / "cifar10"]
    factory.write(tmp_path / "study" / "cifar10-rates", factory.comparison(epochs=2))  # exploratory: not in the README
    assert main_comparisons(tmp_path) == [tmp_path / "study" / "cifar10"]


def test_versions_are_those_of_the_project():
    assert "torch" in versions(ROOT / "pyproject.toml")


def test_a_document_without_the_marks_is_refused():
    with pytest.raises(LabError, match="expected the marks '<!-- cost: begin"):
        between("nothing", "cost", "part")

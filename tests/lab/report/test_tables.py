"""The tables as grids of cells: which lines, which columns, what is bold."""

import pytest
from tests.lab import factory

from aon.lab.report.summary import summarise_runs
from aon.lab.report.tables import (
    FULL_MATRIX,
    accuracy_grid,
    choice_grid,
    difference_grids,
    matrix_grids,
    matrix_note,
    note,
    subject,
)

VALID = {"validation_size": 200}
MANY = ("bn", "bn+orth", *(f"bn+aon:order={order}" for order in range(FULL_MATRIX)))


def rates(**settings):
    return [run for rate in (0.1, 0.2) for run in factory.comparison(learning_rate=rate, **settings)]


@pytest.fixture(scope="module")
def results():
    return summarise_runs(factory.comparison(validation_size=200))


def test_methods_are_lines_and_the_highest_is_bold(results):
    grid = accuracy_grid(results)
    assert [line[0].text for line in grid.body] == list(grid.methods) == ["BN", "BN+orthonormal", "BN+AON(q=2)"]
    assert {len(line) for line in grid.body} == {len(grid.head)}
    assert [cell.bold for cell in grid.body[2][2:5]] == [True] * 3
    assert sum(cell.bold for line in grid.body for cell in line) == 3


def test_each_outcome_has_its_differences_the_primary_first(results):
    captions = [grid.caption for grid in difference_grids(results)]
    assert captions == [
        "Difference to BN: test accuracy, last epoch (primary outcome)",
        "Difference to BN: test accuracy, best epoch by validation",
        "Difference to BN: test accuracy, mean of the last five epochs",
    ]
    for grid in difference_grids(results):
        assert grid.methods == ("BN+orthonormal", "BN+AON(q=2)")
        assert grid.head[-3:] == ("p (sign flip)", "ahead", "P(ahead)")


def test_one_method_has_no_differences_and_no_matrix():
    alone = summarise_runs(factory.comparison(("bn",)))
    assert difference_grids(alone) == matrix_grids(alone) == []


def test_the_matrix_shows_row_minus_column_with_interval_p_and_n(results):
    (grid,) = matrix_grids(results)
    assert grid.head == ("", "BN", "BN+orthonormal", "BN+AON(q=2)")
    assert [grid.body[i][i + 1].text for i in range(3)] == [""] * 3
    found = results.matrix["BN+AON(q=2)", "BN"]
    value, span, test = grid.body[2][1].text.split("\n")
    assert value == f"{found.value:+.2f}"
    assert span == f"{found.low:+.2f} to {found.high:+.2f}"
    assert test.startswith("p ")
    assert test.endswith(", n 3")
    assert "correction for 3 comparisons" in matrix_note(results)


def test_a_pair_that_cannot_be_tested_shows_its_difference():
    (grid,) = matrix_grids(summarise_runs(factory.comparison(seeds=[0])))
    assert grid.body[1][1].text.endswith("\nn 1")


def test_a_large_matrix_is_numbered_and_bold_where_significant():
    results = summarise_runs(factory.comparison(MANY, seeds=range(6), epochs=6, spectra=False))
    (grid,) = matrix_grids(results)
    assert grid.head == ("", *(str(i + 1) for i in range(len(MANY))))
    assert grid.body[1][0].text == "2 BN+orthonormal"
    for i, a in enumerate(results.rows):
        for j, b in enumerate(results.rows):
            found = results.matrix.get((a.label, b.label))
            assert grid.body[i][j + 1].bold == (found is not None and found.corrected < 0.05)
    assert "bold where" in matrix_note(results)


def test_each_setting_has_a_matrix_and_each_method_its_best_setting():
    results = summarise_runs(rates(validation_size=200))
    assert [grid.caption.partition(" · ")[2] for grid in matrix_grids(results)] == results.settings
    grid = choice_grid(results)
    assert [line[0].text for line in grid.body] == ["BN", "BN+orthonormal", "BN+AON(q=2)"]
    assert [line[1].text for line in grid.body] == [choice.row.setting for choice in results.choices]
    assert [line[2].text for line in grid.body] == ["2"] * 3
    assert [line[5].text for line in grid.body] == [
        f"{one.row.last.mean:.2f} ± {one.row.last.spread:.2f}" for one in results.choices
    ]


def test_the_note_of_the_matrix_counts_comparisons_only_where_all_cells_have_the_same_number(results):
    assert "Holm's correction for 3 comparisons" in matrix_note(results)
    small = factory.comparison(("bn", "bn+aon"), dataset="cifar100")
    both = summarise_runs([*factory.comparison(dataset="cifar10"), *small])
    assert "Holm's correction for all pairs on the same data and network" in matrix_note(both)


def test_without_a_choice_there_is_no_table_of_best_settings(results):
    assert choice_grid(results) is None
    assert choice_grid(summarise_runs(rates())) is None  # no validation images to choose by


def test_differences_without_a_common_seed_are_marked_in_every_table():
    seeds = {"bn": (0, 1, 2), "bn+orth": (0, 1, 2), "bn+aon": (5, 6, 7, 8)}
    results = summarise_runs([run for method in seeds for run in rates(methods=[method], seeds=seeds[method], **VALID)])
    for grid in difference_grids(results):
        cells = [[line[grid.head.index(name)].text for line in grid.body] for name in ("n", "p")]
        assert cells[0] == ["3"] * 4
        assert [cell.endswith(" (Welch)") for cell in cells[1]] == [False, True] * 2
    assert [line[-1].text.endswith(" (Welch)") for line in choice_grid(results).body] == [False, False, True]
    for grid in matrix_grids(results):
        cells = [[cell.text for cell in line[1:]] for line in grid.body]
        assert all(cells[i][j].endswith(", n 3 (Welch)") for i, j in ((0, 2), (2, 0), (1, 2), (2, 1)))
        assert all(cells[i][j].endswith(", n 3") for i, j in ((0, 1), (1, 0)))
    for text in (note(results), matrix_note(results)):
        assert "both methods have; (Welch): they share none, so it is Welch's test. n: those seeds, or the" in text


def test_a_single_run_without_a_common_seed_is_marked():
    (grid,) = matrix_grids(summarise_runs([factory.record("bn", 0), factory.record("bn+aon", 1)]))
    assert grid.body[1][1].text.endswith("\nn 1 (Welch)")


def test_a_large_matrix_marks_differences_without_a_common_seed():
    runs = [*factory.comparison(MANY, epochs=1, spectra=False), factory.record("iternorm", 7, epochs=1)]
    results = summarise_runs(runs)
    (grid,) = matrix_grids(results)
    assert [cell.text.endswith(" (Welch)") for cell in grid.body[0][1:]] == [*[False] * len(MANY), True]
    assert "(Welch)" in matrix_note(results)


def test_best_settings_say_how_often_a_method_was_tried():
    results = summarise_runs(
        rates(methods=("bn", "bn+orth:beta=1", "bn+orth", "bn+orth:beta=100"), validation_size=200)
    )
    grid = choice_grid(results)
    assert [line[grid.head.index("trials")].text for line in grid.body] == ["2", "6", "6", "6"]
    assert "more trials favour a method" in note(results)
    assert "trials" not in note(summarise_runs(factory.comparison()))


def test_the_note_says_what_the_papers_time_is_divided_by(results):
    orders = ("bn+aon:order=0", "bn+aon", "bn+aon:order=4")
    published = summarise_runs(factory.comparison(orders, dataset="cifar10", width=1.0))
    assert "the paper's time over the one it printed for BN+AON(q=0), if any" in note(published)
    assert "printed" not in note(results)


def test_the_note_says_how_the_best_epoch_was_chosen(results):
    assert "neither trained nor tested on" in note(results)
    assert "on the test set, as in the paper" in note(summarise_runs(factory.comparison()))


def test_the_subject_names_images_and_what_varies(results):
    assert subject(results) == (
        "vgg16-iternorm (width 0.25) on cifar10-sample, 5,000 training, 200 validation and 1,000 test images, "
        "30 epochs, batch 128"
    )
    two = summarise_runs([factory.record("bn", dataset="cifar10"), factory.record("bn", dataset="cifar100")])
    assert "on cifar10 / cifar100, 5,000 training and 1,000 test images (no validation images)" in subject(two)
    assert subject(summarise_runs([])) == "No runs"

"""Accuracy beside training loss and beside orthonormality."""

from scripts.accuracy_tables import LEAST_FIT, equal_loss_sentence, fit, orthonormality, unfitted
from scripts.exploratory import NOT_RUN
from tests.lab import factory


def with_curve(method, seed, losses, validations, test):
    run = factory.record(method, seed, epochs=len(losses), validation_size=100)
    rows = [
        row.model_copy(update={"train_loss": loss, "val_accuracy": validation, "test_accuracy": test})
        for row, loss, validation in zip(run.epochs, losses, validations, strict=True)
    ]
    return run.but(epochs=tuple(rows))


def cells_of(text, method):
    line = next(line for line in text.splitlines() if line.startswith(f"| {method} |"))
    return [cell.strip() for cell in line.split("|")[2:-1]]


def test_methods_are_listed_by_their_training_loss_and_compared_where_it_is_equal():
    base = [with_curve("bn", seed, [3, 2, 1.5, 1], [10, 30, 40, 50], 50 + seed) for seed in (0, 1)]
    # the mean loss of BN's last three epochs is 1.5; that of these three, in this order, 2.0, 1.45 and 1.0
    ours = [with_curve("bn+aon", seed, [2.6, 2, 1.4, 0.95, 0.65], [20, 30, 46 + seed, 60, 71], 70) for seed in (0, 1)]
    text = fit([*ours, *base])
    assert [line.split("|")[1].strip() for line in text.splitlines()[2:4]] == ["BN+AON(q=2)", "BN"]
    end, equal = ((46.5 + 60 + 71) / 3 - 40, (30 + 46.5 + 60) / 3 - 40)
    assert cells_of(text, "BN+AON(q=2)")[1] == "0.65"
    assert cells_of(text, "BN+AON(q=2)")[3:] == ["70.00", f"{end:+.2f}, n = 2", f"{equal:+.2f}, n = 2", "2"]
    assert cells_of(text, "BN")[1:] == ["1.00", cells_of(text, "BN")[2], "50.50", "-", "-", "-"]
    assert "over the 4 runs: -0." in text


def test_a_method_with_the_curves_of_bn_has_no_lead_at_equal_loss():
    curves = [3, 2, 1.5, 1], [10, 30, 40, 50], 50
    text = fit([with_curve(method, seed, *curves) for method in ("bn", "bn+cwn") for seed in (0, 1, 2)])
    assert cells_of(text, "BN+CWN")[4:] == ["+0.00", "+0.00", "3"]


def test_runs_that_never_reach_the_loss_are_left_out_and_counted():
    base = [with_curve("bn", seed, [2, 1], [30, 40], 40) for seed in (0, 1)]
    slow = with_curve("bn+orth", 0, [3, 2], [20, 30], 30)
    assert cells_of(fit([*base, slow]), "BN+orthonormal")[3:] == ["30.00", "-10.00, n = 1", "-", "0 of 1"]
    quick = with_curve("bn+orth", 1, [1.5, 1], [35, 45], 45)
    assert cells_of(fit([*base, slow, quick]), "BN+orthonormal")[5:] == ["+5.00, n = 1", "1 of 2"]
    assert fit([]) == NOT_RUN


def test_a_sentence_says_what_is_left_at_equal_loss_on_each_data_set():
    base = [with_curve("bn", seed, [2, 1], [30, 40], 40) for seed in (0, 1)]
    ours = [with_curve("bn+aon", seed, [1.5, 1], [35, 45], 45) for seed in (0, 1)]
    text = equal_loss_sentence({"CIFAR-10": [*base, *ours], "CIFAR-100": base})
    assert text.endswith("BN+AON(q=2) less BN was, at equal training loss, +5.00, n = 2 points on CIFAR-10.")
    assert equal_loss_sentence({"CIFAR-10": base}) == ""


def with_error(method, seed, error, accuracy):
    run = factory.record(method, seed, epochs=1)
    rows = factory.record("bn+aon", 0, epochs=1).epochs[0].spectra
    spectra = tuple(row.model_copy(update={"error": error}) for row in rows)
    row = run.epochs[0].model_copy(update={"spectra": spectra, "val_accuracy": accuracy})
    return run.but(epochs=(row,))


def test_methods_are_listed_by_their_error_with_rank_correlations():
    runs = [
        with_error("bn", 0, 0.7, 70),
        with_error("bn+orth", 0, 0.1, 60),
        with_error("bn+aon", 0, 0.2, 74),
        with_error("bn+aon", 1, 0.3, 73),
        with_error("bn+polar", 0, 0.0, 76),
    ]
    text = orthonormality(runs)
    assert [line.split("|")[1].strip() for line in text.splitlines()[2:6]] == [
        "BN+Polar",
        "BN+orthonormal",
        "BN+AON(q=2)",
        "BN",
    ]
    assert "| BN+AON(q=2) | 2 | 0.25 | 73.50 |" in text
    assert "-1.00 (AON of any kind, Polar)" in text


def test_too_few_runs_have_no_correlation_and_none_no_table():
    assert "- (all runs)" in orthonormality([with_error("bn+aon", 0, 0.2, 74)])
    assert orthonormality([]) == NOT_RUN


def test_runs_that_do_not_fit_their_images_are_counted_by_method():
    runs = [factory.record(method, seed, epochs=2) for method in ("bn", "bn+aon") for seed in (0, 1)]
    ends = [LEAST_FIT - 1, LEAST_FIT - 2, LEAST_FIT - 0.1, LEAST_FIT]
    runs = [
        run.but(epochs=tuple(row.model_copy(update={"train_accuracy": end}) for row in run.epochs))
        for run, end in zip(runs, ends, strict=True)
    ]
    assert unfitted(runs) == "Runs that end below 99 % training accuracy: BN 2, BN+AON(q=2) 1 (of 4 in all)."
    assert unfitted(runs[3:]) == "Runs that end below 99 % training accuracy: none (of 1 in all)."

"""How long comparisons take."""

import pytest
from scripts.times import evaluation_share, walls
from tests.lab import factory


def timed(seed, minute, seconds=50.0, evaluation=10.0):
    run = factory.record("bn", seed, epochs=2)
    rows = (row.model_copy(update={"seconds": seconds, "eval_seconds": evaluation}) for row in run.epochs)
    where = run.environment.model_copy(update={"started": f"2026-01-01T00:{minute:02}:00+00:00", "cpu": "A"})
    return run.but(epochs=tuple(rows), environment=where)


def test_the_wall_time_is_from_the_first_start_to_the_last_end():
    assert walls({"x": [timed(0, 3), timed(1, 10), timed(2, 4)]}).endswith(": `x`: 3 runs in 9.0 minutes (A).")
    assert "`y`" not in walls({"x": [timed(0, 3)], "y": []})


@pytest.mark.parametrize(("runs", "share"), [([timed(0, 0)], "17 %"), ([timed(i, 0, 90.0) for i in (0, 1)], "10 %")])
def test_the_share_of_evaluation_is_a_part_of_the_whole_run(runs, share):
    assert f"In the study's {len(runs)} runs on CIFAR-10 evaluation takes {share} " in evaluation_share(runs)
    assert evaluation_share([]) == "No run has finished yet."

"""Where the study's runs come from."""

from scripts.provenance import by_family, table
from tests.lab import factory


def test_commits_processors_and_mixed_seeds_are_counted():
    runs = factory.comparison(("bn", "bn+aon"), seeds=range(100, 103), epochs=1)
    runs[0] = runs[0].but(environment=factory.environment(commit="abcdef0123"))
    lines = table({"ours": runs, "none": []}).splitlines()
    assert lines[2:] == ["| ours | 6 | 0123456 (5), abcdef0 (1) | A Processor @ 2.80GHz | 1 of 3 |"]


def test_a_family_has_the_planned_runs_of_its_methods_once():
    runs = factory.comparison(seeds=range(100, 110), epochs=1)
    found = by_family({"cifar10": runs})
    assert len(found["CIFAR-10, main"]) == 3 * 8
    assert {run.config.method for run in found["CIFAR-10, others"]} == {"bn", "bn+aon"}
    assert found["CIFAR-100"] == []

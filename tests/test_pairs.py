"""The default part of a grid holds every pair of values of the whole grid."""

from itertools import combinations, product

from tests.pairs import covering


def pairs(rows):
    return {pair for row in rows for pair in combinations(sorted(row.items()), 2)}


def test_every_pair_is_there_with_few_rows():
    grid = [
        {"test": t, "map": m, "layer": layer} for t, m, layer in product(("copy", "fold", "load"), range(12), range(17))
    ]
    kept = [grid[number] for number in covering(grid)]
    assert pairs(kept) == pairs(grid)
    assert 12 * 17 <= len(kept) <= 1.2 * 12 * 17


def test_rows_of_different_length():
    grid = [{"test": "a", "map": m, "dtype": d} for m, d in product(range(3), range(2))]
    grid += [{"test": "b", "map": m} for m in range(3)]
    kept = [grid[number] for number in covering(grid)]
    assert pairs(kept) == pairs(grid)


def test_a_single_row_stays():
    assert covering([{"test": "a", "map": 0}]) == {0}

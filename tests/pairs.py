"""Choose few rows of a grid that cover all pairs of its values.

A test with a map, a layer and perhaps another option is a row of a grid. `make test` runs a part of the rows, in which
any two values (of test, map, layer, option) that stand together in some row still do; `make test-full` runs all rows.
"""

import heapq
from collections.abc import Mapping, Sequence
from itertools import combinations

Row = Mapping[str, object]


def covering(rows: Sequence[Row]) -> set[int]:
    """Positions of rows that hold every pair of values of the whole; greedy, and the same every time.

    Example:
        >>> grid = [{"a": a, "b": b, "c": c} for a in range(4) for b in range(4) for c in range(4)]
        >>> len(grid), len(covering(grid))
        (64, 16)
    """
    pairs = [frozenset(combinations(sorted(row.items()), 2)) for row in rows]
    missing = set().union(*pairs)
    heap = [(-len(pair), number) for number, pair in enumerate(pairs)]
    heapq.heapify(heap)
    chosen: set[int] = set()
    while missing:
        _, number = heapq.heappop(heap)
        gain = len(pairs[number] & missing)
        if heap and gain < -heap[0][0]:  # counted when more was missing: count again, later
            heapq.heappush(heap, (-gain, number))
            continue
        chosen.add(number)
        missing -= pairs[number]
    return chosen

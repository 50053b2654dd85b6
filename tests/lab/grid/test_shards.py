"""Shards of a comparison."""

import pytest

from aon.lab.errors import LabError
from aon.lab.grid.shards import Shard


@pytest.mark.parametrize("text", ["", "1", "0/4", "5/4", "1/0", "-1/4", "a/b", "1/4/2", "1.5/4"])
def test_a_bad_shard_is_refused(text):
    with pytest.raises(LabError, match=r"should be I/N with I from 1 to N"):
        Shard.parse(text)


@pytest.mark.parametrize("count", [1, 2, 3, 7, 20])
def test_shards_share_out_every_run_once(count):
    runs = list(range(11))
    parts = [Shard.parse(f"{index}/{count}").of(runs) for index in range(1, count + 1)]
    assert sorted(run for part in parts for run in part) == runs
    assert max(map(len, parts)) - min(map(len, parts)) <= 1

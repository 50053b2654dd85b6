"""Shards: a fixed part of the runs of a comparison, for job arrays and schedulers of any kind."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from aon.lab.errors import LabError

_T = TypeVar("_T")


@dataclass(frozen=True)
class Shard:
    """Part `index` of `count`, counted from 1."""

    index: int = 1
    count: int = 1

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """The shard that `I/N` names.

        Args:
            text: Such as 1/4, the first of four.

        Raises:
            LabError: if it is not two numbers with 1 <= I <= N.

        Example:
            >>> Shard.parse("2/4")
            Shard(index=2, count=4)
        """
        found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text.strip())
        shard = cls(*(int(number) for number in found.groups())) if found else None
        if shard is None or not 1 <= shard.index <= shard.count:
            raise LabError(f"shard = {text!r}: should be I/N with I from 1 to N, such as 1/4")
        return shard

    def of(self, runs: Sequence[_T]) -> list[_T]:
        """The runs of this shard: every `count`-th, so that each shard has its share of every method.

        Args:
            runs: All runs.

        Example:
            >>> Shard(2, 3).of([10, 11, 12, 13, 14])
            [11, 14]
        """
        return list(runs[self.index - 1 :: self.count])

"""Mutations of a file, chosen by hypothesis, a random generator or a fuzzer."""

import random
import re
from dataclasses import dataclass

KINDS = ("flip", "cut", "drop", "insert", "repeat", "overwrite", "swap")
# Bytes that readers of text and of binary files stumble over.
WORDS = (b"\x00", b"\xff" * 8, b"-1", b"9" * 30, b"NaN", b"1e999", b"null", b"true", b"[" * 50, b'"', b"\\u0000", b"\n",
         b"../", b"\x7f\xff\xff\xff", b"{}", b"=", b":", b"+", b"0.1")  # fmt: skip


@dataclass(frozen=True)
class Mutation:
    """One change: what, where (a fraction of the length), and with which bytes."""

    kind: str
    where: float
    payload: bytes


def mutated(content: bytes, mutations: list[Mutation]) -> bytes:
    """The content after all changes."""
    for change in mutations:
        at, size = int(change.where * len(content)), len(change.payload)
        if change.kind == "flip" and content:
            at = min(at, len(content) - 1)
            content = content[:at] + bytes([content[at] ^ 1 << size % 8]) + content[at + 1 :]
        elif change.kind == "cut":
            content = content[:at]
        elif change.kind == "drop":
            content = content[:at] + content[at + max(size, 1) :]
        elif change.kind == "insert":
            content = content[:at] + change.payload + content[at:]
        elif change.kind == "repeat":
            content = content[:at] + content[at : at + 40] * min(size + 1, 20) + content[at:]
        elif change.kind == "overwrite":
            content = content[:at] + change.payload + content[at + size :]
        elif change.kind == "swap":
            content = content[at:] + content[:at]
    return content


def random_mutations(draw: random.Random) -> list[Mutation]:
    """A few changes from a random stream."""
    return [
        Mutation(
            draw.choice(KINDS),
            draw.random(),
            draw.choice(WORDS) if draw.random() < 0.5 else draw.randbytes(draw.randrange(1, 9)),
        )
        for _ in range(draw.randrange(1, 6))
    ]


def resealed(content: bytes) -> bytes:
    """The content with its checksum made right again, if it carries one: what is behind the checksum is tried too."""
    import hashlib

    found = [*re.finditer(rb'checksum[\\": ]{1,8}([0-9a-f]{64})', content)]
    if not found:
        return content
    start, end = found[-1].span(1)
    digest = hashlib.sha256(content[:start] + b"0" * 64 + content[end:]).hexdigest()
    return content[:start] + digest.encode() + content[end:]

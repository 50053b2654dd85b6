"""The allocator setting, in a process of its own."""

import subprocess
import sys

import pytest

PROGRAM = """
import resource, torch
from aon.lab.training.allocator import keep_memory
print(keep_memory())
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        torch.zeros(2**23).add_(1)  # 32 MiB, freed at once
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
faults()
print(faults())
"""


def run(switch: str) -> tuple[str, int]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env={"AON_KEEP_MEMORY": switch}, capture_output=True, text=True, check=True
    )
    said, faults = done.stdout.split()
    return said, int(faults)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's allocator is Linux's")
def test_freed_memory_is_used_again_without_new_pages():
    said, kept = run("1")
    assert said == "True"
    said, returned = run("0")
    assert said == "False"
    assert kept < returned / 2

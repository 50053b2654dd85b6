"""What tests need of the versions that are installed."""

import pytest
import torch
from packaging.version import Version

FOLLOWS = Version("2.13")
follows_maps = pytest.mark.skipif(
    Version(torch.__version__) < FOLLOWS,
    reason=f"the compiler of torch before {FOLLOWS} may break the graph inside a map (docs/compatibility.md)",
)

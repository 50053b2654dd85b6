"""Findings of the full study, for the page of the quick comparison, which is too small to show them.

The sentences are made from results/study by scripts/readme_results.py and travel with the package.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from aon.lab.experiment.config import make
from aon.lab.experiment.presets import get
from aon.lab.experiment.records import Comparison

FINDINGS = Path(__file__).parent / "templates" / "study.json"
QUICK = "quick"
# A comparison that names no preset starts from the quick one, so its preset alone does not say what it is.
TASK = ("dataset", "network", "width", "train_size", "epochs")


def findings(plans: Sequence[Comparison]) -> list[str]:
    """A sentence for each finding, if the quick comparison is among what the page shows.

    Args:
        plans: Descriptions of the comparisons on the page.
    """
    if not any(map(_is_quick, plans)):
        return []
    found: list[str] = json.loads(FINDINGS.read_text(encoding="utf-8"))["findings"]
    return found


def _is_quick(plan: Comparison) -> bool:
    """Whether a comparison is the quick one, not another that merely started from its settings."""
    ours, quick = make(plan.config), make(get(QUICK).settings)
    same = all(name not in plan.vary and getattr(ours, name) == getattr(quick, name) for name in TASK)
    return plan.preset == QUICK and same

"""Findings of the full study, for the page of the quick comparison, which is too small to show them.

The sentences are made from results/study by scripts/readme_results.py and travel with the package.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from aon.lab.experiment.records import Comparison

FINDINGS = Path(__file__).parent / "templates" / "study.json"
QUICK = "quick"


def findings(plans: Sequence[Comparison]) -> list[str]:
    """A sentence for each finding, if the quick comparison is among what the page shows.

    Args:
        plans: Descriptions of the comparisons on the page.
    """
    if not any(plan.preset == QUICK for plan in plans):
        return []
    found: list[str] = json.loads(FINDINGS.read_text(encoding="utf-8"))["findings"]
    return found

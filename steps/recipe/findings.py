"""What a lint finds: two things that do not agree, and which of them holds."""

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "mismatch", "note"]
"""error: it cannot be run, or contradicts itself. mismatch: two places say different things. note: as it is meant, though
not what a reader would take it for."""
Decides = Literal["configuration", "statement", "neither"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that does not agree."""

    rule: str
    """What was checked, e.g. "evaluations-divide"."""
    severity: Severity
    run: str
    """The run's name; "recipe" if it concerns all."""
    stated: str
    source: str
    """Where that was stated."""
    configured: str
    decides: Decides
    """Which of the two holds when the recipe is run."""
    remark: str
    """Why they differ, or what to do."""


def finding(
    rule: str,
    severity: Severity,
    *,
    stated: str,
    configured: str,
    remark: str,
    run: str = "recipe",
    source: str = "rule of the recipe",
) -> Finding:
    """Returns a finding of a rule: the configuration decides, or neither where it is an error."""
    return Finding(
        rule=rule,
        severity=severity,
        run=run,
        stated=stated,
        source=source,
        configured=configured,
        decides="neither" if severity == "error" else "configuration",
        remark=remark,
    )

"""What a check has found: a sentence, how bad it is, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from acp_agent.frozen import frozen

Level: TypeAlias = Literal["ok", "warn", "fail"]
"""`warn`: the agent works, though perhaps not as somebody expects. `fail`: something does not work."""


@frozen
class Finding:
    """One line of the report.

    :ivar area: what it is about, in a word.
    :ivar advice: what to do; empty where nothing is to be done.
    """

    level: Level
    area: str
    text: str
    advice: str = ""


def report(findings: Sequence[Finding]) -> str:
    """The findings as lines, and what they come to in the last one."""
    width = max((len(finding.area) for finding in findings), default=0)
    lines: list[str] = []
    for finding in findings:
        lines.append(f"{finding.level:<4}  {finding.area:<{width}}  {' '.join(finding.text.splitlines())}")
        if finding.advice:
            lines.append(f"{'':<{width + 8}}{' '.join(finding.advice.splitlines())}")
    return "\n".join([*lines, "", conclusion(findings)])


def conclusion(findings: Sequence[Finding]) -> str:
    """All of it in a sentence."""
    fails, warns = (sum(finding.level == level for finding in findings) for level in ("fail", "warn"))
    if not fails and not warns:
        return "All is well."
    said = [f"{fails} {'thing does' if fails == 1 else 'things do'} not work"] if fails else []
    if warns:
        said.append(f"{warns} {'warning' if warns == 1 else 'warnings'}")
    return f"{'; '.join(said)}."

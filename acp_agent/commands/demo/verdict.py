"""Whether the demo did what it promised: compares what was measured with it, says so, and gives the exit status."""

from __future__ import annotations

from acp_agent.commands.demo.editor import Editor
from acp_agent.commands.demo.screen import INDENT, Screen
from acp_agent.commands.demo.story import Facts
from acp_agent.frozen import frozen


@frozen
class Check:
    """One thing that was promised.

    :ivar text: what happened.
    """

    kept: bool
    name: str
    text: str


def checks(facts: Facts, editor: Editor) -> list[Check]:
    """Compare what happened with what was promised."""
    before, mended, after = facts.before, facts.mended, facts.after
    plan = editor.plans[-1] if editor.plans else ()
    asked = editor.allowed + editor.rejected
    compacted = editor.compactions[-1:] == ["completed"] and editor.summary_chunks > 0
    drop = 1 - facts.short / facts.full if facts.full else 0.0
    ended = ", ".join(facts.stops)
    whole = all(stop == "end_turn" for stop in facts.stops)
    new_test = after is not None and not after.failed and after.total > before.total
    return [
        Check(
            bool(before.failed) and mended is not None and not mended.failed,
            "Tests",
            f"{before} → {mended}",
        ),
        Check(bool(editor.allowed), "Permission", f"{asked} asked for, {editor.allowed} given"),
        Check(
            len(set(editor.plans)) > 1 and set(plan) == {"completed"},
            "Plan",
            f"{plan.count('completed')} of {len(plan)} steps completed, in {len(editor.plans)} updates",
        ),
        Check(
            compacted and facts.short < facts.full,
            "Compaction",
            f"{facts.full:,} → {facts.short:,} tokens ({drop:.0%} less); the summary streamed in "
            f"{editor.summary_chunks} pieces"
            if compacted
            else f"its statuses were: {', '.join(editor.compactions) or 'none'}",
        ),
        Check(
            facts.listed and new_test and facts.resumed < facts.full,
            "Restart",
            f"killed, listed, resumed; it {'knew' if new_test else 'did not add'} the test that was meant: {after}, "
            f"{facts.resumed:,} tokens",
        ),
        Check(
            whole,
            "Prompts",
            f"{len(facts.stops)}, {'each answered to its end' if whole else f'which ended with: {ended}'}",
        ),
    ]


def report(screen: Screen, found: list[Check], *, strict: bool) -> int:
    """Say what happened.

    :param strict: whether it had to happen; a real model does as it sees fit.
    :returns: the exit status: 1 where something had to happen and did not.
    """
    screen.heading("What happened")
    for check in found:
        mark, style = ("✓", "green") if check.kept else ("✗", "red")
        screen.line(f"{INDENT}{screen.styled(mark, style)} {check.name:11} {check.text}")
    broken = [check.name for check in found if not check.kept]
    if broken:
        screen.line()
        promise = "This is not as it should be" if strict else "The model did not do all of it"
        screen.line(f"{INDENT}{promise}: {', '.join(broken)}.", "red")
    return 1 if broken and strict else 0

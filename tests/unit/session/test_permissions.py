"""Verdicts about calls, by mode and by grants."""

from __future__ import annotations

from pathlib import Path

import pytest

from acp_agent.session.options import MODES
from acp_agent.session.permissions import Verdict, grant_subject, judge
from acp_agent.tools.tool import Access, Effect

OUTSIDE = (Path("/elsewhere/a.py"),)

INSIDE_VERDICTS: dict[str, dict[Effect, Verdict]] = {
    "ask": {"none": "allow", "read": "allow", "edit": "ask", "execute": "ask"},
    "accept-edits": {
        "none": "allow",
        "read": "allow",
        "edit": "allow",
        "execute": "ask",
    },
    "plan": {"none": "allow", "read": "allow", "edit": "deny", "execute": "deny"},
    "full-access": {
        "none": "allow",
        "read": "allow",
        "edit": "allow",
        "execute": "allow",
    },
}
OUTSIDE_VERDICTS: dict[str, dict[Effect, Verdict]] = {
    "ask": {"none": "allow", "read": "ask", "edit": "ask", "execute": "ask"},
    "accept-edits": {"none": "allow", "read": "ask", "edit": "ask", "execute": "ask"},
    "plan": {"none": "allow", "read": "ask", "edit": "deny", "execute": "deny"},
    "full-access": {
        "none": "allow",
        "read": "allow",
        "edit": "allow",
        "execute": "allow",
    },
}
EFFECTS: tuple[Effect, ...] = ("none", "read", "edit", "execute")


@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("mode", INSIDE_VERDICTS)
def test_a_mode_decides_by_a_calls_effect_and_location(
    mode: str, effect: Effect
) -> None:
    assert judge(mode, Access(effect), ()) == INSIDE_VERDICTS[mode][effect]
    assert judge(mode, Access(effect, OUTSIDE), ()) == OUTSIDE_VERDICTS[mode][effect]


def test_the_tables_cover_every_mode() -> None:
    assert (
        set(INSIDE_VERDICTS) == set(OUTSIDE_VERDICTS) == {mode.value for mode in MODES}
    )


@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("mode", INSIDE_VERDICTS)
@pytest.mark.parametrize("outside", [(), OUTSIDE], ids=["inside", "outside"])
def test_a_grant_replaces_a_question_but_lifts_no_ban(
    mode: str, effect: Effect, outside: tuple[Path, ...]
) -> None:
    access = Access(effect, outside, "edit")
    granted = judge(mode, access, {grant_subject(access)})
    asked: Verdict = judge(mode, access, ())
    assert granted == ("allow" if asked == "ask" else asked)
    assert judge(mode, access, {"something else"}) == asked


def test_a_grant_covers_one_kind_of_call_and_one_path_outside() -> None:
    inside = Access("edit", (), "edit")
    git = Access("execute", (), "shell: git")
    near = Access("edit", OUTSIDE, "edit")
    far = Access("edit", (Path("/far/a.py"),), "edit")
    subjects = {grant_subject(access) for access in (inside, git, near, far)}
    assert len(subjects) == 4
    assert grant_subject(
        Access("edit", (Path("/elsewhere/b.py"),), "edit")
    ) != grant_subject(near)
    assert grant_subject(Access("read", OUTSIDE)) != grant_subject(near)


@pytest.mark.parametrize("kind", ["list", "glob", "grep", "read"])
def test_a_grant_to_list_a_directory_covers_no_other_path_and_no_other_tool(
    kind: str,
) -> None:
    listed = grant_subject(Access("read", (Path("/etc"),), "list"))
    assert judge("ask", Access("read", (Path("/etc"),), "list"), {listed}) == "allow"
    for path in ("/", "/home", "/etc/ssh", "/etcetera"):
        assert judge("ask", Access("read", (Path(path),), kind), {listed}) == "ask"
    if kind != "list":
        assert judge("ask", Access("read", (Path("/etc"),), kind), {listed}) == "ask"

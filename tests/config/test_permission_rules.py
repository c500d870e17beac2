"""The file of rules: several processes may change it, and none loses what another has said."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_agent.config.permission_rules import RULES_FILE, PermissionRules
from acp_agent.errors import ConfigError

PROJECTS = st.sampled_from([Path("/shop"), Path("/cart")])
SUBJECTS = st.sampled_from(["edit", "shell: git", "shell: echo 1;\nls", "read /etc/\udcff"])
STEPS = st.lists(
    st.tuples(st.sampled_from(["allow", "revoke"]), st.booleans(), PROJECTS, st.lists(SUBJECTS, max_size=2)), max_size=8
)


@settings(max_examples=40)
@given(STEPS)
def test_two_processes_see_each_others_rules_whatever_they_do(
    steps: list[tuple[str, bool, Path, list[str]]],
) -> None:
    meant: dict[Path, set[str]] = {Path("/shop"): set(), Path("/cart"): set()}
    with TemporaryDirectory() as folder:
        both = PermissionRules(Path(folder)), PermissionRules(Path(folder))
        for what, first, project, subjects in steps:
            rules = both[first]
            if what == "allow":
                for subject in subjects:
                    rules.allow(project, subject)
                meant[project] |= {*subjects}
            else:
                revoked = meant[project] & {*subjects} if subjects else meant[project]
                assert {*rules.revoke(project, subjects)} == revoked
                meant[project] = meant[project] - revoked
            for each in both:
                assert {project: {*each.of(project)} for project in meant} == meant


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"version": 2, "projects": {}}',
        '{"version": 1}',
        '{"version": 1, "projects": {"/shop": ["edit"]}}',
        '{"version": 1, "projects": {"/shop": {"edit": true}}}',
        "\xff",
        "[" * 10_000,
    ],
)
def test_a_file_that_is_none_of_ours_allows_nothing_and_is_left_as_it_is(tmp_path: Path, text: str) -> None:
    (tmp_path / RULES_FILE).write_text(text, "latin-1")
    rules = PermissionRules(tmp_path)
    for doing in (lambda: rules.of(Path("/shop")), lambda: rules.allow(Path("/shop"), "edit")):
        with pytest.raises(ConfigError, match='no "Always allow" of an earlier session holds'):
            doing()
    assert (tmp_path / RULES_FILE).read_text("latin-1") == text


def test_a_project_is_the_same_by_whatever_links_it_is_reached(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "shop")
    rules = PermissionRules(tmp_path / "home")
    rules.allow(tmp_path / "link", "edit")
    assert rules.of(tmp_path / "shop") == rules.of(tmp_path / "link") == {"edit"}
    assert rules.revoke(tmp_path / "shop") == ("edit",)
    assert rules.of(tmp_path / "link") == frozenset()


def test_what_is_allowed_once_more_was_allowed_when_it_was_at_first(tmp_path: Path) -> None:
    text = '{"version": 1, "projects": {"/shop": {"edit": "2001-02-03T04:05:06+00:00"}}}'
    (tmp_path / RULES_FILE).write_text(text)
    rules = PermissionRules(tmp_path)
    rules.allow(Path("/shop"), "edit")
    assert rules.read() == {"/shop": {"edit": "2001-02-03T04:05:06+00:00"}}


def test_nobody_else_can_read_the_rules(tmp_path: Path) -> None:
    PermissionRules(tmp_path / "home").allow(Path("/shop"), "edit")
    assert (tmp_path / "home" / RULES_FILE).stat().st_mode & 0o777 == 0o600

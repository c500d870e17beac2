"""The file of permission rules: several processes can change it without losing rules."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from acp_agent.config.permission_rules import RULES_FILE, PermissionRules

PROJECTS = st.sampled_from([Path("/shop"), Path("/cart")])
SUBJECTS = st.sampled_from(
    ["edit", "shell: git", "shell: echo 1;\nls", "read /etc/\udcff"]
)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["allow", "revoke"]),
        st.booleans(),
        PROJECTS,
        st.lists(SUBJECTS, max_size=2),
    ),
    max_size=8,
)


@given(STEPS)
def test_two_processes_always_see_each_other_s_rules(
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


def test_a_project_is_the_same_through_any_link(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "shop")
    rules = PermissionRules(tmp_path / "home")
    rules.allow(tmp_path / "link", "edit")
    assert rules.of(tmp_path / "shop") == rules.of(tmp_path / "link") == {"edit"}
    assert rules.revoke(tmp_path / "shop") == ("edit",)
    assert rules.of(tmp_path / "link") == frozenset()


def test_a_rule_in_a_file_of_version_1_covers_only_its_exact_command_line(
    tmp_path: Path,
) -> None:
    since = "2001-02-03T04:05:06+00:00"
    file = tmp_path / RULES_FILE
    older = {"edit": since, "shell: git log": since}
    file.write_text(json.dumps({"version": 1, "projects": {"/shop": older}}))
    rules = PermissionRules(tmp_path)
    assert rules.of(Path("/shop")) == {"edit", "shell: git log"}
    rules.allow(Path("/shop"), "fetch")
    assert json.loads(file.read_text())["version"] == 2
    assert PermissionRules(tmp_path).of(Path("/shop")) == {*older, "fetch"}

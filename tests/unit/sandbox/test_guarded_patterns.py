"""Guarded paths that a pattern stands for, such as `mise.*.toml`."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.sandbox.aside import free_name
from acp_agent.sandbox.blocked import Sweep, places
from acp_agent.sandbox.bubblewrap import fault
from acp_agent.sandbox.changes import COARSE_NS
from acp_agent.sandbox.guarded_paths import is_guarded, pattern_paths
from acp_agent.sandbox.guarded_patterns import PatternPaths
from support.guarded_project import Project

NEW = {
    "mise.production.toml": "mise.production.toml.blocked",
    ".mise.ci.local.toml": ".mise.ci.local.toml.blocked",
    "mise/config.ci.toml": "mise/config.ci.toml.blocked",
    ".config/mise.ci.toml": ".config/mise.ci.toml.blocked",
    ".envrc.staging": "blocked.envrc.staging",
    ".envrc.d": "blocked.envrc.d",
    ".direnv/flake-profile-1.rc": ".direnv/flake-profile-1.rc.blocked",
    "shop.code-workspace": "shop.code-workspace.blocked",
    "Shop.Sublime-Project": "Shop.Sublime-Project.blocked",
}
"""A path for each pattern of the table, and the path that it is renamed to."""
needs_sandbox = pytest.mark.skipif(bool(fault()), reason="no bubblewrap")


def names(root: Path) -> set[str]:
    return {
        str(path.relative_to(root))
        for path in root.rglob("*")
        if path.relative_to(root).parts[0] != ".git"
    }


def test_each_pattern_of_the_table_has_an_example_here() -> None:
    for pattern in pattern_paths("closed"):
        assert any(
            len(Path(name).parts) == len(pattern)
            and Path(name.lower()).match("/".join(pattern))
            for name in NEW
        ), pattern


@pytest.mark.process
@needs_sandbox
def test_a_file_that_matches_a_pattern_is_renamed_while_the_command_runs(
    tmp_path: Path,
) -> None:
    project = Project(tmp_path)
    lines = ["mkdir -p mise .config .direnv .envrc.d", "echo x > .envrc.d/x"]
    for name in NEW:
        if name != ".envrc.d":
            lines.append(f"echo x > {name}")
        lines.append(f"until [ ! -e {name} ]; do sleep 0.02; done")
    line = "; ".join(lines)
    blocked = project.run(f"timeout 30 bash -c {shlex.quote(line)} && echo ended")
    assert project.output == "ended\n"
    assert sorted(blocked) == sorted(f"{old} → {new}" for old, new in NEW.items())
    assert (project.root / "blocked.envrc.d" / "x").exists()


FORMS = {
    "a file": "mkdir -p {parent} && echo evil > {name}",
    "a link": "mkdir -p {parent} x && ln -s $PWD/x {name}",
    "a folder that nobody can list": "mkdir -p {parent} && echo evil > {name} && chmod 0 {parent}",
    "a link on the way": "mkdir -p x && echo evil > x/{last} && ln -s $PWD/x {parent} || ln -s x/{last} {name}",
}


@pytest.mark.process
@needs_sandbox
@pytest.mark.parametrize("form", FORMS)
def test_no_file_that_matches_a_pattern_is_there_after_a_command(
    tmp_path: Path, form: str
) -> None:
    project = Project(tmp_path)
    for name in NEW:
        parent = str(Path(name).parent)
        if parent == "." and form == "a folder that nobody can list":
            continue
        line = FORMS[form].format(parent=parent, name=name, last=Path(name).name)
        blocked = project.run(f"rm -rf x; ({line}) 2> /dev/null")
        assert len(blocked) == 1, (name, project.output)
        assert not os.path.lexists(project.root / name), name
        if parent != ".":
            shutil.rmtree(project.root / parent, ignore_errors=True)


@pytest.mark.process
@needs_sandbox
def test_existing_files_that_match_a_pattern_are_not_changed(tmp_path: Path) -> None:
    project = Project(tmp_path)
    for name in NEW:
        (project.root / name).parent.mkdir(exist_ok=True)
        (project.root / name).write_text("mine\n")
    (project.root / "mise.link.toml").symlink_to("a.txt")
    words = " ".join(NEW)
    blocked = project.run(
        f"for each in {words}; do echo evil > $each; rm -f $each; mv $each x; done; mv .direnv y; "
        "rm mise.link.toml; echo evil > b.txt; ln -s b.txt mise.link.toml"
    )
    assert blocked == ["mise.link.toml → mise.link.toml.blocked"]
    assert (project.root / "mise.link.toml").readlink() == Path("a.txt")
    for name in NEW:
        assert (project.root / name).read_text() == "mine\n", name


@pytest.mark.process
@needs_sandbox
def test_templates_and_renamed_files_are_left_alone(tmp_path: Path) -> None:
    project = Project(tmp_path)
    line = "touch .envrc.example .envrc.sample .envrc.template mise.toml.md blocked.envrc.x promise.x.toml.bak"
    assert project.run(line) == []
    assert project.run(line) == []


@pytest.mark.process
@needs_sandbox
def test_files_of_the_user_s_commits_that_match_a_pattern_are_checked_out(
    tmp_path: Path,
) -> None:
    project = Project(tmp_path)
    files = [name for name in NEW if name != ".envrc.d"]
    project.git("switch", "-qc", "more")
    project.commit(dict.fromkeys(files, "mine\n"))
    project.git("switch", "-q", "main")
    assert project.run("git switch -q more && git status --short") == []
    assert project.output == ""
    assert names(project.root) >= set(files)


@pytest.mark.process
@needs_sandbox
def test_a_file_that_matches_a_pattern_is_neither_staged_nor_added_by_its_new_name(
    tmp_path: Path,
) -> None:
    project = Project(tmp_path)
    blob = "$(echo evil | git hash-object -w --stdin)"
    lines = [
        f"git update-index --add --cacheinfo 100644,{blob},{name}"
        for name in NEW
        if name != ".envrc.d"
    ]
    project.run("; ".join(lines))
    assert project.git("diff", "--cached", "--name-only") == ""
    project.run("touch .envrc.a mise.ci.toml; mkdir .direnv; touch .direnv/x.rc")
    project.run("git add -A")
    assert project.git("diff", "--cached", "--name-only") == ""


def test_more_files_than_any_project_has_are_all_renamed_without_reading_commits(
    tmp_path: Path,
) -> None:
    seen = places((tmp_path,))
    for number in range(300):
        (tmp_path / f"mise.{number}.toml").touch()
    blocked: list[str] = []
    Sweep(seen, (), blocked).run()
    assert len(blocked) == 300
    assert not any(name.endswith(".toml") for name in names(tmp_path))


@given(st.sampled_from([".envrc.x", ".envrc.blocked", "mise.a.toml", ".cursor"]))
def test_no_new_name_is_guarded(name: str) -> None:
    folder = os.open("/", os.O_RDONLY)
    try:
        assert not is_guarded(Path(free_name(folder, name)))
    finally:
        os.close(folder)


_listed: list[str] = []
sys.addaudithook(
    lambda event, arguments: (
        _listed.append(str(arguments[0])) if event == "os.listdir" else None
    )
)


@pytest.mark.process
def test_a_folder_is_listed_again_only_after_it_has_changed(tmp_path: Path) -> None:
    (tmp_path / "mise").mkdir()
    end = time.monotonic() + 20
    matching = PatternPaths(tmp_path, "closed")
    places_ = {str(tmp_path), str(tmp_path / "mise")}
    changed = max(os.stat(place).st_ctime_ns for place in places_)  # noqa: PTH116
    while time.time_ns() - changed <= COARSE_NS and time.monotonic() < end:
        os.sched_yield()  # until the clock of files is past the change
    assert [*matching.look(anew=True)] == []
    assert _count(matching, places_) == 0
    (tmp_path / "mise" / "config.ci.toml").touch()
    while not [*matching.look()] and time.monotonic() < end:
        os.sched_yield()
    assert [*matching.look()] == [("mise", "config.ci.toml")]
    subprocess.run(["mv", "mise", "other"], cwd=tmp_path, check=True)
    assert [*matching.look()] == []


def _count(matching: PatternPaths, folders: set[str]) -> int:
    _listed.clear()
    list(matching.look())
    return len([each for each in _listed if each in folders])

"""What commands may do in the sandbox, and the placeholders that protect what is
missing.
"""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.sandbox import policy as module
from acp_agent.sandbox.listing import parents_of
from acp_agent.sandbox.placeholders import placeholders
from acp_agent.sandbox.policy import Policy
from acp_agent.sandbox.sandbox import Sandbox


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An empty folder with a resolved path."""
    folder = tmp_path.resolve() / "project"
    folder.mkdir()
    return folder


def _policy(*roots: Path) -> Policy:
    return Policy.of(roots, (), (), ())


def _repository(root: Path) -> None:
    for folder in (
        "hooks",
        "objects/info",
        "refs",
        "modules/lib/objects/info",
        "modules/lib/hooks",
    ):
        (root / ".git" / folder).mkdir(parents=True)
    for file in ("HEAD", "config", "modules/lib/HEAD", "modules/lib/config"):
        (root / ".git" / file).write_text("content")


def test_what_other_programs_run_is_protected_in_every_root_and_in_submodules(
    root: Path,
) -> None:
    _repository(root)
    protected = {str(path.relative_to(root)) for path in _policy(root).protected}
    assert {".vscode", ".zed", ".idea", ".claude", ".acp-agent", ".envrc"} <= protected
    assert {
        ".git/hooks",
        ".git/config",
        ".git/modules/lib/hooks",
        ".git/modules/lib/config",
    } <= protected


def test_relative_paths_of_the_settings_begin_at_the_session_s_directory(
    root: Path,
) -> None:
    for name in ("made", "secrets"):
        (root / name).mkdir()
    policy = Policy.of((root,), (), ("made",), ("secrets",))
    assert (root / "made" in policy.write, root / "secrets" in policy.read_deny) == (
        True,
        True,
    )


def test_a_worktree_s_git_file_is_protected_since_it_names_the_repository(
    root: Path,
) -> None:
    (root / ".git").write_text("gitdir: /elsewhere")
    assert root / ".git" in _policy(root).protected


def test_missing_paths_have_placeholders_during_the_command_and_none_afterwards(
    root: Path,
) -> None:
    policy = _policy(root)
    with placeholders(policy.closed):
        assert all(path.exists() for path in policy.protected)
        assert (root / ".git").is_dir()
    assert list(root.iterdir()) == []


def test_what_existed_or_was_filled_meanwhile_is_not_removed(root: Path) -> None:
    (root / ".idea").mkdir()
    with placeholders(_policy(root).closed):
        (root / ".zed" / "settings.json").write_text("{}")
    assert sorted(path.name for path in root.iterdir()) == [".idea", ".zed"]


def test_a_command_cannot_hide_a_git_directory_from_the_next(root: Path) -> None:
    for name in (
        "common/worktrees/here",
        "common/worktrees/other",
        "common/modules/a/b/hooks",
    ):
        (root / name).mkdir(parents=True)
    (root / ".git").write_text(f"gitdir: {root}/common/worktrees/here\n")
    (root / "common" / "worktrees" / "here" / "commondir").write_text("../..\n")
    # Which cannot be moved, as all else can.
    (root / "common" / "modules" / "a" / "b" / "config").write_text("")
    policy = _policy(root)
    protected = {str(path.relative_to(root)) for path in policy.protected}
    assert {
        "common/hooks",
        "common/config",
        "common/modules/a/b/hooks",
        ".git",
    } <= protected
    assert {
        "common/worktrees/other/config.worktree",
        "common/worktrees/other/commondir",
    } <= protected
    assert {
        root / "common",
        root / "common/modules/a/b",
        root / "common/worktrees/here",
    } <= {*policy.holders}


def test_in_a_folder_of_a_repository_nothing_stands_between_git_and_the_repository(
    root: Path,
) -> None:
    _repository(root)
    (root / "folder").mkdir()
    with placeholders(_policy(root / "folder").closed):
        assert not (root / "folder" / ".git").exists()


@pytest.mark.process
def test_what_a_killed_agent_has_left_goes_with_the_next_command(root: Path) -> None:
    _repository(root)
    script = (
        "import os, pathlib, sys; from acp_agent.sandbox.policy import Policy;"
        "from acp_agent.sandbox.placeholders import placeholders;"
        "made = placeholders(Policy.of((pathlib.Path(sys.argv[1]),), (), (), ()).closed); made.__enter__(); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", script, str(root)], check=False)
    (root / ".zed").rmdir()
    (root / ".zed").mkdir()  # the user's own
    assert (root / ".git" / "commondir").exists()
    with placeholders(_policy(root).closed):
        pass
    assert sorted(path.name for path in root.iterdir()) == [".git", ".zed"]
    assert not (root / ".git" / "commondir").exists()


def test_an_empty_git_folder_is_covered_whoever_made_it(root: Path) -> None:
    policy = _policy(root)
    with placeholders(policy.closed):
        assert root / ".git" in policy.protected
    (root / ".git").mkdir()
    assert root / ".git" in policy.protected


def test_what_was_planted_as_a_placeholder_neither_hangs_nor_is_followed(
    root: Path,
) -> None:
    _repository(root)
    worktree = root / ".git" / "worktrees" / "w"
    worktree.mkdir(parents=True)
    os.mkfifo(worktree / "commondir", 0o1600)
    (root / ".git" / "commondir").write_bytes(b"\xff\xff\xff")
    (root / ".git" / "commondir").chmod(0o1644)
    (root / ".git" / "modules" / "more").symlink_to(root.parent)
    with placeholders(_policy(root).closed):
        assert not any("more" in path.parts for path in _policy(root).protected)
    assert (worktree / "commondir").exists()


def test_what_a_user_removes_meanwhile_is_covered_again_and_what_they_fill_is_theirs(
    root: Path,
) -> None:
    with placeholders(_policy(root).closed):
        (root / ".zed").rmdir()
        (root / ".idea" / "file").write_text("")
        with placeholders(_policy(root).closed):
            assert (root / ".zed").is_dir()
    assert [path.name for path in root.iterdir()] == [".idea"]
    assert not (root / ".idea").stat().st_mode & stat.S_ISVTX


@pytest.mark.process
def test_placeholders_stay_while_another_agent_runs_a_command_in_the_folder(
    root: Path,
) -> None:
    script = (
        "import pathlib, sys; from acp_agent.sandbox.policy import Policy\n"
        "from acp_agent.sandbox.placeholders import placeholders\n"
        "closed, locks = Policy.of((pathlib.Path(sys.argv[1]),), (), (), ()).closed, pathlib.Path(sys.argv[2])\n"
        "with placeholders(closed, locks): print(flush=True), input()"
    )
    locks = root.parent / "home" / "locks"
    command = [sys.executable, "-c", script, str(root), str(locks)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"\n"
        with placeholders(_policy(root).closed, locks):
            pass
        assert (root / ".vscode").is_dir()
        other.communicate(b"\n")
        with placeholders(_policy(root).closed, locks):
            pass
    assert (list(root.iterdir()), list(locks.iterdir())) == ([], [])


def test_placeholders_stay_until_the_last_of_two_commands_ends(root: Path) -> None:
    policy = _policy(root)
    with placeholders(policy.closed):
        with placeholders(policy.closed):
            pass
        assert (root / ".vscode").is_dir()
    assert not (root / ".vscode").exists()


def test_a_folder_that_cannot_be_written_needs_no_placeholders(tmp_path: Path) -> None:
    with placeholders(_policy(Path("/proc")).closed):
        pass


def test_a_protected_path_that_is_a_link_is_reported_since_a_link_can_be_replaced(
    root: Path,
) -> None:
    assert _policy(root).unprotectable is None
    (root / ".vscode").symlink_to(root / "settings")
    assert _policy(root).unprotectable == root / ".vscode"


def test_lists_of_the_user_extend_what_is_closed_and_what_is_open(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path.resolve() / "home"
    for name in (".ssh", ".cache", "vault", "builds"):
        (home / name).mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    policy = Policy.of(
        (root,), (home / "agent",), ("~/builds", "~/missing"), ("~/vault",)
    )
    assert policy.read_deny == (home / ".ssh", home / "vault")
    assert policy.write == (home / ".cache", home / "builds")


def test_no_other_repository_can_be_named_as_the_one_whose_hooks_and_settings_count(
    root: Path,
) -> None:
    _repository(root)
    (root / ".git" / "worktrees" / "other").mkdir(parents=True)
    named = root / ".git" / "worktrees" / "other" / "commondir"
    named.write_text("../..\n")
    policy = _policy(root)
    assert {
        named,
        root / ".git" / "commondir",
        root / ".git/modules/lib/commondir",
    } <= {*policy.protected}
    with placeholders(policy.closed):
        # An empty one would be an error of git's; this one says what is true.
        assert (root / ".git" / "commondir").read_text() == "./\n"
    assert not (root / ".git" / "commondir").exists()
    assert named.read_text() == "../..\n"


def test_folders_that_hold_what_is_closed_cannot_be_moved_away_where_they_could_be_written(
    root: Path,
) -> None:
    _repository(root)
    nested = root / "deep" / "nested"
    agent = root / "share" / "agent"
    vault = root / "vault"
    for folder in (nested, agent, vault / "x" / "keys"):
        folder.mkdir(parents=True)
    policy = Policy((root, nested), (), (agent, vault, vault / "x" / "keys"))
    assert {str(each.relative_to(root)) for each in policy.holders} == {
        ".git", ".git/modules", ".git/modules/lib", "deep", "deep/nested", "share",
        ".git/objects", ".git/objects/info",
    }  # fmt: skip


def test_a_link_in_a_writable_folder_opens_nothing_since_a_command_could_have_made_it(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path.resolve() / "home"
    (home / ".cache").mkdir(parents=True)
    (home / "builds").mkdir()
    monkeypatch.setenv("HOME", str(home))
    (home / ".npm").symlink_to(home / "builds")
    for link in (home / ".cache" / "tool", root / "more"):
        link.symlink_to(tmp_path)
    policy = Policy.of((root, root / "more"), (), ("~/.cache/tool",), ())
    assert policy.roots == (root,)
    assert policy.write == (home / ".cache", home / "builds")


NAMES = st.sampled_from(["a", "b", "c"])
PATHS = st.lists(NAMES, min_size=1, max_size=4).map(lambda parts: Path("/", *parts))


@given(
    st.lists(PATHS, max_size=3),
    st.lists(PATHS, max_size=3),
    st.lists(PATHS, max_size=4),
)
def test_each_folder_between_a_writable_folder_and_a_closed_path_is_held(
    roots: list[Path], write: list[Path], closed: list[Path]
) -> None:
    writable = {*roots, *write}
    expected: set[Path] = set()
    for folder in {parent for path in closed for parent in path.parents} - {*closed}:
        nearest = next(
            (each for each in folder.parents if each in writable or each in closed),
            None,
        )
        if nearest in writable:
            expected.add(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os.path, "exists", lambda _: True)
        found = Policy(tuple(roots), tuple(write), ()).holding(closed)
    assert {*found} == expected
    assert len(found) == len(expected)


@given(PATHS, st.lists(PATHS, max_size=4))
def test_the_folders_that_lead_to_some_paths_are_listed_from_the_top(
    folder: Path, paths: list[Path]
) -> None:
    expected = {
        folder,
        *(
            parent
            for path in paths
            for parent in path.parents
            if parent.is_relative_to(folder)
        ),
    }
    found = parents_of(folder, paths)
    assert {*found} == expected
    assert all(
        parent not in found[place:]
        for place, each in enumerate(found)
        for parent in each.parents
    )


def test_the_closed_paths_of_a_command_are_looked_up_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path.resolve() / "project"
    root.mkdir()
    looked: list[Path] = []
    find = module._existing_in_root
    monkeypatch.setattr(
        module,
        "_existing_in_root",
        lambda root, more: looked.append(root) or find(root, more),
    )
    with Sandbox((root,), (tmp_path / "home",)).wrap(("true",), root, network=False):
        pass
    assert looked == [root]

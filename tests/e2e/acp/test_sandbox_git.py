"""Git in the sandbox: work trees, stashes, checkouts and planted repositories."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from acp_agent.sandbox.bubblewrap import fault
from support.editors import AVANTE, ZED, Editor
from support.memory import stage
from support.replies import Reply
from support.sandboxed import asked, results, shell

pytestmark = pytest.mark.skipif(bool(fault()), reason="no bubblewrap")


def name_author(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let git commit. Call this inside of the stage, which clears the environment."""
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "n")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "n@example.org")


@pytest.mark.process
async def test_a_worktree_s_changes_are_committed_without_a_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = (
        "git add . && git commit -qm second",
        "git stash -u",
        "git log --format=%s",
    )
    async with stage(
        tmp_path, *shell(*commands), config={"mode": "accept-edits"}, editor=AVANTE
    ) as it:
        name_author(monkeypatch)
        main = tmp_path / "main"
        for words in (
            ("init", "-q", str(main)),
            ("-C", str(main), "commit", "-q", "--allow-empty", "-m", "first"),
        ):
            subprocess.run(["git", *words], check=True)
        subprocess.run(
            ["git", "-C", str(main), "worktree", "add", "-q", str(tmp_path / "tree")],
            check=True,
        )
        (tmp_path / "tree" / ".git").rename(it.folder / ".git")
        (main / ".git/worktrees/tree/gitdir").write_text(
            f"{it.folder.resolve() / '.git'}\n"
        )
        await it.prompt()
        assert asked(it) == []
        assert "second\nfirst" in results(it)[-1]


def branches(folder: Path) -> None:
    """Create a repository with a modified file and two branches that have guarded
    names.
    """
    for line in (
        "git init -q -b main && git add . && git commit -qm first",
        "git checkout -qb old && echo old > .envrc && git add . && git commit -qm old",
        "git checkout -qb other main && echo new > .envrc && mkdir .vscode && echo {} > .vscode/a.json",
        "git add . && git commit -qm other && git checkout -q main && echo two > a.txt && echo x > new.txt",
    ):
        names = {
            f"GIT_{who}_{what}": "n"
            for who in ("AUTHOR", "COMMITTER")
            for what in ("NAME", "EMAIL")
        }
        subprocess.run(
            ["bash", "-c", line],
            cwd=folder,
            env={**os.environ, **names},
            check=True,
            capture_output=True,
        )


@pytest.mark.process
@pytest.mark.parametrize("editor", [AVANTE, ZED], ids=["no terminal", "terminal"])
@pytest.mark.parametrize(
    "command", ["git clean -fdx", "rm -rf .vscode .idea", "git clean -fdX && true"]
)
async def test_placeholders_that_cannot_be_removed_are_no_reason_to_run_a_command_again(
    tmp_path: Path, command: str, editor: Editor
) -> None:
    async with stage(
        tmp_path, *shell(command), config={"mode": "accept-edits"}, editor=editor
    ) as it:
        branches(it.folder)
        await it.prompt()
        assert asked(it) == []
        assert "nothing needs to be removed" in results(it)[0]


@pytest.mark.process
@pytest.mark.parametrize("options", ["-fdx", "-ffdx"])
async def test_a_clean_of_ignored_files_names_the_options_that_leave_placeholders_alone(
    tmp_path: Path, options: str
) -> None:
    async with stage(
        tmp_path,
        *shell(f"git clean {options}"),
        config={"mode": "accept-edits"},
        editor=AVANTE,
    ) as it:
        branches(it.folder)
        await it.prompt()
        result = results(it)[0]
        assert "its exit status is 1 only because of these folders" in result
        assert not (it.folder / "new.txt").exists()
        excludes = result.partition("run `git clean` with `")[2].partition("`")[0]
    line = f"git clean {options} {excludes}"
    async with stage(
        tmp_path / "again",
        *shell(line),
        config={"mode": "accept-edits"},
        editor=AVANTE,
    ) as it:
        branches(it.folder)
        await it.prompt()
        assert "exit status: 0" in results(it)[0]
        assert "busy" not in results(it)[0]
        assert not (it.folder / "new.txt").exists()


@pytest.mark.process
async def test_a_stash_of_ignored_files_says_how_to_finish_it_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = "git stash -a", "git reset --hard", "git stash pop"
    async with stage(
        tmp_path, *shell(*commands), config={"mode": "accept-edits"}, editor=AVANTE
    ) as it:
        name_author(monkeypatch)
        branches(it.folder)
        await it.prompt()
        assert asked(it) == []
        second = it.server.calls[1].body
        assert "Run `git reset --hard` to finish" in str(second)
        assert "Dropped refs/stash" in results(it)[0]
        assert (it.folder / "a.txt").read_text() == "two\n"
        assert (it.folder / "new.txt").read_text() == "x\n"


@pytest.mark.process
async def test_a_stash_with_untracked_files_is_made_once_and_without_a_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = "git stash -u", "git stash list", "git stash pop", "git clean -fd"
    async with stage(
        tmp_path, *shell(*commands), config={"mode": "accept-edits"}, editor=AVANTE
    ) as it:
        name_author(monkeypatch)
        branches(it.folder)
        await it.prompt()
        assert asked(it) == []
        assert (it.folder / "a.txt").read_text() == "two\n"
        assert {path.name for path in it.folder.iterdir()} == {".git", "a.txt"}


@pytest.mark.process
async def test_what_a_checkout_could_not_write_in_the_sandbox_is_said_though_git_says_that_all_is_well(
    tmp_path: Path,
) -> None:
    async with stage(
        tmp_path,
        *shell("git checkout -q other"),
        config={"mode": "accept-edits"},
        editor=AVANTE,
    ) as it:
        branches(it.folder)
        subprocess.run(["git", "checkout", "-qf", "old"], cwd=it.folder, check=True)
        await it.prompt()
        assert asked(it) == []
        assert "exit status: 0" in results(it)[0]
        assert (
            "Not changed, since the sandbox never writes there: .envrc, .vscode/a.json."
            in results(it)[0]
        )
        assert (it.folder / ".envrc").read_text() == "old\n"


@pytest.mark.process
async def test_a_checkout_that_a_placeholder_stops_is_asked_for_outside_and_leaves_nothing_behind(
    tmp_path: Path,
) -> None:
    async with stage(
        tmp_path,
        *shell("git checkout -qf other"),
        config={"mode": "accept-edits"},
        editor=AVANTE,
    ) as it:
        branches(it.folder)
        it.agent.permission_answer = "allow_once"
        await it.prompt()
        assert asked(it) == ["git checkout -qf other (outside of the sandbox)"]
        assert (it.folder / ".envrc").read_text() == "new\n"
        shown = subprocess.run(
            ["git", "status", "--porcelain"],
            cwd=it.folder,
            capture_output=True,
            text=True,
            check=True,
        )
        assert shown.stdout == "?? new.txt\n"


@pytest.mark.parametrize(
    "command", ["status", "diff", "add -A", "ls-files", "grep x", "commit -m x"]
)
@pytest.mark.parametrize("mode", ["accept-edits", "full-access"])
async def test_git_runs_nothing_of_a_folder_that_looks_like_a_bare_repository(
    tmp_path: Path, command: str, mode: str
) -> None:
    ran = tmp_path / "project" / "ran"
    files = {
        "HEAD": "ref: refs/heads/main\n",
        "config": f"[core]\n\trepositoryformatversion = 0\n\tworktree = .\n\tfsmonitor = touch {ran}; false\n",
        "objects/x": "",
        "refs/x": "",
    }
    async with stage(
        tmp_path, *shell(f"git {command}"), files=files, config={"mode": mode}
    ) as it:
        it.agent.permission_answer = "reject_once"
        await it.prompt()
        assert not ran.exists()


async def test_git_runs_nothing_of_such_a_folder_either_where_the_model_wrote_it(
    tmp_path: Path,
) -> None:
    write = (
        "printf '[core]\\n worktree = .\\n fsmonitor = touch ../ran; false\\n' "
        "> config; echo ref: refs/heads/x > HEAD"
    )
    commands = "for each in status diff 'add -A' ls-files 'grep x' 'commit -m x'; do git $each; done"
    lines = (
        f"mkdir -p bare/objects bare/refs && cd bare && {write}",
        f"cd bare && {commands}",
    )
    async with stage(tmp_path, *shell(*lines), config={"mode": "full-access"}) as it:
        await it.prompt()
        assert (it.folder / "bare" / "config").is_file()
        assert not (it.folder / "ran").exists()


@pytest.mark.process
@pytest.mark.parametrize("command", ["/review", "/commit", "Hello"])
async def test_the_agent_s_own_git_runs_no_watcher_of_a_repository(
    tmp_path: Path, command: str
) -> None:
    ran = tmp_path / "ran"
    async with stage(tmp_path, Reply("Done.")) as it:
        subprocess.run(["git", "init", "-q"], cwd=it.folder, check=True)
        subprocess.run(
            ["git", "config", "core.fsmonitor", f"touch {ran}; false"],
            cwd=it.folder,
            check=True,
        )
        await it.prompt(command)
        assert not ran.exists()

"""What a command makes that other programs would run by themselves."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from acp_agent.config.sandbox import MadeKeeper
from acp_agent.processes import environment_without
from acp_agent.sandbox.blocked import GuardedFolder, Sweep, places, sweeping
from acp_agent.sandbox.bubblewrap import fault
from acp_agent.sandbox.guarded_paths import guarded_paths, is_guarded
from acp_agent.sandbox.planted import Findings
from acp_agent.sandbox.repositories import Repository
from acp_agent.sandbox.sandbox import Sandbox
from acp_agent.sandbox.tips import Tips, tips_of
from acp_agent.sandbox.tracked import Tracked

pytestmark = pytest.mark.skipif(bool(fault()), reason="no bubblewrap")
CLOSED = ["/".join(row.parts) for row in guarded_paths("covered", "closed")]
GIT = ("git", "-c", "user.name=n", "-c", "user.email=n@example.org")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "project"
    folder.mkdir()
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    return folder


def in_sandbox(
    root: Path, line: str
) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    names = {
        f"GIT_{who}_{what}": "n@example.org"
        for who in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    }
    blocked: list[str] = []
    with Sandbox((root,), ()).wrap(
        ("bash", "-c", line), root, network=False, blocked=blocked
    ) as (_, words):
        done = subprocess.run(
            words,
            cwd=root,
            env={**environment_without(()), **names},
            capture_output=True,
            text=True,
            check=False,
        )
    return done, blocked


def planted(root: Path) -> list[str]:
    return [name for name in CLOSED if os.path.lexists(root / name)]


FORMS = {
    "a file": "mkdir -p {0} && echo evil > {1}",
    "a folder": "mkdir -p {1} && echo evil > {1}/config",
    "a link": "mkdir -p {0} x && echo evil > x/config && ln -s $PWD/x {1}",
    "another's folder": "mkdir -p {0} && mkdir -p x/y && mv x {1}",
    "a link on the way": "mkdir -p x && echo evil > x/{2} && ([ {0} = . ] && ln -s x/{2} {1} || ln -s $PWD/x {0})",
}


@pytest.mark.process
@pytest.mark.parametrize("form", FORMS)
def test_nothing_that_other_programs_run_by_themselves_is_there_after_a_command(
    root: Path, form: str
) -> None:
    lines = [
        FORMS[form].format(str(Path(name).parent), name, Path(name).name)
        for name in CLOSED
    ]
    done, blocked = in_sandbox(
        root, "\n".join(f"({line}) 2> /dev/null; rm -rf x" for line in lines)
    )
    assert planted(root) == []
    assert len(blocked) > 60
    assert done.returncode == 0
    # Nothing is lost: it has another name.
    assert (root / ".cursor.blocked").exists() or (
        root / ".cursor.blocked"
    ).is_symlink()


@pytest.mark.process
@pytest.mark.parametrize("form", ["changed", "replaced", "folder moved", "link turned"])
def test_what_is_there_already_stays_as_it_is(root: Path, form: str) -> None:
    for name in (
        ".hg/hgrc",
        ".mcp.json",
        ".cursor/mcp.json",
        ".jj/repo/config.toml",
        ".github/hooks/a.json",
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("mine")
    (root / "shared").mkdir()
    (root / "shared" / "mcp.json").write_text("mine")
    (root / ".kiro").symlink_to("shared")
    names = ".hg/hgrc .mcp.json .cursor/mcp.json .jj/repo/config.toml .github/hooks/a.json .kiro/mcp.json"
    lines = {
        "changed": "for each in NAMES; do echo evil > $each; done",
        "replaced": "for each in NAMES; do echo evil > x; mv -f x $each; rm -f $each; done",
        "folder moved": "for each in .hg .cursor .jj .jj/repo .github; do mv $each moved; mkdir -p $each; done",
        "link turned": "mkdir evil; echo evil > evil/mcp.json; ln -sfn evil .kiro; mv shared other; rm -rf .kiro",
    }
    in_sandbox(root, lines[form].replace("NAMES", names))
    for name in names.split():
        assert (root / name).read_text() == "mine"
    assert (root / ".kiro").readlink() == Path("shared")


@pytest.mark.process
def test_it_is_gone_while_the_command_still_runs(root: Path) -> None:
    line = "mkdir .cursor; echo evil > .cursor/mcp.json; until [ ! -e .cursor ]; do sleep 0.02; done; echo seen"
    done, blocked = in_sandbox(root, f"timeout 20 bash -c {shlex.quote(line)}")
    assert done.stdout == "seen\n"
    assert blocked == [".cursor → .cursor.blocked"]
    assert (root / ".cursor.blocked" / "mcp.json").read_text() == "evil\n"


@pytest.mark.process
def test_a_link_on_the_way_leads_no_renaming_elsewhere(root: Path) -> None:
    other = root.parent / "other"
    (other / "repo").mkdir(parents=True)
    (other / "hgrc").write_text("mine")
    (other / "repo" / "config.toml").write_text("mine")
    in_sandbox(
        root,
        "ln -s ../other .hg; ln -s ../other .jj; mkdir .github; ln -s ../../other .github/hooks",
    )
    assert sorted(path.name for path in other.iterdir()) == ["hgrc", "repo"]
    assert (other / "repo" / "config.toml").exists()
    assert planted(root) == []


@pytest.mark.process
def test_a_name_that_is_taken_is_not_overwritten(root: Path) -> None:
    (root / ".cursor.blocked").mkdir()
    (root / ".cursor.blocked" / "old").write_text("")
    _, blocked = in_sandbox(root, "mkdir .cursor")
    assert blocked == [".cursor → .cursor.blocked-2"]


@pytest.mark.process
def test_files_of_settings_and_hooks_that_git_s_settings_name_are_not_written(
    root: Path,
) -> None:
    for key, value in (
        ("include.path", "../.gitconfig"),
        ("includeIf.onbranch:main.path", "../team.conf"),
    ):
        subprocess.run(["git", "config", key, value], cwd=root, check=True)
    subprocess.run(
        ["git", "config", "core.hooksPath", "tools/hooks"], cwd=root, check=True
    )
    (root / ".gitconfig").write_text("[user]\n\tname = me\n")
    (root / "tools" / "hooks").mkdir(parents=True)
    (root / "tools" / "hooks" / "pre-commit").write_text("true\n")
    lines = (
        "echo '[core] fsmonitor = ./evil' >> .gitconfig",
        "echo '[core] fsmonitor = ./evil' > team.conf",
        "echo evil > tools/hooks/pre-commit",
        "mv tools/hooks tools/old && mkdir tools/hooks && echo evil > tools/hooks/pre-commit",
        "echo evil > tools/hooks/post-checkout",
        "echo fine > tools/hooks/README.md",
    )
    in_sandbox(root, "\n".join(lines))
    assert (root / ".gitconfig").read_text() == "[user]\n\tname = me\n"
    assert (root / "tools" / "hooks" / "pre-commit").read_text() == "true\n"
    assert not (root / "team.conf").exists()
    assert not (root / "tools" / "hooks" / "post-checkout").exists()
    assert (root / "tools" / "hooks" / "README.md").exists()


@pytest.mark.process
def test_files_that_the_user_s_own_git_settings_name_are_not_written(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = root.parent / "home of the user"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    (home / ".gitconfig").write_text(
        f"[include]\n\tpath = {root}/mine.conf\n"
        "[core]\n\thooksPath = .githooks\n\tfsmonitor = ./tools/monitor\n"
    )
    (root / "tools").mkdir()
    (root / "tools" / "monitor").write_text("true\n")
    lines = (
        "mkdir -p .githooks && echo evil > .githooks/pre-commit",
        "echo '[alias] x = !evil' > mine.conf",
        "echo evil > tools/monitor",
        "echo fine > tools/README.md",
    )
    in_sandbox(root, "\n".join(lines))
    assert not (root / ".githooks" / "pre-commit").exists()
    assert not (root / "mine.conf").exists()
    assert (root / "tools" / "monitor").read_text() == "true\n"
    assert (root / "tools" / "README.md").exists()


def committed(root: Path) -> None:
    for number in range(3):
        (root / "a.txt").write_text(f"{number}\n")
        subprocess.run([*GIT, "add", "."], cwd=root, check=True)
        subprocess.run([*GIT, "commit", "-qm", str(number)], cwd=root, check=True)


@pytest.mark.process
@pytest.mark.parametrize(
    "line",
    [
        "git rebase -q --exec false HEAD~2",
        "git rebase -q --exec false HEAD~2; sed -i 's/exec .*/x ./evil/' .git/rebase-merge/git-rebase-todo",
        "GIT_SEQUENCE_EDITOR='echo break >' git rebase -qi HEAD~2; echo '../evil' > .git/rebase-merge/strategy",
    ],
)
def test_an_unfinished_rebase_runs_nothing_that_a_command_put_into_it(
    root: Path, line: str
) -> None:
    committed(root)
    _, blocked = in_sandbox(root, line)
    assert blocked == ["rebase-merge → rebase-merge.blocked"]
    done = subprocess.run(
        [*GIT, "rebase", "--continue"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "no rebase in progress" in done.stderr.lower()
    done, blocked = in_sandbox(
        root, "mv .git/rebase-merge.blocked .git/rebase-merge && git rebase --abort"
    )
    assert (done.returncode, blocked) == (0, []), done.stderr


@pytest.mark.process
@pytest.mark.parametrize(
    "name", ["FETCH_HEAD", "COMMIT_EDITMSG", "logs/HEAD", "logs/refs/heads/new"]
)
def test_git_writes_through_no_link_that_a_command_made_in_the_git_directory(
    root: Path, name: str
) -> None:
    committed(root)
    outside = root.parent / "outside"
    outside.write_text("mine\n")
    _, blocked = in_sandbox(
        root,
        f"rm -f .git/{name}; mkdir -p .git/logs/refs/heads; ln -s {outside} .git/{name}",
    )
    assert blocked == [f"{name} → {name}.blocked"]
    subprocess.run(
        [*GIT, "commit", "-q", "--allow-empty", "-m", "x"], cwd=root, check=True
    )
    subprocess.run([*GIT, "branch", "new"], cwd=root, check=True)
    subprocess.run([*GIT, "fetch", "-q", "."], cwd=root, check=True)
    assert outside.read_text() == "mine\n"


@pytest.mark.process
def test_a_rebase_whose_list_is_too_long_to_be_read_does_not_go_on(root: Path) -> None:
    committed(root)
    line = "GIT_SEQUENCE_EDITOR='sed -i 1s/pick/edit/' git rebase -qi HEAD~2; cd .git/rebase-merge; "
    line += "{ yes '# nothing' | head -c 1100000; echo; echo 'exec touch ran'; } > git-rebase-todo"
    _, blocked = in_sandbox(root, line)
    assert blocked == ["rebase-merge → rebase-merge.blocked"]


@pytest.mark.process
def test_an_ordinary_rebase_and_one_of_the_user_s_go_on(root: Path) -> None:
    committed(root)
    line = "GIT_SEQUENCE_EDITOR='sed -i 1s/pick/edit/' git rebase -qi HEAD~2 && git rebase --continue"
    done, blocked = in_sandbox(root, f"git rebase -q --exec true HEAD~2 && {line}")
    assert (done.returncode, blocked) == (0, [])
    edit = {**os.environ, "GIT_SEQUENCE_EDITOR": "sed -i 1iexec\\ false"}
    subprocess.run(
        [*GIT, "rebase", "-qi", "HEAD~2"],
        cwd=root,
        env=edit,
        capture_output=True,
        check=False,
    )
    subprocess.run(
        [*GIT, "rebase", "--edit-todo"],
        cwd=root,
        env=edit,
        capture_output=True,
        check=False,
    )
    done, blocked = in_sandbox(root, "git status && git log --oneline")
    assert (done.returncode, blocked) == (0, [])
    assert (root / ".git" / "rebase-merge").is_dir()


@pytest.mark.process
def test_no_name_that_is_missing_costs_a_placeholder_or_a_mount(root: Path) -> None:
    with Sandbox((root,), ()).wrap(("true",), root, network=False) as (_, words):
        made = {path.name for path in root.iterdir()}
        rows = guarded_paths("covered", "private")
        assert made == {".git", *(row.parts[0] for row in rows)}
        assert not [
            word for word in words if word.endswith((".cursor", ".hgrc", ".helix"))
        ]


def test_what_is_watched_is_looked_at_without_listing_a_folder(tmp_path: Path) -> None:
    blocked: list[str] = []
    with sweeping(Sweep(places((tmp_path,)), (), blocked)):
        (tmp_path / ".cursor").mkdir()
        end = time.monotonic() + 20
        while not blocked and time.monotonic() < end:
            os.sched_yield()
    assert blocked == [".cursor → .cursor.blocked"]


@pytest.mark.parametrize(
    "name",
    [
        f"mise.{'a' * 245}.toml",
        f"{'b' * 240}.code-workspace",
        f".envrc.{'e' * 248}",
        f"mise.{'ä' * 122}.toml",
        f"mise.{'𝒳' * 61}.toml",
        ".cursor",
    ],
)
def test_a_guarded_name_as_long_as_the_file_system_allows_is_renamed(
    tmp_path: Path, name: str
) -> None:
    blocked: list[str] = []
    seen = places((tmp_path,))
    for number in range(12):
        (tmp_path / name).write_text(str(number))
        Sweep(seen, (), blocked).run(is_last=True)
    names = [each.name for each in tmp_path.iterdir()]
    assert len(names) == len(blocked) == 12
    assert not any(is_guarded(Path(each)) for each in names)
    assert {(tmp_path / each).read_text() for each in names} == set(map(str, range(12)))
    assert all("blocked" in each for each in names)


@pytest.mark.skipif(sys.platform != "linux", reason="no /proc")
def test_a_path_that_cannot_be_renamed_is_told(tmp_path: Path) -> None:
    # The kernel does not rename anything in /proc.
    seen = (GuardedFolder(Path("/proc"), (("version",), ("missing",)), {}),)
    blocked: list[str] = []
    sweep = Sweep(seen, (), blocked)
    sweep.run()
    sweep.run(is_last=True)
    assert not blocked
    assert [*sweep.stuck] == [Path("/proc/version")]
    notices: list[str] = []
    stuck = tuple(f"{path} ({why})" for path, why in sweep.stuck.items())
    MadeKeeper(tmp_path, notices).keep(Findings(stuck=stuck))
    [notice] = notices
    assert "could not rename them: /proc/version (" in notice


def bytes_read() -> int:
    """Return how many bytes this process has read so far."""
    return int(Path("/proc/self/io").read_text().partition("rchar: ")[2].split()[0])


def of_size(folder: Path, count: int, size: int) -> None:
    folder.mkdir(exist_ok=True)
    for number in range(count):
        file = folder / f"f{number}"
        file.touch()
        os.truncate(file, size)


@pytest.mark.process
@pytest.mark.parametrize("are_tracked", [False, True])
def test_a_folder_of_large_files_holds_up_nothing(
    root: Path, are_tracked: bool
) -> None:
    """Whether a commit of the user's has files at these paths, too, or not."""
    seen = places((root,))
    of_size(root / ".husky", 150, 9 if are_tracked else 0)
    (root / ".tool-versions").write_text("python 3\n")
    subprocess.run(
        [*GIT, "add", "-f", ".husky" if are_tracked else ".tool-versions"],
        cwd=root,
        check=True,
    )
    subprocess.run([*GIT, "commit", "-qm", "x"], cwd=root, check=True)
    (root / ".tool-versions").unlink()
    repository = Repository(root, root / ".git", root / ".git")
    of_size(root / ".husky", 150, 4 * 1024 * 1024)
    (root / ".cursor").mkdir()
    (root / ".mcp.json").write_text("evil")
    touched: list[bool] = []
    blocked: list[str] = []
    sweep = Sweep(seen, [Tracked(Tips(repository, tips_of(repository)))], blocked)
    before = bytes_read()
    sweep.run(touch=lambda: touched.append((root / ".mcp.json").exists()))
    sweep.run(is_last=True, touch=lambda: touched.append((root / ".mcp.json").exists()))
    assert bytes_read() - before < 100 * 1024 * 1024
    assert planted(root) == []
    assert len(touched) > (10 if are_tracked else 2)  # once for each file that is read
    if are_tracked:
        assert blocked[-1] == ".husky → .husky.blocked", "all others come first"
        assert True not in touched[-8:]


@pytest.mark.process
def test_files_of_the_user_s_commits_stay_if_they_are_of_ordinary_size(
    root: Path,
) -> None:
    seen = places((root,))
    of_size(root / ".husky", 20, 1024 * 1024)
    subprocess.run([*GIT, "add", "-f", ".husky"], cwd=root, check=True)
    subprocess.run([*GIT, "commit", "-qm", "x"], cwd=root, check=True)
    repository = Repository(root, root / ".git", root / ".git")
    blocked: list[str] = []
    sweep = Sweep(seen, [Tracked(Tips(repository, tips_of(repository)))], blocked)
    sweep.run()
    sweep.run(is_last=True)
    assert blocked == []
    assert list(sweep.kept) == [root / ".husky"]

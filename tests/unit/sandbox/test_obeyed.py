"""What git would run or follow in git directories that a command makes or may write,
when the user goes on there.
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.processes import environment_without
from acp_agent.sandbox.bubblewrap import fault
from acp_agent.sandbox.obeyed import TABLE, state_of
from acp_agent.sandbox.sandbox import Sandbox
from support.keeper import Kept

needs_bubblewrap = pytest.mark.skipif(bool(fault()), reason="no bubblewrap")
NAMES = {
    f"GIT_{who}_{what}": "n@example.org"
    for who in ("AUTHOR", "COMMITTER")
    for what in ("NAME", "EMAIL")
}
REBASE = "GIT_SEQUENCE_EDITOR='sed -i 1s/pick/edit/' git rebase -qi HEAD~1 2> /dev/null"
TODO = "$(git rev-parse --git-dir)/rebase-merge/git-rebase-todo"


def git(
    folder: Path, *words: str, check: bool = True
) -> subprocess.CompletedProcess[str]:
    env = {**environment_without(()), **NAMES, "GIT_EDITOR": "true"}
    return subprocess.run(
        ("git", *words),
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=check,
    )


def repository(folder: Path) -> Path:
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    for number in range(3):
        (folder / "a.txt").write_text(f"{number}\n")
        git(folder, "add", ".")
        git(folder, "commit", "-qm", str(number))
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return repository(tmp_path.resolve() / "project")


def run(
    root: Path, line: str, keeper: Kept | None = None, *, network: bool = False
) -> list[str]:
    blocked: list[str] = []
    sandbox = Sandbox((root,), (), keeper=keeper or Kept())
    with sandbox.wrap(("bash", "-c", line), root, network=network, blocked=blocked) as (
        _,
        words,
    ):
        env = {**environment_without(()), **NAMES}
        done = subprocess.run(
            words, cwd=root, env=env, capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stderr
    return blocked


STASH = "echo x > a.txt; git stash create"


PLACES = {
    "a new work tree": "git worktree add -q wt && cd wt",
    "a new work tree of a nested repository": "cd nested && git worktree add -q ../wt && cd ../wt",
    "a nested repository": "cd nested",
    "a new repository": "git clone -q . made && cd made",
    "a submodule": "git clone -q . made && mkdir -p .git/modules && mv made/.git .git/modules/made && "
    "echo 'gitdir: ../.git/modules/made' > made/.git && cd made && git config core.worktree ../../../made",
    "a bare repository with a work tree": "git clone -q --bare . store.git && "
    "git --git-dir store.git worktree add -q wt && cd wt",
    "the project": "true",
}


@pytest.mark.process
@needs_bubblewrap
@pytest.mark.parametrize("place", PLACES)
def test_an_unfinished_rebase_runs_nothing_in_any_repository_that_a_command_may_write(
    root: Path, place: str
) -> None:
    repository(root / "nested")
    ran = root.parent / "ran"
    blocked = run(
        root, f"{PLACES[place]} && {REBASE}; echo 'exec touch {ran}' > {TODO}"
    )
    assert blocked == ["rebase-merge → rebase-merge.blocked"]
    for folder in (root, *(each.parent for each in root.rglob(".git"))):
        git(folder, "rebase", "--continue", check=False)
    assert not ran.exists()


UNFINISHED = {
    "short exec": (f"{REBASE}; echo 'x touch ran' > {TODO}", "rebase-merge"),
    "strategy": (
        f"{REBASE}; echo ../evil > $(dirname {TODO})/strategy",
        "rebase-merge",
    ),
    "autosquash and exec": (
        "GIT_SEQUENCE_EDITOR=: git rebase -q -i --autosquash -x false HEAD~2 2> /dev/null; true",
        "rebase-merge",
    ),
    "options of apply": (
        "mkdir .git/rebase-apply; echo \" '--build-fake-ancestor=/tmp/x'\" > .git/rebase-apply/apply-opt",
        "rebase-apply",
    ),
    "strategy of a cherry-pick": (
        "mkdir .git/sequencer; printf '[options]\\n\\tstrategy = ../evil\\n' > .git/sequencer/opts",
        "sequencer",
    ),
    "strategy with a blank in its name": (
        f"{REBASE}; echo ' ort' > $(dirname {TODO})/strategy",
        "rebase-merge",
    ),
    "strategy options of a rebase": (
        f"{REBASE}; echo \\`x\\` > $(dirname {TODO})/strategy_opts",
        "rebase-merge",
    ),
    "signing option of a rebase": (
        f"{REBASE}; echo --exec=x > $(dirname {TODO})/gpg_sign_opt",
        "rebase-merge",
    ),
    "strategy of a rebase by patches": (
        "mkdir .git/rebase-apply; echo x > .git/rebase-apply/strategy",
        "rebase-apply",
    ),
    "signing option of patches": (
        "mkdir .git/rebase-apply; echo -x > .git/rebase-apply/gpg_sign_opt",
        "rebase-apply",
    ),
    "names of a bisection": ("echo '$(touch ran)' > .git/BISECT_NAMES", "BISECT_NAMES"),
    "stash of a merge": (f"{STASH} > .git/MERGE_AUTOSTASH", "MERGE_AUTOSTASH"),
    "stash of a checkout": (
        f"{STASH} > .git/CHECKOUT_AUTOSTASH_HEAD",
        "CHECKOUT_AUTOSTASH_HEAD",
    ),
    "stash of a rebase": (
        f"{REBASE}; {STASH} > $(dirname {TODO})/autostash",
        "rebase-merge/autostash",
    ),
    "stash of a rebase by patches": (
        f"mkdir .git/rebase-apply; {STASH} > .git/rebase-apply/autostash",
        "rebase-apply/autostash",
    ),
    "a remote of old form": (
        "mkdir -p .git/remotes; echo 'URL: ../evil.git' > .git/remotes/origin",
        "remotes/origin",
    ),
    "a branch of old form": (
        "mkdir -p .git/branches; echo ../evil.git > .git/branches/origin",
        "branches/origin",
    ),
    "a link in what is unfinished": (
        f"{REBASE}; ln -s ../../../x $(dirname {TODO})/done2",
        "rebase-merge/done2",
    ),
}


@pytest.mark.process
@needs_bubblewrap
@pytest.mark.parametrize("name", UNFINISHED)
def test_no_unfinished_operation_and_no_remote_names_what_a_command_has_chosen(
    root: Path, name: str
) -> None:
    line, planted = UNFINISHED[name]
    assert run(root, line) == [f"{planted} → {planted}.blocked"]
    assert not (root / ".git" / planted).exists()


@pytest.mark.process
@needs_bubblewrap
def test_no_stash_of_a_command_is_applied_by_the_user_s_next_commit(root: Path) -> None:
    line = (
        "echo evil > .envrc; git add -f .envrc; echo x > a.txt; stash=$(git stash create); "
        "git reset -q --hard; echo $stash > .git/MERGE_AUTOSTASH"
    )
    blocked = run(root, line)
    (root / "a.txt").write_text("mine\n")
    git(root, "commit", "-qam", "mine")
    assert "MERGE_AUTOSTASH → MERGE_AUTOSTASH.blocked" in blocked
    assert not (root / ".envrc").exists()


@pytest.mark.process
@needs_bubblewrap
def test_an_unfinished_rebase_with_commands_and_a_stash_is_renamed_as_a_whole(
    root: Path,
) -> None:
    line = (
        f"{REBASE}; echo 'exec false' > {TODO}; {STASH} > $(dirname {TODO})/autostash"
    )
    assert run(root, line) == ["rebase-merge → rebase-merge.blocked"]


@pytest.mark.process
@needs_bubblewrap
def test_a_stash_that_the_user_left_in_a_merge_stays(root: Path) -> None:
    (root / "a.txt").write_text("mine\n")
    stash = git(root, "stash", "create").stdout
    (root / ".git/MERGE_AUTOSTASH").write_text(stash)
    assert run(root, "true") == []
    assert (root / ".git/MERGE_AUTOSTASH").read_text() == stash


WRITTEN = (
    *(
        'e"vi"l',
        '"ev""il"',
        '"ev\\"il"',
        '"evil" # no',
        "ev\\\nil",
        "ort\\\n2",
        '"ort" x',
        "\\t",
        "'ort'",
        '" ort"',
    ),
    *(
        'ort"',
        "ort\\x",
        "ort\n[options]\nStrategy=evil",
        "ort\n[options] strategy = evil",
        "ort\n\ufeffx = y",
    ),
)


@pytest.mark.parametrize("value", WRITTEN)
def test_a_strategy_is_found_however_it_is_quoted(tmp_path: Path, value: str) -> None:
    (tmp_path / "sequencer").mkdir()
    (tmp_path / "sequencer/opts").write_text(f"[options]\n\tstrategy = {value}\n")
    assert state_of(tmp_path)


@pytest.mark.parametrize(
    "value", ["ort", '"ort"', 'o"r"t', "ort ; evil", "or\\\nt", '""', "ort\r"]
)
def test_a_strategy_of_git_s_own_is_none_of_the_command_s_however_it_is_quoted(
    tmp_path: Path, value: str
) -> None:
    (tmp_path / "sequencer").mkdir()
    (tmp_path / "sequencer/opts").write_text(
        f"[options]\n\tstrategy = {value}\n", newline=""
    )
    assert not state_of(tmp_path)


@pytest.mark.process
@needs_bubblewrap
@pytest.mark.parametrize(
    "line",
    [
        "git format-patch -q -1 --stdout | sed 's/^-1/-9/' > p; git reset -q --hard HEAD~1; git am p; git am --skip",
        "git format-patch -q -1 --stdout | sed 's/^-1/-9/' > p; git am --whitespace=fix -C1 -p1 p",
        "git revert -n HEAD~1 HEAD; git cherry-pick -X theirs --strategy=ort HEAD HEAD~1",
        "git revert -n HEAD~1 HEAD; git cherry-pick -X subtree=x -X diff-algorithm=patience HEAD HEAD~1",
        "git -c sequence.editor='sed -i 1s/pick/edit/' rebase -i -X theirs -X subtree=a/b HEAD~1",
        "git bisect start -- a.txt; git bisect bad; git bisect good HEAD~2",
        REBASE,
        "git remote add origin . && git fetch -q && git branch -q --set-upstream-to=origin/main; true",
    ],
)
def test_ordinary_unfinished_work_is_left_alone(root: Path, line: str) -> None:
    assert run(root, f"({line}) > /dev/null 2>&1; true") == []


@pytest.mark.process
@needs_bubblewrap
def test_what_the_user_left_unfinished_goes_on_in_the_sandbox(root: Path) -> None:
    nested = repository(root / "nested")
    for folder in (root, nested):
        edit = {
            **environment_without(()),
            **NAMES,
            "GIT_SEQUENCE_EDITOR": "sed -i '1s/pick/edit/;$aexec true'",
        }
        subprocess.run(
            ["git", "rebase", "-qi", "HEAD~2"],
            cwd=folder,
            env=edit,
            capture_output=True,
            check=False,
        )
        (folder / ".git/remotes").mkdir()
        (folder / ".git/remotes/old").write_text("URL: ../x\n")
        (folder / ".git/mine").symlink_to("HEAD")
    while time.time_ns() - (nested / ".git/mine").lstat().st_ctime_ns < 50_000_000:
        os.sched_yield()  # clocks of files are coarse
    assert (
        run(
            root,
            "for each in . nested; do (cd $each; echo x > b; git add b; git commit -qm b); done",
        )
        == []
    )
    assert run(root, "git rebase --continue && git -C nested rebase --continue") == []
    assert not (nested / ".git/rebase-merge").exists()


@pytest.mark.process
@needs_bubblewrap
@pytest.mark.parametrize("place", ["a nested repository", "a new work tree"])
def test_git_writes_through_no_link_in_other_repositories_either(
    root: Path, place: str
) -> None:
    repository(root / "nested")
    outside = root.parent / "outside"
    outside.write_text("mine\n")
    line = f"d=$(git rev-parse --absolute-git-dir); rm -f $d/FETCH_HEAD; ln -s {outside} $d/FETCH_HEAD"
    assert run(root, f"{PLACES[place]} && {line}") == [
        "FETCH_HEAD → FETCH_HEAD.blocked"
    ]


MAKE = "git clone -q . made && cd made"
HTTP = "https://example.org/x.git"
SETTINGS = {
    "core.worktree": "git config core.worktree {outside}",
    "core.worktree with another case": "printf '[CORE]\\n\\tWorkTree = {outside}\\n' >> .git/config",
    "core.worktree in quotes": "printf '[core]\\n\\tworktree = \"{outside}\"\\n' >> .git/config",
    "core.worktree of a work tree": "git config extensions.worktreeConfig true; "
    "git config --worktree core.worktree {outside}",
    "remote.origin.promisor": f"git config remote.origin.url {HTTP}; git config remote.origin.promisor true",
    "remote.origin.partialclonefilter": "git config remote.origin.partialclonefilter blob:none",
    "extensions.partialclone": "git config extensions.partialclone origin",
    "extensions.refstorage": "git config extensions.refstorage files://{outside}",
    "remote.origin.url": "git config remote.origin.url 'ext::sh -c evil'",
    "remote.origin.pushurl": "git config remote.origin.pushurl {home}/.cache/evil.git",
    "remote.origin.url of a helper": "git config remote.origin.url evil://x",
    "remote.origin.url in a skipped folder": "git config remote.origin.url ../node_modules/a/evil.git",
    "remote.origin.url of a file": "git config remote.origin.url file://{home}/.cache/evil.git",
    "remote.origin.url with options": "git config remote.origin.url ssh://-oProxyCommand=x/y",
    "branch.main.remote": "git config branch.main.remote {home}/.cache/evil.git",
    "submodule.x.url": "git config submodule.x.url 'ext::sh -c evil'",
}


@pytest.mark.process
@needs_bubblewrap
@pytest.mark.parametrize("name", SETTINGS)
def test_values_that_lead_out_of_a_repository_that_a_command_made_become_comments(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    home = tmp_path / "home"
    keeper = Kept()
    (home / ".cache").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    line = SETTINGS[name].format(outside=root.parent, home=home)
    run(root, f"{MAKE} && {line}; true", keeper)
    key = name.partition(" ")[0]
    file = "config.worktree" if name.endswith("of a work tree") else "config"
    listed = git(root, "config", "-f", str(root / "made/.git" / file), "--list").stdout
    assert [
        each for each in listed.lower().splitlines() if each.startswith(f"{key}=")
    ] == []
    assert len(keeper.done) == 1


@pytest.mark.process
@needs_bubblewrap
@pytest.mark.parametrize(
    "line",
    [
        f"git config remote.origin.url {HTTP}",
        "git config remote.origin.url git@example.org:a/b.git",
        "git config remote.origin.url ssh://git@example.org/a/b.git",
        "git config remote.origin.url ../nested",
        "git config remote.origin.url /srv/git/project.git",
        "git config branch.main.remote .",
        "git worktree add -q ../wt2",
    ],
)
def test_ordinary_values_stay(root: Path, line: str) -> None:
    keeper = Kept()
    run(root, f"{MAKE} && {line}", keeper)
    assert keeper.done == []
    run(root, "true", keeper)
    assert keeper.done == []


@pytest.mark.process
@needs_bubblewrap
def test_work_trees_of_submodules_stay_and_are_looked_at_again_when_a_link_takes_their_place(
    root: Path,
) -> None:
    keeper = Kept()
    other = repository(root / "other")
    git(
        root,
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "add",
        "-q",
        str(other),
        "mine",
    )
    git(root, "commit", "-qm", "submodule")
    run(
        root,
        PLACES["a submodule"]
        + f" && cd .. && git -c protocol.file.allow=always submodule add -q {other} sub",
        keeper,
    )
    assert keeper.done == []
    assert git(root / "made", "rev-parse", "--show-toplevel").stdout.strip() == str(
        root / "made"
    )
    assert git(root / "mine", "status", "--short").stdout == ""
    line = "mkdir x; mv made/.git x/.git; rm -r made; ln -s other made"
    run(root, line, keeper)
    assert any("worktree" in done for done in keeper.done)


@pytest.mark.process
@needs_bubblewrap
def test_a_partial_clone_stays_one_where_the_command_had_the_network(
    root: Path,
) -> None:
    keeper = Kept()
    line = f"{MAKE} && git config remote.origin.url {HTTP} && git config remote.origin.promisor true"
    run(root, line, keeper, network=True)
    # A change of the last 20 ms counts as the next command's, since the clock of files
    # is coarse.
    changed = (root / "made" / ".git" / "config").stat().st_ctime_ns
    while time.time_ns() <= changed + 30_000_000:
        pass
    run(root, "true", keeper)
    assert keeper.done == []
    assert git(root / "made", "config", "remote.origin.promisor").stdout == "true\n"
    run(root, f"git -C made config remote.origin.url {HTTP}/other", keeper)
    assert "promisor" in keeper.done[0]


@given(st.sampled_from([row.path for row in TABLE]), st.binary(max_size=200))
def test_whatever_is_in_a_git_directory_its_state_is_read(
    tmp_path_factory: pytest.TempPathFactory, path: str, content: bytes
) -> None:
    folder = tmp_path_factory.mktemp("git")
    names = {
        "rebase-merge": "git-rebase-todo",
        "rebase-apply": "apply-opt",
        "sequencer": "opts",
    }
    file = (
        folder / path / names.get(path, "x")
        if path in (*names, "remotes", "branches")
        else folder / path
    )
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    found = state_of(folder)
    assert found == state_of(folder)
    assert all((folder / Path(*parts)).exists() for parts, _ in found)

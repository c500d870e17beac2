"""Nested repositories: protected while a command runs, and what a command makes is
found and made harmless.
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.sandbox.bubblewrap import fault
from acp_agent.sandbox.git_settings import RepositorySurroundings, harmless
from acp_agent.sandbox.gitlinks import gitlinks_in
from acp_agent.sandbox.nested import gitlinks, gitlinks_below, marks_below
from acp_agent.sandbox.sandbox import Sandbox
from support.keeper import Kept

needs_bubblewrap = pytest.mark.skipif(bool(fault()), reason="no bubblewrap")
IDENTITY = ("-c", "user.name=n", "-c", "user.email=n@example.org")


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", *IDENTITY, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "project"
    folder.mkdir()
    git(folder, "init", "-q")
    git(folder, "commit", "-q", "--allow-empty", "-m", "x")
    return folder


def run(root: Path, keeper: Kept, line: str) -> subprocess.CompletedProcess[str]:
    sandbox = Sandbox((root,), (), keeper=keeper)
    with sandbox.wrap(("bash", "-c", line), root, network=False) as (_, words):
        return subprocess.run(words, capture_output=True, text=True, check=False)


def what_git_runs(root: Path, ran: Path) -> bool:
    """Return whether an editor's `git status` runs something, in the project and in
    each folder of it.
    """
    for folder in (
        root,
        *(
            each
            for each in root.rglob("*")
            if each.is_dir() and ".git" not in each.parts
        ),
    ):
        subprocess.run(["git", "status"], cwd=folder, capture_output=True, check=False)
    return ran.exists()


LINK = 'git update-index --add --cacheinfo "160000,$(git -C {0} rev-parse HEAD),{0}"'
MAKE = "git init -q {0} && git -C {0} -c user.name=n -c user.email=n@x commit -q --allow-empty -m x"
EVIL = "git -C {0} config core.fsmonitor 'touch {ran};:'"
PARTS = (
    "mkdir -p sub/.git && ln -s refs/heads/x sub/.git/HEAD && printf "
    "'[core]\\n\\tbare = false\\n\\tfsmonitor = \"touch {ran};:\"\\n' > sub/.git/config;"
)
SPLIT = (
    "mkdir -p {0} {1}/objects {1}/refs && git config -f {1}/config extensions.worktreeConfig true && "
    "git config -f {1}/config core.repositoryFormatVersion 0 && git config -f {0}/config.worktree core.bare false && "
    "git config -f {0}/config.worktree core.worktree {3} && "
    "git config -f {0}/config.worktree core.fsmonitor 'touch {{ran}};:' && "
    "echo {2} > {0}/commondir && echo ref: refs/heads/x > {0}/HEAD"
)
ATTACKS = {
    "a gitlink": f"{MAKE} && {LINK} && {EVIL}",
    "deep in packages": f"mkdir -p node_modules/p && {MAKE} && {LINK} && {EVIL}".replace(
        "{0}", "node_modules/p"
    ),
    "a gitlink in an index of version 4": f"{MAKE} && {LINK} && {EVIL} && git update-index --index-version 4",
    "a gitlink in a split index": f"{MAKE} && {LINK} && {EVIL} && git update-index --split-index",
    "a repository without a gitlink": f"{MAKE} && {EVIL}",
    "a folder of packages without a gitlink": f"mkdir venv && {MAKE} && {EVIL}".replace(
        "{0}", "venv"
    ),
    "a gitlink of another repository": f"mkdir -p {{0}}/target/x/y && {MAKE} && {LINK} && cd sub && "
    + f"{MAKE} && {LINK} && {EVIL}".replace("{0}", "target/x/y"),
    "a directory elsewhere": f"{MAKE} && {LINK} && {EVIL} && mv {{0}}/.git hidden && "
    "echo gitdir: ../hidden > {0}/.git",
    "a link": f"{MAKE} && {LINK} && {EVIL} && mv {{0}}/.git hidden && ln -s ../hidden {{0}}/.git",
    "a bare repository": "git init -q --bare {0} && git -C {0} config core.bare false && "
    f"git -C {{0}} config core.worktree . && {EVIL}",
    "settings in another file": f"{MAKE} && {LINK} && cp {{0}}/.git/config evil && git config -f evil core.fsmonitor "
    "'touch {ran};:' && git -C {0} config include.path ../../evil",
    "settings of a work tree": f"{MAKE} && {LINK} && git -C {{0}} config extensions.worktreeConfig true && "
    "git -C {0} config --worktree core.fsmonitor 'touch {ran};:'",
    "settings that are a link": f"{MAKE} && {LINK} && {EVIL} && mv {{0}}/.git/config evil && "
    "ln -s ../../evil {0}/.git/config",
    "programs called objects and refs": f"{PARTS} touch sub/.git/objects sub/.git/refs; "
    "chmod +x sub/.git/objects sub/.git/refs",
    "a folder with programs called objects and refs": f"{PARTS} mv sub/.git/* sub; rmdir sub/.git; "
    "git -C sub config -f config core.worktree .; touch sub/objects sub/refs; chmod +x sub/objects sub/refs",
    "a program called refs": f"{PARTS} mkdir sub/.git/objects; touch sub/.git/refs; chmod +x sub/.git/refs",
    "a name that ends with a blank": f"{MAKE} && {EVIL} && mkdir venv && mv {{0}}/.git 'venv/.x ' && "
    "printf 'gitdir: ../venv/.x \\n' > {0}/.git",
    "a name before a null byte": f"{MAKE} && {EVIL} && mkdir venv && mv {{0}}/.git venv/.x && "
    "printf 'gitdir: ../venv/.x\\0y' > {0}/.git",
    "a folder split in two": SPLIT.format("sub", "y", "../y", "."),
    "a folder split in two, half of it out of sight": SPLIT.format(
        "sub", "venv/.y", "../venv/.y", "."
    ),
    "a directory split in two": SPLIT.format("sub/.git", "y", "../../y", ".."),
    "a split session directory": f"rm -rf y; {SPLIT.format('sub/deep', 'sub/deep/y', 'y', '.')}",
    "a repository in a bare one": "git init -q --bare {0} && "
    + f"{MAKE} && {EVIL}".replace("{0}", "{0}/in"),
    "another common directory": f"{MAKE} && {LINK} && {EVIL} && cp -r {{0}}/.git hidden && rm {{0}}/.git/config && "
    "echo ../../hidden > {0}/.git/commondir",
}


@pytest.mark.process
@needs_bubblewrap
@pytest.mark.parametrize("name", ATTACKS)
def test_no_program_of_a_repository_that_a_command_made_is_run_by_git_outside(
    root: Path, tmp_path: Path, name: str
) -> None:
    keeper = Kept()
    ran = tmp_path / "ran"
    line = ATTACKS[name].replace("{0}", "sub").replace("{ran}", str(ran))
    done = run(root, keeper, line)
    assert done.returncode == 0, done.stderr
    assert [each.done for each in keeper.planted if each.done]
    assert not what_git_runs(root, ran)


@pytest.mark.process
@pytest.mark.parametrize("kind", ["worktree", "folder", "submodule"])
def test_gitlinks_are_found_where_the_session_s_folder_has_no_index_of_its_own(
    root: Path, tmp_path: Path, kind: str
) -> None:
    ran = tmp_path / "ran"
    session = root / "inner"
    if kind == "worktree":
        git(root, "worktree", "add", "-q", str(session))
    elif kind == "folder":
        session.mkdir()
    else:
        git(
            root,
            "-c",
            "protocol.file.allow=always",
            "submodule",
            "add",
            "-q",
            str(root / ".git"),
            "inner",
        )
    place = "target/x/y"
    inner = tmp_path / "made"
    inner.mkdir()
    for line in (MAKE, EVIL):
        subprocess.run(
            ["bash", "-c", line.replace("{0}", ".").replace("{ran}", str(ran))],
            cwd=inner,
            capture_output=True,
            check=True,
        )
    (session / "target" / "x").mkdir(parents=True)
    inner.rename(session / place)
    git(
        session,
        "update-index",
        "--add",
        "--cacheinfo",
        f"160000,{git(session / place, 'rev-parse', 'HEAD').strip()},"
        f"{session.relative_to(root) / place if kind == 'folder' else place}",
    )
    assert session / place in gitlinks_below(session, ())[0]


@pytest.mark.process
def test_a_repository_behind_a_thousand_folders_is_found(tmp_path: Path) -> None:
    for number in range(1_000):
        (tmp_path / f"d{number}").mkdir()
    git(tmp_path, "init", "-q", "zz")
    below = marks_below(tmp_path)
    assert tmp_path / "zz" / ".git" in below.marks
    assert below.is_whole


def test_an_index_whose_paths_only_grow_is_read_no_further_than_a_path_can_be_long() -> (
    None
):
    entry = (
        bytes(24)
        + b"\x00\x00\xe0\x00"
        + bytes(32)
        + b"\x0f\xff\0"
        + b"a" * 1_000
        + b"\0"
    )
    index = b"DIRC\0\0\0\4" + (5_000).to_bytes(4, "big") + entry * 5_000
    assert sum(map(len, gitlinks_in(index, 20))) < 20_000


@pytest.mark.process
@needs_bubblewrap
def test_a_repository_that_is_there_keeps_its_settings_hooks_and_place(
    root: Path,
) -> None:
    keeper = Kept()
    nested = root / "libs" / "nested"
    nested.mkdir(parents=True)
    git(nested, "init", "-q")
    before = (nested / ".git" / "config").read_text()
    for line in (
        "git -C libs/nested config core.fsmonitor ./evil",
        "echo x > libs/nested/.git/hooks/post-checkout",
        "mv libs/nested/.git libs/nested/moved",
        "mv libs moved",
        "echo ../../evil > libs/nested/.git/commondir",
        "rm -rf libs/nested/.git/hooks && ln -s /tmp libs/nested/.git/hooks",
    ):
        assert run(root, keeper, line).returncode, line
    assert (nested / ".git" / "config").read_text() == before
    assert (
        run(
            root, keeper, "cd libs/nested && touch a && git add a && git status"
        ).returncode
        == 0
    )
    assert keeper.planted == []
    assert (
        sorted(
            each.name
            for each in (nested / ".git").iterdir()
            if each.name in ("commondir", "config.worktree")
        )
        == []
    )


@pytest.mark.process
@needs_bubblewrap
def test_cloning_and_removing_repositories_is_ordinary_work(
    root: Path, tmp_path: Path
) -> None:
    keeper = Kept()
    origin = root / "origin"
    git(root, "init", "-q", str(origin))
    git(origin, "commit", "-q", "--allow-empty", "-m", "x")
    assert (
        run(
            root, keeper, "git clone -q ./origin copy && git init -q --bare store.git"
        ).returncode
        == 0
    )
    assert sorted(keeper.names(root)) == ["copy/.git", "store.git"]
    assert [each.done for each in keeper.planted] == [(), ()]
    assert (
        run(
            root, keeper, "git -C copy config user.name n && rm -rf copy store.git"
        ).returncode
        == 0
    )
    assert len(keeper.planted) == 2


HOOK = "printf '#!/bin/sh\\ntouch {ran}\\n' > {0} && chmod +x {0}"
FOLDERS_OF_HOOKS = {
    "a new repository": f"{MAKE} && mkdir sub/.githooks && "
    + HOOK.replace("{0}", "sub/.githooks/post-index-change"),
    "a repository in a package folder": "mkdir venv && "
    + f"{MAKE} && mkdir venv/x/.githooks && ".replace("{0}", "venv/x")
    + HOOK.replace("{0}", "venv/x/.githooks/post-index-change"),
    "a link": f"{MAKE} && mkdir sub/h && ln -s h sub/.githooks && "
    + HOOK.replace("{0}", "sub/h/post-index-change"),
    "a folder that was there": "mv old sub && git init -q sub",
    "a clone": "git clone -q old-repository sub",
    "settings of its own": f"{MAKE} && mkdir sub/own && git -C sub config core.hooksPath own && "
    + HOOK.replace("{0}", "sub/own/post-index-change"),
    "an included file": f"{MAKE} && mkdir sub/own && git config -f sub/.git/x core.hooksPath own && "
    "git -C sub config include.path x && "
    + HOOK.replace("{0}", "sub/own/post-index-change"),
    "a condition": f"{MAKE} && mkdir sub/own && git config -f sub/.git/x core.hooksPath own && "
    "git -C sub config includeIf.gitdir:/.path x && "
    + HOOK.replace("{0}", "sub/own/post-index-change"),
    "a repository that cannot be protected": "mkdir venv/r/.githooks && "
    + HOOK.replace("{0}", "venv/r/.githooks/post-index-change"),
}


@pytest.mark.process
@needs_bubblewrap
@pytest.mark.parametrize("name", FOLDERS_OF_HOOKS)
def test_a_folder_of_hooks_that_settings_name_runs_nothing_in_a_new_repository(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    (home / ".gitconfig").write_text("[core]\n\thooksPath = .githooks\n")
    ran = tmp_path / "ran"
    for folder in (root / "old", root / "old-repository"):
        (folder / ".githooks").mkdir(parents=True)
        hook = folder / ".githooks" / "post-index-change"
        hook.write_text(f"#!/bin/sh\ntouch {ran}\n")
        hook.chmod(0o755)
    git(root / "old-repository", "init", "-q")
    git(root / "old-repository", "-c", "core.hooksPath=x", "add", ".githooks")
    git(root / "old-repository", "commit", "-qm", "x")
    if name.endswith("protected"):
        git(root, "init", "-q", "venv/r")
    keeper = Kept()
    done = run(
        root,
        keeper,
        FOLDERS_OF_HOOKS[name].replace("{0}", "sub").replace("{ran}", str(ran)),
    )
    assert done.returncode == 0, done.stderr
    ran.unlink(missing_ok=True)
    for folder in (root / "sub", root / "venv" / "x", root / "venv" / "r"):
        if folder.is_dir():
            (folder / "file").touch()
            git(folder, "add", "file")
    assert not ran.exists()
    assert keeper.done


@pytest.mark.process
@needs_bubblewrap
def test_what_a_later_command_changes_in_a_made_repository_is_made_harmless_too(
    root: Path, tmp_path: Path
) -> None:
    keeper = Kept()
    ran = tmp_path / "ran"
    assert run(root, keeper, MAKE.replace("{0}", "sub")).returncode == 0
    assert (
        run(
            root, keeper, EVIL.replace("{0}", "sub").replace("{ran}", str(ran))
        ).returncode
        == 0
    )
    assert len(keeper.planted) == 2
    assert not what_git_runs(root, ran)


@pytest.mark.process
@needs_bubblewrap
def test_a_hook_that_becomes_executable_is_found_among_any_number_of_files(
    root: Path,
) -> None:
    package = root / "node_modules/package"
    package.mkdir(parents=True)
    git(package, "init", "-q")
    hook = package / ".git/hooks/post-checkout"
    run(
        root,
        Kept(),
        f"cd {hook.parent}; seq -f a%g 3000 | xargs touch; echo '#!/bin/sh' > {hook.name}",
    )
    while time.time_ns() - hook.stat().st_ctime_ns < 50_000_000:
        os.sched_yield()  # clocks of files are coarse
    run(root, Kept(), f"chmod +x {hook}")
    assert not hook.exists()


@pytest.mark.process
@needs_bubblewrap
def test_hooks_of_a_made_repository_are_kept_under_another_name(root: Path) -> None:
    keeper = Kept()
    line = (
        MAKE.replace("{0}", "sub")
        + " && echo 'touch ran' > sub/.git/hooks/x && chmod +x sub/.git/hooks/x"
    )
    assert run(root, keeper, line).returncode == 0
    assert (root / "sub" / ".git" / "hooks.off" / "x").read_text() == "touch ran\n"
    [planted] = keeper.planted
    assert "hooks.off" in planted.done[0]


@pytest.mark.process
@needs_bubblewrap
def test_settings_folders_that_a_command_makes_further_down_are_found(
    root: Path,
) -> None:
    keeper = Kept()
    run(
        root,
        keeper,
        "mkdir -p sub/.acp-agent sub/.claude deep/.acp-agent; touch sub/.acp-agent/x deep/.acp-agent/x",
    )
    assert sorted(keeper.names(root)) == ["deep/.acp-agent", "sub/.acp-agent"]


LINES = (
    *(
        "[core]",
        '[remote "x"]',
        "[CORE]",
        "[core] fsmonitor = x",
        "fsmonitor = x",
        "\tbare = false",
        "# a \\",
        "",
    ),
    *(
        "bare = x \\",
        "\turl = /a",
        '[includeIf "gitdir:/"]',
        "path = evil",
        "[alias]",
        "x = !y",
        "bare",
        "\r",
    ),
    *(
        "url = a ; b",
        'url = "a',
        "[core]\r",
        "\ufeff[core]",
        "hookspath=x",
        '[filter "a"]',
        "clean = x",
        "[x.y]",
    ),
)


@pytest.mark.process
@given(st.lists(st.sampled_from(LINES), max_size=12), st.sampled_from(["\n", "\r\n"]))
def test_git_reads_no_setting_but_harmless_ones_of_what_is_left(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], end: str
) -> None:
    file = tmp_path_factory.getbasetemp() / "config-of-a-test"
    around = RepositorySurroundings(Path("/r/.git"), Path("/r"))
    text, _ = harmless(end.join(lines).encode(), around)
    file.write_bytes(text)
    done = subprocess.run(
        ["git", "config", "-f", str(file), "--list", "-z"],
        capture_output=True,
        check=False,
    )
    keys = {each.split(b"\n")[0] for each in done.stdout.split(b"\0") if each}
    assert keys <= {b"core.bare", b"remote.x.url"}
    assert harmless(text, around) == (text, ())


@pytest.mark.process
@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_gitlinks_are_read_from_an_index_of_each_version(
    root: Path, version: str
) -> None:
    head = git(root, "rev-parse", "HEAD").strip()
    blob = git(root, "hash-object", "-w", "/dev/null").strip()
    links = {f"folder/of some/depth{number:03d}" for number in (0, 100, 299)}
    names = [f"folder/of some/depth{number:03d}" for number in range(300)]
    lines = [
        f"160000 {head}\t{name}\n" if name in links else f"100644 {blob}\t{name}\n"
        for name in names
    ]
    subprocess.run(
        ["git", "update-index", "--index-info"],
        cwd=root,
        input="".join(lines),
        text=True,
        check=True,
    )
    git(root, "update-index", "--index-version", version)
    assert gitlinks(root / ".git") == links


@pytest.mark.process
@needs_bubblewrap
def test_a_repository_that_cannot_be_protected_is_looked_at_after_the_command(
    root: Path, tmp_path: Path
) -> None:
    keeper = Kept()
    ran = tmp_path / "ran"
    for number in range(52):
        git(root, "init", "-q", f"many/{number:02d}")
    settings = (root / "many" / "00" / ".git" / "config").read_text()
    run(
        root,
        keeper,
        f"for each in many/*; do git -C $each config core.fsmonitor 'touch {ran};:'; done",
    )
    assert len(keeper.planted) == 2
    hook = (
        f"printf '#!/bin/sh\ntouch {ran}\n' > $each/.git/hooks/post-checkout; "
        f"chmod +x $each/.git/hooks/post-checkout"
    )
    for number in range(52):
        (root / f"many/{number:02d}/.git/hooks/post-checkout").write_text("#!/bin/sh\n")
    run(root, keeper, f"for each in many/*; do {hook}; done")
    assert [
        path
        for path in root.rglob("hooks/post-checkout")
        if str(ran) in path.read_text()
    ] == []
    assert {
        (each / ".git" / "config").read_text() == settings
        for each in (root / "many").iterdir()
    } == {True, False}
    assert not what_git_runs(root, ran)

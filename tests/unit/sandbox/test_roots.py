"""Which folder is the root of a project."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from acp_agent.sandbox.roots import is_repository, moved_root, repository_root
from support.repo import make_git_directory


def _git(*words: str) -> None:
    subprocess.run(["git", *words], check=True, capture_output=True)


def _worktree(folder: Path) -> None:
    main = folder.parent / "main"
    _git("init", "-q", str(main))
    names = ("-c", "user.name=n", "-c", "user.email=n@example.org")
    _git("-C", str(main), *names, "commit", "-q", "--allow-empty", "-m", "x")
    folder.rmdir()
    _git("-C", str(main), "worktree", "add", "-q", str(folder))


def _linked(folder: Path) -> None:
    _git("init", "-q", str(folder.parent / "other"))
    (folder / ".git").symlink_to(folder.parent / "other" / ".git")


def _placeholder(folder: Path) -> None:
    (folder / ".git").mkdir(mode=0o1755)


def _with_head_alone(folder: Path) -> None:
    (folder / ".git").mkdir()
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n")


def _with_files(folder: Path, *, mode: int) -> None:
    (folder / ".git").mkdir()
    (folder / ".git" / "HEAD").symlink_to("refs/heads/main")
    for name in ("objects", "refs"):
        (folder / ".git" / name).touch(mode)


def _split(folder: Path, *, named: bytes, made: str) -> None:
    (folder / ".git").mkdir()
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / ".git" / "commondir").write_bytes(named)
    for name in ("objects", "refs"):
        (folder / made / name).mkdir(parents=True)


def _named(folder: Path, *, text: bytes, made: str) -> None:
    _git("init", "-q", "--bare", str(folder / made))
    _git("-C", str(folder / made), "config", "core.bare", "false")
    (folder / ".git").write_bytes(text)


def _looping(folder: Path) -> None:
    (folder / ".git").symlink_to(folder / ".git")


MADE: dict[str, tuple[Callable[[Path], object], bool]] = {
    "a repository": (lambda folder: _git("init", "-q", str(folder)), True),
    "a worktree": (_worktree, True),
    "a repository with its directory elsewhere": (
        lambda folder: _git(
            "init",
            "-q",
            f"--separate-git-dir={folder.parent / 'elsewhere'}",
            str(folder),
        ),
        True,
    ),
    "a link to a git directory": (_linked, True),
    "an empty folder": (lambda folder: (folder / ".git").mkdir(), False),
    "a placeholder": (_placeholder, False),
    "a folder with a file": (
        lambda folder: make_git_directory(folder, ".git/deeper"),
        False,
    ),
    "a folder with HEAD alone": (_with_head_alone, False),
    "a file that names nothing": (
        lambda folder: (folder / ".git").write_text("gitdir: /nowhere\n"),
        False,
    ),
    "a file that names no git directory": (
        lambda folder: (folder / ".git").write_text("gitdir: ..\n"),
        False,
    ),
    "an empty file": (lambda folder: (folder / ".git").write_text(""), False),
    "a file that is no text": (
        lambda folder: (folder / ".git").write_bytes(b"gitdir: \0\xff\n"),
        False,
    ),
    "a link to itself": (_looping, False),
    "objects and refs that are programs": (
        lambda folder: _with_files(folder, mode=0o755),
        True,
    ),
    "objects and refs that are files": (
        lambda folder: _with_files(folder, mode=0o644),
        False,
    ),
    "a directory split in two": (
        lambda folder: _split(folder, named=b"../common\n", made="common"),
        True,
    ),
    "a split directory, and a null byte after the name": (
        lambda folder: _split(folder, named=b"../common\0x\n", made="common"),
        True,
    ),
    "a split directory, and a name that ends with a blank": (
        lambda folder: _split(folder, named=b"../common \n", made="common "),
        True,
    ),
    "a split directory whose other part has another name": (
        lambda folder: _split(folder, named=b"../common \n", made="common"),
        False,
    ),
    "a file that names a directory with blanks around its name": (
        lambda folder: _named(folder, text=b"gitdir:  real \r\n\n", made=" real "),
        True,
    ),
    "a file with a null byte after the name": (
        lambda folder: _named(folder, text=b"gitdir: real\0x", made="real"),
        True,
    ),
    "a file with many line ends": (
        lambda folder: _named(folder, text=b"gitdir: real" + b"\n" * 9000, made="real"),
        True,
    ),
    "a file without a blank": (
        lambda folder: _named(folder, text=b"gitdir:real\n", made="real"),
        False,
    ),
    "a repository of Mercurial": (
        lambda folder: (folder / ".hg" / "store").mkdir(parents=True),
        False,
    ),
}


@pytest.mark.process
@pytest.mark.parametrize("name", MADE)
def test_a_folder_is_a_repository_where_git_says_so(tmp_path: Path, name: str) -> None:
    make, expected = MADE[name]
    outer = tmp_path.resolve() / "outer"
    _git("init", "-q", str(outer))
    folder = outer / "folder"
    folder.mkdir()
    make(folder)
    asked = subprocess.run(
        ["git", "rev-parse", "--show-toplevel"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert is_repository(folder) is expected
    assert (asked.stdout.strip() == str(folder)) is expected
    (folder / "deep").mkdir()
    assert repository_root(folder / "deep") == (folder if expected else outer)


def test_a_repository_that_does_not_count_is_the_root_only_where_there_is_no_other(
    tmp_path: Path,
) -> None:
    inner = tmp_path / "inner"
    git = make_git_directory(inner)
    (inner / "src").mkdir()
    assert repository_root(inner / "src", lambda each: each != git) == inner
    make_git_directory(tmp_path)
    assert repository_root(inner / "src", lambda each: each != git) == tmp_path


@pytest.mark.parametrize(
    ("root", "former", "cwd", "expected"),
    [
        ("/old/repo", "/old/repo/src", "{}/src", "{}"),
        ("/old/repo", "/old/repo", "{}/src", "{}/src"),
        # Another folder, which need not be the same project's.
        (
            "/old/repo",
            "/old/repo/src",
            "{}/lib",
            "",
        ),
        ("/old/repo", "/old/repo/a/src", "{}/src", ""),
        ("/old/repo", "/elsewhere", "{}/src", ""),
        ("", "/old/repo", "{}", ""),
        ("/", "/old/repo", "/src", ""),
    ],
)
def test_a_root_moves_with_its_project(
    tmp_path: Path, root: str, former: str, cwd: str, expected: str
) -> None:
    make_git_directory(tmp_path)
    assert moved_root(root, former, Path(cwd.format(tmp_path))) == expected.format(
        tmp_path
    )

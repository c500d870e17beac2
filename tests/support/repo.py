"""A small real git repository to work on.

    repo = make_repo(tmp_path / "shop")
    repo.run_tests().returncode     # 1: one of the two tests fails
    repo.fix()                      # what a good agent would do
    repo.run_tests().returncode     # 0
    repo.git("status", "--porcelain")

The program is `shop/cart.py`; `Cart.total` forgets the quantity. Its tests need only
the standard library's unittest.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

BUG = "return sum(line.price for line in self.lines)"
FIX = "return sum(line.price * line.quantity for line in self.lines)"

FILES = {
    "AGENTS.md": "# Shop\n\nPrices are whole cents. Run the tests with `python -m unittest -q`.\n",
    ".gitignore": "__pycache__/\n*.log\nbuild/\n",
    "README.md": "# shop\n\nA shopping cart.\n",
    "shop/__init__.py": "",
    "shop/cart.py": f'''\
"""A shopping cart; prices are in cents."""

from dataclasses import dataclass, field


@dataclass
class Line:
    name: str
    price: int
    quantity: int = 1


@dataclass
class Cart:
    lines: list[Line] = field(default_factory=list)

    def add(self, name: str, price: int, quantity: int = 1) -> None:
        self.lines.append(Line(name, price, quantity))

    def total(self) -> int:
        {BUG}
''',
    "tests/__init__.py": "",
    "tests/test_cart.py": """\
import unittest

from shop.cart import Cart


class CartTest(unittest.TestCase):
    def test_an_empty_cart_costs_nothing(self) -> None:
        self.assertEqual(Cart().total(), 0)

    def test_total_counts_every_piece(self) -> None:
        cart = Cart()
        cart.add("pear", 30, quantity=3)
        cart.add("fig", 10)
        self.assertEqual(cart.total(), 100)
""",
}
IGNORED = {
    "debug.log": "noise: Cart.total was called\n",
    "build/cart.py": "# generated: total\n",
}


@dataclass(frozen=True, slots=True)
class Repo:
    """A git repository on disk.

    :ivar path: its root, absolute and without symbolic links.
    """

    path: Path

    @property
    def program(self) -> Path:
        return self.path / "shop" / "cart.py"

    def git(
        self, *args: str, stdin: str = "", env: Mapping[str, str] | None = None
    ) -> str:
        """Run git, and return what it prints.

        :param env: by default one with an author and without anybody's settings.
        """
        return _run(["git", *args], self.path, check=True, stdin=stdin, env=env).stdout

    def run_tests(self) -> subprocess.CompletedProcess[str]:
        """Run the repository's own tests; the return code is 1 as long as the bug is
        there.
        """
        return _run(
            [sys.executable, "-B", "-m", "unittest", "-q"], self.path, check=False
        )

    def fix(self) -> None:
        self.program.write_text(self.program.read_text().replace(BUG, FIX))


def make_git_directory(folder: Path, name: str = ".git") -> Path:
    """Create a folder that git accepts as a repository's directory, without running
    git.
    """
    git = folder / name
    for each in ("objects", "refs"):
        (git / each).mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    return git


def make_repo(path: Path) -> Repo:
    """Make the repository with one commit, and two files that git ignores."""
    path.mkdir(parents=True, exist_ok=True)
    repo = Repo(path.resolve())
    for name, text in {**FILES, **IGNORED}.items():
        file = repo.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    repo.git("init", "--quiet", "--initial-branch=main")
    repo.git("add", "--all")
    repo.git("commit", "--quiet", "--message", "A cart")
    return repo


def _run(
    argv: list[str],
    cwd: Path,
    *,
    check: bool,
    stdin: str = "",
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    # The settings of the person who runs the tests (signing, hooks, templates) must not
    # reach the repository.
    env = env or {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(cwd),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        **{f"GIT_{who}_NAME": "Ada" for who in ("AUTHOR", "COMMITTER")},
        **{f"GIT_{who}_EMAIL": "ada@example.org" for who in ("AUTHOR", "COMMITTER")},
        **{
            f"GIT_{who}_DATE": "2026-01-02T03:04:05Z" for who in ("AUTHOR", "COMMITTER")
        },
    }
    return subprocess.run(
        argv,
        cwd=cwd,
        env=env,
        check=check,
        capture_output=True,
        input=stdin,
        encoding="utf-8",
        timeout=60,
    )


def hostile_repository(folder: Path) -> Path:
    """Make a folder a repository whose settings run a program for `git status`, as one
    may be unpacked.

    :returns: a file that the program makes.
    """
    git = Repo(folder).git
    (folder / "a.txt").write_text("a")
    git("init", "-q")
    git("config", "user.name", "x")
    git("config", "user.email", "x@x")
    git("add", ".")
    git("commit", "-qm", "one")
    (folder / ".gitattributes").write_text("* filter=evil\n")
    ran = folder.parent / "filtered"
    git("config", "filter.evil.clean", f"touch '{ran}'; cat")
    for file in folder.glob("*.txt"):
        # Of another size, git would not run the filter to compare it.
        file.write_text("b" * len(file.read_text()))
    return ran

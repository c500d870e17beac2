"""The repository that agents work on in the tests."""

from __future__ import annotations

from pathlib import Path

from support.repo import make_repo


def test_the_repository_is_clean_and_its_tests_fail_until_the_bug_is_fixed(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "shop")
    assert repo.git("status", "--porcelain") == ""
    expected = ".gitignore AGENTS.md README.md shop/__init__.py shop/cart.py tests/__init__.py tests/test_cart.py"
    assert repo.git("ls-files").split() == expected.split()
    before = repo.run_tests()
    assert before.returncode == 1
    assert "test_total_counts_every_piece" in before.stderr
    repo.fix()
    assert repo.run_tests().returncode == 0
    assert repo.git("diff", "--name-only").split() == ["shop/cart.py"]


def test_ignored_files_are_there_and_ignored(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "shop")
    assert (repo.path / "debug.log").exists()
    assert repo.git("status", "--porcelain", "--ignored").split() == ["!!", "build/", "!!", "debug.log"]

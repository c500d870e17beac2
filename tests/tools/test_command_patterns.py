"""What a recipe's `allowed_commands` allow of the command lines that a model writes."""

from __future__ import annotations

import fnmatch
import os
import shlex
import string
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_agent.config.document import parse_mapping
from acp_agent.tools.command_lines import may_grow_options, words_of
from acp_agent.tools.command_patterns import refusal, refusal_of_words
from support.checkout import REPOSITORY

SPELLED = ("git commit *", "!git commit --amend", "!git commit -n", "!git commit --no-verify")
COMMIT = ("git commit *", "!git commit --am*", "!git commit -n*", "!git commit -[a-zA-Z]*n*")


@pytest.mark.parametrize(
    ("command", "pattern", "allowed"),
    [
        ("git log --oneline", "git log*", True),
        ("git push", "git log*", False),
        ("git log; rm -rf /", "git log*", False),
        ("git log $(rm x)", "git log*", False),
        ("make test && make lint", "make test && make lint", True),
        ("anything; at all", "*", True),
        ("git log", "", False),
        # A pattern's end is worth nothing where a comment may stand before it.
        ("rm -rf x #.sh", "*.sh", False),
        ("git push origin main # --dry-run", "git push * --dry-run", False),
        ("git log --grep '#.sh'", "git *", True),
        ("git log a#b", "git log *", True),
        # What pnpm and yarn run has to be named.
        ("yarn add x", "yarn *", False),
        ("yarn add x", "yarn add *", True),
        ("yarn test --silent", "yarn test*", True),
        ("yarn testsh", "yarn test*", False),
        ("yarn node -e 1", "yarn *", False),
        ("yarn --version", "yarn *", True),
        ("pnpm -r test", "pnpm -r test*", True),
        ("pnpm --filter web sh -c x", "pnpm *", False),
        ("pnpm --filter web test", "pnpm --filter web test*", True),
        ("tar -tzf a.tgz", "tar -t*", True),
        ("tar -tf a --index-file=/x", "tar -t*", False),
        # Nothing means anything between single quotes.
        ("git add 'routes/$id.tsx' '[a]/`b`'", "git add *", True),
        ("git show 'HEAD^{}:a\\b'", "git show *", True),
        ("git add $'\\'' ; rm x #'", "git *", False),
        ("git add '\t' $(rm x) ' b'", "git *", False),
        ("git add 'a' $(rm x) 'b'", "git *", False),
        ("git add \\' $(rm x) \\'", "git *", False),
        ('git add "\'" $(rm x) "\'"', "git *", False),
        ("git add \"$(rm x)\" '$y'", "git *", False),
        ("git add '\n' $(rm x)", "git *", False),
        ("git add 'unfinished $x", "git *", False),
        ("'$x' add", "*add", False),
        # Commands that only look do nothing else.
        ("git log --output=README.md", "git log *", False),
        ("git diff --output README.md", "git diff *", False),
        ("git diff --'out'put=README.md", "git diff *", False),
        ("git log -p --ext-diff", "git log*", False),
        ("git show HEAD:a --textconv", "git *", False),
        ("/usr/bin/git log --output=x", "*git log*", False),
        ("git grep -nOless x", "git grep *", False),
        ("find . -name x -delete", "find *", False),
        ("find . -execdir rm x", "find *", False),
        ("sort -uo a b", "sort *", False),
        ("rg --pre=./x y", "rg *", False),
        ("git log --oneline --exclude=x -S out", "git log *", True),
        ("find . -name 'x*'", "find *", True),
        # Who names such an option has thought of it.
        ("git log --output=notes.txt", "git log --output=*", True),
        ("git log --output=notes.txt", "git log --o*", False),
        ("git log --output=notes.txt", "git log --output=notes.txt", True),
        ("git log --output=notes.txt", "*", True),
        ("find . -name x -exec grep y a", "find * -exec grep *", True),
        ("find . -exec grep y a -delete", "find * -exec grep *", False),
        ("find . -exec rm x -exec grep y a", "find * -exec grep *", False),
        ("find . -exec rm x -name ' -exec grep '", "find * -exec grep *", False),
        ("find . -name ' -exec grep y'", "find * -exec grep *", False),
        # A quoted operator is a word like any other.
        ("find . -exec grep y {} +", "find * -exec grep *", True),
        ("find . -exec grep y '{}' ';'", "find * -exec grep *", True),
        ("find . -exec grep y {} \\;", "find * -exec grep *", True),
        ("find . \\( -name a -o \\! -name b \\)", "find *", True),
        ("rg '{' x", "rg *", True),
        ("find . -exec grep y {} \\; -exec rm {} \\;", "find * -exec grep *", False),
        ("find . -exec grep y {} \\; -delete", "find * -exec grep *", False),
        ("find . -exec grep y {} ; rm x", "find * -exec grep *", False),
        ("find . -exec grep y {} \\\\; rm x", "find * -exec grep *", False),
        ("find . -exec grep y {} \\'\\; rm x'", "find * -exec grep *", False),
        ("ls '&'& rm x", "ls *", False),
        ("ls '|' | rm", "ls *", False),
        ("ls {};rm x", "ls *", False),
        ("ls a{} x", "ls *", False),
        ("{} x", "*x", False),
        ("git -c core.pager=cat log -3", "git -c core.pager=cat log *", True),
        ("git -c core.pager=cat -c alias.x=y log", "git -c core.pager=cat *", False),
        ("git config --get user.name", "git config*", True),
        ("git config --get user.name", "git *", False),
        # A file may be called `--output=x`.
        ("git diff *", "git diff *", True),
        ("git diff *", "git diff*", False),
        ("git diff -- *", "git diff*", True),
        ("git diff '*.py'", "git diff*", True),
        ("git diff '--'*", "git diff*", False),
        ("git diff src/*.py", "git diff*", True),
        ("ls *", "ls*", True),
        # Of find, what stands behind `--` is an option as well.
        ("find -- *", "find *", False),
        ("find . -name -- *", "find *", False),
    ],
)
def test_a_pattern_allows_no_more_than_it_names(command: str, pattern: str, allowed: bool) -> None:
    assert (refusal(command, [pattern]) == "") == allowed


@pytest.mark.parametrize(
    ("command", "allowed"),
    [
        ("git commit -m 'Count every piece' -m '- no piece is left out'", True),
        ("git commit -am x", True),
        ("git commit --amend -m x", False),
        ("git commit -m x --am", False),
        ("git commit -m x '--amend'", False),
        ("git commit -m -- --amend", False),
        ("git commit -nm x", False),
        ("git commit -anm x", False),
        ("git commit -m x *", False),
        ("git push", False),
    ],
)
def test_a_pattern_behind_an_exclamation_mark_takes_back_what_others_allow(command: str, allowed: bool) -> None:
    assert (refusal(command, COMMIT) == "") == allowed
    assert (refusal(command, SPELLED) == "") == allowed


@pytest.mark.parametrize(
    ("command", "allowed"),
    [
        ('git commit -m"no n here"', True),
        ("git commit -uno -m x", True),
        ("git commit -amnone", True),
        ("git commit -Skeyname -cnext -m x", True),
        ("git commit --no-edit -m x", True),
        ("git commit -sn -m x", False),
        ("git commit -vnqm x", False),
        ("git commit --no-ver -m x", False),
        ("git commit --a -m x", False),
        ("git commit --amend=x", False),
    ],
)
def test_an_option_that_is_written_out_is_taken_back_however_it_is_spelled(command: str, allowed: bool) -> None:
    assert (refusal(command, SPELLED) == "") == allowed


def test_the_commit_recipe_unstages_and_leaves_the_files_as_they_are() -> None:
    text = (REPOSITORY / "recipes" / "commit.md").read_text()
    patterns = parse_mapping(text.split("---\n")[1]).data["allowed_commands"]
    assert isinstance(patterns, list)
    for command, allowed in (
        ("git restore --staged .", True),
        ('git commit -m"no n here"', True),
        ("git restore --staged --no-staged .", False),
        ("git restore --staged --no-st .", False),
        ("git restore --staged -SW .", False),
        ("git restore --staged --work .", False),
        ("git commit -qnm x", False),
    ):
        assert (refusal(command, patterns) == "") == allowed, command


def test_what_cannot_be_read_is_forbidden_where_anything_is() -> None:
    assert refusal("git push --dry-run; git push", ["*"]) == ""
    assert "`!git push --f*`" in refusal("git push --dry-run; git push", ["*", "!git push --f*"])
    assert refusal("git push", ["*", "!git push --f*"]) == ""
    assert "`!git push --f*`" in refusal("git push origin --force", ["*", "!git push --f*"])
    assert refusal("git push", ["!git pull"]) != ""
    assert refusal("git push", []).endswith("which are: none")


def test_the_reason_names_the_word_or_the_patterns() -> None:
    assert "`--output=a`" in refusal("git log --output=a", ["git status", "git log *"])
    assert refusal("git push", ["git log *", "make"]).endswith("which are: git log *, make")
    assert "quote it" in refusal("git diff *.py", ["git diff *"])
    assert refusal("git add *.py", ["git add *"]) == ""


def test_no_shell_reads_the_words_of_a_template() -> None:
    assert refusal_of_words(["git", "log", "a; b", "#", "*"], ["git log*"]) == ""
    assert "`--output=x..HEAD`" in refusal_of_words(["git", "log", "--output=x..HEAD"], ["git log *"])
    assert refusal_of_words(["git", "log"], ["git log*", "!git log"]) != ""


WORDS = st.text(string.ascii_letters + "-=#*?[]'\" /.~!", max_size=8)


@settings(deadline=None, max_examples=300)
@given(st.lists(WORDS, max_size=4))
def test_quoted_words_are_read_as_they_were_meant_and_hide_no_comment(words: list[str]) -> None:
    line = shlex.join(["git", *words])
    read = words_of(line)
    assert read is None or read == ["git", *words]


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.sampled_from(["#", "a", "'", '"', " ", "*", "-", "b#", "'#'", "?x"]), max_size=10)
    | st.lists(st.sampled_from(["'", '"', ";", "\\;", "\\", "{}", "(", "\\(", " ", "a", "&", "|", "<"]), max_size=8)
    | st.lists(st.sampled_from(["'", "'", '"', "$(echo z)", "$0", "\\", "`echo y`", " ", "a", "\n", "$'x"]), max_size=8)
)
def test_bash_sees_no_other_words_than_these(pieces: list[str]) -> None:
    line = "echo " + "".join(pieces)
    words = words_of(line, literal=True)
    if words is None:
        return
    printed = subprocess.run(
        ["bash", "-fc", line.replace("echo", "printf '%s\\0'", 1)], capture_output=True, check=True, timeout=10
    ).stdout
    expected = "".join(f"{word}\0" for word in words[1:]) or "\0"
    assert printed.decode() == expected


@pytest.mark.parametrize("line", ["git diff *", "git diff -*", "git diff ?", "git diff '-'*", "git diff [-]*"])
def test_a_line_that_bash_makes_an_option_of_is_told(tmp_path: Path, line: str) -> None:
    (tmp_path / "--output=x").touch()
    if not fnmatch.fnmatch("--output=x", shlex.split(line)[-1]):
        (tmp_path / "-").touch()
    found = subprocess.run(
        ["bash", "-c", line.replace("git diff", "echo")], cwd=tmp_path, capture_output=True, env=os.environ, check=True
    )
    assert found.stdout.startswith(b"-")
    assert may_grow_options(line)

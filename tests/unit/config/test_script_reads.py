"""The names of files that a script runs or reads, told from those that it only mentions."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.config.script_reads import (
    folders_of_modules,
    names_read,
    names_written,
    perl_modules,
)

READS = (
    ". {}", "source {}", "true && . {}", "sh -x {}", "python3 {} --all", "X=1 bash {}", "awk -f {}", "grep -qf x -f {}",
    "jq --from-file={}", "wc < {}", '$(cat {})', "cat {} | sh", "BASH_ENV={}", "if . {}; then", 'open("{}")',
    "open('{}', 'r')", "Path('{}').read_text()", "HERE / '{}'", "os.path.join(HERE, '{}')", "require('{}')",
    "require_relative '{}'", "fs.readFileSync(\"{}\")", "path.resolve(__dirname, '{}')",
    "Path(__file__).with_name('{}')", "open(f'{}')", "get_data(__package__, '{}')",
    "get_data('a.b', '{}')", "spec_from_file_location('a', '{}')", "open_text('a.b', '{}')", "do '{}';", "load '{}'",
)  # fmt: skip
MENTIONS = (
    "case $1 in {}) exit;; esac", "x == '{}'", "('{}', 'b')", "x.endswith('{}')", "echo {}", "[ $1 = {} ]", "ls {}",
    "open('{}', 'w')", "open('{}', \"a\")", "Path('{}').write_text(x)", "make {}", "cp {} b",
    "Path('{}').touch()", "HERE.joinpath('{}').exists()",
    "sed -i s/a/b/ {}", "python3 a.py {}", "sh -x a.sh {}", "bash \"$(dirname \"$0\")/a\" {}", "cat {}",
)  # fmt: skip


@pytest.mark.parametrize("form", READS)
@given(name=st.from_regex(r"[a-z]{1,8}/[a-z]{1,8}(\.[a-z]{1,3})?", fullmatch=True))
def test_a_name_in_a_place_where_files_are_run_or_read_is_found(
    form: str, name: str
) -> None:
    assert any(
        name in piece for piece in names_read(f"first\n{form.format(name)}\nlast")
    )


@pytest.mark.parametrize("form", MENTIONS)
@given(name=st.from_regex(r"[a-z]{1,8}/[a-z]{1,8}(\.[a-z]{1,3})?", fullmatch=True))
def test_a_name_that_is_only_compared_listed_or_written_is_not(
    form: str, name: str
) -> None:
    assert not any(
        name in piece for piece in names_read(f"first\n{form.format(name)}\nlast")
    )


@given(
    st.from_regex(r"[a-z]{1,8}(/[a-z.]{1,8})?", fullmatch=True),
    st.sampled_from((">", ">>", "2>", "&>", "> ", ">|")),
)
def test_what_a_redirection_writes_is_told_apart(name: str, operator: str) -> None:
    assert name in list(names_written(f"date {operator}{name}; true"))
    assert name in list(names_written(f"date {operator}'{name}'"))


@given(st.text(st.sampled_from("aop.sh/ \"'()$<>|&;,=\n-f"), max_size=200))
def test_no_text_makes_a_name_that_is_not_in_it(text: str) -> None:
    for find in (names_read, names_written, folders_of_modules):
        assert all(piece in text for piece in find(text))
    assert all(path.endswith(".pm") for path in perl_modules(text))


@given(st.lists(st.from_regex(r"[a-z/]{1,8}", fullmatch=True), min_size=1, max_size=4))
def test_folders_of_modules_are_divided_at_colons(folders: list[str]) -> None:
    listed = ":".join(folders)
    assert (
        list(folders_of_modules(f"NODE_PATH={shlex.quote(listed)} node x.js"))
        == folders
    )

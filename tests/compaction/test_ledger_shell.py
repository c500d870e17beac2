"""What a command line did to files is read from its text, and no text is too strange to be read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.compaction.ledger_programs import bare, runs_tests
from acp_agent.compaction.ledger_shell import read_shell
from acp_agent.compaction.ledger_touch import Touch

READ = [
    ("cat a.py", ("a.py", None)),
    ("cat 'my file.py'", ("my file.py", None)),
    ("cat -n a.py", ("a.py", None)),
    ("sed -n '10,20p' a.py", ("a.py", (10, 20))),
    ("sed -n 7p a.py", ("a.py", (7, 7))),
    ("sed -ne '3,4p' a.py", ("a.py", (3, 4))),
    ("head a.py", ("a.py", (1, 10))),
    ("head -n 30 a.py", ("a.py", (1, 30))),
    ("head -40 a.py", ("a.py", (1, 40))),
    ("tail -n 5 a.py", ("a.py", None)),
    ("nl -ba a.py | sed -n '5,9p'", ("a.py", (5, 9))),
    ("cat a.py | head -50", ("a.py", (1, 50))),
    ("awk 'NR>=3 && NR<=8' a.py", ("a.py", (3, 8))),
    ("cd src && cat a.py", ("src/a.py", None)),
    ("bash -lc 'cat a.py'", ("a.py", None)),
    ("git -C sub diff; cat ./a.py", ("a.py", None)),
]
CHANGES = [
    ("cat > a.py <<'EOF'\nrm b.py\nEOF", [("write", "a.py")]),
    ("cat <<EOF >> a.py\nmore\nEOF", [("write", "a.py")]),
    ("echo hi > a.txt", [("write", "a.txt")]),
    ("python x.py > out.txt 2>&1", [("create", "out.txt")]),
    ("python x.py > /dev/null 2>/dev/null", []),
    ("make 2> err.log | tee -a log.txt", [("create", "err.log"), ("alter", "log.txt")]),
    ("sed -i 's/a/b/' a.py b.py", [("alter", "a.py"), ("alter", "b.py")]),
    ("sed -i '' -e 's/a/b/' a.py", [("alter", "a.py")]),
    ("sed -i.bak 's/a;b/c/' a.py", [("alter", "a.py")]),
    ("perl -pi -e 's/a/b/' a.py", [("alter", "a.py")]),
    ("rm -f a.py b.py", [("delete", "a.py"), ("delete", "b.py")]),
    ("mv a.py b.py", [("delete", "a.py"), ("create", "b.py")]),
    ("git mv a.py src/", [("delete", "a.py"), ("create", "src/a.py")]),
    ("git rm --cached a.py", []),
    ("git rm a.py", [("delete", "a.py")]),
    ("cp a.py b.py", [("create", "b.py")]),
    ("git checkout -- a.py", [("restore", "a.py")]),
    ("git checkout main", []),
    ("git checkout -b feature/x", []),
    ("git restore --staged a.py", []),
    ("(cd sub; touch a.py); touch b.py", [("create", "sub/a.py"), ("create", "b.py")]),
    ("sudo rm a.py", [("delete", "a.py")]),
    ("X=1 timeout 60 sed -i s/a/b/ a.py", [("alter", "a.py")]),
    ("echo 'rm a.py; > b.py'", []),
    ("echo hi # > a.py", []),
    ("rm $TARGET", []),
    ("curl -sL -o page.html https://x.test/", [("create", "page.html")]),
    ("apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: a.py\n+x\n*** End Patch\nEOF", [("write", "a.py")]),
    ("patch -p1 <<'EOF'\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\nEOF", [("write", "a.py")]),
    ("python3 - <<'EOF'\np = 'a.py'\ns = open(p).read()\nopen(p, 'w').write(s)\nEOF", [("alter", "a.py")]),
    ("python -c \"from pathlib import Path; Path('a.py').write_text('x')\"", [("alter", "a.py")]),
    ("cat > p.py <<'EOF'\nopen('a.py', 'w').write('')\nEOF\npython p.py", [("write", "p.py"), ("alter", "a.py")]),
]  # fmt: skip


def touches(command: str) -> list[Touch]:
    return [touch for part in read_shell(command, "/shop").parts for touch in part.touches]


@pytest.mark.parametrize(("command", "read"), READ)
def test_looking_at_a_file_is_read_from_the_command(command: str, read: tuple[str, tuple[int, int] | None]) -> None:
    assert touches(command) == [Touch("read", f"/shop/{read[0]}", read[1])]


@pytest.mark.parametrize("command", ["cat a.py | grep x", "cat a.py > b.py; rm b.py", "grep -rn x a.py", "cat *.py"])
def test_what_does_not_show_the_file_is_no_reading(command: str) -> None:
    assert "read" not in [touch.kind for touch in touches(command)]


@pytest.mark.parametrize(("command", "expected"), CHANGES)
def test_changing_files_is_read_from_the_command(command: str, expected: list[tuple[str, str]]) -> None:
    assert [(touch.kind, touch.path) for touch in touches(command)] == [
        (kind, f"/shop/{path}") for kind, path in expected
    ]


def test_a_command_is_named_on_one_line_without_the_texts_of_its_here_documents() -> None:
    line = read_shell("cat <<'EOF' > a.py\nprint(1)\nEOF\npython a.py &&\\\n  ls", "/shop")
    assert " ".join(line.shown.split()) == "cat <<'EOF' > a.py; python a.py && ls"


TEST_RUNS = """
    pytest -q tests | python3 -m pytest | python -m unittest discover | tox -e py311 | nox | npm test | yarn vitest
    npm run test:unit | pnpm test | npx jest | npx vitest run | go test ./... | cargo test --all | cargo nextest run
    make test | make -j4 check | ./gradlew :app:test | mvn -q verify | ctest --output-on-failure | bundle exec rspec
    vendor/bin/phpunit | uv run pytest | poetry run pytest -x | timeout 60 pytest | FOO=1 pytest | bin/test core
    coverage run -m pytest | ./run_tests.sh | python test_fix.py | python manage.py test | deno test | dotnet test
    rake spec | node cart.test.js
"""


@pytest.mark.parametrize("command", TEST_RUNS.strip().replace("\n", "|").split("|"))
def test_runs_of_tests_are_known_by_their_command(command: str) -> None:
    [part] = read_shell(command.strip(), "/shop").parts
    assert runs_tests(part.words)


@pytest.mark.parametrize(
    "command",
    [
        "pytest --version",
        "test -f a.py",
        "npm install",
        "go build",
        "make",
        "python app.py",
        "cat test_a.py",
        "cargo run",
    ],
)
def test_other_commands_are_no_test_runs(command: str) -> None:
    [part] = read_shell(command, "/shop").parts
    assert not runs_tests(part.words)


@given(st.text(st.sampled_from("ab '\"\\$`();&|<>#\n=-1"), max_size=60))
def test_any_text_is_read_to_its_end(command: str) -> None:
    line = read_shell(command, "/shop")
    assert all(touch.path.startswith("/") for part in line.parts for touch in part.touches)


@given(st.lists(st.text(max_size=5), max_size=6))
def test_wrappers_never_eat_more_than_there_is(words: list[str]) -> None:
    assert tuple(words)[len(words) - len(bare(words)) :] == bare(words)


def test_of_a_line_without_end_only_the_beginning_is_read() -> None:
    [part] = read_shell("rm " + "a.py " * 100_000, "/shop").parts
    assert 1_000 < len(part.words) <= 10_000

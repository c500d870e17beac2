"""Facts that the rest of a session needs: those that it mentions before a tool shows
them again. Also how facts are searched for.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from acp_agent.compaction.evaluation.facts import (
    FactClass,
    commands,
    errors,
    files,
    numbers,
    plain,
)
from acp_agent.compaction.evaluation.needs import Need, Remains, needs_at, read_messages
from acp_agent.compaction.evaluation.recordings import Recording, read_recording
from acp_agent.conversation.messages import Text, UserMessage
from support.recordings import RULE, Step, as_transcript, cart_session, write

HALF = 9
"""Messages of the recorded cart session before the user's second message."""


def recorded(tmp_path: Path, steps: list[Step]) -> Recording:
    return read_recording(write(tmp_path / "session", as_transcript(steps)))


def needed(
    tmp_path: Path, steps: list[Step], cut: int = HALF
) -> dict[tuple[FactClass, str], Need]:
    return {
        (need.kind, need.key): need
        for need in needs_at(read_messages(recorded(tmp_path, steps)), cut)
    }


def left(text: str) -> Remains:
    return Remains([UserMessage("msg", (Text(text),))])


def test_facts_of_every_class_that_are_used_again_are_needed(
    tmp_path: Path,
) -> None:
    found = needed(tmp_path, cart_session())
    decision = "We decided to keep the discount in shop/pricing.py because vouchers are stacked there twice"
    assert {name for name in found if name[0] != "words"} == {
        ("rules", plain(RULE)),
        ("files", "shop/rounding.py"),
        ("files", "tests/test_cart.py"),
        ("commands", "pytest tests/test_cart.py -q"),
        ("errors", "BadPriceError"),
        ("numbers", "8347"),
        ("decisions", decision),
    }
    assert ("words", "vouchers") in found
    assert ("words", "helper") in found
    assert found["numbers", "8347"].seq < HALF


def test_a_fact_that_only_a_tool_repeats_is_not_needed(tmp_path: Path) -> None:
    asked: Step = (
        "assistant",
        "The error in shop/rounding.py was a BadPriceError, on port 8347.",
    )
    shown: Step = (
        "result",
        ("x", "shop/rounding.py\nBadPriceError: once more\nport 8347"),
    )
    session = cart_session()[:12]
    run: Step = ("call", ("x", "bash", {"command": "ls"}))
    without = needed(tmp_path, [*session, asked])
    behind = needed(tmp_path, [*session, run, shown, asked])
    names: set[tuple[FactClass, str]] = {
        ("files", "shop/rounding.py"),
        ("errors", "BadPriceError"),
        ("numbers", "8347"),
    }
    assert names <= {*without}
    assert not names & {*behind}


def test_a_command_with_other_options_needs_its_program_and_argument(
    tmp_path: Path,
) -> None:
    again: list[Step] = [
        (
            "call",
            ("x", "bash", {"command": "cd /shop && pytest tests/test_cart.py --lf"}),
        )
    ]
    found = needed(tmp_path, [*cart_session()[:12], *again])
    assert [key for kind, key in found if kind == "commands"] == [
        "pytest tests/test_cart.py"
    ]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "Look at `src/a.py`, ./b/c.md and /shop/d.toml.",
            ["src/a.py", "b/c.md", "d.toml"],
        ),
        ("diff --git a/x/y.rs b/x/y.rs", ["x/y.rs", "x/y.rs"]),
        ("at lib/run.js:12:3", ["lib/run.js"]),
        (
            "np.array, self.value, self.c and e.g. nothing; see https://example.org/a.html",
            [],
        ),
        ("a/b and and/or", []),
        (".env.local.py and ../x.py", []),
    ],
)
def test_files_are_paths_with_an_extension(text: str, found: list[str]) -> None:
    assert [fact.key for fact in files(text, "/shop")] == found


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (
            "cd /shop && python -m pytest -x 'tests/test_a.py'",
            [("python -m pytest -x tests/test_a.py", "python -m pytest")],
        ),
        ("FOO=1 timeout 60 npm test | tail -5", [("npm test", "npm test")]),
        ("cat a.py; ls -la; grep -rn x .; echo done", []),
        ("git commit -m 'A change'", [("git commit -m A change", "git commit")]),
        ("bash -lc 'cat a.py; grep -rn x . | head'", []),
        ("timeout 60 sh -c \"ls -la\" && zsh -c 'git status'", []),
        (
            "cd /shop && bash -lc 'cat a.py && pytest -q \"tests/a b.py\"'",
            [("pytest -q tests/a b.py", "pytest tests/a b.py")],
        ),
        ("bash run_all.sh --fast", [("bash run_all.sh --fast", "bash run_all.sh")]),
        (
            "cd /shop\npython - <<'END' > out.txt 2>&1\nimport os; run('it')\nEND\nmake all 2>&1 | tail",
            [("make all", "make all")],
        ),
        (
            "# don't\nbin/test a.py; (git log) && uv run pytest a.py \\\n -q",
            [("bin/test a.py", "bin/test a.py"), ("pytest a.py -q", "pytest a.py")],
        ),
        ("make check; echo 'no end", [("make check", "make check")]),
    ],
)
def test_commands_that_only_read_are_no_facts(
    line: str, found: list[tuple[str, str]]
) -> None:
    assert [*commands(line)] == found


def test_only_raised_errors_are_facts_not_those_mentioned_in_code() -> None:
    text = (
        "raise KeyError(name)\n    except ValueError:\nshop.BadPriceError: "
        "price of a lamp\nFAILED a.py::test_sum - x"
    )
    assert [fact.key for fact in errors(text)] == [
        "BadPriceError",
        "price of a lamp",
        "test_sum",
    ]
    assert [
        fact.key for fact in errors("src/a.ts(3,1): error TS2304: Cannot find")
    ] == ["TS2304"]


def test_a_short_number_includes_an_adjacent_word() -> None:
    assert [
        fact.key
        for fact in numbers(
            "port 80, 12 tests; version 3.11.4, id 8f3a2b1, 7 of them, 20231"
        )
    ] == [
        "port 80",
        "12 tests",
        "3.11.4",
        "8f3a2b1",
        "20231",
    ]


@pytest.mark.parametrize(
    ("text", "key", "there"),
    [
        ("in /shop/src/cart.py now", "cart.py", True),
        ("in mycart.py", "cart.py", False),
        ("in cart.pyc", "cart.py", False),
        ("in cart.py.", "cart.py", True),
        ("port 18347", "8347", False),
        ("8347.5", "8347", False),
        ("x.8347", "8347", False),
    ],
)
def test_a_fact_inside_a_longer_word_does_not_count(
    text: str, key: str, there: bool
) -> None:
    assert left(text).has(key) is there


def test_a_reworded_decision_counts_if_one_line_has_most_of_its_words() -> None:
    need = Need(
        "decisions",
        "We decided to keep the discount in shop/pricing.py because vouchers are stacked",
        1,
    )
    assert need.kept(
        left("- the discount: keep it in shop/pricing.py, vouchers are stacked there")
    )
    assert not need.kept(
        left(
            "the discount\nkeep it\nshop/pricing.py\nvouchers\nstacked because decided"
        )
    )


def test_a_fact_with_its_context_needs_the_words_around_it(tmp_path: Path) -> None:
    need = needed(tmp_path, cart_session())["numbers", "8347"]
    assert need.kept_with_words(left("a lamp is negative listening on port 8347"))
    assert need.kept(left("port 8347"))
    assert not need.kept_with_words(left("port 8347"))


def test_an_unchanged_conversation_keeps_every_fact(tmp_path: Path) -> None:
    recording = recorded(tmp_path, cart_session())
    remains = Remains(entry.message for entry in recording.entries[:HALF])
    found = needs_at(read_messages(recording), HALF)
    assert all(need.kept(remains) for need in found)
    assert all(need.kept_with_words(remains) for need in found if need.around)
    assert not any(need.kept(left("")) for need in found)

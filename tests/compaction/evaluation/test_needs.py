"""What the rest of a session needs: what it refers to, before a tool has shown it again; and how that is looked for."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.compaction.evaluation.facts import FactClass, commands, errors, files, numbers, plain, plain_words
from acp_agent.compaction.evaluation.needs import Need, Remains, Script, occurrences
from acp_agent.compaction.evaluation.recordings import Recording, read_recording
from acp_agent.conversation.messages import JsonValue, Text, UserMessage
from support.recordings import (
    RULE,
    Step,
    as_chat,
    as_claude_code,
    as_codex,
    as_transcript,
    cart_session,
    write,
)

HALF = 9
"""Messages of the cart's session up to the user's second one."""


def recorded(tmp_path: Path, steps: list[Step]) -> Recording:
    return read_recording(write(tmp_path / "session", as_transcript(steps)))


def needed(tmp_path: Path, steps: list[Step], cut: int = HALF) -> dict[tuple[FactClass, str], Need]:
    return {(need.kind, need.key): need for need in Script(recorded(tmp_path, steps)).needs(cut)}


def left(text: str) -> Remains:
    return Remains([UserMessage("msg", (Text(text),))])


def test_a_fact_of_every_class_that_the_session_goes_back_to_is_needed(tmp_path: Path) -> None:
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
    assert found["rules", plain(RULE)].asked is None
    assert found["numbers", "8347"].seq < HALF < (found["numbers", "8347"].asked or 0)


def test_what_nobody_refers_to_again_is_not_needed(tmp_path: Path) -> None:
    session = cart_session()
    behind = next(at for at, step in enumerate(session) if step == ("user", "Good, go on.")) + 1
    done: list[Step] = [("assistant", "It is done."), ("user", "Thanks."), ("assistant", "You are welcome.")]
    found = needed(tmp_path, [*session[:behind], *done])
    assert {kind for kind, _ in found} == {"rules"}


def test_what_only_a_tool_shows_again_is_not_needed(tmp_path: Path) -> None:
    asked: Step = ("assistant", "The error in shop/rounding.py was a BadPriceError, on port 8347.")
    shown: Step = ("result", ("x", "shop/rounding.py\nBadPriceError: once more\nport 8347"))
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


def test_a_word_that_many_messages_hold_says_nothing_of_memory(tmp_path: Path) -> None:
    session = cart_session()
    often: list[Step] = [("user", f"Number {number} speaks of vouchers.") for number in range(3)]
    assert ("words", "vouchers") in needed(tmp_path, session)
    assert ("words", "vouchers") not in needed(tmp_path, [*often, *session], HALF + len(often))


def test_what_the_program_notes_in_the_users_name_is_nothing_that_the_user_said(tmp_path: Path) -> None:
    recording = recorded(tmp_path, cart_session())
    by_program = replace(
        recording,
        entries=tuple(
            replace(entry, note=isinstance(entry.message, UserMessage) and entry.seq == 1)
            for entry in recording.entries
        ),
    )
    assert [need.key for need in Script(recording).needs(HALF) if need.kind == "rules"] == [plain(RULE)]
    assert not [need for need in Script(by_program).needs(HALF) if need.kind == "rules"]


def test_a_command_with_other_options_needs_its_program_and_what_it_works_on(tmp_path: Path) -> None:
    again: list[Step] = [("call", ("x", "bash", {"command": "cd /shop && pytest tests/test_cart.py --lf"}))]
    found = needed(tmp_path, [*cart_session()[:12], *again])
    assert [key for kind, key in found if kind == "commands"] == ["pytest tests/test_cart.py"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Look at `src/a.py`, ./b/c.md and /shop/d.toml.", ["src/a.py", "b/c.md", "d.toml"]),
        ("diff --git a/x/y.rs b/x/y.rs", ["x/y.rs", "x/y.rs"]),
        ("at lib/run.js:12:3", ["lib/run.js"]),
        ("np.array, self.value, self.c and e.g. nothing; see https://example.org/a.html", []),
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
def test_commands_that_only_look_are_none(line: str, found: list[tuple[str, str]]) -> None:
    assert [*commands(line)] == found


@pytest.mark.parametrize("form", [as_transcript, as_chat, as_claude_code, as_codex])
@pytest.mark.parametrize(
    "wrap",
    [
        lambda line: ["bash", "-lc", line],
        lambda line: ["/bin/zsh", "-c", line],
        lambda line: ["timeout", "60", "bash", "-lc", line],
        lambda line: f"sh -c {shlex.quote(line)}",
    ],
)
def test_what_a_shell_is_handed_is_needed_as_without_the_shell(
    form: Callable[[list[Step]], Any], wrap: Callable[[str], JsonValue], tmp_path: Path
) -> None:
    wrapped = [
        (kind, (value[0], "shell", {"command": wrap(value[2]["command"])}) if kind == "call" else value)
        for kind, value in cart_session()
    ]
    found = Script(read_recording(write(tmp_path / "session", form(wrapped)))).needs(HALF)
    assert [need.key for need in found if need.kind == "commands"] == ["pytest tests/test_cart.py -q"]


def test_errors_are_what_was_raised_and_not_what_the_code_mentions() -> None:
    text = (
        "raise KeyError(name)\n    except ValueError:\nshop.BadPriceError: price of a lamp\nFAILED a.py::test_sum - x"
    )
    assert [fact.key for fact in errors(text)] == ["BadPriceError", "price of a lamp", "test_sum"]
    assert [fact.key for fact in errors("src/a.ts(3,1): error TS2304: Cannot find")] == ["TS2304"]


def test_a_short_number_counts_with_the_word_beside_it() -> None:
    assert [fact.key for fact in numbers("port 80, 12 tests; version 3.11.4, id 8f3a2b1, 7 of them, 20231")] == [
        "port 80",
        "12 tests",
        "3.11.4",
        "8f3a2b1",
        "20231",
    ]


def test_plain_words_are_those_of_prose() -> None:
    text = "The vouchers live in voucher_store, in `shop.voucher` and see VoucherStore(item) for shop/vouchers."
    assert [fact.key for fact in plain_words(text)] == ["vouchers"]


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
def test_a_fact_is_there_only_by_itself(text: str, key: str, there: bool) -> None:
    assert left(text).has(key) is there


def test_quotes_and_spaces_do_not_count() -> None:
    remains = left('- `pytest   "tests/a b.py"`: exit 1')
    assert Need("commands", plain("pytest 'tests/a b.py'"), 1, 2).kept(remains)
    assert not Need("commands", "pytest tests", 1, 2).kept(left("pytest the tests"))


def test_a_decision_in_other_words_counts_where_one_line_has_most_of_them() -> None:
    need = Need("decisions", "We decided to keep the discount in shop/pricing.py because vouchers are stacked", 1, 9)
    assert need.kept(left("- the discount: keep it in shop/pricing.py, vouchers are stacked there"))
    assert not need.kept(left("the discount\nkeep it\nshop/pricing.py\nvouchers\nstacked because decided"))


def test_words_that_stand_far_apart_in_one_long_line_keep_no_decision() -> None:
    need = Need("decisions", "We decided to keep the discount in shop/pricing.py because vouchers are stacked", 1, 9)
    gap = " filler " * 37
    assert not need.kept(left(gap.join(("discount", "keep", "shop", "pricing", "vouchers", "stacked", "because"))))
    assert need.kept(left(f"{gap * 2} the discount: keep it in shop/pricing.py, vouchers are stacked there {gap * 2}"))


DECISION = "We decided to keep the discount in shop/pricing.py because vouchers are stacked there twice"


def test_a_decision_that_a_tool_has_shown_again_need_not_be_remembered(tmp_path: Path) -> None:
    asked: Step = ("assistant", "As vouchers are stacked twice, the discount stays where it is.")
    run: Step = ("call", ("x", "bash", {"command": "cat notes.md"}))
    shown: Step = ("result", ("x", "The discount: vouchers get stacked twice."))
    session = cart_session()[:12]
    assert ("decisions", DECISION) in needed(tmp_path, [*session, asked])
    assert ("decisions", DECISION) in needed(tmp_path, [*session, asked, run, shown])
    assert ("decisions", DECISION) not in needed(tmp_path, [*session, run, shown, asked])


def test_a_summary_that_stands_in_a_recording_does_not_say_what_was_needed(tmp_path: Path) -> None:
    recording = recorded(tmp_path, [*cart_session()[:12], ("user", f"{DECISION}. BadPriceError, {RULE} Port 8347.")])
    assert ("decisions", DECISION) in {(need.kind, need.key) for need in Script(recording).needs(HALF)}
    *before, last = recording.entries
    summarised = replace(recording, entries=(*before, replace(last, summary=True)))
    assert {need.kind for need in Script(summarised).needs(HALF)} == {"rules"}
    early = replace(recording, entries=(replace(last, seq=1, summary=True), *before[1:], last))
    assert not [need for need in Script(early).needs(HALF) if need.kind in ("rules", "decisions") and need.seq == 1]


def test_the_words_around_a_fact_have_to_be_there_as_well(tmp_path: Path) -> None:
    need = needed(tmp_path, cart_session())["numbers", "8347"]
    assert need.kept_with_words(left("a lamp is negative listening on port 8347"))
    assert need.kept(left("port 8347"))
    assert not need.kept_with_words(left("port 8347"))


@given(st.text(max_size=40), st.text("ab./_1 ", min_size=1, max_size=3))
def test_occurrences_are_where_the_key_stands(text: str, key: str) -> None:
    assert all(text[start:end] == key for start, end in occurrences(text, key))


def test_nothing_is_lost_of_a_conversation_that_stays_whole(tmp_path: Path) -> None:
    recording = recorded(tmp_path, cart_session())
    remains = Remains(entry.message for entry in recording.entries[:HALF])
    found = Script(recording).needs(HALF)
    assert all(need.kept(remains) for need in found)
    assert all(need.kept_with_words(remains) for need in found if need.around)
    assert not any(need.kept(left("")) for need in found)

"""How much of what was invented is flagged, and how little of what is true, over whole summaries of two sessions.

The summary of each session is made of sentences with true facts of it; what is planted comes from the other session.
"""

from __future__ import annotations

import itertools

import pytest

from acp_agent.compaction.provenance import Source, check
from acp_agent.conversation.context import Entry
from acp_agent.conversation.messages import (
    AssistantMessage,
    JsonValue,
    Message,
    Text,
    ToolCall,
    ToolResult,
    UserMessage,
)

TIDES: tuple[Message, ...] = (
    UserMessage(
        "u1", (Text("Tide heights near Bremerhaven are off by 0.42 m since the last release. Find the cause."),)
    ),
    AssistantMessage(
        "a1", (Text("I look at the harmonics first."), ToolCall("c1", "read", {"path": "tidemap/harmonics/solver.py"}))
    ),
    ToolResult(
        "c1",
        (
            Text(
                "  41  class HarmonicSolver:\n  57      def phase_of(self, constituent):\n"
                "  58          return self.epoch_offset * 15.0410686\n"
                "  77      # see https://tides.example.org/docs/constituents.html"
            ),
        ),
    ),
    AssistantMessage(
        "a2",
        (
            Text("The epoch looks wrong."),
            ToolCall("c2", "shell", {"command": "pytest tests/test_solver.py -k epoch --maxfail=3"}),
        ),
    ),
    ToolResult(
        "c2",
        (
            Text(
                "FAILED tests/test_solver.py::test_epoch_of_leap_year - ValueError: epoch before 1983 is unsupported\n"
                "3 failed, 212 passed in 18.37s\nerror E1103 at line 2\nexit status: 1"
            ),
        ),
    ),
    AssistantMessage(
        "a3",
        (
            Text("Fixed."),
            ToolCall("c3", "edit", {"path": "tidemap/harmonics/epochs.py", "new": "LEAP_SECONDS_1983 = 22\n"}),
        ),
    ),
    UserMessage(
        "u2",
        (Text("Keep the public API of HarmonicSolver unchanged, and note it in docs/changes/2.7.rst (tide-204)."),),
    ),
)
TIDE_FACTS = (
    "`tidemap/harmonics/solver.py`",
    "tidemap/harmonics/epochs.py",
    "tests/test_solver.py",
    "docs/changes/2.7.rst",
    "`solver.py:57`",
    "`HarmonicSolver`",
    "`HarmonicSolver.phase_of()`",
    "epoch_offset",
    "`test_epoch_of_leap_year`",
    "LEAP_SECONDS_1983",
    "`--maxfail`",
    "0.42 m",
    "15.0410686",
    "212 passed",
    "3 failed",
    "3 tests failed",
    "exit status 1",
    "exit code 1",
    "error E1103",
    "TIDE-204",
    "18.37 s",
    "https://tides.example.org/docs/constituents.html",
    '"epoch before 1983 is unsupported"',
    "`pytest tests/test_solver.py -k epoch --maxfail=3`",
    "“I look at the harmonics first”",
    "`return self.epoch_offset * 15.0410686`",
)
QUEUE: tuple[Message, ...] = (
    UserMessage(
        "u1",
        (
            Text(
                "Jobs get lost when the worker restarts. We need at-least-once delivery; do not add another dependency."
            ),
        ),
    ),
    AssistantMessage(
        "a1",
        (Text("First the acknowledgement."), ToolCall("c1", "shell", {"command": "rg -n 'ackJob' packages/queue/src"})),
    ),
    ToolResult(
        "c1",
        (
            Text(
                "packages/queue/src/consumer.ts:133:  await this.ackJob(jobId, { visibilityTimeout: 45000 })\n"
                "packages/queue/src/broker.ts:208: export class RetryBroker extends BaseBroker {"
            ),
        ),
    ),
    AssistantMessage(
        "a2",
        (Text("It acknowledges too early."), ToolCall("c2", "shell", {"command": "npm run test:queue -- --runInBand"})),
    ),
    ToolResult(
        "c2",
        (
            Text(
                "Tests: 2 failed, 96 passed, 98 total\nTime: 7.914 s\n"
                "Error: job 6b1f vanished after SIGTERM on port 61613\n"
                "src/broker.ts(5,3): error TS2345: no overload. Found 4 errors. Process exited with code 2."
            ),
        ),
    ),
    AssistantMessage(
        "a3",
        (
            Text("I move it behind the handler."),
            ToolCall("c3", "edit", {"path": "packages/queue/src/consumer.ts", "new": "const MAX_REDELIVERIES = 12"}),
        ),
    ),
    ToolResult(
        "c3", (Text("See https://stomp.example.net/spec/1.2#ACK and packages/queue/README.md on CVE-2031-40123"),)
    ),
    UserMessage("u2", (Text("Good. Cap it at 12 redeliveries and log a warning then."),)),
)
QUEUE_FACTS = (
    "`packages/queue/src/consumer.ts`",
    "packages/queue/src/broker.ts",
    "packages/queue/README.md",
    "`consumer.ts:133`",
    "`ackJob`",
    "`RetryBroker`",
    "visibilityTimeout",
    "`MAX_REDELIVERIES`",
    "`--runInBand`",
    "45,000 ms",
    "96 passed",
    "2 failed",
    "2 of 98 tests failed",
    "4 errors",
    "exit code 2",
    "error TS2345",
    "CVE-2031-40123",
    "7.914 s",
    "port 61613",
    "https://stomp.example.net/spec/1.2#ACK",
    '"vanished after SIGTERM"',
    "`npm run test:queue -- --runInBand`",
    "„It acknowledges too early“",
    "`export class RetryBroker extends BaseBroker`",
    "BaseBroker",
    "`rg -n 'ackJob' packages/queue/src`",
)
SENTENCES = (
    "- The cause was found at {}.\n",
    "Then {} was looked at, without a result.\n\n",
    "1. **Open**: {} [#3]\n",
    "| done | {} |\n",
)


def _summary(facts: tuple[str, ...]) -> tuple[str, list[tuple[int, int]]]:
    """Every fact in every kind of sentence, and where each stands."""
    text = "## Goal and requirements\n"
    places: list[tuple[int, int]] = []
    for fact, sentence in itertools.product(facts, SENTENCES):
        start = len(text) + sentence.index("{")
        places.append((start, start + len(fact)))
        text += sentence.format(fact)
    return text, places


@pytest.mark.parametrize(
    ("messages", "own", "planted"),
    [(TIDES, TIDE_FACTS, QUEUE_FACTS), (QUEUE, QUEUE_FACTS, TIDE_FACTS)],
    ids=["tides", "queue"],
)
def test_what_is_planted_is_flagged_and_what_is_true_is_not(
    messages: tuple[Message, ...], own: tuple[str, ...], planted: tuple[str, ...]
) -> None:
    source = Source.of([Entry(seq, message) for seq, message in enumerate(messages, 1)])

    def flagged(facts: tuple[str, ...]) -> float:
        text, places = _summary(facts)
        flags = check(text, source)
        return sum(any(flag.start < end and start < flag.end for flag in flags) for start, end in places) / len(places)

    assert flagged(planted) >= 0.95
    assert flagged(own) <= 0.05
    text, _ = _summary(own + planted)
    true = len(own) * len(SENTENCES)
    assert len(check(text, source)) - len(check(_summary(planted)[0], source)) <= 0.05 * true


NO_TEST_FAILED = ("No tests failed", "none of the tests failed", "zero failures", "no test failures")


@pytest.mark.parametrize("messages", [TIDES, QUEUE], ids=["tides", "queue"])
def test_that_no_test_failed_in_words_needs_a_run_behind_it_too(messages: tuple[Message, ...]) -> None:
    entries = [Entry(seq, message) for seq, message in enumerate(messages, 1)]
    ran = (
        AssistantMessage("a9", (ToolCall("c9", "shell", {"command": "make"}),)),
        ToolResult("c9", (Text("9 passed"),)),
    )
    passed = [*entries, *(Entry(seq, message) for seq, message in enumerate(ran, 90))]
    for none, sentence in itertools.product(NO_TEST_FAILED, SENTENCES):
        assert [flag.text for flag in check(sentence.format(none), Source.of(entries))] == [none]
        assert check(sentence.format(none), Source.of(passed)) == ()
        assert check(f"Go on until {none}.", Source.of(entries)) == ()


NONE = ("0 failed", "0 errors", "0 tests failed", "0 type errors", "failures: 0", "**0** of 212 tests failed")


@pytest.mark.parametrize("messages", [TIDES, QUEUE], ids=["tides", "queue"])
def test_that_nothing_failed_is_flagged_where_no_result_says_so(messages: tuple[Message, ...]) -> None:
    source = Source.of([Entry(seq, message) for seq, message in enumerate(messages, 1)])
    for none, sentence in itertools.product(NONE, SENTENCES):
        flags = [flag.text for flag in check(sentence.format(none), source)]
        assert "0" in flags, none


WELL = (
    "215 passed in 18.02s",
    "============ 215 passed, 3 skipped in 18.02s ============",
    "Tests: 98 passed, 98 total",
    "Ran 98 tests in 0.4s\n\nOK",
    "ok  \texample.org/shop\t0.31s",
    "test result: ok. 98 passed; 0 failed; 0 ignored",
    "  98 passing (2s)",
    "# pass 98\n# fail 0\n# errors 0",
    "1..98\nok 1 - adds up\n# passed: 98",
)


@pytest.mark.parametrize("messages", [TIDES, QUEUE], ids=["tides", "queue"])
@pytest.mark.parametrize("said", WELL)
def test_that_nothing_failed_is_true_where_a_later_run_passed(messages: tuple[Message, ...], said: str) -> None:
    again = (AssistantMessage("a9", (ToolCall("c9", "shell", {"command": "make"}),)), ToolResult("c9", (Text(said),)))
    source = Source.of([Entry(seq, message) for seq, message in enumerate((*messages, *again), 1)])
    text, _ = _summary(("0 failed", "0 errors", "0 tests failed"))
    assert check(text, source) == ()


@pytest.mark.parametrize(
    "said", ["All checks passed!", "Success: no issues found", "    Finished dev", "exit status: 0"]
)
def test_that_there_were_no_errors_is_true_where_a_check_went_well_and_says_nothing_of_tests(said: str) -> None:
    ran = (AssistantMessage("a9", (ToolCall("c9", "shell", {"command": "make"}),)), ToolResult("c9", (Text(said),)))
    source = Source.of([Entry(seq, message) for seq, message in enumerate((*TIDES, *ran), 1)])
    assert check("Now 0 errors.", source) == ()
    assert [flag.text for flag in check("Now 0 failed.", source)] == ["0"]


@pytest.mark.parametrize(
    ("printed", "flagged"),
    [
        ("==== 3 failed in 1.02s ====", []),
        ("Tests: 3 failed, 3 total", []),
        ("no tests ran in 0.01s", []),
        ("0 passed, 3 failed", []),
        ("==== 3 failed, 12 passed in 1.02s ====", ["0"]),
        ("Test Files  1 failed (1)\n     Tests  3 failed | 12 passed (15)", ["0"]),
        ("FAILED (failures=3)", ["0"]),
    ],
)
def test_that_nothing_passed_needs_a_run_in_which_tests_failed_and_none_passed(
    printed: str, flagged: list[str]
) -> None:
    ran = (
        AssistantMessage("a1", (ToolCall("c1", "shell", {"command": "make test"}),)),
        ToolResult("c1", (Text(printed),)),
    )
    source = Source.of([Entry(seq, message) for seq, message in enumerate(ran, 1)])
    assert [flag.text for flag in check("0 passed.", source)] == flagged


@pytest.mark.parametrize(
    "call",
    [
        ToolCall("c9", "read", {"path": "docs/ci.log"}),
        ToolCall("c9", "shell", {"command": "cd docs && cat ci.log"}),
        ToolCall("c9", "shell", {"command": ["bash", "-lc", "grep -n pass ci.log"]}),
    ],
)
def test_what_stands_in_a_file_is_no_result_of_a_run(call: ToolCall) -> None:
    said = "215 passed in 18.02s\nexit status: 0"
    looked = (AssistantMessage("a9", (call,)), ToolResult("c9", (Text(said),)))
    source = Source.of([Entry(seq, message) for seq, message in enumerate((*TIDES, *looked), 1)])
    assert [flag.text for flag in check("Now 0 failed and 0 errors.", source)] == ["0", "0"]


@pytest.mark.parametrize("command", ["cd shop && pytest -q", "pytest -q | tail -3", ["bash", "-lc", "cat a; make"]])
def test_a_line_that_looks_at_something_and_runs_something_is_a_run(command: str | list[JsonValue]) -> None:
    call = ToolCall("c9", "shell", {"command": command})
    ran = (AssistantMessage("a9", (call,)), ToolResult("c9", (Text("215 passed in 18.02s"),)))
    source = Source.of([Entry(seq, message) for seq, message in enumerate((*TIDES, *ran), 1)])
    assert check("Now 0 failed.", source) == ()


def test_what_only_the_model_or_the_user_says_of_a_run_is_no_result_of_it() -> None:
    said = (AssistantMessage("a1", (Text("All tests passed."),)), UserMessage("u1", (Text("OK, all tests pass."),)))
    source = Source.of([Entry(seq, message) for seq, message in enumerate(said, 1)])
    assert [flag.text for flag in check("Now 0 failed.", source)] == ["0"]


def test_what_is_recorded_of_a_run_is_a_result_of_it_and_a_system_prompt_is_none() -> None:
    told, recorded = "Commit when 12 tests passed. OK", "`pytest`: 215 passed"
    assert [flag.text for flag in check("0 failed", Source.of([], extra=[told], user_texts=[told]))] == ["0"]
    assert check("0 failed", Source.of([], extra=[told], results=[recorded])) == ()

"""The context as a fold over the log."""

from __future__ import annotations

import pytest

from acp_agent.conversation.context import Context
from acp_agent.conversation.events import (
    AssistantAnswered,
    AutoCompactionChanged,
    CallView,
    CompactionFailed,
    DirectoriesChanged,
    Event,
    FileVersion,
    InstructionsLoaded,
    ModeChanged,
    ModelChanged,
    NoteAdded,
    PartialAnswer,
    PermissionGranted,
    PlanChanged,
    PlanEntry,
    SessionForked,
    SessionStarted,
    SummaryDropped,
    ThoughtLevelChanged,
    TitleChanged,
    ToolReturned,
)
from acp_agent.conversation.messages import (
    AssistantMessage,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    UserMessage,
)
from support.logs import LogBuilder


def texts(context: Context) -> list[str]:
    return [
        message.text
        if not isinstance(message, UserMessage)
        else "".join(part.text for part in message.parts if isinstance(part, Text))
        for message in context.messages
    ]


def test_a_swap_clears_usage_and_seen_files_and_sets_the_estimate() -> None:
    log = LogBuilder()
    log.prompt("fix it")
    log.step(calls=2, usage=Usage(100, 20, 3, 4))
    assert log.context.usage == Usage(100, 20, 3, 4)
    assert (log.context.baseline, log.context.baseline_seq) == (127, 4)
    assert set(log.context.files) == {"/shop/0.py", "/shop/1.py"}
    log.swap(keep_from=log.cuts()[-2])
    assert log.context.usage is None
    assert log.context.files == {}
    assert (log.context.baseline, log.context.baseline_seq) == (100, log.head)


def test_only_messages_that_the_agent_wrote_are_notes() -> None:
    log = LogBuilder()
    log.prompt("fix it")
    log.pin("prices are cents")
    log.unpin(1)
    log.step("cut off")
    log.ask_on()
    log.add(NoteAdded("msg_9", "for the user"), SummaryDropped(Usage(1, cost=0.25)))
    assert texts(log.context) == [
        "fix it",
        "Pinned: prices are cents",
        "No longer pinned: 1",
        "cut off",
        "Go on.",
    ]
    assert [entry.note for entry in log.context.entries] == [
        False,
        True,
        True,
        False,
        True,
    ]
    log.swap(keep_from=4)
    log.mask()
    log.restore()
    assert [entry.note for entry in log.context.entries] == [
        False,
        False,
        True,
        True,
        False,
        True,
    ]


def test_a_fold_that_begins_after_a_refused_prompt_removes_the_rest_of_its_turn() -> (
    None
):
    log = LogBuilder()
    log.prompt("bad")
    log.step("looking", calls=1, usage=Usage(100))
    log.refuse()
    context = Context.from_log(log.logged[3:])
    assert (context.entries, context.usage, context.baseline) == ((), None, 0)


def test_the_model_gets_a_recipes_text_and_nothing_for_a_command() -> None:
    log = LogBuilder()
    log.prompt("/fix it", sent="Fix it well.")
    log.end()
    log.prompt("/compact", sent="")
    assert texts(log.context) == ["Fix it well."]
    assert log.context.turn_from == log.head


def test_checkpoints_of_an_answer_add_up_until_the_complete_answer() -> None:
    log = LogBuilder()
    log.prompt("hello")
    log.add(PartialAnswer("msg_9", "Go", "h"), PartialAnswer("msg_9", "od", "m"))
    assert log.context.partial == PartialAnswer("msg_9", "Good", "hm")
    assert texts(log.context) == ["hello"]
    log.add(AssistantAnswered(AssistantMessage("msg_9", (Text("Good day"),))))
    assert log.context.partial is None
    assert texts(log.context) == ["hello", "Good day"]


def test_the_next_prompt_or_the_turns_end_drops_a_checkpoint() -> None:
    for forget in (lambda log: log.prompt("next"), lambda log: log.end("cancelled")):
        log = LogBuilder()
        log.prompt("hello")
        log.add(PartialAnswer("msg_9", "Go"))
        forget(log)
        assert log.context.partial is None


def test_an_empty_answer_adds_no_message_but_counts_as_cost() -> None:
    log = LogBuilder()
    log.prompt("hello")
    log.add(
        AssistantAnswered(
            AssistantMessage(
                "msg_9", (), stop_reason="cancelled", usage=Usage(5, cost=0.5)
            )
        )
    )
    assert texts(log.context) == ["hello"]
    assert log.context.cost == 0.5


def test_open_calls_are_the_newest_answers_calls_without_a_result() -> None:
    log = LogBuilder()
    assert log.context.open_calls == ()
    log.prompt("fix it")
    log.step(calls=2)
    calls = tuple(ToolCall(f"call_{name}", "read") for name in "xyz")
    log.add(
        AssistantAnswered(
            AssistantMessage("msg_9", (Text("three"), *calls), stop_reason="tool_use")
        )
    )
    assert log.context.open_calls == calls
    log.add(ToolReturned(ToolResult("call_y", (Text("t"),)), CallView("Read")))
    assert log.context.open_calls == (calls[0], calls[2])
    for name in "zx":
        log.add(
            ToolReturned(ToolResult(f"call_{name}", (Text("t"),)), CallView("Read"))
        )
    assert log.context.open_calls == ()
    log.prompt("next")
    assert log.context.open_calls == ()


def test_the_newest_version_of_a_file_counts_even_if_it_was_deleted() -> None:
    log = LogBuilder()
    for path, digest in (("/a", "1"), ("/b", "1"), ("/a", "2"), ("/b", None)):
        log.add(
            ToolReturned(
                ToolResult("c", ()),
                CallView("Edit", "edit"),
                (FileVersion(path, digest),),
            )
        )
    assert log.context.files == {"/a": "2", "/b": None}


def test_the_cost_includes_answers_and_all_compactions_even_failed_ones() -> None:
    log = LogBuilder()
    log.prompt("fix it")
    log.step("a", usage=Usage(1, cost=0.25))
    log.step("b", usage=Usage(1))
    log.add(
        CompactionFailed(
            "compaction_1", "manual", "failed", "empty", Usage(1, cost=0.125)
        )
    )
    log.add(CompactionFailed("compaction_2", "manual", "cancelled"))
    log.add(SummaryDropped(Usage(1, cost=1.0)), SummaryDropped(Usage(1)))
    log.swap()  # 0.5
    assert log.context.cost == 1.875


@pytest.mark.parametrize(
    ("event", "holds"),
    [
        (DirectoriesChanged(("/l", "/m")), False),
        (DirectoriesChanged((), "/moved"), False),
        (DirectoriesChanged(("/m",)), False),
        (DirectoriesChanged(()), True),
        (DirectoriesChanged(("/l",), "/shop", "/repo"), True),
        (SessionForked("sess_1", 1, "/shop", ("/l",)), False),
    ],
)
def test_grants_apply_only_in_the_directories_that_the_session_had(
    event: Event, holds: bool
) -> None:
    log = LogBuilder()
    log.add(DirectoriesChanged(("/l",)))
    log.add(PermissionGranted("edit"))
    log.add(event)
    assert log.context.grants == ({"edit"} if holds else frozenset())
    log.swap()
    assert Context.from_log(log.logged[-1:]) == log.context


@pytest.mark.parametrize(
    ("event", "changes"),
    [
        (
            SessionStarted("/w", ("/l",), "plan", "a/b", "low"),
            {"cwd": "/w", "additional_directories": ("/l",)},
        ),
        (InstructionsLoaded("Be brief."), {"instructions": "Be brief."}),
        (PlanChanged((PlanEntry("x"),)), {"plan": (PlanEntry("x"),)}),
        (ModeChanged("plan"), {"mode": "plan"}),
        (ModeChanged("plan", "opening"), {"mode": "ask"}),
        (DirectoriesChanged((), "/moved", mode="plan"), {"mode": "plan"}),
        (ModelChanged("a/b"), {"model": "a/b"}),
        (ThoughtLevelChanged("high"), {"thought_level": "high"}),
        (AutoCompactionChanged(False), {"auto_compaction": False}),
        (
            DirectoriesChanged(("/l",)),
            {"additional_directories": ("/l",), "cwd": "/shop"},
        ),
        (
            DirectoriesChanged(("/l",), "/moved"),
            {"additional_directories": ("/l",), "cwd": "/moved"},
        ),
        (
            DirectoriesChanged((), root="/repo"),
            {"additional_directories": (), "cwd": "/shop", "root": "/repo"},
        ),
        (TitleChanged("The cart"), {"title": "The cart"}),
        (PermissionGranted("edit"), {"grants": frozenset({"edit"})}),
        (PermissionGranted("edit", "project"), {"grants": frozenset()}),
        (PermissionGranted("edit", "opening"), {"grants": frozenset()}),
        (NoteAdded("msg_1", "a note"), {"entries": ()}),
    ],
    ids=lambda value: value.kind if hasattr(value, "kind") else "",
)
def test_the_newest_value_of_a_setting_outlives_a_compaction(
    event: Event, changes: dict[str, object]
) -> None:
    log = LogBuilder()
    log.add(event)
    assert {name: getattr(log.context, name) for name in changes} == changes
    log.swap()
    kept = Context.from_log(log.logged[-1:])
    assert kept == log.context
    assert {name: getattr(kept, name) for name in changes if name != "entries"} == {
        name: value for name, value in changes.items() if name != "entries"
    }

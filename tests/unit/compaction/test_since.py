"""What is stated next to a summary that was prepared earlier, so that finished work
does not start over.

`recorded/` has logs of two short sessions of this agent with a scripted model, without
system prompt and tools.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.compaction.budget import TokenBudget
from acp_agent.compaction.estimate import estimate_text
from acp_agent.compaction.frame import frame_since
from acp_agent.compaction.since import MOST_TOKENS, since
from acp_agent.compaction.state import ConversationState
from acp_agent.conversation.codec import decode
from acp_agent.conversation.context import Context
from acp_agent.conversation.events import (
    AssistantAnswered,
    CallView,
    EditsUndone,
    LoggedEvent,
    PlanChanged,
    ToolReturned,
    TurnEnded,
    UserPrompted,
)
from acp_agent.conversation.messages import (
    AssistantMessage,
    Message,
    Text,
    ToolCall,
    ToolResult,
    UserMessage,
)
from acp_agent.llm.provider import ModelRequest
from acp_agent.session.compact.order import before_open_calls
from support.background import PREPARE, desk
from support.logs import LogBuilder, legal_logs
from support.memory import agent_in_memory
from support.models import Reply, Usage
from support.models import ToolCall as Call
from support.replies import BEFORE_HEADERS

DONE = Reply("Written.", usage=Usage(PREPARE, 5))
RECORDED = sorted((Path(__file__).parent / "recorded").glob("*.jsonl"))


@cache
def recorded(path: Path) -> tuple[LoggedEvent, ...]:
    lines = map(json.loads, path.read_text().splitlines())
    return tuple(
        LoggedEvent(line["seq"], 0, decode(line["kind"], json.dumps(line["data"])))
        for line in lines
    )


def state_of(logged: Sequence[LoggedEvent]) -> ConversationState:
    context = before_open_calls(Context.from_log(logged))
    return ConversationState.from_context(
        context, ModelRequest("m", "", context.messages), TokenBudget(100_000, 8_000)
    )


def finished(logged: Sequence[LoggedEvent], start: int) -> Iterator[str]:
    """What was done from an event on: files by their paths, commands, steps of the
    plan, requests by their words.
    """
    calls: dict[str, ToolCall] = {}
    request = ""
    steps = set[str]()
    for at, each in enumerate(logged):
        match each.event:
            case AssistantAnswered(message):
                calls |= {call.id: call for call in message.tool_calls}
            case ToolReturned(result) if at >= start and not result.is_error:
                arguments = calls[result.call_id].arguments
                is_change = "content" in arguments or "edits" in arguments
                yield str(
                    arguments.get("command") or (arguments["path"] if is_change else "")
                )
            case UserPrompted(shown=[Text(text)]):
                request = text
            case TurnEnded("end_turn") if at >= start:
                yield request[:60]
            case PlanChanged(entries):
                done = {
                    entry.content for entry in entries if entry.status == "completed"
                }
                yield from sorted(done - steps) if at >= start else ()
                steps = done
            case _:
                pass


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_finished_work_is_not_repeated_after_a_prepared_summary_is_used(
    path: Path,
) -> None:
    """A model that goes down the summary's next steps, and leaves out those that are
    stated to be done.
    """
    logged = recorded(path)
    states = [state_of(logged[:at]) for at in range(len(logged) + 1)]
    restarted = 0
    for written in range(1, len(logged)):
        for used in range(written + 1, len(logged) + 1):
            if Context.from_log(logged[:used]).open_calls:
                continue
            stated = since(
                states[written],
                states[used],
                "# Next steps\nEverything that the plan says.",
            )
            next_steps = [step for step in finished(logged[:used], written) if step]
            assert [step for step in next_steps if step not in stated] == [], (
                written,
                used,
                stated,
            )
            restarted += len(next_steps)
    assert restarted > 1_000  # without what is stated


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_only_work_done_since_the_summary_is_listed(path: Path) -> None:
    logged = recorded(path)
    whole = state_of(logged)
    assert since(whole, whole, "LIMIT = 30, width = 80") == ""
    for written in range(1, len(logged)):
        stated = since(state_of(logged[:written]), whole, "")
        later = {step for step in finished(logged, written) if step}
        earlier = {step for step in finished(logged[:written], 0) if step}
        assert [
            step for step in earlier - later if len(step) > 20 and step in stated
        ] == []


def talk(*messages: Message) -> ConversationState:
    return ConversationState.of(messages, window=100_000)


def edited(
    path: str, old: str, new: str, *, fails: bool = False
) -> tuple[Message, Message]:
    call = ToolCall(
        f"call_{old}_{new}",
        "edit",
        {"path": path, "edits": [{"old_text": old, "new_text": new}]},
    )
    return AssistantMessage("a", (call,), "m", "tool_use"), ToolResult(
        call.id, (Text("Edited."),), is_error=fails
    )


def edited_by_mcp(path: str, old: str, new: str) -> tuple[Message, Message]:
    """Return an edit by `edit_file` of MCP's filesystem server."""
    call = ToolCall(
        f"call_{old}",
        "edit_file",
        {"path": path, "edits": [{"oldText": old, "newText": new}]},
    )
    return AssistantMessage("a", (call,), "m", "tool_use"), ToolResult(
        call.id, (Text("Edited."),)
    )


def said(text: str) -> UserMessage:
    return UserMessage("u", (Text(text),))


FIRST = said("Set it up.")


@pytest.mark.parametrize(
    ("later", "stated"),
    [
        (edited("cart.py", "LIMIT = 30", "LIMIT = 60"), "cart.py: 30 is 60 now"),
        (
            edited("a/cart.py", "def parse_price(a):", "def read_price(a):"),
            "cart.py: parse_price is read_price now",
        ),
        (
            (*edited("c.py", "x = 30", "x = 60"), *edited("c.py", "x = 60", "x = 90")),
            "c.py: 30 is 90 now",
        ),
        (
            (*edited("c.py", "x = 30", "x = 60"), *edited("c.py", "x = 60", "x = 30")),
            "",
        ),
        (edited_by_mcp("cart.py", "LIMIT = 30", "LIMIT = 60"), "cart.py: 30 is 60 now"),
        (edited("cart.py", "LIMIT = 30", "LIMIT = 60", fails=True), ""),
        (edited("cart.py", "LIMIT = 70", "LIMIT = 60"), ""),
        ((said("Use timeout: 90 from now on."),), "timeout: 30 is 90 now"),
        ((said("PORT=9090"),), "port: 8080 is 9090 now"),
        ((said("timeout: 30, as before"),), ""),
        ((said("Look at https://example.com/a1 and note: do it well."),), ""),
    ],
)
def test_a_replaced_value_of_the_summary_is_listed_with_the_new_one(
    later: tuple[Message, ...], stated: str
) -> None:
    summary = "# State\nThe limit is 30, `timeout: 30`, PORT = 8080. `parse_price` reads prices. Note: see https://a.b/c1"
    found = since(talk(FIRST), talk(FIRST, *later), summary)
    lines = found.partition("Values that were replaced:\n")[2].splitlines()
    assert [line.partition("] ")[2] for line in lines if line.startswith("- [#")] == (
        [stated] if stated else []
    )


def test_edits_that_the_user_undid_are_not_listed_as_done() -> None:
    log = LogBuilder()
    log.prompt("Set it up.")
    before = state_of(log.logged)
    call, result = edited("cart.py", "LIMIT = 30", "LIMIT = 60")
    assert isinstance(call, AssistantMessage)
    log.add(AssistantAnswered(call))
    assert isinstance(result, ToolResult)
    log.add(ToolReturned(result, CallView("Edit cart.py", "edit")))
    assert "edited cart.py" in since(before, state_of(log.logged), "30")
    sent = "The user took back what your edits changed in files in the turn “Set it up.”:\n\n- `cart.py`: restored\n"
    log.add(EditsUndone("msg_undo", 3, ("/shop/cart.py",), sent))
    stated = since(before, state_of(log.logged), "30")
    assert "edited cart.py" not in stated
    assert "30 is 60" not in stated
    assert "Files whose changes the user took back:\n- [#6] cart.py" in stated


@given(legal_logs(), st.data())
def test_the_list_is_always_short_and_cannot_close_its_frame(
    logged: tuple[LoggedEvent, ...], data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(logged)))
    before = state_of(logged[:at])
    now = state_of(logged)
    stated = since(before, now, data.draw(st.text(max_size=200)))
    assert estimate_text(stated) <= MOST_TOKENS
    assert since(now, now, "") == ""
    for part in frame_since(f"{stated}\n</recorded_since> <recorded_since>"):
        assert (
            part.text.count("<recorded_since>")
            == part.text.count("</recorded_since>")
            == 1
        )


def test_many_events_are_counted_and_the_newest_are_listed() -> None:
    later: list[Message] = []
    for number in range(200):
        call = ToolCall(
            f"call_{number}",
            "write",
            {"path": f"/shop/{'deep/' * 30}{number}.py", "content": "x"},
        )
        later.append(AssistantMessage("a", (call,), "m", "tool_use"))
        later.append(ToolResult(call.id, (Text("Made."),), is_error=False))
    stated = since(talk(FIRST), talk(FIRST, *later), "")
    assert "Files that were changed (the newest of 200):" in stated
    assert estimate_text(stated) <= MOST_TOKENS


@pytest.mark.process
async def test_the_model_reads_what_was_done_since_its_summary_was_written(
    tmp_path: Path,
) -> None:
    # A summary that is ready before is used at the end of the turn.
    turn_ended = anyio.Event()
    summary = Reply("# Next steps\nWrite docs.md. The limit is 30.", hold=turn_ended)
    config = {"mode": "full-access"}
    async with desk(tmp_path, summary, config=config, connect=agent_in_memory) as it:
        await it.filled()
        # The file is written only after the summary has been asked for.
        asked = anyio.Event()
        call = Call("write", {"path": "docs.md", "content": "# Cart\n"})
        write = Reply(
            "",
            tool_calls=[call],
            usage=Usage(PREPARE, 5),
            hold=asked,
            hold_after=BEFORE_HEADERS,
        )
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(it.prompt, "Write the docs.", write, DONE)
            await it.server.wait_held(2)
            asked.set()
        turn_ended.set()
        await it.ready()
        await it.prompt("What is left?", Reply("Nothing."))
        texts = [
            block["text"]
            for message in it.last
            for block in message["content"]
            if block["type"] == "text"
        ]
        [stated] = [text for text in texts if text.startswith("<recorded_since>")]
        assert "created docs.md" in stated
        assert "“Write the docs.”" in stated
        assert "“What is left?”" not in stated
        assert texts[texts.index(stated) - 1].startswith("<conversation_summary>")

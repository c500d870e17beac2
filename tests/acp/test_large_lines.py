"""No line to an editor reaches 10 MiB, at which some give up, and nothing that is said is lost by it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from acp_agent.conversation.messages import Text
from acp_agent.server.bounds import MAX_TEXT, MAX_VALUE, bounded, pieces
from acp_agent.turn.updates import AgentSaid, AgentThought, CompactionChunk, Update, UserSaid
from support.editors import BARE, TOAD
from support.replies import Reply, ToolCall
from support.stage import Stage, results, stage

LARGE = "\x01 a line\n" * 1_400_000  # 12.6 million characters, of which one in nine takes six bytes in JSON
THOUGHT = "\x01" * 2_000_000  # twelve million bytes of JSON
LIMIT = 10 << 20
SECONDS = 120.0


def said(it: Stage, kind: str) -> str:
    return "".join(update["content"]["text"] for update in it.agent.updates(kind=kind))


def longest(it: Stage) -> int:
    return max(len(line.raw) for line in it.agent.lines if line.received)


async def test_twelve_megabytes_of_answer_and_of_thought_are_sent_and_replayed_in_lines_below_ten(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path, Reply([LARGE], thinking=THOUGHT), dialect="anthropic") as it:
        assert await it.prompt("Say much", SECONDS) == {"stopReason": "end_turn"}
        live = longest(it)
        assert said(it, "agent_message_chunk") == LARGE
        async with it.restarted() as later:
            await later.agent.load(it.session, it.folder, timeout=SECONDS)
            assert said(later, "agent_message_chunk") == LARGE
            assert said(later, "agent_thought_chunk") == THOUGHT
            ids = {update["messageId"] for update in later.agent.updates(kind="agent_message_chunk")}
            assert len(ids) == 1
            assert max(live, longest(later)) < LIMIT


async def test_twelve_megabytes_of_prompt_are_replayed_whole_in_lines_below_ten(tmp_path: Path) -> None:
    async with stage(tmp_path, Reply("I see.")) as it:
        assert await it.prompt([{"type": "text", "text": LARGE}], SECONDS) == {"stopReason": "end_turn"}
        async with it.restarted() as later:
            await later.agent.load(it.session, it.folder, timeout=SECONDS)
            assert said(later, "user_message_chunk") == LARGE
            assert longest(later) < LIMIT


async def test_a_call_that_writes_nearly_as_much_as_it_may_is_asked_shown_and_replayed_in_lines_below_ten(
    tmp_path: Path,
) -> None:
    text = LARGE.replace("\x01", "\t")[:800_000]  # with the backslashes of JSON, just below 1 MiB
    write = Reply(tool_calls=[ToolCall("write", {"path": "large.txt", "content": text})])
    async with stage(tmp_path, write, Reply("Written."), editor=BARE) as it:
        assert await it.prompt("Write much", SECONDS) == {"stopReason": "end_turn"}
        assert (it.folder / "large.txt").read_text() == text
        call = it.calls()[0]
        assert call["status"] == "completed"
        assert call["rawInput"] == {"path": "large.txt", "content": text}
        async with it.restarted() as later:
            await later.agent.load(it.session, it.folder, timeout=SECONDS)
            assert max(longest(it), longest(later)) < LIMIT


async def test_an_edit_that_no_line_to_the_editor_can_hold_is_refused_and_the_model_told(tmp_path: Path) -> None:
    text = "one\n" + "a line of text\n" * 800_000
    edit = {"path": "a.txt", "edits": [{"old_text": "one", "new_text": "1"}]}
    calls = [ToolCall("read", {"path": "a.txt", "limit": 3}), ToolCall("edit", edit)]
    replies = [*(Reply(tool_calls=[call]) for call in calls), Reply("Done.")]
    async with stage(tmp_path, *replies, editor=TOAD, files={"a.txt": text}, dialect="anthropic") as it:
        assert await it.prompt(timeout=SECONDS) == {"stopReason": "end_turn"}
        assert longest(it) < LIMIT
        assert (it.folder / "a.txt").read_text() == text
        [result] = results(it.server.calls[-1].body)
        assert result.is_error
        assert "too large to be written through the editor" in result.text


@given(st.integers(0, 3 * MAX_TEXT), st.integers(0, 3))
def test_the_pieces_of_a_text_are_the_text_and_none_is_too_long(length: int, kind: int) -> None:
    text = ("\x00ab\n" * (length // 4 + 1))[:length]
    update = (AgentSaid("m", text), AgentThought("m", text), CompactionChunk("m", text), UserSaid("m", Text(text)))[
        kind
    ]
    parts = list(pieces(update))
    texts = [_text_of(part) for part in parts]
    assert "".join(texts) == text
    assert all(len(part) <= MAX_TEXT for part in texts)
    assert len(parts) == max(1, -(-length // MAX_TEXT))


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=5)
    | st.integers(1, 40).map(lambda n: "x" * n * 50_000),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=40,
)


@given(st.dictionaries(st.text(max_size=5), json_values, max_size=5))
def test_arguments_are_shown_as_they_are_unless_they_are_too_large(arguments: dict[str, Any]) -> None:
    shown = bounded(arguments)
    assert _characters(shown) <= MAX_TEXT
    if _characters(arguments) < MAX_TEXT // 2:
        assert shown == arguments
    if shown != arguments:
        assert "…" in str(shown)


def test_very_many_short_arguments_are_told_by_their_number() -> None:
    arguments: dict[str, Any] = {"edits": ["x" * MAX_VALUE] * 200}
    assert bounded(arguments) == {"…": f"{200 * (MAX_VALUE + 2) + 9} characters, too many to be shown"}


def _text_of(update: Update) -> str:
    match update:
        case AgentSaid() | AgentThought() | CompactionChunk():
            return update.text
        case UserSaid(part=Text(text)):
            return text
        case _:
            raise AssertionError(update)


def _characters(value: Any) -> int:
    if isinstance(value, dict):
        return sum(len(key) + _characters(item) for key, item in value.items())
    if isinstance(value, list):
        return sum(map(_characters, value))
    return len(value) if isinstance(value, str) else 0

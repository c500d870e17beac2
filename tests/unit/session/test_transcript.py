"""The transcript that hooks read: the whole history, in the format of Claude Code's
session files.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio

from acp_agent.compaction.evaluation.recordings import read_recording
from acp_agent.conversation.messages import (
    AssistantMessage,
    Text,
    ToolResult,
    Usage,
    UserMessage,
)
from acp_agent.session.hook_services import Transcript
from acp_agent.session.log import TRANSCRIPTS as FOLDER
from acp_agent.session.log import remove_transcript
from acp_agent.storage.store import SessionStore
from support.log_builder import LogBuilder

SESSION = "sess_1"


def story() -> LogBuilder:
    """Return a log with all kinds of events that the transcript contains, and some that
    it omits.
    """
    log = LogBuilder()
    log.prompt("Fix the cart.")
    log.step("I look.", calls=2, partials=1, usage=Usage(100, 5, 20))
    log.step("Fixed \ud83d.")
    log.end()
    log.add_context()
    log.prompt("/commit", sent="Commit it.")
    log.swap()
    log.step("", calls=1)
    log.step("Committed.")
    log.end()
    log.prompt("/compact", sent="")
    log.mask()
    log.prompt("Thanks.")
    log.step("You are welcome.")
    return log


async def stored(store: SessionStore, log: LogBuilder) -> None:
    await store.create(SESSION, "/shop", (), log.events[:2])
    await store.append(SESSION, 2, log.events[2:])


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


async def test_a_reader_of_claude_code_files_gets_the_whole_history(
    tmp_path: Path,
) -> None:
    store = await SessionStore.open(tmp_path / "sessions.db")
    await stored(store, story())
    path = Path(await Transcript(store, SESSION, tmp_path).write())
    await store.aclose()
    assert path == (tmp_path / FOLDER / f"{SESSION}.jsonl")
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (
        0o600,
        0o700,
    )

    recording = read_recording(path)
    assert (recording.form, recording.cwd) == ("Claude Code", "/shop")
    said: list[tuple[str, str]] = []
    for message in recording.messages:
        text = (
            message.text if isinstance(message, AssistantMessage | ToolResult) else ""
        )
        if isinstance(message, UserMessage):
            text = "".join(
                part.text for part in message.parts if isinstance(part, Text)
            )
        said.append((message.role, text))
    assert said == [
        ("user", "Fix the cart."),
        ("assistant", "I look."),
        ("tool", "text of /shop/0.py"),
        ("tool", "text of /shop/1.py"),
        ("assistant", "Fixed \ufffd."),
        ("user", "Commit it."),
        ("assistant", ""),
        ("tool", "text of /shop/0.py"),
        ("assistant", "Committed."),
        ("user", "Thanks."),
        ("assistant", "You are welcome."),
    ]
    [call, _] = next(
        m for m in recording.messages if isinstance(m, AssistantMessage)
    ).tool_calls
    assert (call.name, call.arguments) == (
        "Read",
        {"path": "/shop/0.py", "file_path": "/shop/0.py"},
    )


async def test_lines_are_linked_and_a_compaction_is_a_summary(
    tmp_path: Path,
) -> None:
    store = await SessionStore.open(tmp_path / "sessions.db")
    await stored(store, story())
    found = lines(Path(await Transcript(store, SESSION, tmp_path).write()))
    await store.aclose()
    spoken = [line for line in found if "message" in line]
    assert [line["parentUuid"] for line in spoken] == [
        None,
        *(line["uuid"] for line in spoken[:-1]),
    ]
    assert {
        (line["sessionId"], line["cwd"], line["isSidechain"]) for line in spoken
    } == {(SESSION, "/shop", False)}
    assert all(
        line["timestamp"].endswith("Z") and len(line["timestamp"]) == 24
        for line in spoken
    )
    meta = [
        line["message"]["content"][0]["text"] for line in spoken if line.get("isMeta")
    ]
    assert meta == ["A hook added this:\n\nIt is raining.", "/compact"]
    [summary] = [line for line in found if line["type"] == "summary"]
    assert (summary["summary"], summary["compactMetadata"]["trigger"]) == (
        "So far so good.",
        "manual",
    )
    before = found[found.index(summary) - 1]
    after = found[found.index(summary) + 1]
    assert summary["leafUuid"] == before["uuid"]
    assert (after["isCompactSummary"], after["message"]["content"][0]["text"]) == (
        True,
        "History: So far so good.",
    )
    answer = next(line for line in spoken if line["type"] == "assistant")["message"]
    assert (
        answer["role"],
        answer["usage"]["input_tokens"],
        answer["usage"]["cache_read_input_tokens"],
    ) == (
        "assistant",
        100,
        20,
    )


async def test_a_continued_transcript_equals_one_written_at_once(
    tmp_path: Path,
) -> None:
    log = story()
    for number in range(250):
        log.step(f"Word {number}.")
    store = await SessionStore.open(tmp_path / "sessions.db")
    await store.create(SESSION, "/shop", (), log.events[:1])
    growing = Transcript(store, SESSION, tmp_path)
    head = 1
    for size in (1, 2, 1, 3, 5, 2, 200, len(log.events)):
        await store.append(SESSION, head, log.events[head : head + size])
        head = min(len(log.events), head + size)
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(growing.write)
    carried_on = (tmp_path / FOLDER / f"{SESSION}.jsonl").read_bytes()
    (tmp_path / "other").mkdir()
    at_once = Path(await Transcript(store, SESSION, tmp_path / "other").write())
    assert carried_on == at_once.read_bytes()
    (tmp_path / FOLDER / f"{SESSION}.jsonl").unlink()
    assert Path(await growing.write()).read_bytes() == carried_on
    await store.aclose()


def test_only_a_sessions_own_file_is_removed(tmp_path: Path) -> None:
    (tmp_path / "transcripts").mkdir()
    mine = tmp_path / FOLDER / f"{SESSION}.jsonl"
    others = tmp_path / "notes.jsonl"
    mine.touch()
    others.touch()
    for session_id in ("../notes", "/etc/x", "a\0b", "", "sess_2", SESSION):
        remove_transcript(tmp_path, session_id)
    assert others.exists()
    assert not mine.exists()

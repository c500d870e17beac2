"""What is streamed, in a recording: whole, in order, and without the secret that came in pieces."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.jsonrpc.recording import WireLog, recordings
from acp_agent.secrets.text import mask
from support.models import Reply
from support.stage import stage

SECRET = "correct horse battery"
KEY = "ghp_" + "aB3d" * 9
PIECE = st.one_of(
    st.text("abc \n", max_size=5), st.sampled_from([SECRET, "correct ", "horse", " battery", KEY, KEY[:9], KEY[9:]])
)
CHUNK = st.tuples(st.sampled_from("AB"), st.sampled_from(["agent_message_chunk", "agent_thought_chunk"]), PIECE)
OTHER = st.tuples(st.sampled_from("AB"), st.just("usage_update"), st.just(""))
DEEP = 2_000


def update(session: str, kind: str, text: str) -> dict[str, Any]:
    content = {"content": {"type": "text", "text": text}} if kind.endswith("_chunk") else {}
    inner = {"sessionUpdate": kind, **content}
    return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": inner}}


def runs(messages: list[tuple[str, str, str]], session: str) -> list[tuple[str, str]]:
    """What one session was told: the texts of one kind put together as long as no other kind comes between."""
    joined: list[tuple[str, str]] = []
    for _, kind, text in (each for each in messages if each[0] == session):
        if joined and joined[-1][0] == kind and kind.endswith("_chunk"):
            joined[-1] = kind, joined[-1][1] + text
        else:
            joined.append((kind, text))
    return joined


def recorded(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for file in recordings(folder) for line in file.read_text().splitlines()]


def told(entry: dict[str, Any]) -> tuple[str, str, str]:
    params = entry["message"]["params"]
    return params["sessionId"], params["update"]["sessionUpdate"], params["update"].get("content", {}).get("text", "")


@given(st.lists(CHUNK | OTHER, max_size=30))
def test_pieces_put_together_are_the_whole_without_its_secrets_and_no_line_is_lost(
    messages: list[tuple[str, str, str]],
) -> None:
    with TemporaryDirectory() as folder:
        log = WireLog(Path(folder) / "wire", [SECRET])
        for message in messages:
            log.note("out", json.dumps(update(*message)).encode() + b"\n")
        log.close()
        written = [told(entry) for entry in recorded(Path(folder) / "wire")]
    for session in "AB":
        kinds = [kind for name, kind, _ in messages if name == session]
        assert [kind for name, kind, _ in written if name == session] == kinds
        expected = [(kind, mask(text, [SECRET])) for kind, text in runs(messages, session)]
        assert runs(written, session) == expected


def test_the_newest_piece_is_written_as_soon_as_something_else_comes(tmp_path: Path) -> None:
    log = WireLog(tmp_path / "wire", [SECRET])
    for number, text in enumerate(("It is correct", " horse", " bat")):
        log.note("out", json.dumps(update("A", "agent_message_chunk", text)).encode() + b"\n")
        assert len(recorded(tmp_path / "wire")) == number
    log.note("out", b'{"jsonrpc": "2.0", "id": 1, "result": {}}\n')
    *chunks, answer = recorded(tmp_path / "wire")
    assert "".join(told(entry)[2] for entry in chunks) == "It is correct horse bat"
    assert answer["message"]["id"] == 1
    log.close()


def test_a_piece_that_is_too_deep_to_be_masked_ends_its_stream_and_loses_nothing(tmp_path: Path) -> None:
    log = WireLog(tmp_path / "wire", [SECRET])
    plain = json.dumps(update("A", "agent_message_chunk", "one correct horse"))
    deep = plain.replace('"jsonrpc"', f'"_meta": {"[" * DEEP}{"]" * DEEP}, "jsonrpc"')
    for line in (deep, plain, deep, plain):
        log.note("out", line.encode() + b"\n")
    log.close()
    entries = recorded(tmp_path / "wire")
    assert [told(entry)[2] if "message" in entry else "deep" for entry in entries] == [
        "deep",
        "one correct horse",
        "deep",
        "one correct horse",
    ]


async def test_a_secret_that_the_model_says_in_pieces_is_in_no_recording(tmp_path: Path) -> None:
    pieces = ["It is Zq9", "aB3dE7f", "Gh1Jk, and ", "correct ho", "rse battery", " as well."]
    env = {"ACP_AGENT_WIRE": "1", "MY_KEY": "Zq9aB3dE7fGh1Jk", "MY_PASSWORD": SECRET}
    hold = anyio.Event()
    async with stage(tmp_path, Reply(pieces, hold=hold, hold_after=2), env=env) as it:
        session = await it.agent.new_session(it.home)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(it.agent.prompt, session, "What is it?", 30)
            await it.agent.wait_for(lambda line: "Zq9" in json.dumps(line.params))
            hold.set()
    chunks = [
        entry["message"]["params"]["update"]["content"]["text"]
        for entry in recorded(it.home / "state" / "wire")
        if "agent_message_chunk" in json.dumps(entry)
    ]
    assert len(chunks) > 1
    assert "".join(chunks) == "It is ***, and *** as well."

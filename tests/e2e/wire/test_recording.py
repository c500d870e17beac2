"""What is written down of the wire: masked, bounded, private, and never in anybody's
way.
"""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from acp_agent.server import recording
from acp_agent.server.recording import (
    MAX_FILES,
    MAX_TEXT,
    _RecordingTransport,
    recordings,
)

SECRET = 'pa"ss\nwörd-1'
KEY = "sk-" + "a1" * 12


def records(folder: Path) -> list[dict[str, Any]]:
    """All that was written, in order."""
    return [
        json.loads(line)
        for path in recordings(folder)
        for line in path.read_bytes().splitlines()
    ]


class Wire:
    """A transport that has one line, and keeps what is written."""

    def __init__(self) -> None:
        self.lines: list[bytes | None] = [b'{"method": "a"}', None]
        self.written = b""
        self.closed = False

    async def read_line(self) -> bytes | None:
        return self.lines.pop(0)

    async def write(self, data: bytes) -> None:
        self.written += data

    async def aclose(self) -> None:
        self.closed = True


async def test_a_secret_at_the_place_where_a_long_text_is_cut_is_masked_before(
    tmp_path: Path,
) -> None:
    half = MAX_TEXT // 2
    log = _RecordingTransport(Wire(), tmp_path)
    log.record_lines(
        "in",
        json.dumps(
            {"text": "x" * (half - 6) + " " + KEY + " " + "y" * MAX_TEXT}
        ).encode(),
    )
    await log.aclose()
    [text] = [each["message"]["text"] for each in records(tmp_path)]
    assert len(text) < MAX_TEXT + 50
    assert "sk-" not in text


async def test_every_line_is_written_with_its_direction_in_files_for_the_user_alone(
    tmp_path: Path,
) -> None:
    log = _RecordingTransport(Wire(), tmp_path / "wire", lambda: [SECRET])
    log.record_lines("in", b'{"id": 1, "method": "a"}')
    log.record_lines(
        "out", b'{"id": 1, "result": {"half": "\\ud800"}}\n{"method": "b"}\n'
    )
    log.record_lines(
        "in",
        b'{"env":[{"name":"DB","value":"hunter2"}], "broken": "'
        + KEY.encode()
        + b"\xff",
    )
    await log.aclose()
    assert [
        (each["dir"], each.get("message", each.get("invalid")))
        for each in records(tmp_path / "wire")
    ] == [
        ("in", {"id": 1, "method": "a"}),
        ("out", {"id": 1, "result": {"half": "?"}}),
        ("out", {"method": "b"}),
        ("in", '{"env":[{"name":"DB","value":"***"}], "broken": "***\ufffd'),
    ]
    [path] = recordings(tmp_path / "wire")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "wire").stat().st_mode) == 0o700


async def test_files_are_bounded_and_the_newest_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "MAX_FILE_BYTES", 500)
    log = _RecordingTransport(Wire(), tmp_path)
    for number in range(200):
        log.record_lines("in", b'{"method": "%d"}' % number)
    await log.aclose()
    assert len(recordings(tmp_path)) == MAX_FILES
    assert all(path.stat().st_size <= 500 for path in recordings(tmp_path))
    kept = [int(each["message"]["method"]) for each in records(tmp_path)]
    assert kept == [*range(kept[0], 200)]


@pytest.mark.parametrize("can_write", [True, False])
async def test_a_recording_changes_nothing_of_what_goes_over_the_wire(
    tmp_path: Path, can_write: bool
) -> None:
    folder = tmp_path / "wire"
    if not can_write:
        folder.write_text("a file where the folder should be")
    wire = Wire()
    transport = _RecordingTransport(wire, folder)
    assert await transport.read_line() == b'{"method": "a"}'
    await transport.write(b'{"id": 1}\n')
    assert await transport.read_line() is None
    await transport.aclose()
    assert (wire.written, wire.closed) == (b'{"id": 1}\n', True)
    assert len(records(folder) if can_write else [1, 2]) == 2


def chunk(text: str, session: str = "A", kind: str = "agent_message_chunk") -> bytes:
    update = {
        "sessionUpdate": kind,
        "messageId": "m1",
        "content": {"type": "text", "text": text},
    }
    message = {
        "jsonrpc": "2.0",
        "method": "session/update",
        "params": {"sessionId": session, "update": update},
    }
    return json.dumps(message).encode() + b"\n"


async def test_text_that_streams_is_one_message_without_the_secret_that_came_in_pieces(
    tmp_path: Path,
) -> None:
    log = _RecordingTransport(Wire(), tmp_path, lambda: [SECRET])
    for piece in (
        "The key is ",
        KEY[:9],
        KEY[9:],
        " and ",
        SECRET[:4],
        SECRET[4:],
        ".",
    ):
        log.record_lines("out", chunk(piece))
    log.record_lines(
        "out",
        chunk("Hm", kind="agent_thought_chunk")
        + chunk("Oh", "B")
        + chunk("x" * MAX_TEXT, "B"),
    )
    log.record_lines("in", b'{"method": "a"}')
    log.record_lines("out", chunk("last"))
    await log.aclose()
    updates = [
        each["message"].get("params", {}).get("update") for each in records(tmp_path)
    ]
    expected = ["The key is *** and ***.", "Hm", "Oh", "x" * MAX_TEXT, None, "last"]
    assert [update and update["content"]["text"] for update in updates] == expected

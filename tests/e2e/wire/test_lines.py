"""Recorded messages become lines in which requests and responses belong together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.called import call_command


async def test_a_response_has_the_method_the_session_and_the_time_of_its_request(
    tmp_path: Path,
) -> None:
    records: tuple[dict[str, Any], ...] = (
        {
            "dir": "in",
            "message": {"id": 1, "method": "session/new", "params": {"cwd": "/"}},
        },
        {
            "dir": "out",
            "message": {
                "id": 1,
                "method": "fs/read_text_file",
                "params": {"sessionId": "s2"},
            },
        },
        {"dir": "in", "message": {"id": "1", "method": "session/list"}},
        {"dir": "out", "message": {"id": 1, "result": {"sessionId": "s1"}}},
        {
            "dir": "in",
            "message": {"id": 1, "error": {"code": -32002, "message": "no file"}},
        },
        {
            "dir": "out",
            "message": {"method": "session/update", "params": {"sessionId": "s1"}},
        },
        {"dir": "in", "message": {"id": 9, "result": None}},
        {"dir": "in", "invalid": "{half"},
    )
    (tmp_path / "state" / "wire").mkdir(parents=True)
    text = "".join(
        f"{json.dumps({'at': at, **record})}\n" for at, record in enumerate(records)
    )
    (tmp_path / "state" / "wire" / "p1-0.jsonl").write_text(text)
    shown = [
        line.partition(" ")[2]
        for line in (await call_command(tmp_path, "wire")).out.splitlines()
    ]
    assert [line.partition("  ")[0] for line in shown] == [
        "→ session/new #1",
        "← fs/read_text_file #1",
        '→ session/list #"1"',
        "← session/new #1 = 3.000 s",
        "→ fs/read_text_file #1 = ✗ 3.000 s",
        "← session/update",
        "→ (response to an unknown request) #9 =",
        "→ (not a message) ✗",
    ]
    of_one = (await call_command(tmp_path, "wire", "s1")).out.splitlines()
    assert [line.split()[2] for line in of_one] == ["session/new", "session/update"]

"""Recorded messages become lines in which requests and responses belong together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.called import call_command


async def lines(home: Path, *records: dict[str, Any], words: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """The lines of one process's records, a second between two."""
    (home / "state" / "wire").mkdir(parents=True, exist_ok=True)
    text = "".join(f"{json.dumps({'at': at, **record})}\n" for at, record in enumerate(records))
    (home / "state" / "wire" / "p1-0.jsonl").write_text(text)
    ran = await call_command(home, "wire", *words, "--json")
    return [json.loads(line) for line in ran.out.splitlines()]


async def test_a_response_has_the_method_the_session_and_the_time_of_its_request(tmp_path: Path) -> None:
    records: tuple[dict[str, Any], ...] = (
        {"dir": "in", "message": {"id": 1, "method": "session/new", "params": {"cwd": "/"}}},
        {"dir": "out", "message": {"id": 1, "method": "fs/read_text_file", "params": {"sessionId": "s2"}}},
        {"dir": "in", "message": {"id": "1", "method": "session/list"}},
        {"dir": "out", "message": {"id": 1, "result": {"sessionId": "s1"}}},
        {"dir": "in", "message": {"id": 1, "error": {"code": -32002, "message": "no file"}}},
        {"dir": "out", "message": {"method": "session/update", "params": {"sessionId": "s1"}}},
        {"dir": "in", "message": {"id": 9, "result": None}},
        {"dir": "in", "invalid": "{half"},
        {"dir": "in", "message": [{"method": "a"}]},
        {"dir": "sideways", "message": {"method": "b"}},
    )
    seen = await lines(tmp_path, *records)
    assert [(line["kind"], line["method"], line["session"], line["seconds"]) for line in seen] == [
        ("request", "session/new", "", None),
        ("request", "fs/read_text_file", "s2", None),
        ("request", "session/list", "", None),
        ("response", "session/new", "s1", 3),
        ("response", "fs/read_text_file", "s2", 3),
        ("notification", "session/update", "s1", None),
        ("response", "", "", None),
        ("invalid", "", "", None),
        ("invalid", "", "", None),
    ]
    of_one = await lines(tmp_path, *records, words=("s1",))
    assert [line["session"] for line in of_one] == ["", "", "s1", "s1", "", "", ""]

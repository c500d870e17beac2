"""SIGTERM amid the worst input that each limit lets through: the agent ends within two
seconds.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from acp_agent.jsonrpc.transport import MAX_LINE_BYTES
from acp_agent.llm.adapters.stream import MAX_LINE
from acp_agent.llm.parts import MAX_ARGUMENTS
from acp_agent.tools.files.local import MAX_BYTES
from benchmarks.processes import cpu_seconds
from support.editors import ZED_BETA
from support.replies import Reply, ToolCall
from support.stage import Stage, stage

SECONDS = 2.0
MOMENTS = (0.1, 0.5, 1.0, 2.0, 4.0)
"""Seconds of processor time behind the input, at which the signal comes; those after
its end are left out.
"""
EDITOR = replace(ZED_BETA, files=False, terminal=False)
HEAD = '{"jsonrpc":"2.0","id":"worst","method":"session/prompt","params":{"sessionId":"SESSION","prompt":['
TEXT = '{"type":"text","text":"'
SCHEMA = (
    "{type: object, patternProperties: {'^(a+)+$': {type: array, uniqueItems: true}}}"
)
RECIPE = f"---\nhooks: {{turn_end: {{handler: validate_output, params: {{schema: {SCHEMA}}}}}}}\n---\nAnswer.\n"
ARGUMENTS = '{"path":[' + "[]," * ((MAX_ARGUMENTS - 20) // 3) + "0]}"
EDITS = [
    {"old_text": f"a\n b{number}\n" * 300, "new_text": "c"} for number in range(200)
]


@dataclass
class Worst:
    """An input.

    :ivar prompt: sent as a prompt; or, as bytes, as a line.
    :ivar home: files of the agent's home, and `files` of the project, by their paths.
    :ivar before: prompts that come before it.
    """

    prompt: str | bytes | list[dict[str, Any]] = "Go on"
    replies: Sequence[Reply] = ()
    home: Mapping[str, str] = field(default_factory=dict[str, str])
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    before: Sequence[str] = ()


def line(unit: str, head: str = "", tail: str = "") -> Worst:
    """The longest line of a unit over and over."""
    head = HEAD + head
    tail = tail + "]}}\n"
    return Worst(
        (
            head
            + unit * ((MAX_LINE_BYTES - len(head) - len(tail) - 40) // len(unit))
            + tail
        ).encode()
    )


def event(unit: str) -> Worst:
    """The longest event of a model server."""
    data = (
        '{"type":"response.output_text.delta","delta":"","more":['
        + unit * ((MAX_LINE - 100) // len(unit))
        + "0]}"
    )
    headers = {"content-type": "text/event-stream"}
    return Worst(replies=[Reply(body=f"data: {data}\n\n", headers=headers)])


def call(name: str, files: Mapping[str, str] | None = None, **arguments: Any) -> Worst:
    return Worst(
        replies=[Reply(tool_calls=[ToolCall(name, arguments)])], files=files or {}
    )


def changed(before: str, name: str, **arguments: Any) -> Worst:
    calls = [
        ToolCall("read", {"path": "b.txt"}),
        ToolCall(name, {"path": "b.txt", **arguments}),
    ]
    return Worst(
        replies=[Reply(tool_calls=[each]) for each in calls], files={"b.txt": before}
    )


def fill(unit: str, length: int) -> str:
    return unit * (length // len(unit))


CASES: dict[str, Callable[[], Worst]] = {
    "a line of lists": lambda: line("[],", tail="0"),
    "a line of blocks": lambda: line(TEXT + 'a"},', TEXT + 'a"},', TEXT + 'a"}'),
    "a deep line": lambda: line("["),
    "a line of escapes": lambda: line("\\n\\\\", TEXT + "\\ud800", '"}'),
    "a line of words": lambda: line("words and 1234 ", TEXT, '"}'),
    "an event of lists": lambda: event("[],"),
    "an answer of words": lambda: Worst(
        replies=[Reply(fill("words and 1234 ", MAX_LINE - 10_000))]
    ),
    "arguments of lists": lambda: Worst(
        replies=[Reply(tool_calls=[ToolCall("read", ARGUMENTS)])]
    ),
    "an endless output": lambda: call("shell", command="yes"),
    "a search": lambda: call(
        "grep", {"b.txt": fill("ab", MAX_BYTES)}, pattern="(a|ab|b){1,100}c(a*b*){50}$"
    ),
    "a glob": lambda: call(
        "glob", {"a" * 200: "a"}, pattern="*a" * 400 + "{" + "a," * 90 + "b}"
    ),
    "an edit": lambda: changed(fill("a\n b\n", MAX_BYTES), "edit", edits=EDITS),
    "a rewritten file": lambda: changed(
        fill("b\na\nc\n", MAX_BYTES), "write", content=fill("a\nb\n", 500_000)
    ),
    "rules": lambda: Worst(home={"hooks/rules.yaml": "[" + fill("[],", 250_000) + "]"}),
    "a configuration": lambda: Worst(
        home={"config.yaml": "model: [" + fill("{a: },", 250_000) + "]"}
    ),
    "a recipe": lambda: Worst(
        "/long",
        home={
            "recipes/long.md": "---\n---\n"
            + fill("{% for a in 'abc' %}{{ a * 9 }}{% endfor %}", 250_000)
        },
    ),
    "an answer to validate": lambda: Worst(
        "/check",
        [
            Reply(
                '{"'
                + "a" * 100_000
                + '": ['
                + ",".join(f"[{n}]" for n in range(30_000))
                + "]}"
            )
        ],
        home={"recipes/check.md": RECIPE},
    ),
    "a compaction": lambda: Worst(
        "/compact",
        [Reply(" ".join(f"Word{n} is {n:x}." for n in range(100_000)))] * 4,
        before=["Tell"] * 4,
    ),
    "a long name": lambda: Worst(
        "/compact", [Reply(fill("a/b.c-", 2_000_000))] * 2, before=["Tell"] * 2
    ),
}


async def send(it: Stage, case: Worst) -> Callable[[], bool]:
    """Send the input, and return what tells whether it was answered."""
    if isinstance(case.prompt, bytes):
        assert it.agent.process.stdin is not None
        fd = it.agent.process.stdin.fileno()
        view = memoryview(case.prompt.replace(b"SESSION", it.session.encode()))
        while view:
            await anyio.wait_writable(fd)
            view = view[os.write(fd, view) :]
        begun = len(it.agent.lines)
        return lambda: any(
            line.label.startswith(("error", "response"))
            for line in it.agent.lines[begun:]
        )
    turn = await it.agent.start_prompt(it.session, case.prompt)
    return lambda: turn.done


async def took(folder: Path, case: Worst, moment: float) -> tuple[float, bool]:
    """Return the seconds that the end took, and whether the input was answered before."""
    replies = [Reply("Hello."), *case.replies, *[Reply("Done.")] * 5]
    options = {
        "validate": False,
        "laws": False,
        "mode": "full-access",
        "editor": EDITOR,
    }
    async with stage(
        folder, *replies, files={"a.txt": "a\n", **case.files}, **options
    ) as it:
        for prompt in ("Hi", *case.before):
            await it.prompt(prompt, 120)
        for name, text in case.home.items():  # read again with the next prompt
            path = folder / "home" / "state" / name
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            path.write_text(text)
        used = cpu_seconds(it.agent.pid)
        answered = await send(it, case)
        while cpu_seconds(it.agent.pid) < used + moment and not answered():  # noqa: ASYNC110 - a clock tells nobody
            await anyio.sleep(0.005)
        was = answered()
        it.agent.terminate()
        begun = time.monotonic()
        await it.agent.wait_exit(60)
        it.agent.problems.clear()
        return time.monotonic() - begun, was


@pytest.mark.parametrize("name", CASES)
async def test_the_agent_ends_within_two_seconds_amid(
    tmp_path: Path, name: str
) -> None:
    case = CASES[name]()
    worst = 0.0
    for moment in MOMENTS:
        seconds, was_answered = await took(tmp_path / str(moment), case, moment)
        worst = max(worst, seconds)
        print(
            f"{name}, {moment} s: {seconds:.2f} s{' (answered)' if was_answered else ''}",
            flush=True,
        )
        if was_answered:
            break
    assert worst < SECONDS

"""Much at once: a million messages on one wire, a hundred sessions in one process, two
processes on one session.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from benchmarks.processes import memory
from support import forked
from support.client import AgentError, AgentProcess, connected_agent, environment
from support.compactions import asked_last
from support.models import model_server
from support.replies import Reply, ToolCall
from support.stage import stage

MESSAGES = 1_000_000
REQUESTS = (
    ("session/list", {}),
    ("no/such/method", {}),
    (
        "session/prompt",
        {"sessionId": "sess_none", "prompt": [{"type": "text", "text": "Hi"}]},
    ),
    ("session/load", {"sessionId": 3}),
    ("session/set_mode", {"sessionId": "sess_none", "modeId": "ask"}),
)
OTHERS = (
    b'{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"sess_none"}}\n',
    b'{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":7}}\n',
    b'{"jsonrpc":"2.0","id":"agent-1","result":{}}\n',
)
BAD = (b"{\n", b'{"jsonrpc":"2.0","method":5}\n', b"\xff\xfe\n", b"[" * 2_000 + b"\n")
WINDOW = 1_000
MEBIBYTES = 4.0
SESSIONS = 100
TURNS = 5


def line_of(number: int) -> bytes:
    """Return one of the messages; every other one is a request, with its number as id."""
    if number % 2:
        return (OTHERS + BAD)[number // 2 % (len(OTHERS) + len(BAD))]
    method, params = REQUESTS[number // 2 % len(REQUESTS)]
    return (
        json.dumps(
            {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        ).encode()
        + b"\n"
    )


def test_of_a_million_messages_each_request_is_answered_once_and_memory_stays_flat(
    tmp_path: Path,
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    process = forked.start(
        "acp_agent", cwd=home, env=environment(home, "soak", {}, own=True)
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None

    window = threading.Semaphore(WINDOW)

    def write() -> None:
        first = {
            "jsonrpc": "2.0",
            "id": "first",
            "method": "initialize",
            "params": {"protocolVersion": 1},
        }
        with open(process.stdin.fileno(), "wb", WINDOW, closefd=False) as pipe:  # type: ignore[union-attr]
            pipe.write(json.dumps(first).encode() + b"\n")
            for line in map(line_of, range(MESSAGES)):
                if line not in OTHERS and not window.acquire(blocking=False):
                    pipe.flush()
                    window.acquire()
                pipe.write(line)

    threading.Thread(target=write, daemon=True).start()
    answers = Counter[Any]()
    sizes = list[float]()
    expected = MESSAGES // 2 + sum(
        line_of(number) in BAD for number in range(1, MESSAGES, 2)
    )
    with (
        process.stdin,
        process.stdout,
        process.stderr,
        open(process.stdout.fileno(), "rb", closefd=False) as lines,
    ):
        for line in lines:
            answers[json.loads(line)["id"]] += 1
            window.release()
            if answers.total() % 100_000 == 0:
                sizes.append(memory(process.pid))
                print(f"{answers.total():9,} answers: {sizes[-1]:.1f} MiB", flush=True)
            if answers.total() > expected:  # the one of `initialize` is one more
                process.stdin.close()
    assert process.wait(10) == 0
    assert answers == Counter({None: expected - MESSAGES // 2, "first": 1}) + Counter(
        range(0, MESSAGES, 2)
    )
    assert sizes[-1] <= sizes[1] + MEBIBYTES


async def test_a_hundred_sessions_that_prompt_at_once_each_get_their_own_answers(
    tmp_path: Path,
) -> None:
    def answer(body: Mapping[str, Any]) -> Reply:
        prompt = asked_last(body)
        if prompt.startswith("write "):
            return Reply(
                tool_calls=[
                    ToolCall("write", {"path": f"{prompt[6:]}.txt", "content": prompt})
                ]
            )
        return Reply([f"{word} " for word in prompt.split() * 20], delay=0.001)

    async with stage(tmp_path, script=answer) as it:
        ids = [await it.agent.new_session(it.folder) for _ in range(SESSIONS)]
        for id in ids:
            await it.agent.set_mode(id, "full-access")
        for turn in range(TURNS):
            prompts = [
                f"{'write' if turn % 2 else 'say'} {turn}-{number}"
                for number in range(SESSIONS)
            ]
            begun = len(it.agent.lines)
            turns = [
                await it.agent.start_prompt(id, prompt)
                for id, prompt in zip(ids, prompts, strict=True)
            ]
            assert [await each.result(120) for each in turns] == [
                {"stopReason": "end_turn"}
            ] * SESSIONS
            for id, prompt in zip(ids, prompts, strict=True):
                file = it.folder / f"{prompt[6:]}.txt"
                text = it.agent.text(session_id=id, since=begun)
                assert (
                    file.read_text() == prompt
                    if turn % 2
                    else text.split() == prompt.split() * 20
                )


async def test_of_two_processes_on_one_session_neither_loses_a_turn_that_was_answered(
    tmp_path: Path,
) -> None:
    answered: list[str] = []
    refused = 0

    async def talk(agent: AgentProcess, session: str, name: str) -> None:
        nonlocal refused
        for prompt in (f"{name} {number}" for number in range(100)):
            try:
                assert await agent.prompt(session, prompt, 60) == {
                    "stopReason": "end_turn"
                }
                answered.append(prompt)
            except AgentError as error:
                if "Another process has continued this session" not in error.message:
                    raise
                refused += 1

    connect = partial(connected_agent, home=tmp_path, laws=False)
    async with (
        model_server(lambda body: Reply([asked_last(body), "."]), "openai") as server,
        connect(env=server.env()) as first,
        connect(env=server.env()) as second,
    ):
        session = await first.new_session(tmp_path)
        await second.resume(session, tmp_path)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(talk, first, session, "first")
            tasks.start_soon(talk, second, session, "second")
        print(f"{len(answered)} turns answered, {refused} refused", flush=True)
        async with connect(env=server.env()) as third:
            await third.load(session, tmp_path)
            shown = [
                update["content"]["text"]
                for update in third.updates(session, "user_message_chunk")
            ]
            said = third.text(session_id=session)
    # Answers of two processes may arrive here in another order than in the log.
    kept = [prompt for prompt in shown if prompt in answered]
    for name in ("first", "second"):
        assert [each for each in kept if each.startswith(name)] == [
            each for each in answered if each.startswith(name)
        ]
    assert all(f"{prompt}." in said for prompt in answered)
    assert len(answered) > 50

"""What refusals have taught about a model is known to its other sessions, and after a
restart of the agent.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from acp_agent.llm.learned import KEPT, KEPT_LOCAL_WINDOW, KEPT_LOSS, LEARNED_FILE
from support.editors import TOAD
from support.lines import AgentError
from support.memory import stage
from support.pictures import encoded, png
from support.replies import Reply, ToolCall, Usage

READ = Reply(tool_calls=[ToolCall("read", {"path": "a.txt"}, id="call_of_some_length")])
IMAGE = {"type": "image", "data": encoded(png()), "mimeType": "image/png"}
OTHER_IMAGE = {"type": "image", "data": encoded(png(5, 4)), "mimeType": "image/png"}
Refuse = Callable[[dict[str, Any]], str | None]


class Server:
    """A script of a model whose server refuses some requests.

    :ivar refused: number of refusals since it was last set to 0.
    """

    def __init__(self, refuse: Refuse, *replies: Reply, status: int = 400) -> None:
        self.refuse = refuse
        self.refused = 0
        self._replies = list(replies)
        self._status = status

    def __call__(self, body: dict[str, Any]) -> Reply:
        said = self.refuse(body)
        if said is not None:
            self.refused += 1
            return Reply(http_status=self._status, body={"error": {"message": said}})
        return (
            self._replies.pop(0)
            if self._replies and body.get("tools")
            else Reply("Yes.")
        )


def member(name: str) -> Refuse:
    said = f"Unsupported parameter: '{name}' is not supported with this model."
    return lambda body: said if name in body else None


def limited(body: dict[str, Any]) -> str | None:
    return (
        "max_tokens is too large. This model takes at most 1024."
        if body.get("max_tokens", 0) > 1_024
        else None
    )


def toolless(body: dict[str, Any]) -> str | None:
    return "this-model does not support tools" if body.get("tools") else None


def ordered(body: dict[str, Any]) -> str | None:
    roles = [message["role"] for message in body["messages"]]
    return (
        "Unexpected role 'user' after role 'tool'"
        if ("tool", "user") in pairwise(roles)
        else None
    )


def short_ids(body: dict[str, Any]) -> str | None:
    ids = [
        call["id"]
        for message in body["messages"]
        for call in message.get("tool_calls", ())
    ]
    said = "Tool call id was x but must be a-z, A-Z, 0-9, with a length of 9."
    return said if any(len(each) != 9 for each in ids) else None


def no_system(body: dict[str, Any]) -> str | None:
    return (
        "System role not supported" if body["messages"][0]["role"] == "system" else None
    )


def forbidden(body: dict[str, Any]) -> str | None:
    """As a server says it that checks requests with pydantic; the text quotes the input."""
    if "max_tokens" not in body:
        return None
    detail = {
        "type": "extra_forbidden",
        "loc": ["body", "max_tokens"],
        "msg": "Extra inputs are not permitted",
        "input": body["max_tokens"],
    }
    return json.dumps([detail])


REFUSALS: dict[str, tuple[Refuse, list[Reply]]] = {
    "a parameter": (member("max_tokens"), []),
    "a parameter that is not in the server's model": (forbidden, []),
    "another parameter": (member("stream_options"), []),
    "a stream": (
        lambda body: (
            "This model does not support streaming." if body.get("stream") else None
        ),
        [],
    ),
    "a large answer": (limited, []),
    "tools": (toolless, []),
    "the form of ids": (short_ids, [READ, Reply("Yes."), READ]),
    "the role system": (no_system, []),
}


@pytest.mark.parametrize("what", REFUSALS)
async def test_what_a_server_refused_is_not_sent_by_another_session_after_a_restart(
    tmp_path: Path, what: str
) -> None:
    refuse, replies = REFUSALS[what]
    server = Server(refuse, *replies)
    async with stage(tmp_path, script=server, dialect="chat", config={}) as it:
        assert await it.prompt("One") == {"stopReason": "end_turn"}
        assert server.refused == 1
        server.refused = 0
        other = await it.agent.new_session(it.folder)
        assert await it.agent.prompt(other, "Two") == {"stopReason": "end_turn"}
        async with it.restarted() as later:
            third = await later.agent.new_session(it.folder)
            assert await later.agent.prompt(third, "Three") == {
                "stopReason": "end_turn"
            }
            assert server.refused == 0
            assert ("cannot read or change files" in str(later.agent.updates())) == (
                what == "tools"
            )


async def test_the_order_of_messages_that_a_server_wants_is_known_to_another_session(
    tmp_path: Path,
) -> None:
    pay = Reply(http_status=402, body={"error": {"message": "Pay."}})
    server = Server(ordered, READ, pay, Reply("Yes."), READ, pay, Reply("Yes."))
    async with stage(tmp_path, script=server, dialect="chat", config={}) as it:
        for session in (it.session, await it.agent.new_session(it.folder)):
            with pytest.raises(AgentError, match="Pay"):
                await it.agent.prompt(session, "One")
            assert await it.agent.prompt(session, "Two") == {"stopReason": "end_turn"}
        assert server.refused == 1


def has_image(body: dict[str, Any]) -> bool:
    return "image_url" in json.dumps(body)


@pytest.mark.parametrize("image", [IMAGE, OTHER_IMAGE], ids=["the same", "another"])
@pytest.mark.parametrize(
    "said", ["this-model does not support vision input", "invalid input"]
)
async def test_images_that_a_model_does_not_take_are_left_out_by_another_session_which_says_so(
    tmp_path: Path, said: str, image: dict[str, Any]
) -> None:
    server = Server(lambda body: said if has_image(body) else None)
    async with stage(
        tmp_path, script=server, dialect="chat", editor=TOAD, config={}
    ) as it:
        await it.prompt([{"type": "text", "text": "Look"}, IMAGE])
        assert server.refused == 1
        server.refused = 0
        async with it.restarted() as later:
            session = await later.agent.new_session(it.folder)
            prompt = [{"type": "text", "text": "Look"}, image]
            assert await later.agent.prompt(session, prompt) == {
                "stopReason": "end_turn"
            }
            # Words that do not say that the model sees no images may be about this
            # image.
            is_known = image is IMAGE or "vision" in said
            assert server.refused == (0 if is_known else 1)
            told = str(later.agent.updates())
            assert "does not accept images" in told or "1 image" in told


async def test_a_refused_tool_is_left_out_by_another_session_until_its_definition_changes(
    tmp_path: Path,
) -> None:
    def refuse(body: dict[str, Any]) -> str | None:
        names = [tool["function"]["name"] for tool in body.get("tools", ())]
        return (
            "Invalid schema for function 'recall': no." if "recall" in names else None
        )

    server = Server(refuse)
    async with stage(tmp_path, script=server, dialect="chat", config={}) as it:
        await it.prompt("One")
        assert server.refused == 1
        async with it.restarted() as later:
            session = await later.agent.new_session(it.folder)
            await later.agent.prompt(session, "Two")
            assert server.refused == 1
            assert "The session continues without: recall" in str(later.agent.updates())
        file = it.home / "state" / LEARNED_FILE
        content = json.loads(file.read_text())
        content["models"]["local/chat-test"]["tool recall"] = content["models"][
            "local/chat-test"
        ]["tool recall"][:-1]
        file.write_text(json.dumps(content))
        async with it.restarted() as later:
            await later.agent.prompt(await later.agent.new_session(it.folder), "Three")
            assert server.refused == 2


async def test_what_is_refused_about_reasoning_is_learned_by_each_session_for_itself(
    tmp_path: Path,
) -> None:
    thinks = {
        "models": {"local/claude-opus-4-6": {}},
        "model": "local/claude-opus-4-6",
        "thought_level": "high",
    }
    server = Server(
        lambda body: (
            "`thinking` is not supported with this." if "thinking" in body else None
        )
    )
    async with stage(
        tmp_path,
        script=server,
        dialect="chat",
        config=thinks,
        env={"ACP_AGENT_MODEL": None},
    ) as it:
        for session in (it.session, await it.agent.new_session(it.folder)):
            before = server.refused
            await it.agent.prompt(session, "One")
            await it.agent.prompt(session, "Two")
            assert server.refused - before in (0, 1)
        facts = it.home / "state" / LEARNED_FILE
        assert not facts.exists() or "thinking" not in facts.read_text()


# --- the window ---

LONG = {"a.txt": "A line of a long file.\n" * 1_200}
WINDOW = 9_000


def tokens(body: dict[str, Any]) -> int:
    return len(json.dumps(body)) // 4


def too_long(body: dict[str, Any]) -> str | None:
    size = tokens(body)
    return (
        f"prompt is too long: {size} tokens > {WINDOW} maximum"
        if size > WINDOW
        else None
    )


def too_long_without_numbers(body: dict[str, Any]) -> str | None:
    return "prompt is too long" if tokens(body) > WINDOW else None


PIECES = [
    Reply(
        tool_calls=[
            ToolCall("read", {"path": "a.txt", "offset": 1 + 200 * at, "limit": 200})
        ],
        usage=Usage(300, 20),
    )
    for at in range(6)
]


@pytest.mark.parametrize(
    "refuse", [too_long, too_long_without_numbers], ids=["stated", "not stated"]
)
async def test_a_window_that_a_refusal_taught_is_known_to_another_session_after_a_restart(
    tmp_path: Path, refuse: Refuse
) -> None:
    server = Server(refuse, *PIECES, Reply("Done."), *PIECES, Reply("Done."))
    async with stage(
        tmp_path, script=server, dialect="chat", files=LONG, config={}
    ) as it:
        assert await it.prompt("Read the file") == {"stopReason": "end_turn"}
        assert server.refused >= 1
        server.refused = 0
        async with it.restarted() as later:
            session = await later.agent.new_session(it.folder)
            assert await later.agent.prompt(session, "Read the file") == {
                "stopReason": "end_turn"
            }
            assert server.refused == 0
            assert later.agent.updates(kind="usage_update")[-1]["size"] <= WINDOW
            await later.agent.load(it.session, it.folder)
            assert await later.prompt("Go on") == {"stopReason": "end_turn"}
            assert server.refused == 0


async def test_a_learned_window_does_not_outlive_another_context_window_in_the_configuration(
    tmp_path: Path,
) -> None:
    server = Server(too_long, *PIECES)
    async with stage(
        tmp_path, script=server, dialect="chat", files=LONG, config={}
    ) as it:
        await it.prompt("Read the file")
        assert it.agent.updates(kind="usage_update")[-1]["size"] == WINDOW
        it.server.write_config(it.home, {"context_window": 50_000})
        async with it.restarted() as later:
            await later.agent.prompt(await later.agent.new_session(it.folder), "Hello")
            assert later.agent.updates(kind="usage_update")[-1]["size"] == 50_000
        it.server.write_config(it.home)
        async with it.restarted() as last:
            await last.agent.prompt(await last.agent.new_session(it.folder), "Hello")
            assert last.agent.updates(kind="usage_update")[-1]["size"] == WINDOW


async def test_a_learned_window_does_not_outlive_another_one_in_the_provider_s_list(
    tmp_path: Path,
) -> None:
    server = Server(too_long, *PIECES)
    async with stage(
        tmp_path, script=server, dialect="anthropic", files=LONG, config={}
    ) as it:
        await it.prompt("Read the file")
        assert it.agent.updates(kind="usage_update")[-1]["size"] == WINDOW
        it.server.windows["claude-test"] = 40_000
        async with it.restarted() as later:
            await later.agent.prompt(await later.agent.new_session(it.folder), "Hello")
            assert later.agent.updates(kind="usage_update")[-1]["size"] == 40_000


async def test_a_remembered_window_that_answers_disprove_is_forgotten(
    tmp_path: Path,
) -> None:
    answers = [Reply("Yes.", usage=Usage(12_000 + 100 * at, 5)) for at in range(4)]
    server = Server(too_long, *PIECES, Reply("Done."), *answers)
    async with stage(
        tmp_path, script=server, dialect="chat", files=LONG, config={}
    ) as it:
        await it.prompt("Read the file")
        async with it.restarted() as later:
            session = await later.agent.new_session(it.folder)
            for _ in range(2):  # the first count above the window is not believed
                await later.agent.prompt(session, "Hello")
            assert later.agent.updates(kind="usage_update")[-1]["size"] == 128_000


# --- for how long ---


def aged(file: Path, by: timedelta) -> None:
    """Make all facts older."""
    content = json.loads(file.read_text())
    for facts in content["models"].values():
        for name, text in facts.items():
            if name != "server":
                at, _, value = text.partition(" ")
                facts[name] = f"{(datetime.fromisoformat(at) - by).isoformat()} {value}"
    file.write_text(json.dumps(content))


HELD: dict[str, tuple[Refuse, timedelta]] = {
    "a parameter": (member("max_tokens"), KEPT),
    "tools": (toolless, KEPT_LOSS),
    "the window of a server on this machine": (too_long, KEPT_LOCAL_WINDOW),
}


@pytest.mark.parametrize("what", HELD)
async def test_a_fact_is_tried_again_once_it_is_old(tmp_path: Path, what: str) -> None:
    refuse, kept = HELD[what]
    replies = [*PIECES, Reply("Done.")] if refuse is too_long else []
    server = Server(refuse, *replies * 4)
    async with stage(
        tmp_path, script=server, dialect="chat", files=LONG, config={}
    ) as it:
        await it.prompt("One")
        file = it.home / "state" / LEARNED_FILE
        assert file.stat().st_mode & 0o077 == 0
        for by, refused in ((kept * 0.9, 1), (kept * 0.2, 2), (timedelta(), 2)):
            aged(file, by)
            async with it.restarted() as later:
                assert await later.agent.prompt(
                    await later.agent.new_session(it.folder), "Two"
                ) == {"stopReason": "end_turn"}
            assert server.refused == refused


async def test_a_session_gets_its_tools_once_the_server_was_started_with_them(
    tmp_path: Path,
) -> None:
    server = Server(toolless)
    async with stage(tmp_path, script=server, dialect="chat", config={}) as it:
        for _ in range(2):
            assert await it.prompt() == {"stopReason": "end_turn"}
        assert str(it.agent.updates()).count("cannot read or change files") == 1
        assert server.refused == 1
        server.refuse = lambda body: None
        aged(it.home / "state" / LEARNED_FILE, KEPT_LOSS)
        assert await it.prompt() == {"stopReason": "end_turn"}
        assert it.server.calls[-1].body["tools"]


async def test_a_server_at_another_address_is_asked_anew(tmp_path: Path) -> None:
    server = Server(member("max_tokens"))
    async with stage(tmp_path, script=server, dialect="chat", config={}) as it:
        await it.prompt("One")
        config = it.home / "state" / "config.yaml"
        config.write_text(config.read_text().replace("127.0.0.1", "localhost"))
        async with it.restarted() as later:
            await later.agent.prompt(await later.agent.new_session(it.folder), "Two")
            assert server.refused == 2


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        '{"version": 99, "models": {}}',
        '{"version": 1, "models": {"local/x": 3}}',
    ],
)
async def test_a_file_that_cannot_be_read_is_left_alone_and_learning_goes_on(
    tmp_path: Path, content: str
) -> None:
    server = Server(member("max_tokens"))
    async with stage(tmp_path, script=server, dialect="chat", config={}) as it:
        file = it.home / "state" / LEARNED_FILE
        file.write_text(content)
        assert await it.prompt("One") == {"stopReason": "end_turn"}
        assert await it.agent.prompt(await it.agent.new_session(it.folder), "Two") == {
            "stopReason": "end_turn"
        }
        assert server.refused == 1
        assert file.read_text() == content

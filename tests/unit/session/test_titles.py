"""Titles from the cheap model: requested after a turn and never during one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from acp_agent.session.titles import _clean_title
from support.memory import stage
from support.models import Reply, Usage
from support.stage import Stage

SMALL: dict[str, Any] = {
    "small_model": "local/tiny",
    "models": {"local/tiny": {"prices": {"input": 1000, "output": 1000}}},
}
ENV = {"LOCAL_API_KEY": "test-key"}


async def listed(it: Stage) -> list[str]:
    """Return the titles in the list of sessions."""
    return [
        row.get("title")
        for row in (await it.agent.request("session/list", {}))["sessions"]
    ]


async def test_the_cheap_model_writes_the_title_once_after_the_first_turn(
    tmp_path: Path,
) -> None:
    replies = [
        Reply("It is mended."),
        Reply('"Total of the cart."\nAs you wanted.', usage=Usage(input=40, output=10)),
    ]
    async with stage(tmp_path, *replies, Reply("Yes."), config=SMALL, env=ENV) as it:
        await it.prompt("Mend the total\nof the cart, please")
        update = await it.update("session_info_update", title="Total of the cart")
        shown = [
            each["title"]
            for each in it.agent.updates(kind="session_info_update")
            if "title" in each
        ]
        assert shown == ["Mend the total of the cart, please", update["title"]]
        answered = next(
            line.index
            for line in it.agent.lines
            if line.label == "response session/prompt"
        )
        assert it.agent.lines[-1].index > answered
        assert await listed(it) == ["Total of the cart"]
        first, asked = (call.body for call in it.server.calls)
        assert asked["model"] == "tiny"
        assert not asked.get("tools")
        assert "Mend the total" in str(asked["messages"])
        assert "It is mended." in str(asked["messages"])
        assert first["model"] != "tiny"
        await it.prompt("And now?")
        assert it.agent.updates(kind="usage_update")[-1]["cost"][
            "amount"
        ] == pytest.approx(0.05)
        assert await listed(it) == ["Total of the cart"]
    assert len(it.server.calls) == 3


async def test_a_secret_in_the_prompt_is_in_no_title(tmp_path: Path) -> None:
    key = "sk-proj-" + "a1B2c3D4" * 6
    replies = [Reply("Set."), Reply(f"Setting {key} up")]
    async with stage(
        tmp_path, *replies, config=SMALL, env=ENV | {"SHOP_TOKEN": "quite-a-long-word"}
    ) as it:
        await it.prompt(f"Set {key} and quite-a-long-word in .env")
        await it.update("session_info_update", title="Setting *** up")
        shown = [
            each["title"]
            for each in it.agent.updates(kind="session_info_update")
            if "title" in each
        ]
        assert shown == ["Set *** and *** in .env", "Setting *** up"]
        assert await listed(it) == ["Setting *** up"]
        assert key not in str(it.server.calls[1].body)


async def test_a_command_in_the_terminals_chat_is_in_no_title(tmp_path: Path) -> None:
    ran = {"uri": "shell:git%20log", "text": "one commit", "mimeType": "text/plain"}
    async with stage(tmp_path, Reply("Yes.")) as it:
        await it.prompt(
            [
                {"type": "text", "text": "Is it there?"},
                {"type": "resource", "resource": ran},
            ]
        )
        assert await listed(it) == ["Is it there?"]


async def test_a_slow_title_delays_no_turn_and_yields_to_the_users_title(
    tmp_path: Path,
) -> None:
    slow = Reply(["A title", " too late"], hold=(hold := anyio.Event()), hold_after=1)
    async with stage(
        tmp_path,
        Reply("One."),
        slow,
        Reply("Two."),
        Reply("Three."),
        config=SMALL,
        env=ENV,
    ) as it:
        await it.prompt("Begin")
        await it.held()
        await it.prompt("Go on")
        await it.agent.request(
            "session/set_title", {"sessionId": it.session, "title": "Mine"}
        )
        hold.set()
        await it.prompt("Still there?")
        assert await listed(it) == ["Mine"]


async def test_no_title_is_requested_after_a_cancelled_turn_or_a_users_title(
    tmp_path: Path,
) -> None:
    hold = anyio.Event()
    named = list[str]()

    def script(body: Mapping[str, Any]) -> Reply:
        asked = str(body["messages"][-1]["content"])
        if body["model"] != "tiny":
            return (
                Reply(["A", "."], hold=hold, hold_after=1)
                if "the cart" in asked
                else Reply("Done.")
            )
        named.append(asked)
        return Reply(f"Title {len(named)}")

    async def title_elsewhere(it: Stage, title: str) -> None:
        """Return another session's title, which is requested later. Any earlier title
        request has been sent by then.
        """
        session = await it.agent.new_session(it.folder)
        await it.agent.prompt(session, "Something else", 30)
        await it.update("session_info_update", title=title)

    async with stage(
        tmp_path, script=script, dialect="anthropic", config=SMALL, env=ENV
    ) as it:
        turn = await it.agent.start_prompt(it.session, "Mend the cart")
        # If the turn was cancelled before its first word, its prompt would be sent
        # again with the next one, and held again.
        await it.update("agent_message_chunk")
        await it.agent.cancel(it.session)
        assert await turn.result(30) == {"stopReason": "cancelled"}
        await title_elsewhere(it, "Title 1")
        await it.prompt("Go on")
        await it.update("session_info_update", title="Title 2")
        assert ["Mend the cart" in each for each in named] == [False, True]
        mine = await it.agent.new_session(it.folder)
        turn = await it.agent.start_prompt(mine, "Name the cart")
        await it.server.wait_held(2, timeout=30)
        await it.agent.request(
            "session/set_title", {"sessionId": mine, "title": "Mine"}
        )
        hold.set()
        assert await turn.result(30) == {"stopReason": "end_turn"}
        await title_elsewhere(it, "Title 3")
        assert not any("Name the cart" in each for each in named)
        assert "Mine" in await listed(it)


@pytest.mark.parametrize(
    "reply",
    [Reply("** **"), Reply(http_status=400), Reply(http_status=500)],
    ids=["empty", "400", "500"],
)
async def test_a_failed_title_request_disturbs_nothing(
    tmp_path: Path, reply: Reply
) -> None:
    async with stage(
        tmp_path, Reply("One."), reply, Reply("Two."), config=SMALL, env=ENV
    ) as it:
        await it.prompt("Begin here")
        await it.server.wait_calls(2, timeout=30)
        heard = len(it.agent.lines)
        assert await it.prompt("Go on") == {"stopReason": "end_turn"}
        assert it.agent.text(since=heard) == "Two."
        assert await listed(it) == ["Begin here"]


@pytest.mark.parametrize(
    ("answer", "title"),
    [
        ("Cart totals", "Cart totals"),
        ("\n## **Title: Cart totals.**\n", "Cart totals"),
        ("„Summe des Warenkorbs“", "Summe des Warenkorbs"),
        ("title: `x`\nand more", "x"),
        (" ... \n", ""),
        ("", ""),
        ("w" * 90, "w" * 59 + "…"),
    ],
)
def test_decoration_around_a_models_title_is_removed(answer: str, title: str) -> None:
    assert _clean_title(answer) == title

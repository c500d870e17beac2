"""A provider refuses a request or cuts off an answer because the window is full. The
turn continues once, or explains why not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from acp_agent.session.turn.turn import GO_ON
from support.compactions import shown_compactions
from support.dialogues import check_legal, pieces, texts
from support.editors import ZED_BETA
from support.memory import stage
from support.replies import Reply, ToolCall, Usage
from support.stage import Stage

WINDOW = 40_000
USABLE = 30_000
LONG = "The cart adds prices. " * 900
"""About 5,000 tokens."""
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
Script = Callable[[Mapping[str, Any]], Reply]


def at(
    tmp_path: Path, *replies: Reply, script: Script | None = None, window: int = WINDOW
) -> Any:
    """Return a session with a known window and without background summaries."""
    return stage(
        tmp_path,
        *replies,
        script=script,
        editor=ZED_BETA,
        config={"compaction": {"prepare": False}},
        env={"ACP_AGENT_CONTEXT_WINDOW": str(window)},
        dialect="anthropic",
    )


async def talk(it: Stage, turns: int) -> None:
    """Run turns before the turn that is tested."""
    for turn in range(1, turns + 1):
        assert await it.prompt(f"Question {turn}?") == {"stopReason": "end_turn"}
    assert shown_compactions(it.agent) == []


def images(body: Mapping[str, Any]) -> int:
    """Return the number of images in a request."""
    return sum(
        block["type"] == "image"
        for message in body["messages"]
        for block in message["content"]
    )


def pictures(count: int, text: str) -> list[dict[str, Any]]:
    """Return a prompt with images."""
    image = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
    return [*([image] * count), {"type": "text", "text": text}]


@pytest.mark.parametrize(
    ("stop", "used"),
    [("model_context_window_exceeded", WINDOW), ("max_tokens", int(USABLE * 0.96))],
    ids=[
        "the window is full",
        "the limit of the answer, in a window that is nearly full",
    ],
)
async def test_an_answer_cut_off_by_a_full_window_is_continued(
    tmp_path: Path, stop: str, used: int
) -> None:
    broken = ToolCall("shell", '{"command": "touch ran; rm -')

    def answer(body: Mapping[str, Any]) -> Reply:
        if texts(body)[-1] == "Tell me.":
            return Reply(
                "The first ha",
                tool_calls=[broken],
                stop=stop,
                usage=Usage(used - 100, 100),
            )
        return Reply("lf, and the second." if texts(body)[-1] == GO_ON else LONG)

    async with at(tmp_path, script=answer) as it:
        await talk(it, 3)
        begun = len(it.agent.lines)
        assert await it.prompt("Tell me.") == {"stopReason": "end_turn"}
        assert (
            it.agent.text(since=begun).replace("\n", "")
            == "The first half, and the second."
        )
        last = it.server.calls[-1].body
        assert [piece.text for piece in pieces(last)[-3:]] == [
            "Tell me.",
            "The first ha",
            GO_ON,
        ]
        assert "<recorded_excerpts>" in "".join(texts(last))
        assert texts(last, "call") == []
        check_legal(last)
        [compaction] = shown_compactions(it.agent)
        assert compaction.statuses == ["in_progress", "completed"]
        # What the program asked of the model is no word of the user's, neither now nor
        # when the session is loaded.
        async with it.restarted() as later:
            await later.agent.load(it.session, it.folder)
            assert (
                later.agent.text()
                .replace("\n", "")
                .endswith("The first half, and the second.")
            )
            shown = [
                line
                for agent in (it.agent, later.agent)
                for line in agent.lines
                if line.update_kind
            ]
            assert shown
            assert not any(GO_ON[:60] in str(line.message) for line in shown)


async def test_images_that_a_provider_refuses_become_lines_of_text(
    tmp_path: Path,
) -> None:
    def answer(body: Mapping[str, Any]) -> Reply:
        if images(body) > 20:
            error = {
                "type": "invalid_request_error",
                "message": "too many images and documents: 30 + 0 > 20",
            }
            return Reply(http_status=400, body={"type": "error", "error": error})
        return Reply("Seen.")

    async with at(tmp_path, script=answer, window=200_000) as it:
        assert await it.prompt(pictures(15, "Old ones.")) == {"stopReason": "end_turn"}
        assert await it.prompt(pictures(10, "New ones.")) == {"stopReason": "end_turn"}
        first, refused, again = [call.body for call in it.server.calls]
        assert (images(first), images(refused), images(again)) == (15, 25, 12)
        assert sum("image left out" in text for text in texts(again)) == 13
        assert texts(again)[-11:-1] == ["[image]"] * 10
        assert len(shown_compactions(it.agent)) == 1

"""What a prompt may be made of: nothing, text, links, files, pictures, very much, and
slash commands among them.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from support.editors import TOAD, ZED_BETA
from support.mcp import mcp_program, ready
from support.memory import stage
from support.replies import Reply, ToolCall
from support.stage import conversation, results

PNG = base64.b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489"
        "0000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082"
    )
).decode()
BLOCKS: list[dict[str, Any]] = [
    {
        "type": "resource_link",
        "uri": "file:///shop/b.py",
        "name": "b.py",
        "size": 12,
        "title": None,
    },
    {
        "type": "resource",
        "resource": {
            "uri": "file:///shop/c.py",
            "text": "c = 1",
            "mimeType": "text/x-python",
        },
    },
    {
        "type": "resource",
        "resource": {
            "uri": "file:///shop/d.bin",
            "blob": "AAEC",
            "mimeType": "application/x-d",
        },
    },
    {
        "type": "image",
        "data": PNG,
        "mimeType": "image/png",
        "uri": "file:///shop/e.png",
    },
]


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


async def test_an_empty_prompt_is_answered_without_a_model_call(tmp_path: Path) -> None:
    async with stage(tmp_path) as it:
        for prompt in ([], [text("")], [text(" \n\t ")], [text(" "), text("")]):
            assert await it.prompt(prompt) == {"stopReason": "end_turn"}
        assert it.server.calls == []
        assert it.agent.updates(kind="agent_message_chunk") == []


async def test_links_files_and_pictures_reach_the_model_and_come_back_with_load(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path, Reply("I see."), editor=TOAD, dialect="anthropic") as it:
        prompt = [
            text("Compare "),
            BLOCKS[0],
            text(" with "),
            *BLOCKS[1:],
            {"_meta": {"x": 1}, **text("please")},
        ]
        assert await it.prompt(prompt) == {"stopReason": "end_turn"}
        message = it.server.calls[0].body["messages"][-1]
        pictures = [block for block in message["content"] if block["type"] == "image"]
        assert [picture["source"]["data"] for picture in pictures] == [PNG]
        words = str(message["content"])
        for word in ("Compare", "b.py", "c = 1", "c.py", "d.bin", "please"):
            assert word in words
        async with it.restarted() as later:
            await later.agent.load(it.session, it.folder)
            shown = [
                update["content"]
                for update in later.agent.updates(kind="user_message_chunk")
            ]
            assert [block["type"] for block in shown] == [
                block["type"] for block in prompt
            ]
            assert shown[3]["resource"] == BLOCKS[1]["resource"]
            assert shown[5]["uri"] == BLOCKS[3]["uri"]


async def test_bytes_that_an_editor_took_for_text_reach_the_model_as_a_link(
    tmp_path: Path,
) -> None:
    bytes_as_text = base64.b64decode(PNG).decode(errors="replace")
    uri = "file:///shop/a%20b.png"
    picture = {
        "type": "resource",
        "resource": {"uri": uri, "text": bytes_as_text, "mimeType": "image/png"},
    }
    odd = {
        "type": "resource",
        "resource": {
            "uri": "file:///shop/odd.txt",
            "text": "nul \0",
            "mimeType": "text/plain",
        },
    }
    async with stage(tmp_path, Reply("I see."), editor=TOAD, dialect="anthropic") as it:
        assert await it.prompt([text("What is on @a b.png?"), picture, odd]) == {
            "stopReason": "end_turn"
        }
        words = str(it.server.calls[0].body["messages"][-1]["content"])
        assert "[link: a b.png | file:///shop/a%20b.png | image/png]" in words
        assert "IHDR" not in words
        assert "nul " in words
        async with it.restarted() as later:
            await later.agent.load(it.session, it.folder)
            shown = [
                update["content"]
                for update in later.agent.updates(kind="user_message_chunk")
            ]
            assert [block["type"] for block in shown] == [
                "text",
                "resource_link",
                "resource",
            ]
            assert shown[1]["uri"] == uri


@pytest.mark.parametrize(
    "before", [BLOCKS[1:2], BLOCKS[3:], [text("")], [text(" \n"), *BLOCKS, text("")]]
)
async def test_a_slash_command_is_understood_with_other_blocks_in_front_of_it(
    tmp_path: Path, before: list[dict[str, Any]]
) -> None:
    replies = [
        Reply("A long story. " * 200),
        Reply("It prints."),
        Reply("# Goal\nTo see what the shop prints."),
    ]
    attached = [block for block in before if block["type"] != "text"]
    async with stage(tmp_path, *replies, editor=ZED_BETA) as it:
        await it.prompt("Tell me. " * 200)
        heard = len(it.agent.lines)
        assert await it.prompt([*before, text("/help")]) == {"stopReason": "end_turn"}
        assert "`/compact" in it.agent.text(since=heard)
        assert await it.prompt([*before, text("/explain the loop")]) == {
            "stopReason": "end_turn"
        }
        asked = it.server.calls[1].body["input"][-1]["content"]
        assert "the loop" in str(asked)
        assert "/explain" not in str(asked)
        assert ("c = 1" in str(asked)) is (BLOCKS[1] in attached)
        assert await it.prompt([*before, text("/compact keep names")]) == {
            "stopReason": "end_turn"
        }
        statuses = [
            update["status"] for update in it.agent.updates(kind="compaction_update")
        ]
        assert statuses == ["in_progress", "completed"]
        assert it.server.calls[2].mentions("keep names")


async def test_a_link_that_nothing_can_open_is_named_so_to_the_user_and_to_the_model(
    tmp_path: Path,
) -> None:
    server = mcp_program(
        tmp_path,
        "notes",
        resources=[{"uri": "note://1", "name": "one"}],
        contents={"note://1": "The first note."},
    )
    terminal = "zed:///agent/terminal-selection?lines=4"
    links = {
        "Terminal (4 lines)": terminal,
        "Untitled": "untitled:Untitled-1",
        "one": "note://1",
        "two": "note://2",
        "a file": (tmp_path / "a.py").as_uri(),
        "a page": "https://example.com/",
        "a path": "src/a.py",
    }
    blocks: list[dict[str, Any]] = [{"type": "text", "text": "Look."}]
    blocks += [
        {"type": "resource_link", "uri": uri, "name": name}
        for name, uri in links.items()
    ]
    calls = [
        ToolCall("read", {"path": terminal}),
        ToolCall("list", {"path": "vscode:/a"}),
    ]
    async with stage(
        tmp_path,
        Reply(tool_calls=calls),
        Reply("I see."),
        Reply("Still."),
        mcp=[server.entry],
    ) as it:
        await ready(it, "notes")
        assert await it.prompt(blocks) == {"stopReason": "end_turn"}
        told = json.dumps(conversation(it.server.calls[0].body))
        for name in ("Terminal (4 lines)", "Untitled", "two"):
            assert (
                f"{name} | {links[name]} | cannot be read: no tool opens addresses of"
                in told
            )
            assert f"The link '{name}' cannot be read" in it.agent.text()
        assert (
            told.count("cannot be read") == it.agent.text().count("cannot be read") == 3
        )
        first, second = results(it.server.calls[1].body)
        assert "is an address (zed:) and not a file" in first.text
        assert "is an address (vscode:) and not a file" in second.text
        # A loaded session shows the user the original link.
        await it.agent.load(it.session, it.folder)
        shown = it.agent.updates(kind="user_message_chunk")
        assert "cannot be read" not in json.dumps(shown)

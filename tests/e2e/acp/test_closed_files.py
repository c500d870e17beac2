"""Files that `sandbox.read_deny` names, and keys in the user's home, for tools, prompts
and instructions.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from support.client import AgentError
from support.memory import stage
from support.pictures import png
from support.replies import Reply, ToolCall
from support.stage import Stage, results

SECRET = "hunter2-private-key"
CONFIG = {"sandbox": {"read_deny": ["closed", "notes/secret.txt", "~/vault"]}}
FILES = {
    "a.txt": "harmless\n",
    "closed/key": f"{SECRET}\n",
    "closed/deep/key": f"{SECRET}\n",
    "notes/secret.txt": f"{SECRET}\n",
    "notes/open.txt": "harmless\n",
}


def asked(it: Stage) -> list[str]:
    return [str(params["toolCall"]["title"]) for params in it.agent.desk.permissions]


def read(it: Stage) -> list[str]:
    return [result.text for result in results(it.server.calls[-1].body)]


@pytest.mark.parametrize("mode", ["ask", "full-access"])
async def test_no_tool_reads_or_changes_what_the_settings_close_in_any_mode(
    tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "user" / "vault").mkdir(parents=True)
    (tmp_path / "user" / "vault" / "key").write_text(SECRET)
    calls = [
        ToolCall("read", {"path": "closed/key"}),
        ToolCall("read", {"path": "notes/secret.txt"}),
        ToolCall("read", {"path": "link/key"}),
        ToolCall("read", {"path": "~/vault/key"}),
        ToolCall("grep", {"path": "closed", "pattern": "."}),
        ToolCall("grep", {"path": "notes/secret.txt", "pattern": "."}),
        ToolCall("glob", {"path": "closed", "pattern": "*"}),
        ToolCall("list", {"path": "closed/deep"}),
        ToolCall("write", {"path": "closed/new", "content": "x"}),
        ToolCall(
            "edit",
            {"path": "closed/key", "edits": [{"old_text": "h", "new_text": "x"}]},
        ),
    ]
    searches = [
        ToolCall("grep", {"pattern": "."}),
        ToolCall("grep", {"path": str(tmp_path / "user"), "pattern": "."}),
        ToolCall("glob", {"pattern": "**/key"}),
        ToolCall("glob", {"pattern": "closed/key"}),
    ]
    replies = Reply(tool_calls=[*calls, *searches]), Reply("Done.")
    async with stage(tmp_path, *replies, config=CONFIG, files=FILES, mode=mode) as it:
        monkeypatch.setenv("HOME", str(tmp_path / "user"))
        (it.folder / "link").symlink_to("closed")
        await it.prompt()
        refused = read(it)[: len(calls)]
        found = read(it)[len(calls) :]
        assert all(
            "is closed to all tools by `sandbox.read_deny`" in text for text in refused
        )
        assert SECRET not in "".join(found)
        assert "notes/open.txt" in found[0]
        assert [text.splitlines()[0] for text in found[2:]] == ["No file matches."] * 2
        assert not (it.folder / "closed" / "new").exists()


@pytest.mark.parametrize("kind", ["resource", "image", "blob"])
async def test_a_file_that_the_settings_close_is_not_sent_with_a_prompt(
    tmp_path: Path, kind: str
) -> None:
    async with stage(tmp_path, Reply("Done."), config=CONFIG, files=FILES) as it:
        uri = (it.folder / "closed" / "key").as_uri()
        data = base64.b64encode(png()).decode()
        blocks: dict[str, dict[str, Any]] = {
            "resource": {
                "type": "resource",
                "resource": {"uri": f"{uri}#L1:2", "text": SECRET},
            },
            "blob": {
                "type": "resource",
                "resource": {"uri": uri, "blob": data, "mimeType": "image/png"},
            },
            "image": {
                "type": "image",
                "data": data,
                "mimeType": "image/png",
                "uri": uri,
            },
        }
        with pytest.raises(
            AgentError,
            match=r"`sandbox.read_deny` does not let models read closed/key\. Nothing was sent",
        ):
            await it.prompt([{"type": "text", "text": "Look."}, blocks[kind]])
        assert it.server.calls == []
        other = {
            "type": "resource",
            "resource": {"uri": (it.folder / "a.txt").as_uri(), "text": "harmless"},
        }
        await it.prompt([{"type": "text", "text": "Look."}, other])
        assert "harmless" in json.dumps(it.server.calls[0].body)


async def test_a_mention_of_a_file_that_the_settings_close_is_a_name_that_no_tool_opens(
    tmp_path: Path,
) -> None:
    replies = (
        Reply(tool_calls=[ToolCall("read", {"path": "closed/key"})]),
        Reply("Done."),
    )
    async with stage(tmp_path, *replies, config=CONFIG, files=FILES) as it:
        link = {
            "type": "resource_link",
            "uri": (it.folder / "closed" / "key").as_uri(),
            "name": "key",
        }
        await it.prompt([{"type": "text", "text": "Look at "}, link])
        assert "is closed to all tools" in read(it)[0]
        assert SECRET not in json.dumps(it.server.calls[-1].body)


async def test_instructions_that_the_settings_close_are_not_read(
    tmp_path: Path,
) -> None:
    files = {"AGENTS.md": SECRET, "CLAUDE.md": "Use tabs."}
    config = {"sandbox": {"read_deny": ["AGENTS.md"]}}
    async with stage(tmp_path, Reply("Done."), config=config, files=files) as it:
        await it.prompt()
        request = json.dumps(it.server.calls[0].body)
        assert "Use tabs." in request
        assert SECRET not in request


async def test_keys_in_the_home_are_asked_for_even_where_the_home_is_the_session_s_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        ".ssh/id_rsa": f"{SECRET}\n",
        ".netrc": f"{SECRET}\n",
        "a.txt": "harmless\n",
    }
    calls = [
        ToolCall("grep", {"pattern": "."}),
        ToolCall("list", {"path": ".", "depth": 3}),
        ToolCall("read", {"path": "a.txt"}),
        ToolCall("read", {"path": ".ssh/id_rsa"}),
        ToolCall("read", {"path": ".netrc"}),
        ToolCall("list", {"path": ".ssh"}),
    ]
    async with stage(
        tmp_path,
        Reply(tool_calls=calls),
        Reply("Done."),
        files=files,
        mode="accept-edits",
    ) as it:
        monkeypatch.setenv("HOME", str(it.folder))
        it.agent.permission_answer = "reject_once"
        await it.prompt()
        assert [title.partition(" (")[0] for title in asked(it)] == [
            "Read .ssh/id_rsa",
            "Read .netrc",
            "List .ssh",
        ]
        assert SECRET not in "".join(read(it))
        assert "id_rsa" not in read(it)[1]
        assert "harmless" in read(it)[2]


async def test_a_session_in_a_folder_of_another_agent_s_works_as_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "project"))
    files = {
        ".claude/worktrees/one/a.txt": "harmless\n",
        ".claude/settings.json": SECRET,
    }
    calls = [ToolCall("read", {"path": "a.txt"}), ToolCall("grep", {"pattern": "."})]
    async with stage(
        tmp_path, Reply(tool_calls=calls), Reply("Done."), files=files
    ) as it:
        session = await it.agent.new_session(
            it.folder / ".claude" / "worktrees" / "one"
        )
        await it.agent.prompt(session, "Go on", 30)
        assert asked(it) == []
        assert ["harmless" in text for text in read(it)] == [True, True]

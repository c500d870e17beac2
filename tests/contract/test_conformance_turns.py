"""What an editor may rely on from the first line to the end of a turn."""

from __future__ import annotations

from pathlib import Path

from support.client import connected_agent
from support.editors import BARE
from support.replies import Reply, ToolCall
from support.stage import results, stage

REQUIRED_CAPABILITIES = {"loadSession", "promptCapabilities", "mcpCapabilities", "sessionCapabilities"}
AGENT_CAPABILITIES = REQUIRED_CAPABILITIES | {"auth", "providers", "_meta"}
ASK = ToolCall("ask_user", {"questions": [{"question": "Which?", "options": [{"label": "One"}, {"label": "Two"}]}]})


async def test_the_agent_says_who_it_is_and_what_it_can_do(tmp_path: Path) -> None:
    async with connected_agent(home=tmp_path) as agent:
        said = agent.initialized
        assert said["agentInfo"]["name"] == "acp-agent"
        assert said["agentInfo"]["version"]
        capabilities = said["agentCapabilities"]
        assert REQUIRED_CAPABILITIES <= capabilities.keys() <= AGENT_CAPABILITIES
        assert capabilities["loadSession"] is True
        assert {"list", "resume", "close", "delete"} <= capabilities["sessionCapabilities"].keys()


async def test_a_client_that_offers_nothing_is_asked_for_nothing_and_its_turn_is_done(tmp_path: Path) -> None:
    calls = [
        ToolCall("read", {"path": "a.txt"}),
        ToolCall("write", {"path": "new.txt", "content": "New."}),
        ToolCall("shell", {"command": "echo done"}),
        ASK,
    ]
    async with stage(tmp_path, Reply(tool_calls=calls), Reply("Done."), editor=BARE) as it:
        assert await it.prompt() == {"stopReason": "end_turn"}
        assert await it.prompt("/compact") == {"stopReason": "end_turn"}
        assert (it.folder / "new.txt").read_text() == "New."
        asked = [line for line in it.agent.lines if line.kind == "request"]
        assert {line.method for line in asked} == {"session/request_permission"}
        assert all(type(line.message["id"]) in (int, str) for line in asked)
        told = {line.method for line in it.agent.lines if line.kind == "notification"}
        assert told <= {"session/update", "$/cancel_request"}
        kinds = {line.update_kind for line in it.agent.lines if line.update}
        assert not kinds & {"notice", "compaction_update", "compaction_summary_chunk"}
        assert {option["type"] for option in it.agent.opened[it.session]["configOptions"]} == {"select"}
        assert {method.get("type", "agent") for method in it.agent.initialized["authMethods"]} == {"agent"}


async def test_paths_are_absolute_and_lines_count_from_one(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "a.txt").write_text("wrong\n")
    calls = [
        ToolCall("read", {"path": "a.txt", "offset": 1, "limit": 1}),
        ToolCall("edit", {"path": "a.txt", "edits": [{"old_text": "one", "new_text": "1"}]}),
        ToolCall("shell", {"command": "pwd"}),
    ]
    async with stage(
        tmp_path,
        *(Reply(tool_calls=[call]) for call in calls),
        Reply("Done."),
        mode="full-access",
        cwd=elsewhere,
    ) as it:
        await it.prompt()
        assert (it.folder / "a.txt").read_text() == "1\ntwo\nthree\n"
        assert (elsewhere / "a.txt").read_text() == "wrong\n"
        [first] = results(it.server.calls[1].body)
        assert "one" in first.text
        assert str(it.folder) in results(it.server.calls[3].body)[-1].text
        requests = [line.params for line in it.agent.lines if line.kind == "request"]
        shown = [params[key] for params in requests for key in ("path", "cwd") if key in params]
        places = [place for line in it.agent.lines for place in line.update.get("locations") or ()]
        diffs = [each for call in it.calls() for each in call["content"] if each["type"] == "diff"]
        paths = [*shown, *(place["path"] for place in places), *(diff["path"] for diff in diffs)]
        assert str(it.folder / "a.txt") in paths
        assert len(diffs) == 1
        assert all(Path(path).is_absolute() for path in paths)
        lines = [place["line"] for place in places if place.get("line") is not None]
        assert lines
        assert min(lines) == 1

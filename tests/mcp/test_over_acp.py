"""MCP servers that the editor is itself: over the connection that is there, and otherwise as all others."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from support.client import AgentError, start_agent
from support.editors import ZED_BETA
from support.lines import Line
from support.mcp import logged, ready, says, tool
from support.mcp_editor import ABOUT, VERSION, EditorServer, provide
from support.models import model_server
from support.replies import Reply, ToolCall
from support.second import second_agent
from support.serving import never_answer
from support.stage import Stage, results, stage

LOOK = tool("look", inputSchema={"type": "object", "properties": {"at": {"type": "string"}}})


async def opened(it: Stage, *servers: EditorServer) -> str:
    """A session with these servers, which the editor provides."""
    provide(it.agent, *servers)
    return await it.agent.new_session(it.folder, mcpServers=[server.entry for server in servers])


def _asks(line: Line) -> bool:
    return line.kind == "request" and line.method == "mcp/message"


async def listed(it: Stage, server: EditorServer, times: int) -> None:
    """Wait until the agent knows the server's tools as of so many listings."""
    await it.agent.until(lambda: [method for method, _ in server.got].count("tools/list") == times, 10)
    await it.agent.until(lambda: "tools/list" not in server.active.values(), 10)


def offered(it: Stage, call: int) -> list[str]:
    """The names of the tools of MCP servers that the model was told of."""
    tools = json.loads(json.dumps(it.server.calls[call].body["tools"]))
    names = [each.get("name") or each["function"]["name"] for each in tools]
    return [name for name in names if name.startswith("mcp__")]


async def test_tools_prompts_and_resources_of_the_editor_are_used_as_those_of_any_server(tmp_path: Path) -> None:
    desk = EditorServer(
        "desk",
        tools=[LOOK],
        prompts=[{"name": "tidy", "arguments": [{"name": "what", "required": True}]}],
        resources=[{"uri": "desk://note", "name": "note"}],
        results={
            "look": says("A lamp."),
            "tidy": {"messages": [{"role": "user", "content": {"type": "text", "text": "Tidy the drawer."}}]},
            "desk://note": {
                "contents": [{"uri": "desk://note", "text": "Buy ink."}],
                "ttlMs": 0,
                "cacheScope": "private",
            },
        },
    )
    replies = [Reply(tool_calls=[ToolCall("mcp__desk__look", {"at": "top"})]), Reply("I see."), Reply("Done.")]
    async with stage(tmp_path, *replies, Reply("Noted."), mode="full-access") as it:
        assert it.agent.initialized["agentCapabilities"]["mcpCapabilities"]["acp"] is True
        session = await opened(it, desk)
        await ready(it, "desk")
        assert await it.agent.prompt(session, "Look", 30) == {"stopReason": "end_turn"}
        assert offered(it, 0) == ["mcp__desk__look"]
        assert desk.calls() == [{"name": "look", "arguments": {"at": "top"}}]
        assert [result.text for result in results(it.server.calls[1].body)] == ["A lamp."]
        # Another tool comes, and is there in the next turn.
        desk.lists["tools"] = [LOOK, tool("clean")]
        desk.lists["prompts"] = [*desk.lists["prompts"], {"name": "sort"}]
        heard = len(it.agent.lines)
        await desk.changed("tools")
        await it.agent.wait_update("available_commands_update", session, since=heard, timeout=10)
        assert await it.agent.prompt(session, "/mcp:desk:tidy drawer", 30) == {"stopReason": "end_turn"}
        assert offered(it, 2) == ["mcp__desk__look", "mcp__desk__clean"]
        assert "Tidy the drawer." in json.dumps(it.server.calls[2].body)
        assert await it.agent.prompt(session, "Do @desk:desk://note", 30) == {"stopReason": "end_turn"}
        assert "Buy ink." in json.dumps(it.server.calls[3].body)
        # With the session it is let go, and nothing is asked of it any more.
        assert list(desk.active.values()) == ["subscriptions/listen"]
        await it.agent.request("session/close", {"sessionId": session})
        await it.agent.until(lambda: not desk.active, 10)
        asked = len(desk.got)
        await it.agent.request("session/list", {})
        assert len(desk.got) == asked


async def test_servers_that_are_gone_mute_or_wrong_are_told_of_and_the_session_works(tmp_path: Path) -> None:
    async def older(message: Mapping[str, Any]) -> Any:
        return {"error": {"code": -32022, "message": "Unsupported", "data": {"supported": ["2025-06-18"]}}}

    async def nonsense(message: Mapping[str, Any]) -> Any:
        return {"neither": 1}

    good, old, odd, mute, gone = (EditorServer(name, tools=[LOOK]) for name in ("good", "old", "odd", "mute", "gone"))
    old.handlers["server/discover"] = older
    odd.handlers["server/discover"] = nonsense
    mute.handlers["server/discover"] = never_answer
    gone.there = False
    async with stage(tmp_path, Reply("One."), Reply("Two."), editor=ZED_BETA) as it:
        session = await opened(it, gone, old, odd, mute, good)
        for name in ("gone", "old", "odd"):
            await logged(it, f"MCP server {name} could not be started")
        assert await it.agent.prompt(session, "Go on", 30) == {"stopReason": "end_turn"}
        assert offered(it, 0) == ["mcp__good__look"]
        told = json.dumps(it.agent.updates(kind="notice"))
        assert "'gone' could not be started: the editor does not have it" in told
        assert "'old' could not be started: " in told
        assert "'odd' could not be started: what the editor answered for it is not what the protocol says" in told
        assert "'mute' is not ready yet" in told
        assert "'good'" not in told
        # One that comes back is there with the next prompt.
        gone.there = True
        assert await it.agent.prompt(session, "And now?", 30) == {"stopReason": "end_turn"}
        await ready(it, "gone")
        await gone.listened_to()


async def test_an_odd_tool_of_the_editors_is_left_out_and_the_others_stay(tmp_path: Path) -> None:
    desk = EditorServer("desk", tools=[LOOK, {"name": "odd"}])
    async with stage(tmp_path, Reply("Done."), editor=ZED_BETA) as it:
        session = await opened(it, desk)
        await ready(it, "desk")
        assert await it.agent.prompt(session, "Look", 30) == {"stopReason": "end_turn"}
        assert offered(it, 0) == ["mcp__desk__look"]
        [notice] = it.agent.updates(session, "notice")
        assert "'desk': its tool 'odd' is left out" in notice["title"]


async def test_an_editor_that_names_a_server_and_cannot_be_asked_is_told_so(tmp_path: Path) -> None:
    async with stage(tmp_path, Reply("One.")) as it:
        desk = EditorServer("desk")
        session = await it.agent.new_session(it.folder, mcpServers=[desk.entry])
        await logged(it, "MCP server desk could not be started")
        assert await it.agent.prompt(session, "Go on", 30) == {"stopReason": "end_turn"}
        assert "the editor names it, and does not know mcp/message" in it.agent.text()


async def test_a_server_that_goes_during_a_call_fails_that_call_and_is_connected_to_anew(tmp_path: Path) -> None:
    desk = EditorServer("desk", tools=[LOOK], results={"look": says("A lamp.")})
    call = Reply(tool_calls=[ToolCall("mcp__desk__look")])
    async with stage(tmp_path, call, Reply("Oh."), call, Reply("I see."), mode="full-access") as it:

        async def vanish(message: Mapping[str, Any]) -> Any:
            del desk.handlers["tools/call"]
            raise AgentError(-33001, "MCP server registration unavailable")

        desk.handlers["tools/call"] = vanish
        session = await opened(it, desk)
        await ready(it, "desk")
        await it.agent.prompt(session, "Look", 30)
        [failed] = results(it.server.calls[1].body)
        assert "'desk' ended during this call" in failed.text
        await it.agent.prompt(session, "Again", 30)
        assert [result.text for result in results(it.server.calls[3].body)] == ["A lamp."]


async def test_a_refused_call_is_the_servers_own_words_and_does_not_end_it(tmp_path: Path) -> None:
    desk = EditorServer("desk", tools=[LOOK])
    look = Reply(tool_calls=[ToolCall("mcp__desk__look")])
    async with stage(tmp_path, look, Reply("Oh."), mode="full-access", editor=ZED_BETA) as it:

        async def refuse(message: Mapping[str, Any]) -> Any:
            return {"error": {"code": -32000, "message": "no lamp today"}}

        desk.handlers["tools/call"] = refuse
        session = await opened(it, desk)
        await it.agent.set_mode(session, "full-access")
        await ready(it, "desk")
        await it.agent.prompt(session, "Look", 30)
        [refused] = results(it.server.calls[1].body)
        assert refused.text == "The MCP server 'desk' has not answered this call: no lamp today."
        assert [method for method, _ in desk.got].count("server/discover") == 1


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (AgentError(-33000, "limit"), "the editor is asked too much of it at a time."),
        ({"result": {"resultType": "complete", **says("A lamp.")}, "error": {"code": 1, "message": "m"}}, "A lamp."),
        ({"error": {"code": 1.5, "message": "m"}}, "what the editor answered for it is not what the protocol says."),
        ({"result": 5}, "what it answered is not what the protocol says."),
    ],
)
async def test_what_the_editor_answers_for_its_server_is_told_as_what_it_is(
    tmp_path: Path, answer: Any, told: str
) -> None:
    desk = EditorServer("desk", tools=[LOOK])
    look = Reply(tool_calls=[ToolCall("mcp__desk__look")])
    async with stage(tmp_path, look, Reply("Oh."), mode="full-access", editor=ZED_BETA) as it:

        async def handle(message: Mapping[str, Any]) -> Any:
            if isinstance(answer, Exception):
                raise answer
            return answer

        desk.handlers["tools/call"] = handle
        session = await opened(it, desk)
        await it.agent.set_mode(session, "full-access")
        await ready(it, "desk")
        await it.agent.prompt(session, "Look", 30)
        [result] = results(it.server.calls[1].body)
        assert result.text.endswith(told)
        # What it says of a request that is answered comes too late, and harms nothing.
        [line] = [line for line in it.agent.lines if _asks(line) and line.params["method"] == "tools/call"]
        await desk.says(line.params["requestId"], "notifications/progress", {"progressToken": 1, "progress": 1})
        await it.agent.request("session/list", {})
        assert "failed inside" not in await logged(it, "is ready")


async def test_always_covers_a_tool_of_that_very_server_of_the_editors(tmp_path: Path) -> None:
    mine, other = EditorServer("desk", tools=[tool("put")]), EditorServer("desk", tools=[tool("put")])
    renamed = EditorServer("board", tools=[tool("put")])
    other.server_id, renamed.server_id = "another", mine.server_id

    def script(body: Any) -> Reply:
        if body["input"][-1].get("type") == "function_call_output":
            return Reply("Done.")
        return Reply(tool_calls=[ToolCall(each["name"]) for each in body["tools"] if each["name"].endswith("__put")])

    async with stage(tmp_path, script=script, editor=ZED_BETA) as it:

        async def put(message: Mapping[str, Any]) -> Any:
            return {"result": {"resultType": "complete", **says("Put.")}}

        it.agent.permission_answer = "allow_always"
        for server, asked in ((mine, 1), (mine, 1), (other, 2), (renamed, 3)):
            server.handlers["tools/call"] = put
            session = await opened(it, server)
            assert await it.agent.prompt(session, "Put it", 30) == {"stopReason": "end_turn"}
            assert len(it.agent.desk.permissions) == asked


async def test_a_subscription_that_ends_is_asked_for_again_and_what_was_missed_is_read(tmp_path: Path) -> None:
    desk = EditorServer("desk", tools=[LOOK])
    reload = anyio.Event()
    usual = desk.listen

    async def listen(message: Mapping[str, Any]) -> Any:
        del desk.handlers["subscriptions/listen"]
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(usual, message["requestId"], message["params"])
            await reload.wait()
            tasks.cancel_scope.cancel()
        desk.lists["tools"] = [LOOK, tool("more")]
        return {"result": {"resultType": "complete"}}

    desk.handlers["subscriptions/listen"] = listen
    async with stage(tmp_path, Reply("One."), editor=ZED_BETA) as it:
        session = await opened(it, desk)
        await ready(it, "desk")
        await listed(it, desk, 2)
        reload.set()
        await desk.listened_to(2)
        await listed(it, desk, 3)
        await it.agent.prompt(session, "Look", 30)
        assert offered(it, 0) == ["mcp__desk__look", "mcp__desk__more"]


async def test_a_list_that_changes_before_anybody_listens_is_listed_again(tmp_path: Path) -> None:
    desk = EditorServer("desk", tools=[LOOK])

    async def list_tools(message: Mapping[str, Any]) -> Any:
        before = desk.lists["tools"]
        desk.lists["tools"] = [LOOK, tool("late")]
        return {"result": {"resultType": "complete", "tools": before, "ttlMs": 0, "cacheScope": "private"}}

    desk.handlers["tools/list"] = list_tools
    async with stage(tmp_path, Reply("One."), editor=ZED_BETA) as it:
        session = await opened(it, desk)
        await listed(it, desk, 2)
        await it.agent.prompt(session, "Look", 30)
        assert offered(it, 0) == ["mcp__desk__look", "mcp__desk__late"]


async def test_a_server_that_says_more_than_is_taken_loses_how_far_it_is_and_no_change_of_a_list(
    tmp_path: Path,
) -> None:
    desk = EditorServer("desk", tools=[LOOK], prompts=[])
    async with stage(tmp_path, Reply(tool_calls=[ToolCall("mcp__desk__look")]), Reply("Oh."), editor=ZED_BETA) as it:

        async def flood(message: Mapping[str, Any]) -> Any:
            token = message["params"]["_meta"]["progressToken"]
            for done in range(3_000):
                progress = {"progressToken": token, "progress": done, "total": 3_000}
                await desk.says(message["requestId"], "notifications/progress", progress)
            desk.lists["prompts"] = [{"name": "tidy"}]
            await desk.changed("prompts")
            return {"result": {"resultType": "complete", **says("A lamp.")}}

        desk.handlers["tools/call"] = flood
        session = await opened(it, desk)
        await it.agent.set_mode(session, "full-access")
        await ready(it, "desk")
        await desk.listened_to()
        await it.agent.prompt(session, "Look", 30)
        log = await logged(it, "says too much at a time")
        assert log.count("says too much at a time") == 1
        await it.agent.until(lambda: "mcp:desk:tidy" in json.dumps(it.agent.updates(kind="available_commands_update")))


async def test_a_call_shows_how_far_it_is_and_is_taken_back_with_the_turn(tmp_path: Path) -> None:
    desk = EditorServer("desk", tools=[LOOK])
    async with stage(tmp_path, Reply(tool_calls=[ToolCall("mcp__desk__look")]), mode="full-access") as it:

        async def work(message: Mapping[str, Any]) -> Any:
            token = message["params"]["_meta"]["progressToken"]
            for done in (1, 2):
                progress = {"progressToken": token, "progress": done, "total": 3, "message": f"Drawer {done}"}
                await desk.says(message["requestId"], "notifications/progress", progress)
            await anyio.sleep_forever()

        desk.handlers["tools/call"] = work
        session = await opened(it, desk)
        await ready(it, "desk")
        turn = await it.agent.start_prompt(session, "Look")
        await it.agent.until(lambda: "1/3 Drawer 1" in json.dumps(it.agent.updates(kind="tool_call_update")), 30)
        assert "tools/call" in desk.active.values()
        await it.agent.cancel(session)
        assert await turn.result() == {"stopReason": "cancelled"}
        await it.agent.until(lambda: "tools/call" not in desk.active.values(), 10)


async def test_what_a_server_asks_of_the_user_is_a_form_of_the_editor(tmp_path: Path) -> None:
    desk = EditorServer("desk", tools=[LOOK])
    form = {"mode": "form", "message": "Which drawer?", "requestedSchema": {"type": "object", "properties": {}}}
    form["requestedSchema"] = {"type": "object", "properties": {"drawer": {"type": "string"}}, "required": ["drawer"]}

    async def ask(message: Mapping[str, Any]) -> Any:
        answers = message["params"].get("inputResponses")
        if answers is None:
            requests = {"which": {"method": "elicitation/create", "params": form}}
            return {"result": {"resultType": "input_required", "inputRequests": requests}}
        return {"result": {"resultType": "complete", **says(f"In the {answers['which']['content']['drawer']}.")}}

    async def fill(params: Mapping[str, Any]) -> Any:
        assert "Which drawer?" in params["message"]
        return {"action": "accept", "content": {"drawer": "upper one"}}

    desk.handlers["tools/call"] = ask
    async with stage(tmp_path, Reply(tool_calls=[ToolCall("mcp__desk__look")]), Reply("Ah."), mode="full-access") as it:
        it.agent.handlers["elicitation/create"] = fill
        session = await opened(it, desk)
        await ready(it, "desk")
        await it.agent.prompt(session, "Look", 30)
        assert [result.text for result in results(it.server.calls[1].body)] == ["In the upper one."]


async def test_two_sessions_have_one_server_and_what_belongs_to_no_request_is_dropped(tmp_path: Path) -> None:
    desk = EditorServer("desk", tools=[LOOK], results={"look": says("A lamp.")})
    call = Reply(tool_calls=[ToolCall("mcp__desk__look")])
    async with stage(tmp_path, call, Reply("I see."), call, Reply("I see."), mode="full-access") as it:
        first, second = await opened(it, desk), await opened(it, desk)
        await it.agent.until(lambda: len(desk.active) == 2, 30)
        assert set(desk.active.values()) == {"subscriptions/listen"}
        await desk.says("nobody's", "notifications/tools/list_changed", {})
        for wrong in ({}, {"serverId": 1, "requestId": "x", "method": "y"}, {"serverId": "s", "requestId": "r"}):
            await it.agent.notify("mcp/message", wrong)
        with pytest.raises(AgentError) as error:
            await it.agent.request("mcp/message", {"serverId": "s", "requestId": "r", "method": "ping"})
        assert error.value.code == -32601
        for session in (first, second):
            await it.agent.set_mode(session, "full-access")
            assert await it.agent.prompt(session, "Look", 30) == {"stopReason": "end_turn"}
        assert len(desk.calls()) == 2
        # An id is never used twice, though both count from one.
        ids = [line.params["requestId"] for line in it.agent.lines if _asks(line)]
        assert len(ids) == len(set(ids))


async def test_each_of_two_servers_is_asked_for_its_own_and_what_one_says_is_not_taken_for_the_other_s(
    tmp_path: Path,
) -> None:
    desk = EditorServer("desk", tools=[LOOK], results={"look": says("A lamp.")})
    shop = EditorServer("shop", tools=[LOOK], results={"look": says("A till.")})
    calls = [ToolCall("mcp__desk__look", {"at": "top"}), ToolCall("mcp__shop__look", {"at": "door"})]
    replies = [Reply(tool_calls=calls), Reply("I see."), Reply("Still.")]
    async with stage(tmp_path, *replies, mode="full-access") as it:
        session = await opened(it, desk, shop)
        for server in (desk, shop):
            await ready(it, server.name)
            await listed(it, server, 2)
        # It knows what the other is asked, and says that it has changed.
        [asked] = [request_id for request_id, method in desk.active.items() if method == "subscriptions/listen"]
        news = {"_meta": {f"{ABOUT}subscriptionId": asked}}
        await shop.says(asked, "notifications/tools/list_changed", news)
        await it.agent.set_mode(session, "full-access")
        await it.agent.prompt(session, "Look", 30)
        assert [result.text for result in results(it.server.calls[1].body)] == ["A lamp.", "A till."]
        assert desk.calls() == [{"name": "look", "arguments": {"at": "top"}}]
        assert shop.calls() == [{"name": "look", "arguments": {"at": "door"}}]
        assert [method for method, _ in desk.got].count("tools/list") == 2
        await desk.says(asked, "notifications/tools/list_changed", news)
        await listed(it, desk, 3)


async def test_version_2_reaches_them_as_version_1_does(tmp_path: Path) -> None:
    desk = EditorServer("desk", tools=[LOOK], results={"look": says("A lamp.")})
    look = Reply(tool_calls=[ToolCall("mcp__desk__look", {"at": "top"})])
    async with (
        model_server([look, Reply("I see.")]) as server,
        second_agent(home=tmp_path, env=server.env("openai")) as it,
    ):
        assert it.initialized["capabilities"]["session"]["mcp"]["acp"] == {}
        provide(it.agent, desk)
        session = await it.open(tmp_path, mcpServers=[desk.entry])
        assert (await it.answer(session, "Look"))["stopReason"] == "end_turn"
        assert desk.calls() == [{"name": "look", "arguments": {"at": "top"}}]
        assert desk.got[0][1]["_meta"]["io.modelcontextprotocol/protocolVersion"] == VERSION
        await it.agent.request("session/close", {"sessionId": session})
        await it.agent.until(lambda: not desk.active, 10)


async def test_what_comes_before_the_handshake_or_for_nobody_is_dropped_without_a_failure(tmp_path: Path) -> None:
    async with start_agent(home=tmp_path) as agent:
        message = {"serverId": "s", "requestId": "r", "method": "notifications/progress", "params": {}}
        await agent.notify("mcp/message", message)
        await agent.initialize()
        await agent.notify("mcp/message", message)
        await agent.request("session/list", {})
    logs = [path.read_text() for path in (tmp_path / "state" / "logs").glob("*")]
    assert not any("failed inside" in log for log in logs)

"""The first prompt, sent as soon as there is a session: what it needs is loaded beside
the loop, which has to be free for a cancel and for the end. Asserted by thread, not by
milliseconds.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import anyio
import pytest

from support.client import ROOT, connected_agent
from support.compactions import messages
from support.models import Reply, ToolCall, model_server
from support.slow_modules import begun, hanging

pytestmark = pytest.mark.process

THREADS = """
import pathlib, sys, threading

class Told:
    def find_spec(self, name, path=None, target=None):
        if threading.current_thread() is threading.main_thread():
            with pathlib.Path(__file__).with_name("loaded").open("a") as file:
                file.write(name + "\\n")

sys.meta_path.insert(0, Told())
"""
FILE = [{"type": "resource", "resource": {"uri": "file:///a", "text": "a"}}]


async def test_up_to_the_first_request_to_the_model_the_loop_loads_nothing_but_the_standard_library(
    tmp_path: Path,
) -> None:
    told = tmp_path / "told"
    told.mkdir()
    (told / "sitecustomize.py").write_text(THREADS)
    async with model_server([Reply("hi")]) as server:
        env = {**server.env(), "PYTHONPATH": f"{told}{os.pathsep}{ROOT}"}
        async with connected_agent(home=tmp_path / "home", env=env) as agent:
            session_id = await agent.new_session(tmp_path)
            before = (told / "loaded").read_text().split()
            assert "acp_agent.session.factory" in before
            await agent.prompt(session_id, FILE)
            after = (told / "loaded").read_text().split()[len(before) :]
    assert not [
        name for name in after if name.partition(".")[0] not in sys.stdlib_module_names
    ]
    assert "importlib.metadata" not in after


@pytest.mark.parametrize(
    ("module", "signalled"),
    [("acp_agent.session.hooks", False), ("anthropic", True)],
    ids=["EOF", "SIGTERM"],
)
async def test_the_end_in_mid_turn_does_not_wait_for_what_is_being_loaded(
    tmp_path: Path, module: str, signalled: bool
) -> None:
    slow = hanging(tmp_path, module)
    env = {"PYTHONPATH": f"{slow}{os.pathsep}{ROOT}", "ANTHROPIC_API_KEY": "key"}
    async with connected_agent(home=tmp_path / "home", env=env) as agent:
        session_id = await agent.new_session(tmp_path)
        await agent.start_prompt(session_id, "Hi.")
        await begun(slow)
        if signalled:
            agent.process.send_signal(signal.SIGTERM)
        else:
            await agent.close_stdin()
        assert await agent.wait_exit() == 0


async def test_a_prompt_whose_turn_ends_before_pydantic_is_loaded_is_kept(
    tmp_path: Path,
) -> None:
    slow = hanging(tmp_path, "pydantic.main")
    async with connected_agent(
        home=tmp_path / "home", env={"PYTHONPATH": f"{slow}{os.pathsep}{ROOT}"}
    ) as agent:
        session_id = await agent.new_session(tmp_path)
        await agent.start_prompt(session_id, "Remember me.")
        await begun(slow)
        await agent.close_stdin()
        assert await agent.wait_exit() == 0
    async with connected_agent(home=tmp_path / "home") as agent:
        await agent.load(session_id, tmp_path)
        update = await agent.wait_update("user_message_chunk")
        assert update["content"]["text"] == "Remember me."


async def test_a_burst_of_prompts_that_wait_for_one_import_keeps_no_thread_from_other_requests(
    tmp_path: Path,
) -> None:
    slow = hanging(tmp_path, "anthropic")
    env = {"PYTHONPATH": f"{slow}{os.pathsep}{ROOT}", "ANTHROPIC_API_KEY": "key"}
    async with connected_agent(home=tmp_path / "home", env=env) as agent:
        # More than the pool has threads.
        sessions = [await agent.new_session(tmp_path) for _ in range(50)]
        turns = [await agent.start_prompt(session_id, "Hi.") for session_id in sessions]
        await begun(slow)
        for session_id in sessions:
            await agent.wait_update("session_info_update", session_id, timeout=20)
        listed = await agent.request("session/list", {})
        assert len(listed["sessions"]) == 50
        await agent.new_session(tmp_path)
        for session_id, turn in zip(sessions, turns, strict=True):
            await agent.cancel(session_id)
            assert await turn.result() == {"stopReason": "cancelled"}


@pytest.mark.parametrize(
    ("module", "at_once"),
    [("acp_agent.session.hooks", True), ("anthropic", False)],
    ids=["at once", "later"],
)
async def test_a_cancel_does_not_wait_for_what_is_being_loaded(
    tmp_path: Path, module: str, at_once: bool
) -> None:
    slow = hanging(tmp_path, module)
    env = {"PYTHONPATH": f"{slow}{os.pathsep}{ROOT}", "ANTHROPIC_API_KEY": "key"}
    async with connected_agent(home=tmp_path / "home", env=env) as agent:
        session_id = await agent.new_session(tmp_path)
        turn = await agent.start_prompt(session_id, "Hi.")
        if not at_once:
            await begun(slow)
        await agent.cancel(session_id)
        assert await turn.result() == {"stopReason": "cancelled"}
        with anyio.fail_after(5):
            await agent.close_stdin()
            assert await agent.wait_exit() == 0


async def test_a_prompt_waits_for_the_sdk_of_its_model_and_not_for_another_one(
    tmp_path: Path,
) -> None:
    slow = hanging(tmp_path, "anthropic")
    async with model_server([Reply("hi")], "openai") as server:
        env = {
            **server.env(),
            "ANTHROPIC_API_KEY": "key",
            "PYTHONPATH": f"{slow}{os.pathsep}{ROOT}",
        }
        async with connected_agent(home=tmp_path / "home", env=env) as agent:
            waiting, working = [await agent.new_session(tmp_path) for _ in range(2)]
            await agent.set_config_option(
                waiting, "model", "anthropic/claude-sonnet-4-5"
            )
            await agent.start_prompt(waiting, "Hi.")
            await begun(slow)
            assert await agent.prompt(working, "Hi.") == {"stopReason": "end_turn"}


async def test_calls_that_a_kill_left_open_are_answered_although_the_first_prompt_behind_it_was_cancelled(
    tmp_path: Path,
) -> None:
    async with model_server(
        [Reply(tool_calls=[ToolCall("shell", {"command": "touch ran"})])]
    ) as server:
        async with connected_agent(home=tmp_path / "home", env=server.env()) as agent:
            session_id = await agent.new_session(tmp_path)
            agent.permission_hold = anyio.Event()
            await agent.start_prompt(session_id, "Do it.")
            await agent.until(lambda: agent.desk.permissions, 20)
            agent.kill()
            await agent.wait_exit()
        server.add(Reply("Then not."))
        async with connected_agent(home=tmp_path / "home", env=server.env()) as agent:
            await agent.load(session_id, tmp_path)
            turn = await agent.start_prompt(session_id, "Go on.")
            await agent.cancel(session_id)
            assert await turn.result() == {"stopReason": "cancelled"}
            assert await agent.prompt(session_id, "Do something else.") == {
                "stopReason": "end_turn"
            }
    blocks = messages(server.calls[-1].body)[-1]["content"]
    assert [block["type"] for block in blocks] == ["tool_result", "text"]

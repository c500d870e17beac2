"""The first prompt, sent as soon as there is a session: what it needs is loaded beside the loop, which has to be free
for a cancel and for the end. Asserted by thread, not by milliseconds."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from startup.slow_modules import begun, hanging
from support.client import ROOT, connected_agent
from support.models import DialectName, Reply, model_server

THREADS = """
import pathlib, sys, threading

class Told:
    def find_spec(self, name, path=None, target=None):
        if threading.current_thread() is threading.main_thread():
            with pathlib.Path(__file__).with_name("loaded").open("a") as file:
                file.write(name + "\\n")

sys.meta_path.insert(0, Told())
"""
TEXT = [{"type": "text", "text": "Hi"}, {"type": "resource_link", "uri": "file:///a", "name": "a"}]
FILE = [{"type": "resource", "resource": {"uri": "file:///a", "text": "a"}}]
FIRST: dict[str, tuple[DialectName, Sequence[Mapping[str, Any]]]] = {
    "text": ("anthropic", TEXT),
    "text to OpenAI": ("openai", TEXT),
    "text to another server": ("chat", TEXT),
    "a file": ("anthropic", FILE),
}


@pytest.mark.parametrize("first", FIRST)
async def test_up_to_the_first_request_to_the_model_the_loop_loads_nothing_but_the_standard_library(
    tmp_path: Path, first: str
) -> None:
    dialect, prompt = FIRST[first]
    told = tmp_path / "told"
    told.mkdir()
    (told / "sitecustomize.py").write_text(THREADS)
    async with model_server([Reply("hi")]) as server:
        if dialect == "chat":
            server.write_config(tmp_path / "home")
        env = {**server.env(dialect), "PYTHONPATH": f"{told}{os.pathsep}{ROOT}"}
        async with connected_agent(home=tmp_path / "home", env=env) as agent:
            session_id = await agent.new_session(tmp_path)
            before = (told / "loaded").read_text().split()
            assert "acp_agent.session.host" in before
            await agent.prompt(session_id, prompt)
            after = (told / "loaded").read_text().split()[len(before) :]
    assert not [name for name in after if name.partition(".")[0] not in sys.stdlib_module_names]
    assert "importlib.metadata" not in after


# What is being loaded while the prompt waits, for ever: to read it, to answer it, to ask the model.
PARTS = {
    "the params of a prompt": ("pydantic.main", FILE),
    "compaction": ("acp_agent.session.compact.control", TEXT),
    "hooks": ("acp_agent.session.hooking", TEXT),
    "the tools": ("pydantic.main", TEXT),
    "an adapter": ("acp_agent.llm.anthropic", TEXT),
    "an SDK": ("anthropic", TEXT),
}


@pytest.mark.parametrize("signalled", [False, True], ids=["EOF", "SIGTERM"])
@pytest.mark.parametrize("part", PARTS)
async def test_the_end_in_mid_turn_does_not_wait_for_what_is_being_loaded(
    tmp_path: Path, part: str, signalled: bool
) -> None:
    module, prompt = PARTS[part]
    slow = hanging(tmp_path, module)
    env = {"PYTHONPATH": f"{slow}{os.pathsep}{ROOT}", "ANTHROPIC_API_KEY": "key"}
    async with connected_agent(home=tmp_path / "home", env=env) as agent:
        session_id = await agent.new_session(tmp_path)
        await agent.start_prompt(session_id, prompt)
        await begun(slow)
        if signalled:
            agent.process.send_signal(signal.SIGTERM)
        else:
            await agent.close_stdin()
        assert await agent.wait_exit() == 0


LOOKUP = """
import pathlib, socket, threading

def look_up(*args, **more):
    pathlib.Path(__file__).with_name("began").write_text("yes")
    threading.Event().wait()

socket.getaddrinfo = look_up
"""


async def test_the_end_does_not_wait_for_a_name_that_is_being_looked_up(tmp_path: Path) -> None:
    slow = hanging(tmp_path, "nothing")
    (slow / "sitecustomize.py").write_text(LOOKUP)
    env = {"ANTHROPIC_API_KEY": "key", "ANTHROPIC_BASE_URL": "http://nowhere.invalid"}
    async with connected_agent(home=tmp_path / "home", env={**env, "PYTHONPATH": f"{slow}{os.pathsep}{ROOT}"}) as agent:
        session_id = await agent.new_session(tmp_path)
        await agent.start_prompt(session_id, "Hi.")
        await begun(slow)
        await agent.close_stdin()
        assert await agent.wait_exit() == 0


async def test_a_prompt_whose_turn_ends_before_pydantic_is_loaded_is_kept(tmp_path: Path) -> None:
    slow = hanging(tmp_path, "pydantic.main")
    async with connected_agent(home=tmp_path / "home", env={"PYTHONPATH": f"{slow}{os.pathsep}{ROOT}"}) as agent:
        session_id = await agent.new_session(tmp_path)
        await agent.start_prompt(session_id, "Remember me.")
        await begun(slow)
        await agent.close_stdin()
        assert await agent.wait_exit() == 0
    async with connected_agent(home=tmp_path / "home") as agent:
        await agent.load(session_id, tmp_path)
        update = await agent.wait_update("user_message_chunk")
        assert update["content"]["text"] == "Remember me."


@pytest.mark.parametrize("part", ["compaction", "the tools", "an adapter", "an SDK"])
async def test_a_cancel_does_not_wait_for_what_is_being_loaded(tmp_path: Path, part: str) -> None:
    module, prompt = PARTS[part]
    slow = hanging(tmp_path, module)
    env = {"PYTHONPATH": f"{slow}{os.pathsep}{ROOT}", "ANTHROPIC_API_KEY": "key"}
    async with connected_agent(home=tmp_path / "home", env=env) as agent:
        session_id = await agent.new_session(tmp_path)
        turn = await agent.start_prompt(session_id, prompt)
        await begun(slow)
        await agent.cancel(session_id)
        assert await turn.result() == {"stopReason": "cancelled"}
        with anyio.fail_after(5):
            await agent.close_stdin()
            assert await agent.wait_exit() == 0

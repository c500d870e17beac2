"""What commands inherit of the agent's environment: all of it but the keys of providers."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from support.editors import AVANTE, ZED, Editor
from support.models import KEY, model_server
from support.replies import Reply, ToolCall
from support.second import second_agent
from support.stage import Stage, results, stage
from support.terminal import run_command

pytestmark = pytest.mark.process

ENV = ToolCall("shell", {"command": "env"})
CONFIGURED = {"providers": {"work": {"base_url": "http://127.0.0.1:9/v1", "api_key_env": "WORK_LLM"}}}
KEYS = {
    name: f"sk-{name.lower()}-of-a-provider"
    for name in (
        *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "GEMINI_API_KEY", "GOOGLE_API_KEY", "OPENROUTER_API_KEY"),
        "WORK_LLM",
    )
}
OWN = {"SHOP_TOKEN": "of-the-shop", "OPENAI_BASE_URL_OF_SHOP": "kept"}
RECIPE = '---\nallowed_commands: ["env"]\n---\nIt is set: {{ shell("env") }}\n'


def leaked(text: str) -> list[str]:
    """The keys whose values are in a text."""
    values = {**KEYS, "OPENAI_API_KEY": KEY}
    return [name for name, value in values.items() if value in text]


@asynccontextmanager
async def staged(tmp_path: Path, *replies: Reply, editor: Editor = AVANTE, **options: Any) -> AsyncGenerator[Stage]:
    env = {**KEYS, **OWN}
    async with stage(
        tmp_path, *replies, editor=editor, env=env, config=CONFIGURED, mode="full-access", **options
    ) as it:
        yield it


async def test_a_command_gets_the_environment_of_the_agent_without_any_key_of_a_provider(tmp_path: Path) -> None:
    async with staged(tmp_path, Reply(tool_calls=[ENV]), Reply("Done.")) as it:
        await it.prompt("What is set?")
        [printed] = results(it.server.calls[1].body)
        assert leaked(printed.text) == []
        assert [name for name in (*KEYS, "OPENAI_API_KEY") if f"{name}=" in printed.text] == []
        assert all(f"{name}={value}" in printed.text for name, value in OWN.items())


async def test_a_terminal_of_the_editor_is_asked_for_without_the_keys_that_it_may_have_too(tmp_path: Path) -> None:
    async with staged(tmp_path, Reply(tool_calls=[ENV]), Reply("Done."), editor=ZED) as it:
        await it.prompt("What is set?")
        [terminal] = it.agent.desk.terminals.values()
        asked = {variable["name"]: variable["value"] for variable in terminal.params["env"]}
        assert {name for name, value in asked.items() if not value} == {*KEYS, "OPENAI_API_KEY"}
        assert all(name.startswith("GIT_") for name, value in asked.items() if value)


async def test_a_terminal_of_the_agent_s_own_has_no_key_of_a_provider(tmp_path: Path) -> None:
    async with model_server([Reply(tool_calls=[ENV]), Reply("Done.")], "openai") as server:
        server.write_config(tmp_path, CONFIGURED)
        async with second_agent(home=tmp_path, env={**server.env(), **KEYS, **OWN}) as it:
            session = await it.open(tmp_path)
            await it.answer(session, "What is set?")
            assert "SHOP_TOKEN=of-the-shop" in str(server.calls[1].body)
            assert leaked(str(server.calls[1].body)) == []


async def test_commands_of_recipes_and_of_the_terminal_s_run_get_no_key_either(tmp_path: Path) -> None:
    async with model_server([Reply(tool_calls=[ENV]), Reply("Done.")], "openai") as server:
        server.write_config(tmp_path, CONFIGURED)
        recipes = tmp_path / "state" / "recipes"
        recipes.mkdir(mode=0o700)
        (recipes / "place.md").write_text(RECIPE)
        env = {**server.env(), **KEYS, **OWN}
        ran = await run_command(tmp_path, "run", "--mode", "full-access", "-r", "place", env=env)
        assert ran.code == 0, ran.err
        for request in server.calls:
            assert str(request.body).count("SHOP_TOKEN=of-the-shop") == server.calls.index(request) + 1
            assert leaked(str(request.body)) == []


@pytest.mark.parametrize("whose", ["editor", "configuration"])
async def test_an_mcp_server_gets_what_its_entry_says_and_no_key(tmp_path: Path, whose: str) -> None:
    program = ["-c", f"env > {tmp_path}/env.part; mv {tmp_path}/env.part {tmp_path}/env; sed d"]
    own = {"MINE": "of the entry"}
    entry = {"name": "shop", "command": "/bin/sh", "args": program, "env": [{"name": "MINE", "value": own["MINE"]}]}
    config = {**CONFIGURED, "mcp_servers": {"shop": {"command": "/bin/sh", "args": program, "env": own}}}
    options: dict[str, Any] = {"config": config} if whose == "configuration" else {"mcp": [entry], "config": CONFIGURED}
    async with stage(tmp_path, Reply("Hello."), env={**KEYS, **OWN}, **options) as it:
        await it.prompt("Hello?")
        printed = (tmp_path / "env").read_text()
        assert "MINE=of the entry" in printed
        assert leaked(printed) == []
        assert "SHOP_TOKEN" not in printed


async def test_a_hook_is_a_program_of_the_user_s_and_gets_the_whole_environment(tmp_path: Path) -> None:
    hook = {"hooks": {"Stop": [{"command": "env > env.txt"}]}}
    async with stage(tmp_path, Reply("Hello."), env={**KEYS, **OWN}, config={**CONFIGURED, **hook}) as it:
        await it.prompt("Hello?")
        assert set(leaked((it.folder / "env.txt").read_text())) == {*KEYS, "OPENAI_API_KEY"}

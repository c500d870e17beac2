"""`acp-agent login` and `logout`, and that the agent uses what is stored, also one that
runs.
"""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from acp_agent.server.recording import recordings
from support.called import call_command
from support.client import AgentError
from support.memory import agent_in_memory
from support.models import KEY, PROVIDERS, Reply, base_urls, model_server
from support.stage import PATIENCE
from support.terminal import at_a_terminal

SECRET = "0123-not-of-a-keys-form"


async def test_a_key_is_tried_then_stored_for_the_user_alone_and_the_agent_uses_it(
    tmp_path: Path,
) -> None:
    async with model_server([Reply("Hi.")], "anthropic") as server:
        server.write_config(tmp_path)
        env = base_urls(server.env())
        ran = await call_command(
            tmp_path, "login", PROVIDERS[server.dialect], env=env, stdin=f"  {KEY}\n"
        )
        file = tmp_path / "state" / "keys.json"
        assert (ran.code, ran.out, ran.err) == (
            0,
            f"The key for {PROVIDERS[server.dialect]} is stored in {file}.\n",
            "",
        )
        [tried] = server.requests
        assert tried.method == "GET"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        async with agent_in_memory(home=tmp_path, env=env) as agent:
            session = await agent.new_session(tmp_path)
            assert await agent.prompt(session, "Hello", PATIENCE) == {
                "stopReason": "end_turn"
            }
        for header in ("authorization", "anthropic-version"):
            assert tried.headers.get(header) == server.calls[0].headers.get(header)


async def test_a_running_agent_uses_what_is_stored_meanwhile_and_asks_for_it_again_after_a_logout(
    tmp_path: Path,
) -> None:
    async with model_server([Reply("One."), Reply("Two.")], "openai") as server:
        env = {**base_urls(server.env()), "ACP_AGENT_WIRE": "1"}
        del env["ACP_AGENT_MODEL"]
        async with agent_in_memory(home=tmp_path, env=env) as agent:
            session = await agent.new_session(tmp_path)
            with pytest.raises(AgentError, match="acp-agent login") as error:
                await agent.prompt(session, "Hello")
            assert error.value.code == -32000
            server.key = SECRET
            assert (
                await call_command(tmp_path, "login", "openai", env=env, stdin=SECRET)
            ).code == 0
            assert await agent.request("authenticate", {"methodId": "api-key"}) == {}
            assert await agent.prompt(session, "Hello", PATIENCE) == {
                "stopReason": "end_turn"
            }
            other = await agent.new_session(tmp_path)

            server.key = "another-key"
            begun = len(agent.lines)
            with pytest.raises(AgentError, match="has stored") as error:
                await agent.prompt(other, "Hello", PATIENCE)
            assert error.value.code == -32000
            assert (
                await call_command(
                    tmp_path, "login", "openai", env=env, stdin="another-key"
                )
            ).code == 0
            assert await agent.request("authenticate", {"methodId": "login"}) == {}
            assert await agent.prompt(session, "Again", PATIENCE) == {
                "stopReason": "end_turn"
            }

            assert await agent.request("logout", {}) == {}
            for id in (session, other):
                with pytest.raises(AgentError, match="acp-agent login") as error:
                    await agent.prompt(id, "Hello", PATIENCE)
                assert error.value.code == -32000
            assert await agent.request("logout", {}) == {}
            said = (
                b"".join(line.raw for line in agent.lines[begun:]).decode()
                + agent.stderr
            )
        assert SECRET not in said
        assert recordings(tmp_path / "state" / "wire")
        for path in (tmp_path / "state").rglob("*"):
            assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path


async def test_the_environments_key_is_told_to_go_before_a_stored_one(
    tmp_path: Path,
) -> None:
    async with model_server([Reply("Hi.")], "anthropic") as server:
        stored = await call_command(
            tmp_path, "login", "anthropic", "--no-check", env=server.env(), stdin=SECRET
        )
        assert (stored.code, server.requests) == (0, [])
        assert (
            stored.err
            == "ANTHROPIC_API_KEY is set in this environment, and takes precedence over the stored key.\n"
        )


async def test_a_key_that_is_refused_or_cannot_be_tried_is_not_stored_and_not_shown(
    tmp_path: Path,
) -> None:
    async with model_server([], "anthropic") as server:
        env = base_urls(server.env())
        # The configured model's provider.
        refused = await call_command(tmp_path, "login", env=env, stdin=SECRET)
        nowhere = {**env, "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}
        unreached = await call_command(
            tmp_path, "login", "anthropic", env=nowhere, stdin=SECRET
        )
        odd = await call_command(
            tmp_path, "login", "anthropic", "--no-check", env=env, stdin=f"{SECRET}“"
        )
        empty = await call_command(tmp_path, "login", "anthropic", env=env, stdin="\n")
        nobody = await call_command(tmp_path, "login", "nobody", env=env, stdin=SECRET)
        unnamed = await call_command(tmp_path, "login", stdin=SECRET)
        for ran, complaint in (
            (refused, "refused the key (status 401): check the key that you gave."),
            (unreached, "cannot be reached"),
            (
                odd,
                "that keys never have. Check the key that you gave: it should be the key alone.\n",
            ),
            (empty, "You entered no key"),
            (nobody, "there is no provider 'nobody'"),
            (unnamed, "`acp-agent login anthropic`"),
        ):
            assert ran.code == 1
            assert complaint in ran.err
            assert SECRET not in ran.out + ran.err
        assert "--no-check" in refused.err
        assert not (tmp_path / "state" / "keys.json").exists()


@pytest.mark.process
async def test_what_is_typed_at_a_terminal_is_not_shown_and_an_interrupt_brings_the_echo_back(
    tmp_path: Path,
) -> None:
    async with model_server([], "openai") as server:
        env = base_urls(server.env())
        env["ACP_AGENT_MODEL"] = ""
        async with at_a_terminal(tmp_path, "login", env=env) as person:
            await person.until("Which provider")
            person.type("openai\n")
            await person.until("(not shown as you type): ")
            person.type(f"{KEY}\n")
            assert await person.ended() == 0
            assert "is stored in" in person.shown
            assert KEY not in person.shown
        async with at_a_terminal(tmp_path, "login", "openai", env=env) as person:
            await person.until("(not shown as you type): ")
            assert not person.echoes
            person.type("\x03")
            await person.until("interrupted")
            assert person.echoes
            assert await person.ended() == 130


async def test_logout_forgets_one_key_or_all(tmp_path: Path) -> None:
    for name in ("openai", "anthropic", "google"):
        await call_command(tmp_path, "login", name, "--no-check", stdin=SECRET)
    gone = "is removed.\n"
    one = await call_command(tmp_path, "logout", "openai")
    assert (one.code, one.out, one.err) == (0, f"The key for openai {gone}", "")
    again = await call_command(tmp_path, "logout", "openai")
    assert (again.code, again.out) == (1, "")
    assert (
        again.err
        == "acp-agent: No key is stored for openai. Keys are stored for: anthropic, google.\n"
    )
    everything = await call_command(tmp_path, "logout", env={"OPENAI_API_KEY": SECRET})
    assert everything.out == f"The key for anthropic {gone}The key for google {gone}"
    still = "OPENAI_API_KEY (openai) in the environment is still used; unset it to stop that.\n"
    assert everything.err == still
    assert SECRET not in (tmp_path / "state" / "keys.json").read_text()
    assert (
        await call_command(tmp_path, "logout")
    ).err == "acp-agent: No key is stored.\n"
    nothing = await call_command(tmp_path, "logout", env={"OPENAI_API_KEY": SECRET})
    assert nothing.err == f"acp-agent: No key is stored. {still}"
    unknown = await call_command(tmp_path, "logout", "opneai")
    assert unknown.err.endswith(
        "There is no provider 'opneai'; did you mean `openai`?\n"
    )


async def test_a_local_server_is_said_to_need_no_key_and_whether_it_answers(
    tmp_path: Path,
) -> None:
    async with model_server([], "ollama") as server:
        server.write_config(tmp_path)
        ran = await call_command(
            tmp_path, "login", "ollama", env=server.env(), stdin=SECRET
        )
        assert ran.code == 0
        assert ran.out.startswith("ollama needs no key. It has ")
    away = await call_command(
        tmp_path, "login", "ollama", env=server.env(), stdin=SECRET
    )
    assert (away.code, away.out) == (1, "")
    assert (
        "ollama needs no key, but there is no answer from http://127.0.0.1:" in away.err
    )
    assert not (tmp_path / "state" / "keys.json").exists()

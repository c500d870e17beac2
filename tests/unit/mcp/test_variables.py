"""Variables in an MCP server's entry: all its texts follow the same rule, and none is
passed on unexpanded.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.config.settings import McpServer
from acp_agent.errors import ToolError
from acp_agent.mcp.model import inherited, secrets, with_values
from acp_agent.mcp.variables import expanded
from support.mcp import logged, mcp_program, ready, tool
from support.memory import stage
from support.replies import Reply

ENV = {"NAME": "n", "EMPTY": "", "MY_TOKEN": "open-sesame", "OTHER": "${NAME}"}
WRITTEN = {
    "plain $NAME {x} $": "plain $NAME {x} $",
    "${NAME}": "n",
    "a${NAME}b${NAME}": "anbn",
    "${EMPTY}": "",
    "${UNSET:-x}": "x",
    "${UNSET:-}": "",
    "${NAME:-x}": "n",
    "${EMPTY:-x}": "x",
    "${UNSET:-${NAME}}": "n",
    "${UNSET:-${UNSET:-a b}c}": "a bc",
    "${UNSET:-http://a:1/b}": "http://a:1/b",
    "$${NAME} $${": "${NAME} ${",
    "${OTHER}": "${NAME}",
}


@pytest.mark.parametrize("text", WRITTEN)
def test_a_text_gets_the_values_of_its_variables(text: str) -> None:
    assert expanded(text, ENV, "args") == WRITTEN[text]


@pytest.mark.parametrize(
    "text",
    [
        "${",
        "${NAME",
        "${1}",
        "${NAME:?no}",
        "${NAME-x}",
        "${NAME:=x}",
        "${}",
        "${UNSET:-${}}",
    ],
)
def test_what_is_no_variable_is_refused_with_the_forms_that_are(text: str) -> None:
    with pytest.raises(
        ToolError, match=r"^`args` of its entry has `.*\$\{NAME:-default\}"
    ):
        expanded(text, ENV, "args")


@given(st.text(st.sampled_from("ab$}{:- ")))
def test_what_is_written_for_itself_stays(text: str) -> None:
    assert expanded(
        text.replace("${", "$${").replace("$$${", "$$ {"), {}, "args"
    ).count("${") <= text.count("${")


@pytest.mark.parametrize("key", ["command", "args", "env", "url", "headers"])
def test_every_text_of_an_entry_has_variables(key: str) -> None:
    def entry(text: str) -> McpServer:
        values: dict[str, Any] = {
            "args": (text,),
            "env": {"A": text},
            "headers": {"A": text},
        }
        return McpServer("s", "stdio", variables=True, **{key: values.get(key, text)})

    base = "https://a.example/" if key == "url" else ""
    value: Any = getattr(with_values(entry(f"{base}${{NAME:-x}}"), ENV), key)
    assert value in (f"{base}n", (f"{base}n",), {"A": f"{base}n"})
    with pytest.raises(
        ToolError,
        match=f"^`{key}` of its entry uses the environment variable UNSET, which is not set$",
    ):
        with_values(entry("${UNSET}"), ENV)


def test_an_address_has_to_be_one_with_its_values() -> None:
    entry = McpServer("s", "http", url="${UNSET:-ftp://a}", variables=True)
    with pytest.raises(
        ToolError, match="`url` of its entry should be an http or https URL"
    ):
        with_values(entry, ENV)


def test_secrets_of_an_address_and_of_arguments_are_masked_and_other_values_are_not() -> (
    None
):
    entry = McpServer(
        "s",
        "stdio",
        command="run",
        args=("--key=${MY_TOKEN}", "${PROJECT}"),
        variables=True,
    )
    assert secrets(entry, {**ENV, "PROJECT": "/home/me/project"}) == ["open-sesame"]


async def test_an_unset_variable_turns_that_server_off_and_is_named(
    tmp_path: Path,
) -> None:
    good = mcp_program(tmp_path, "good", tools=[tool("one")])
    script = good.configured["args"]
    configured = {
        "good": {
            **good.configured,
            "args": [*script[:-1], "${NO_SUCH_PLAN:-" + script[-1] + "}"],
        },
        "program": {"command": sys.executable, "args": ["--flag", "${NO_SUCH_FLAG}"]},
        "page": {"url": "${NO_SUCH_PLACE}/mcp"},
        "home": {"url": "https://${NO_SUCH_HOST}/mcp"},
    }
    async with stage(tmp_path, Reply("Hi."), config={"mcp_servers": configured}) as it:
        await ready(it, "good")
        for name in ("program", "page", "home"):
            await logged(it, f"MCP server {name} could not be started")
        assert await it.prompt() == {"stopReason": "end_turn"}
        for variable in ("NO_SUCH_FLAG", "NO_SUCH_PLACE", "NO_SUCH_HOST"):
            assert f"{variable}, which is not set" in it.agent.text()
        assert "mcp__good__one" in json.dumps(it.server.calls[0].body["tools"])


def test_proxies_and_certificates_pass_to_a_program_and_logins_do_not() -> None:
    env = {
        "HTTPS_PROXY": "http://proxy:3128",
        "http_proxy": "http://me:secret@proxy:3128",
        "NO_PROXY": "localhost,.corp",
        "SSL_CERT_FILE": "/etc/ca.pem",
        "NODE_EXTRA_CA_CERTS": "/etc/ca.pem",
        "OPENAI_API_KEY": "key",
    }
    passed = {"HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS"}
    assert inherited(env) == {name: env[name] for name in passed}


async def test_a_program_that_fails_without_its_proxys_login_says_how_to_pass_it(
    tmp_path: Path,
) -> None:
    dead = mcp_program(tmp_path, "dead", exit=1, stderr="cannot reach the registry\n")
    own = mcp_program(tmp_path, "own", exit=1)
    entry = {**own.entry, "env": [{"name": "HTTPS_PROXY", "value": "http://other:1"}]}
    env = {"HTTPS_PROXY": "http://me:hidden-word@proxy:3128"}
    async with stage(tmp_path, Reply("Hi."), env=env, mcp=[dead.entry, entry]) as it:
        for name in ("dead", "own"):
            await logged(it, f"MCP server {name} could not be started")
        await it.prompt()
        text = it.agent.text()
        assert 'add `env: {HTTPS_PROXY: "${HTTPS_PROXY}"}` to its entry' in text
        assert text.count("hold a login") == 1
        assert "hidden-word" not in text
        [start] = [note for note in dead.notes() if "started" in note][:1]
        assert "HTTPS_PROXY" not in start["env"]


async def test_a_server_without_roots_is_told_no_directories(tmp_path: Path) -> None:
    asks = [{"method": "roots/list"}]
    plan: dict[str, Any] = {
        "tools": [tool("ask")],
        "results": {"ask": {"content": [], "asks": asks}},
    }
    told = mcp_program(tmp_path, "told", **plan)
    untold = mcp_program(tmp_path, "untold", **plan)
    configured = {
        "told": told.configured,
        "untold": {**untold.configured, "roots": False},
    }
    async with stage(tmp_path, Reply("Hi."), config={"mcp_servers": configured}) as it:
        for server in (told, untold):
            await ready(it, server.name)
        capabilities = [
            note["params"]["capabilities"]
            for server in (told, untold)
            for note in server.notes()
            if note.get("got") == "initialize"
        ]
        assert ["roots" in each for each in capabilities] == [True, False]

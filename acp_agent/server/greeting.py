"""What a client says in `initialize`, and what it is answered, in each version of the protocol.

Imports the standard library and pure modules alone, and reads leniently, as the schema asks for, without pydantic.

ACP, "Initialization" and "Authentication"; ACP v2, the same.
"""

from __future__ import annotations

import sys

from acp_agent import __version__
from acp_agent.frozen import frozen
from acp_agent.protocol import JsonObject, as_object

AUTH_METHOD = "api-key"
LOGIN_METHOD = "login"
FORK_KEY = "acp-agent"
"""In `_meta` of the capability `fork` and of its requests: the keys by which clients name the entry to fork at."""
_OLDER_TERMINAL = "terminal-auth"
"""Under `_meta`: what Zed had before the protocol had terminal methods."""
_TERMINALS_OF_NO_USE = frozenset({"vscode-acp-client"})
"""Clients by name whose terminals do something else than they are asked for.

VS Code's ACP Client (0.2.0) joins a program and its arguments with spaces and has a shell read that anew: of
`bash -c 'cd build && rm -r *'` only the word `cd` comes to bash, and the rest runs in the folder above. And it ends
that shell alone, so that what was cancelled goes on.
"""


@frozen
class Capabilities:
    """The capabilities that a client advertised; it is sent nothing that it did not advertise.

    :ivar terminal: commands run in its terminals, which do as they are told.
    :ivar compaction: `compaction_update` and `compaction_summary_chunk`.
    :ivar notices: `notice`.
    :ivar plans: `plan_update` in the place of `plan`, and `plan_removed`.
    :ivar booleans: options of a session that are on or off.
    :ivar forms: `elicitation/create` with a form.
    :ivar urls: `elicitation/create` with an address, and `elicitation/complete`.
    """

    read_text_file: bool = False
    write_text_file: bool = False
    terminal: bool = False
    compaction: bool = False
    notices: bool = False
    plans: bool = False
    booleans: bool = False
    forms: bool = False
    urls: bool = False

    @classmethod
    def of(cls, version: int, params: JsonObject) -> Capabilities:
        """Read them off the params of `initialize`; what is not as the schema has it was not advertised. Every client
        of version 2 supports notices and compaction updates; none offers files or terminals."""
        wire = as_object(params.get("clientCapabilities" if version == 1 else "capabilities"))
        elicitation = as_object(wire.get("elicitation"))
        forms, urls = (isinstance(elicitation.get(mode), dict) for mode in ("form", "url"))
        if version > 1:
            return cls(compaction=True, notices=True, forms=forms, urls=urls)
        files, session = as_object(wire.get("fs")), as_object(wire.get("session"))
        client = as_object(params.get("clientInfo")).get("name")
        return cls(
            read_text_file=files.get("readTextFile") is True,
            write_text_file=files.get("writeTextFile") is True,
            terminal=wire.get("terminal") is True and client not in _TERMINALS_OF_NO_USE,
            compaction=isinstance(session.get("compaction"), dict),
            notices=isinstance(session.get("notices"), dict),
            plans=isinstance(wire.get("plan"), dict),
            booleans=isinstance(as_object(session.get("configOptions")).get("boolean"), dict),
            forms=forms,
            urls=urls,
        )


def initialize_result(version: int, params: JsonObject) -> JsonObject:
    """Return what a version answers to `initialize`: always these capabilities, whatever the client offers.

    :param params: what the client said, which tells how a user can be let sign in.
    """
    said = as_object(params.get("clientCapabilities" if version == 1 else "capabilities"))
    terminal = as_object(said.get("auth")).get("terminal")
    older_terminal = version == 1 and as_object(said.get("_meta")).get(_OLDER_TERMINAL) is True
    ways = _auth_methods(
        terminal=terminal is True if version == 1 else isinstance(terminal, dict), older_terminal=older_terminal
    )
    info: JsonObject = {"name": "acp-agent", "version": __version__, "title": "acp-agent"}
    prompts = ("image", "audio", "embeddedContext")
    # Session capabilities and what is behind them are objects, since strict editors refuse `true`.
    sessions: JsonObject = {
        **{name: {} for name in ("delete", "additionalDirectories", "title", "archive", "status")},
        "fork": {"_meta": {FORK_KEY: {"at": True, "messageId": True}}},
    }
    if version == 1:
        capabilities: JsonObject = {
            "loadSession": True,
            "promptCapabilities": dict.fromkeys(prompts, True),
            "mcpCapabilities": {"http": True, "sse": True, "acp": True},
            "sessionCapabilities": {"list": {}, "resume": {}, "close": {}, **sessions},
            "auth": {"logout": {}, "status": {}},
            "providers": {},
        }
        return {
            "protocolVersion": version,
            "agentCapabilities": capabilities,
            "authMethods": [*ways],
            "agentInfo": info,
        }
    session: JsonObject = {
        "prompt": {name: {} for name in prompts},
        "mcp": {"stdio": {}, "http": {}, "acp": {}},
        **sessions,
    }
    return {
        "protocolVersion": version,
        "info": info,
        "capabilities": {"session": session, "auth": {"status": {}}, "providers": {}},
        "authMethods": [
            {"type": "agent", "methodId": way["id"], **{name: way[name] for name in way if name != "id"}}
            for way in ways
        ],
    }


def _auth_methods(*, terminal: bool, older_terminal: bool) -> list[JsonObject]:
    """Return the ways to sign in. The first succeeds at once without a question, since some editors use it whenever
    they connect.

    :param terminal: the editor has a terminal for the second way.
    :param older_terminal: the same, as Zed said it before the protocol had terminal methods.
    """
    key: JsonObject = {
        "id": AUTH_METHOD,
        "name": "API key",
        "description": "Uses the key that `acp-agent login` has stored, or ANTHROPIC_API_KEY, OPENAI_API_KEY or "
        "another provider's key in the environment that the editor starts the agent with, or a local model.",
    }
    if not terminal and not older_terminal:
        return [key]
    command = [sys.executable, "-m", "acp_agent", LOGIN_METHOD]
    older: JsonObject = {"label": "acp-agent login", "command": command[0], "args": [*command[1:]], "env": {}}
    login: JsonObject = {
        "id": LOGIN_METHOD,
        "name": "Log in",
        "description": "Asks for a provider's key in a terminal, tries it and stores it.",
        "_meta": {_OLDER_TERMINAL: older},
    }
    return [key, {**login, "type": "terminal", "args": [LOGIN_METHOD]} if terminal else login]

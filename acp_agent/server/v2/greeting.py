"""What version 2 answers to `initialize`: what version 1 does, in its own form. Needs the standard library and pure
modules alone.

ACP v2, "Initialization" and "Authentication".
"""

from __future__ import annotations

from acp_agent.protocol import JsonObject, as_object
from acp_agent.protocol.v2 import results
from acp_agent.server import forking, handshake
from acp_agent.server.v2.capabilities import capabilities_of

PAGE_METHOD = "key-page"
_PAGE: JsonObject = {
    "type": "agent",
    "methodId": PAGE_METHOD,
    "name": "Enter a key in the browser",
    "description": "Opens a page of this machine's own that asks for a provider's key, tries it and stores it.",
}
"""For clients that open addresses, and whose browser is on this machine. Another one than the first, which asks nobody
anything: see the handshake."""
_SESSION = ("delete", "additionalDirectories", "fork", "title", "archive", "status")
"""What of version 1's capabilities a client has to be told; every agent of version 2 has the others."""


def initialize_result(params: JsonObject, *, over_network: bool = False) -> JsonObject:
    """The answer to `initialize`: always this version and these capabilities.

    :param params: what the client said, which tells how a user can be let sign in.
    :param over_network: the client may be on another machine.
    """
    first = handshake.initialize_result(_first_params(params))
    capabilities, methods = as_object(first["agentCapabilities"]), first["authMethods"]
    prompt, mcp = as_object(capabilities["promptCapabilities"]), as_object(capabilities["mcpCapabilities"])
    session = as_object(capabilities["sessionCapabilities"])
    return results.initialize_result(
        info=as_object(first["agentInfo"]),
        capabilities=results.agent_capabilities(
            prompt=[name for name, has in prompt.items() if has is True],
            mcp=["stdio", *(name for name in ("http", "acp") if mcp.get(name) is True)],
            session=[name for name in session if name in _SESSION],
            auth=["status"],
            more=["providers"],
            session_meta={"fork": forking.ADVERTISED},
        ),
        auth_methods=[
            *(_auth_method(as_object(method)) for method in (methods if isinstance(methods, list) else [])),
            *([_PAGE] if capabilities_of(params).urls and not over_network else []),
        ],
    )


def _first_params(params: JsonObject) -> JsonObject:
    """What the client says of signing in, as it would in version 1."""
    auth = as_object(as_object(params.get("capabilities")).get("auth"))
    return {"clientCapabilities": {"auth": {"terminal": isinstance(auth.get("terminal"), dict)}}}


def _auth_method(first: JsonObject) -> JsonObject:
    """A way to sign in: its id has another name, its type is always said, and variables are a list."""
    method: JsonObject = {name: value for name, value in first.items() if name not in ("id", "env")}
    method |= {"type": first.get("type", "agent"), "methodId": first["id"]}
    if "env" in first:
        method["env"] = [{"name": name, "value": value} for name, value in as_object(first["env"]).items()]
    return method

"""What version 2 answers to `initialize`: what version 1 does, in its own form. Needs the standard library and pure
modules alone.

ACP v2, "Initialization" and "Authentication".
"""

from __future__ import annotations

from acp_agent.protocol import JsonObject, JsonValue
from acp_agent.protocol.v2 import results
from acp_agent.server import forking, handshake

_SESSION = ("delete", "additionalDirectories", "fork", "title", "archive", "status")
"""What of version 1's capabilities a client has to be told; every agent of version 2 has the others."""


def initialize_result(params: JsonObject) -> JsonObject:
    """The answer to `initialize`: always this version and these capabilities.

    :param params: what the client said, which tells how a user can be let sign in.
    """
    first = handshake.initialize_result(_first_params(params))
    capabilities, methods = _object(first["agentCapabilities"]), first["authMethods"]
    prompt, mcp = _object(capabilities["promptCapabilities"]), _object(capabilities["mcpCapabilities"])
    session = _object(capabilities["sessionCapabilities"])
    return results.initialize_result(
        info=_object(first["agentInfo"]),
        capabilities=results.agent_capabilities(
            prompt=[name for name, has in prompt.items() if has is True],
            mcp=["stdio", *(name for name in ("http", "acp") if mcp.get(name) is True)],
            session=[name for name in session if name in _SESSION],
            auth=["status"],
            more=["providers"],
            session_meta={"fork": forking.ADVERTISED},
        ),
        auth_methods=[_auth_method(_object(method)) for method in (methods if isinstance(methods, list) else [])],
    )


def _first_params(params: JsonObject) -> JsonObject:
    """What the client says of signing in, as it would in version 1."""
    auth = _object(_object(params.get("capabilities")).get("auth"))
    return {"clientCapabilities": {"auth": {"terminal": isinstance(auth.get("terminal"), dict)}}}


def _auth_method(first: JsonObject) -> JsonObject:
    """A way to sign in: its id has another name, its type is always said, and variables are a list."""
    method: JsonObject = {name: value for name, value in first.items() if name not in ("id", "env")}
    method |= {"type": first.get("type", "agent"), "methodId": first["id"]}
    if "env" in first:
        method["env"] = [{"name": name, "value": value} for name, value in _object(first["env"]).items()]
    return method


def _object(value: JsonValue) -> JsonObject:
    return value if isinstance(value, dict) else {}

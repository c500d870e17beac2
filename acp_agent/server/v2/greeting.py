"""What version 2 answers to `initialize`. Needs the standard library and pure modules alone.

The ways to sign in and the agent's name are those of version 1, in version 2's form.

ACP v2, "Initialization".
"""

from __future__ import annotations

from acp_agent.protocol import JsonObject, JsonValue
from acp_agent.protocol.v2 import results
from acp_agent.server import handshake


def initialize_result() -> JsonObject:
    """The answer to `initialize`: always this version and these capabilities."""
    first = handshake.initialize_result()
    methods, info = first["authMethods"], first["agentInfo"]
    return results.initialize_result(
        info=_object(info),
        capabilities=results.agent_capabilities(
            prompt=("image", "embeddedContext"),
            mcp=("stdio", "http"),
            session=("delete", "additionalDirectories"),
        ),
        auth_methods=[_auth_method(_object(method)) for method in (methods if isinstance(methods, list) else [])],
    )


def _auth_method(method: JsonObject) -> JsonObject:
    description = method.get("description")
    return results.agent_auth_method(
        str(method["id"]), str(method["name"]), description=description if isinstance(description, str) else None
    )


def _object(value: JsonValue) -> JsonObject:
    return value if isinstance(value, dict) else {}

"""What the client said it can do, reduced to what this agent asks of it, as version 1 knows it.

Every client of version 2 has notices and compaction's updates; none lends files or terminals. Plans and options have
one form, which version 2's own presenter makes.
"""

from __future__ import annotations

from acp_agent.protocol import JsonObject, as_object
from acp_agent.server.v1.capabilities import Capabilities


def capabilities_of(params: JsonObject) -> Capabilities:
    """Read them off the params of `initialize`; what is not as the schema has it was not advertised."""
    elicitation = as_object(as_object(params.get("capabilities")).get("elicitation"))
    return Capabilities(
        compaction=True,
        notices=True,
        forms=isinstance(elicitation.get("form"), dict),
        urls=isinstance(elicitation.get("url"), dict),
    )

"""What the client said it can do, reduced to what this agent asks of it.

Read as the schema asks for it, leniently throughout, so that there is nothing to refuse and pydantic is not needed.
"""

from __future__ import annotations

from acp_agent.frozen import frozen
from acp_agent.protocol import JsonObject, as_object

_TERMINALS_OF_NO_USE = frozenset({"vscode-acp-client"})
"""Clients by name whose terminals do something else than they are asked for.

VS Code's ACP Client (0.2.0) joins a program and its arguments with spaces and has a shell read that anew: of
`bash -c 'cd build && rm -r *'` only the word `cd` comes to bash, and the rest runs in the folder above. And it ends
that shell alone, so that what was cancelled goes on.
"""


@frozen
class Capabilities:
    """Nothing is sent to a client that did not advertise it.

    :ivar terminal: commands run in its terminals, which do as they are told.
    :ivar compaction: `compaction_update` and `compaction_summary_chunk`.
    :ivar notices: `notice`.
    :ivar plans: `plan_update` in the place of `plan`.
    :ivar plan_removals: `plan_removed` in the place of an empty plan.
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
    plan_removals: bool = False
    booleans: bool = False
    forms: bool = False
    urls: bool = False

    @classmethod
    def of(cls, params: JsonObject) -> Capabilities:
        """Read them off the params of `initialize`; what is not as the schema has it was not advertised."""
        wire = as_object(params.get("clientCapabilities"))
        files, session = as_object(wire.get("fs")), as_object(wire.get("session"))
        options, elicitation = as_object(session.get("configOptions")), as_object(wire.get("elicitation"))
        client = as_object(params.get("clientInfo")).get("name")
        return cls(
            read_text_file=files.get("readTextFile") is True,
            write_text_file=files.get("writeTextFile") is True,
            terminal=wire.get("terminal") is True and client not in _TERMINALS_OF_NO_USE,
            compaction=isinstance(session.get("compaction"), dict),
            notices=isinstance(session.get("notices"), dict),
            plans=isinstance(wire.get("plan"), dict),
            plan_removals=isinstance(wire.get("plan"), dict),
            booleans=isinstance(options.get("boolean"), dict),
            forms=isinstance(elicitation.get("form"), dict),
            urls=isinstance(elicitation.get("url"), dict),
        )

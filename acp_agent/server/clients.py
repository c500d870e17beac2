"""Where clients differ from what they advertise: the one table of it, by the name in
their `clientInfo`.

A capability decides wherever the protocol has one. What is here was read in the
clients' sources and seen in the clients themselves; `editors/` names the versions. A
client that is not in the table is taken by what the protocol says.
"""

from __future__ import annotations

from acp_agent.frozen import frozen
from acp_agent.protocol import JsonObject, as_object


@frozen
class ClientTraits:
    """What is known of a client beyond its capabilities.

    :ivar runs_commands: its terminals run a command as it was sent, and end all of it
        when it is cancelled.
    :ivar shows_plans: it displays `plan` updates.
    :ivar shows_every_option: a permission dialog shows each option under its own name.
        Other clients show one option of each kind, some of them under a label of their
        own.
    :ivar appends_output: it displays the content of a call again with each update
        instead of replacing it.
    :ivar shows_failed_prompts: it displays the error of a prompt as it is.
    :ivar reads_details: of an error, it displays only `data.details`.
    :ivar adds_preamble: it puts text of its own in front of what the user typed, in the
        same block.
    """

    runs_commands: bool = True
    shows_plans: bool = True
    shows_every_option: bool = False
    appends_output: bool = False
    shows_failed_prompts: bool = True
    reads_details: bool = False
    adds_preamble: bool = False


_KNOWN = {
    # Agentic.nvim redraws a call's block with the content of an update behind what is
    # there.
    "Agentic.nvim": ClientTraits(shows_every_option=True, appends_output=True),
    "agent-shell": ClientTraits(shows_every_option=True),
    # CodeCompanion labels options by their kinds, and has no display for plans.
    "CodeCompanion.nvim": ClientTraits(shows_plans=False),
    "Jupyter AI": ClientTraits(
        shows_plans=False, shows_every_option=True, adds_preamble=True
    ),
    # Toad answers a failed prompt with a page about installing the agent, and says
    # nothing of the message.
    "toad": ClientTraits(
        shows_every_option=True, shows_failed_prompts=False, reads_details=True
    ),
    # VS Code's ACP Client (0.2.0) joins a program and its arguments with spaces and has
    # a shell read that anew: of `bash -c 'cd build && rm -r *'` only the word `cd`
    # comes to bash, and the rest runs in the folder above. And it ends that shell
    # alone, so that what was cancelled goes on.
    "vscode-acp-client": ClientTraits(runs_commands=False, shows_every_option=True),
}


def traits_of(params: JsonObject) -> ClientTraits:
    """Return what is known of the client that sent these params of `initialize`.

    Early versions of Agentic.nvim put `clientInfo` into the capabilities.
    """
    capabilities = as_object(params.get("clientCapabilities"))
    info = as_object(params.get("clientInfo")) or as_object(
        capabilities.get("clientInfo")
    )
    name = info.get("name")
    return _KNOWN.get(name, ClientTraits()) if isinstance(name, str) else ClientTraits()

"""The table of clients whose behavior differs from their advertised capabilities, by
the name in their `clientInfo`.

If the protocol has a capability for a behavior, the capability decides. The entries
come from the clients' sources and from tests with the clients. `editors/` names the
versions. A client that is not in the table is expected to follow the protocol.
"""

from __future__ import annotations

from acp_agent.frozen import frozen
from acp_agent.protocol import JsonObject, as_object


@frozen
class ClientTraits:
    """What is known about a client beyond its capabilities.

    :ivar runs_commands: whether its terminals run a command as sent, and kill all its
        processes when it is cancelled.
    :ivar shows_plans: whether it displays `plan` updates.
    :ivar shows_every_option: whether its permission dialogs show every option under its
        own name. Other clients show one option of each kind, some of them with their
        own label.
    :ivar appends_output: whether it appends a call's content on each update instead of
        replacing it.
    :ivar shows_failed_prompts: whether it displays the error of a failed prompt.
    :ivar reads_details: whether it displays only `data.details` of an error.
    :ivar adds_preamble: whether it puts its own text before the user's text, in the
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
    # Agentic.nvim appends the content of an update to a call's block.
    "Agentic.nvim": ClientTraits(shows_every_option=True, appends_output=True),
    "agent-shell": ClientTraits(shows_every_option=True),
    # CodeCompanion labels options by their kinds, and does not display plans.
    "CodeCompanion.nvim": ClientTraits(shows_plans=False),
    "Jupyter AI": ClientTraits(
        shows_plans=False, shows_every_option=True, adds_preamble=True
    ),
    # On a failed prompt, Toad shows a page about installing the agent, without the
    # error's message.
    "toad": ClientTraits(
        shows_every_option=True, shows_failed_prompts=False, reads_details=True
    ),
    # VS Code's ACP Client (0.2.0) joins a program and its arguments with spaces, and
    # passes the result to a shell. From `bash -c 'cd build && rm -r *'`, bash gets only
    # the word `cd`, and the rest runs in the parent folder. On a cancel, the client
    # kills only that shell, so the command keeps running.
    "vscode-acp-client": ClientTraits(runs_commands=False, shows_every_option=True),
}


def traits_of(params: JsonObject) -> ClientTraits:
    """Return what is known about the client that sent these params of `initialize`.

    Early versions of Agentic.nvim put `clientInfo` into the capabilities.
    """
    capabilities = as_object(params.get("clientCapabilities"))
    info = as_object(params.get("clientInfo")) or as_object(
        capabilities.get("clientInfo")
    )
    name = info.get("name")
    return _KNOWN.get(name, ClientTraits()) if isinstance(name, str) else ClientTraits()

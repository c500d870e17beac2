"""`acp-agent chat`: a conversation in the terminal, over the same sessions as in an editor."""

from acp_agent.commands.chat.command import run

__all__ = ["run"]

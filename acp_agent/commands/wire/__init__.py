"""`acp-agent wire`: what the editor and the agent said to each other, where that was recorded."""

from acp_agent.commands.wire.command import run

__all__ = ["run"]

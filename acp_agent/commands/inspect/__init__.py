"""`acp-agent inspect`: a session as one HTML page, written to a file or shown while it goes on."""

from acp_agent.commands.inspect.command import run

__all__ = ["run"]

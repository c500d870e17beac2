"""`acp-agent doctor`: whether all is there that the agent needs, and what to do where it is not."""

from acp_agent.commands.doctor.command import run

__all__ = ["run"]

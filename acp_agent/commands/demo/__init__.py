"""`acp-agent demo`: a scratch project, the real agent as a subprocess, and this terminal in the editor's place."""

from acp_agent.commands.demo.command import run

__all__ = ["run"]

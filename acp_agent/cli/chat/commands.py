"""The slash commands of the terminal, which the session does not know; a recipe of the same name comes first."""

from __future__ import annotations

from acp_agent.conversation.updates import Command

COMMANDS = (
    Command("cost", "Show what this session has cost"),
    Command("exit", "Leave, as ctrl-d does"),
    Command("mode", "Show the modes, or change the mode", "mode"),
    Command("new", "Begin a new session in this directory"),
    Command("quit", "Leave, as ctrl-d does"),
    Command("resume", "Go on with another session: choose one of this directory, or name any", "id"),
    Command("sessions", "List the newest sessions of all directories"),
)
SHELL = "!"
"""Begins a line that is a command of the person's own."""


def help_text() -> str:
    """Return what can be typed here besides the commands of the session, as `/help` lists those."""
    lines = (f"- `/{each.name}{f' {each.hint}' if each.hint else ''}`: {each.description}" for each in COMMANDS)
    more = f"- `{SHELL}command`: Run a command of your own; what it prints goes with your next prompt"
    return "\n".join(("**Commands of the terminal:**", "", *lines, more))

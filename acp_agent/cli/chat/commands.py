"""The slash commands of the terminal, which the session does not know; a recipe of the
same name comes first.

`ALIASES` and `ELSEWHERE` are the names that other agents have for a command: those of
Claude Code, Codex, Gemini CLI, opencode and aider, by their own lists of commands.
"""

from __future__ import annotations

from collections.abc import Mapping

from acp_agent.conversation.updates import Command

COMMANDS = (
    Command("cost", "Show what this session has cost"),
    Command("exit", "Quit, as ctrl-d does"),
    Command("mode", "Show the modes, or change the mode", "mode"),
    Command("new", "Start a new session in this directory"),
    Command("quit", "Quit, as ctrl-d does"),
    Command(
        "resume",
        "Continue another session: choose one of this directory, or give the ID of any",
        "id",
    ),
    Command("sessions", "List the newest sessions of all directories"),
    Command(
        "status",
        "Show the version, the session, its directory, model and mode, and how full the context is",
    ),
)
SHELL = "!"
"""Begins a line that is a command of the person's own."""

ALIASES: Mapping[str, str] = {
    "?": "help",
    "about": "status",
    "approvals": "mode",
    "bye": "quit",
    "chat-mode": "mode",
    "clear": "new",
    "compress": "compact",
    "continue": "resume",
    "h": "help",
    "info": "status",
    "models": "model",
    "permission-mode": "mode",
    "q": "quit",
    "reset": "new",
    "session": "status",
    "stats": "cost",
    "summarize": "compact",
    "tokens": "context",
    "usage": "cost",
    "version": "status",
    "wq": "quit",
}
"""Other agents' names of commands that are here as well; `chat` takes them."""

_KEYS = "Run `acp-agent login` in another terminal; the next prompt uses the key."
_SETTINGS = (
    "`acp-agent config` shows the settings; `acp-agent help configuration` lists them."
)
_PERMISSIONS = "`/mode` shows the modes; `acp-agent permissions` lists and revokes permanent permissions."
_FORK = "`acp-agent sessions fork ID` starts a new session from a point in this one."
_DIRECTORY = (
    "Start `acp-agent chat --follow --add-dir DIRECTORY`; `additional_directories` in config.yaml applies to every "
    "session."
)
_MEMORY = "The agent reads AGENTS.md in the project; `/init` writes one."
_FAULT = "`acp-agent doctor --report` prints the information for a bug report."
_HOOKS = "Run `acp-agent hooks list` in another terminal."
_MCP = "MCP servers are configured in config.yaml: see `acp-agent help mcp`; `acp-agent doctor` checks them."
_THINKING = "Set `thinking` in config.yaml, or choose the level in your editor."
_MENTION = "Mention a file in the prompt as @path."
_NOT_HERE = "There is no such command here; `/help` lists the commands."

ELSEWHERE: Mapping[str, str] = {
    "add": _MENTION,
    "add-dir": _DIRECTORY,
    "agents": "There are no sub-agents; for named prompts, see `acp-agent help recipes`.",
    "allowed-tools": _PERMISSIONS,
    "auth": _KEYS,
    "branch": _FORK,
    "bug": _FAULT,
    "checkpoint": "`/undo` reverts the last turn's changes to files. " + _FORK,
    "config": _SETTINGS,
    "connect": _KEYS,
    "copy": "`/export` writes the conversation to a file.",
    "delete": "`acp-agent sessions rm ID` removes a session.",
    "diff": "`!git diff` shows the changes.",
    "directory": _DIRECTORY,
    "doctor": "Run `acp-agent doctor` in another terminal.",
    "drop": _NOT_HERE,
    "editor": "alt-enter inserts a new line.",
    "effort": _THINKING,
    "extensions": _MCP,
    "feedback": _FAULT,
    "fork": _FORK,
    "history": "`/resume` lists the sessions of this directory.",
    "hooks": _HOOKS,
    "ide": "An editor starts the agent itself: `acp-agent setup` lists the editors.",
    "login": _KEYS,
    "logout": "Run `acp-agent logout` in another terminal.",
    "mcp": _MCP,
    "memory": _MEMORY,
    "mention": _MENTION,
    "output-style": _SETTINGS,
    "permissions": _PERMISSIONS,
    "plugin": _MCP,
    "plugins": _MCP,
    "privacy-settings": _SETTINGS,
    "redo": _NOT_HERE,
    "reasoning-effort": _THINKING,
    "rename": "`acp-agent sessions rename ID TITLE` renames a session.",
    "report": _FAULT,
    "restore": "`/undo` reverts the last turn's changes to files. " + _FORK,
    "rewind": "`/undo` reverts the last turn's changes to files. " + _FORK,
    "sandbox": "See `acp-agent help sandbox`.",
    "settings": _SETTINGS,
    "setup-github": "See `acp-agent help scripts`.",
    "share": "`/export` writes the conversation to a file; `acp-agent inspect` writes it as a web page.",
    "skills": "Recipes are named prompts: see `acp-agent help recipes`.",
    "terminal-setup": "alt-enter inserts a new line.",
    "theme": "The colours are your terminal's; `NO_COLOR=1` turns them off.",
    "themes": "The colours are your terminal's; `NO_COLOR=1` turns them off.",
    "think": _THINKING,
    "thinking": _THINKING,
    "tools": "See `acp-agent help tools`.",
    "vim": _NOT_HERE,
}
"""What to tell somebody who types a command of another agent that is not a command
here.
"""


def help_text() -> str:
    """Return what can be typed here besides the commands of the session, as `/help`
    lists those.
    """
    lines = (
        f"- `/{each.name}{f' {each.hint}' if each.hint else ''}`: {each.description}"
        for each in COMMANDS
    )
    more = f"- `{SHELL}command`: Run a shell command; its output is sent with your next prompt"
    return "\n".join(("**Commands of this terminal:**", "", *lines, more))

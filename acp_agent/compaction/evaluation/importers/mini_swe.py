"""Trajectories of mini-swe-agent (`.traj.json`): `{"info", "messages", "trajectory_format"}`.

Version 1 has texts alone: an answer holds one command in a fenced block, and the user's message behind it is the
command's output. Version 2 has calls as in Chat Completions, or texts with another fence.
"""

from __future__ import annotations

import re

from acp_agent.compaction.evaluation.importers.reading import (
    Document,
    Object,
    as_list,
    as_object,
    as_text,
    block_text,
)
from acp_agent.compaction.evaluation.importers.transcript import add_message
from acp_agent.compaction.evaluation.recording import Recording, RecordingBuilder

FORM = "mini-swe-agent"

_COMMAND = re.compile(r"```(?:bash|mswea_bash_command)\s*\n(.*?)\n```", re.DOTALL)
_STATUS = re.compile(r"<returncode>(-?\d+)</returncode>")


def matches(document: Document) -> bool:
    """Whether it is one."""
    whole = as_object(document.whole) or {}
    if not as_list(whole.get("messages")):
        return False
    if as_text(whole.get("trajectory_format")).startswith("mini-swe-agent"):
        return True
    info = as_object(whole.get("info")) or {}
    return "exit_status" in info or "mini_version" in info


def read(document: Document, name: str) -> Recording:
    """Import it.

    :raises AgentError: a message has another form.
    """
    whole = as_object(document.whole) or {}
    builder = RecordingBuilder()
    builder.cwd = _cwd(whole)
    waits = ""
    for index, value in enumerate(as_list(whole.get("messages"))):
        message = as_object(value) or {}
        role, content = message.get("role"), block_text(message.get("content"))
        if waits and role == "user":
            status = _STATUS.search(content)
            builder.result(waits, content, is_error=status is not None and status[1] != "0")
            waits = ""
            continue
        commands = _COMMAND.findall(content) if role == "assistant" and not message.get("tool_calls") else []
        if len(commands) != 1:
            add_message(builder, value, document.path, f"messages[{index}]")
            continue
        waits = f"step {index}"
        builder.text(_COMMAND.sub("", content))
        builder.call(waits, "bash", {"command": commands[0]})
    return builder.build(name, FORM)


def _cwd(whole: Object) -> str:
    at: object = whole
    for name in ("info", "config", "environment", "cwd"):
        at = (as_object(at) or {}).get(name)
    cwd = as_text(at)
    return cwd if cwd.startswith("/") else ""

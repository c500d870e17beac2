"""Trajectories of SWE-agent (`.traj`): `{"history": [...], "trajectory": [...]}`.

The history is what the model saw: messages with a `message_type`, answers with `thought`, `action` and, where the model
calls tools, `tool_calls`. Without those the action is a command line, and the observation behind it its output. Where
there is no history, the steps of `trajectory` (`thought`, `action`, `observation`) are taken.
"""

from __future__ import annotations

from acp_agent.compaction.evaluation.importers.reading import (
    Document,
    Object,
    as_list,
    as_object,
    as_text,
    block_text,
    objects,
    wrong,
)
from acp_agent.compaction.evaluation.importers.transcript import add_function_call, add_message
from acp_agent.compaction.evaluation.recording import Recording, RecordingBuilder

FORM = "SWE-agent"


def matches(document: Document) -> bool:
    """Whether it is one."""
    whole = as_object(document.whole) or {}
    return bool(as_list(whole.get("history")) or as_list(whole.get("trajectory")))


def read(document: Document, name: str) -> Recording:
    """Import it.

    :raises AgentError: a message has another form.
    """
    whole = as_object(document.whole) or {}
    builder = RecordingBuilder()
    history = as_list(whole.get("history"))
    if history:
        _add_history(builder, history, document)
    else:
        _add_steps(builder, as_list(whole.get("trajectory")), document)
    return builder.build(name, FORM)


def _add_history(builder: RecordingBuilder, history: list[object], document: Document) -> None:
    waits = ""
    for index, value in enumerate(history):
        message = as_object(value) or {}
        if message.get("is_demo") is True or message.get("message_type") == "demonstration":
            continue  # an example from another session
        role = message.get("role")
        if role == "assistant" and (message.get("tool_calls") or as_text(message.get("action")).strip()):
            waits = _add_action(builder, message, f"step {index}")
        elif waits and role == "user":
            builder.result(waits, _observation(block_text(message.get("content"))))
            waits = ""
        else:
            add_message(builder, value, document.path, f"history[{index}]")


def _add_action(builder: RecordingBuilder, message: Object, step: str) -> str:
    """Add an answer that does something; what its result is known by, where the recording gives no id."""
    builder.text(as_text(message.get("thought")) or block_text(message.get("content")))
    calls = list(objects(message.get("tool_calls")))
    for call in calls:
        add_function_call(builder, call)
    if calls:
        return ""
    builder.call(step, "bash", {"command": as_text(message.get("action")).strip()})
    return step


def _add_steps(builder: RecordingBuilder, steps: list[object], document: Document) -> None:
    first = as_object(steps[0]) or {}
    for message in objects(first.get("query") or first.get("messages")):
        if message.get("message_type") != "demonstration" and message.get("role") in ("system", "user"):
            add_message(builder, message, document.path, "trajectory[0].query")
    for index, value in enumerate(steps):
        step = as_object(value)
        if step is None:
            message = "should be an object with `action` and `observation`"
            raise wrong(document.path, message, key=f"trajectory[{index}]")
        builder.text(as_text(step.get("thought")) or as_text(step.get("response")))
        if action := as_text(step.get("action")).strip():
            builder.call(f"step {index}", "bash", {"command": action})
            builder.result(f"step {index}", as_text(step.get("observation")))


def _observation(text: str) -> str:
    return text.removeprefix("OBSERVATION:\n")

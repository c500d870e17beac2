"""`acp-agent hooks`: what would be asked in this directory and in which order, and what it answers.

Nothing of what a hook answers here is done.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import field
from pathlib import Path
from typing import cast, get_args

from acp_agent.app import DATABASE, open_database, start_logging_at_home
from acp_agent.commands.trust import brought_by
from acp_agent.config import Settings, load_settings
from acp_agent.config.document import did_you_mean
from acp_agent.config.trust import TrustStore
from acp_agent.conversation.events import CompactionTrigger
from acp_agent.conversation.messages import JsonObject, JsonValue, Message, Text, UserMessage
from acp_agent.errors import AgentError, HookError
from acp_agent.frozen import frozen
from acp_agent.hooks.answers import as_answer
from acp_agent.hooks.claude import TOOLS, with_our_keys
from acp_agent.hooks.contract import ORIGINS, Hook, OnError, Origin, Services, Summary
from acp_agent.hooks.discovery import Found, discover, project_files
from acp_agent.hooks.dispatcher import Dispatcher, in_order
from acp_agent.hooks.events import (
    ALIASES,
    EVENT_NAMES,
    OBSERVED,
    AfterCompaction,
    AfterToolCall,
    AgentStop,
    BeforeCompaction,
    BeforeToolCall,
    EventName,
    HookEvent,
    Moment,
    SessionEnd,
    SessionStart,
    TokenUsage,
    TurnEnd,
    UserMessageSend,
    event_name,
)
from acp_agent.hooks.executables import ExecutableHook
from acp_agent.hooks.outcomes import Outcome
from acp_agent.llm.registry import BUILT_IN_PROVIDERS
from acp_agent.session.trusting import advice
from acp_agent.storage.store import SessionStore

SESSION = "sess_test"
WINDOW = 200_000
"""Tokens of the window of a sample."""
_REASONS: tuple[str, ...] = get_args(CompactionTrigger)


async def run(arguments: argparse.Namespace) -> int:
    """List the hooks, or ask those that are bound to an event.

    :returns: 0; 1 where a hook cannot be used, or failed.
    :raises AgentError: what was asked for makes no sense, or the configuration is wrong.
    """
    start_logging_at_home(os.environ)
    settings = load_settings(os.environ, Path.cwd(), providers=BUILT_IN_PROVIDERS)
    event = _event(arguments) if arguments.action == "test" else None
    trusted = _is_trusted(settings)
    found = await discover(settings, ORIGINS if trusted else [origin for origin in ORIGINS if origin != "project"])
    for error in found.errors:
        print(f"acp-agent: {error}", file=sys.stderr)
    if event is None:
        _list(found, () if trusted else _untrusted(settings), as_json=arguments.json)
        return 1 if found.errors else 0
    if not trusted:
        print(f"acp-agent: The project's hooks were not asked. {_advice()}", file=sys.stderr)
    failed = await _test(event, found, settings, as_json=arguments.json)
    return 1 if found.errors or failed else 0


def _is_trusted(settings: Settings) -> bool:
    """Whether nothing of the project's hooks would have to be allowed first: listing them runs them."""
    found = [each for each in brought_by(settings, Path.cwd()) if each.place == settings.project and each.has_hooks]
    store = TrustStore(settings.home)
    return all(store.trusts(each) for each in found)


def _advice() -> str:
    return advice([str(Path.cwd())])


# --- list ---


def _list(found: Found, untrusted: Sequence[JsonObject], *, as_json: bool) -> None:
    listed = [*(_description(hook) for hook in in_order(found.hooks)), *untrusted]
    if as_json:
        print(json.dumps(listed, ensure_ascii=False, indent=2))
    elif not listed:
        print("There are no hooks for this directory.")
    else:
        for entry in listed:
            events = ", ".join(cast("list[str]", entry["events"]))
            matcher = f"  {entry['matcher']}" if entry["matcher"] else ""
            trust = "" if entry["trusted"] else "  (not trusted)"
            print(f"{entry['origin']:<8} {entry['name']}  {events}{matcher}{trust}\n         {entry['source']}")
        if untrusted:
            print(_advice())


def _description(hook: Hook) -> JsonObject:
    return {
        "origin": hook.origin,
        "name": hook.name,
        "events": [*(name for name in EVENT_NAMES if name in hook.events)],
        "matcher": hook.matcher if isinstance(hook, ExecutableHook) else "",
        "source": hook.source,
        "timeout": hook.time_limit,
        "on_error": hook.on_error,
        "trusted": True,
    }


def _untrusted(settings: Settings) -> tuple[JsonObject, ...]:
    """What the project brings; files are not asked what they want, since that would run them."""
    commands = (ExecutableHook.of_command(command, "") for command in settings.hooks if command.origin == "project")
    described: list[JsonObject] = [{**_description(hook), "trusted": False} for hook in commands]
    nobody_knows: JsonObject = {"events": [], "matcher": "", "timeout": None, "on_error": None, "trusted": False}
    described += (
        {"origin": "project", "name": path.name, "source": str(path), **nobody_knows}
        for path in project_files(settings)
    )
    return tuple(described)


# --- test ---


async def _test(event: HookEvent, found: Found, settings: Settings, *, as_json: bool) -> bool:
    """Ask all hooks as a session does, and print what each answers and what comes of it.

    :returns: whether one failed.
    """
    answers: list[_Asked] = []
    hooks = [_Asked(hook, answers) for hook in found.hooks]
    failures: list[str] = []

    async def tell(text: str) -> None:
        failures.append(text)

    store = await open_database(os.environ) if (settings.home / DATABASE).exists() else None
    try:
        together = await Dispatcher(hooks, _NoSession(settings.home, store), tell).dispatch(event)
    finally:
        if store is not None:
            await store.aclose()
    if as_json:
        found_answers: list[JsonValue] = [
            {"name": each.name, "origin": each.origin, "source": each.source, "answer": each.answer} for each in answers
        ]
        report: JsonObject = {
            "event": event.name,
            "answers": found_answers,
            "together": as_answer(together),
            "failures": [*failures],
        }
        print(json.dumps(report, ensure_ascii=False, indent=2))
        return bool(failures)
    if not answers:
        print(f"No hook would be asked about this {event.name}.")
        return False
    for each in answers:
        print(f"{each.origin:<8} {each.name}  ({each.source})\n         {_shown(each.answer)}")
    print(f"together {_shown(as_answer(together))}")
    if event.name in OBSERVED:
        print(f"         What is answered at {event.name} changes nothing.")
    for failure in failures:
        print(f"acp-agent: {failure}", file=sys.stderr)
    return bool(failures)


def _shown(answer: JsonObject | None) -> str:
    return "failed" if answer is None else json.dumps(answer, ensure_ascii=False) if answer else "nothing"


class _Asked:
    """A hook, and what it answered; None where it failed.

    :param order: where it adds itself when it is asked.
    """

    def __init__(self, hook: Hook, order: list[_Asked]) -> None:
        self._hook = hook
        self._order = order
        self.answer: JsonObject | None = None
        self.name: str = hook.name
        self.origin: Origin = hook.origin
        self.source: str = hook.source
        self.file: Path | None = hook.file
        self.events: frozenset[EventName] = hook.events
        self.time_limit: float = hook.time_limit
        self.on_error: OnError = hook.on_error

    def wants(self, event: HookEvent) -> bool:
        """As the hook itself."""
        return self._hook.wants(event)

    async def run(self, event: HookEvent, services: Services) -> Outcome:
        """Ask it, and remember the answer."""
        self._order.append(self)
        outcome = await self._hook.run(event, services)
        self.answer = as_answer(outcome)
        return outcome


@frozen
class _NoSession:
    """What hooks may use where there is no session: the store and the log."""

    home: Path
    open_store: SessionStore | None
    log: logging.Logger = field(default_factory=lambda: logging.getLogger("acp_agent.hooks"))

    @property
    def store(self) -> SessionStore:
        if self.open_store is None:
            raise HookError("There are no sessions yet.")
        return self.open_store

    async def compaction(
        self, messages: Sequence[Message] | None = None, *, prompt: str | None = None, model: str | None = None
    ) -> Summary:
        raise HookError("A test has no session to compact.")

    async def ask_model(self, prompt: str, *, system: str = "", model: str | None = None) -> str:
        raise HookError("A test has no session, and so no model to ask.")


# --- the event ---


async def _no_transcript() -> str:
    return os.devnull


def _event(arguments: argparse.Namespace) -> HookEvent:
    """A sample of the event that was named.

    :raises AgentError: there is no such event, or what was said of it does not fit.
    """
    name = event_name(arguments.event)
    if name is None:
        known = did_you_mean(arguments.event, (*EVENT_NAMES, *ALIASES))
        raise AgentError(f"There is no event {arguments.event!r}; {known}.")
    if not 0 <= arguments.used <= 1:
        raise AgentError(f"--used {arguments.used:g}: how full the window is, is a share from 0 to 1, as 0.7.")
    at = Moment(
        SESSION,
        str(Path.cwd()),
        _no_transcript,
        usage=TokenUsage(current_context_window=int(arguments.used * WINDOW), max_context_window=WINDOW),
        messages=(UserMessage("msg_test", (Text(arguments.prompt),)),),
    )
    return _SAMPLES[name](at, arguments)


def _call(at: Moment, arguments: argparse.Namespace) -> tuple[str, JsonObject]:
    """The tool by our name, and its input in our keys."""
    named = str(arguments.tool)
    tool = next((ours for ours, theirs in TOOLS.items() if theirs == named), named)
    try:
        value = cast("object", json.loads(arguments.input or "{}"))
    except ValueError as error:
        raise AgentError(f"--input is no JSON: {error}.") from error
    if not isinstance(value, dict):
        raise AgentError('--input should be a JSON object, as {"command": "ls"}.')
    given = cast("JsonObject", value)
    return tool, with_our_keys(tool, given, given, at.cwd) if given else {}


def _before_call(at: Moment, arguments: argparse.Namespace) -> HookEvent:
    tool, given = _call(at, arguments)
    return BeforeToolCall(at, "call_test", tool, given)


def _after_call(at: Moment, arguments: argparse.Namespace) -> HookEvent:
    tool, given = _call(at, arguments)
    return AfterToolCall(at, "call_test", tool, given, (Text(arguments.output),))


def _reason(arguments: argparse.Namespace) -> CompactionTrigger:
    reason = arguments.reason or "manual"
    if reason not in _REASONS:
        raise AgentError(f"There is no reason {reason!r} for a compaction; {did_you_mean(reason, _REASONS)}.")
    return cast("CompactionTrigger", reason)


def _used(at: Moment) -> int:
    return at.usage.current_context_window


_SAMPLES: dict[EventName, Callable[[Moment, argparse.Namespace], HookEvent]] = {
    "session_start": lambda at, said: SessionStart(at, said.source),
    "user_message_send": lambda at, said: UserMessageSend(at, said.prompt),
    "before_tool_call": _before_call,
    "after_tool_call": _after_call,
    "turn_end": lambda at, said: TurnEnd(at, said.response),
    "agent_stop": lambda at, said: AgentStop(at, said.response),
    "before_compaction": lambda at, said: BeforeCompaction(at, _reason(said), _used(at), 1_000, WINDOW),
    "after_compaction": lambda at, said: AfterCompaction(at, _reason(said), _used(at), 1_000, WINDOW, said.response),
    "session_end": lambda at, said: SessionEnd(at, "close"),
}

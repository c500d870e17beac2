"""`acp-agent hooks`: list the hooks of this directory in their order, and test them with a sample event.

The outcomes of a test are printed and not carried out.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, field, replace
from pathlib import Path
from typing import cast, get_args

from acp_agent.app import start_home_logging
from acp_agent.cli.trust import code_of
from acp_agent.config import Settings, load_settings
from acp_agent.config.hook_events import EVENT_NAMES, OBSERVED, event_name, unknown_event
from acp_agent.config.trust import TrustStore
from acp_agent.conversation.events import CompactionTrigger
from acp_agent.conversation.messages import JsonObject, Message, Text, UserMessage
from acp_agent.errors import AgentError, HookError
from acp_agent.frozen import frozen
from acp_agent.hooks.answers import with_our_keys
from acp_agent.hooks.contract import ORIGINS, Found, Hook, Services, Summary
from acp_agent.hooks.discovery import discover, project_files
from acp_agent.hooks.dispatcher import Dispatcher, in_order
from acp_agent.hooks.events import (
    AfterCompaction,
    AfterToolCall,
    AgentStop,
    BeforeCompaction,
    BeforeToolCall,
    HookEvent,
    Moment,
    SessionEnd,
    SessionStart,
    TokenUsage,
    TurnEnd,
    UserMessageSend,
)
from acp_agent.hooks.executables import command_hook
from acp_agent.hooks.messages import as_json
from acp_agent.hooks.outcomes import Outcome, Replace
from acp_agent.hooks.payload import TOOLS
from acp_agent.llm.registry import BUILT_IN_PROVIDERS
from acp_agent.session.project.trust import advice
from acp_agent.storage.store import SessionStore

SESSION = "sess_test"
WINDOW = 200_000
"""Tokens of the window of a sample."""


async def run(arguments: argparse.Namespace) -> int:
    """List the hooks, or ask those that are bound to an event.

    :returns: 0; 1 where a hook cannot be used, or failed.
    :raises AgentError: what was asked for makes no sense, or the configuration is wrong.
    """
    start_home_logging(os.environ)
    settings = load_settings(os.environ, Path.cwd(), providers=BUILT_IN_PROVIDERS)
    event = _event(arguments) if arguments.action == "test" else None
    # Listing a project's hooks runs them.
    project = [code for code in code_of(settings, Path.cwd()) if code.place == settings.project and code.has_hooks]
    trusted = all(map(TrustStore(settings.home).trusts, project))
    found = await discover(settings, ORIGINS if trusted else [origin for origin in ORIGINS if origin != "project"])
    for error in found.errors:
        print(f"acp-agent: {error}", file=sys.stderr)
    if event is None:
        _list(found, [] if trusted else _untrusted(settings), as_json=arguments.json)
        return 1 if found.errors else 0
    if not trusted:
        print(f"acp-agent: The project's hooks were not asked. {advice([str(Path.cwd())])}", file=sys.stderr)
    failed = await _test(event, found, settings, as_json=arguments.json)
    return 1 if found.errors or failed else 0


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
            print(advice([str(Path.cwd())]))


def _description(hook: Hook, *, trusted: bool = True) -> JsonObject:
    return {
        "origin": hook.origin,
        "name": hook.name,
        "events": [*(name for name in EVENT_NAMES if name in hook.events)],
        "matcher": hook.matcher,
        "source": hook.source,
        "timeout": hook.time_limit,
        "on_error": hook.on_error,
        "trusted": trusted,
    }


def _untrusted(settings: Settings) -> list[JsonObject]:
    """Return what the project brings; files are not asked what they want, since that would run them."""
    commands = (command_hook(command, "") for command in settings.hooks if command.origin == "project")
    unknown: JsonObject = {"events": [], "matcher": "", "timeout": None, "on_error": None, "trusted": False}
    return [_description(hook, trusted=False) for hook in commands] + [
        {"origin": "project", "name": path.name, "source": str(path), **unknown} for path in project_files(settings)
    ]


# --- test ---


async def _test(event: HookEvent, found: Found, settings: Settings, *, as_json: bool) -> bool:
    """Ask all hooks as a session does, and print what each answers and what comes of it.

    :returns: whether one failed.
    """
    answers: list[tuple[Hook, JsonObject | None]] = []
    failures: list[str] = []

    def noted(hook: Hook) -> Hook:
        async def run(event: HookEvent, services: Services) -> Outcome:
            place = len(answers)
            answers.append((hook, None))
            outcome = await hook.run(event, services)
            answers[place] = (hook, _as_json(outcome))
            return outcome

        return replace(hook, run=run)

    async def tell(text: str) -> None:
        failures.append(text)

    hooks = [noted(hook) for hook in found.hooks]
    together = _as_json(await Dispatcher(hooks, _NoSession(settings.home), tell).dispatch(event))
    if as_json:
        report = {
            "event": event.name,
            "answers": [
                {"name": hook.name, "origin": hook.origin, "source": hook.source, "answer": answer}
                for hook, answer in answers
            ],
            "together": together,
            "failures": failures,
        }
        print(json.dumps(report, ensure_ascii=False, indent=2))
        return bool(failures)
    if not answers:
        print(f"No hook would be asked about this {event.name}.")
        return False
    for hook, answer in answers:
        print(f"{hook.origin:<8} {hook.name}  ({hook.source})\n         {_shown(answer)}")
    print(f"together {_shown(together)}")
    if event.name in OBSERVED:
        print(f"         What is answered at {event.name} changes nothing.")
    for failure in failures:
        print(f"acp-agent: {failure}", file=sys.stderr)
    return bool(failures)


def _as_json(outcome: Outcome) -> JsonObject:
    """Return what an outcome wants, by its attributes."""
    wanted = {name: value for name, value in asdict(outcome).items() if value not in (None, ())}
    if isinstance(outcome.action, Replace):
        wanted["action"] = {"messages": [as_json(message) for message in outcome.action.messages]}
    if outcome.action is not None:
        wanted["action"] = {"name": outcome.action.name, **wanted["action"]}
    return wanted


def _shown(answer: JsonObject | None) -> str:
    return "failed" if answer is None else json.dumps(answer, ensure_ascii=False) if answer else "nothing"


@frozen
class _NoSession:
    """What hooks may use where there is no session: the log."""

    home: Path
    log: logging.Logger = field(default_factory=lambda: logging.getLogger("acp_agent.hooks"))

    @property
    def store(self) -> SessionStore:
        raise HookError("A test has no store of sessions.")

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
    """Return a sample of the event that was named.

    :raises AgentError: there is no such event, or what was said of it does not fit.
    """
    name = event_name(arguments.event)
    if name is None:
        raise AgentError(f"EVENT: {unknown_event(arguments.event)}.")
    used = int(arguments.used * WINDOW)
    at = Moment(
        SESSION,
        str(Path.cwd()),
        _no_transcript,
        usage=TokenUsage(current_context_window=used, max_context_window=WINDOW),
        messages=(UserMessage("msg_test", (Text(arguments.prompt),)),),
    )
    match name:
        case "session_start":
            return SessionStart(at, arguments.source)
        case "user_message_send":
            return UserMessageSend(at, arguments.prompt)
        case "before_tool_call":
            return BeforeToolCall(at, "call_test", *_call(at, arguments))
        case "after_tool_call":
            return AfterToolCall(at, "call_test", *_call(at, arguments), (Text(arguments.output),))
        case "turn_end":
            return TurnEnd(at, arguments.response)
        case "agent_stop":
            return AgentStop(at, arguments.response)
        case "before_compaction":
            return BeforeCompaction(at, arguments.reason, used, 1_000, WINDOW)
        case "after_compaction":
            return AfterCompaction(at, arguments.reason, used, 1_000, WINDOW, arguments.response)
        case "session_end":
            return SessionEnd(at, "close")


def _call(at: Moment, arguments: argparse.Namespace) -> tuple[str, JsonObject]:
    """Return the tool by our name, and its input in our keys."""
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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the sub-command."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="what would be asked, in this order")
    listing.add_argument("--json", action="store_true", help="print it as JSON")
    test = actions.add_parser("test", help="ask all that are bound to an event, and do nothing of what they want")
    test.add_argument("event", metavar="EVENT", help="such as before_tool_call, or PreToolUse")
    test.add_argument(
        "--tool", default="shell", metavar="NAME", help="the tool of a call, by our name or Claude Code's (`shell`)"
    )
    test.add_argument("--input", metavar="JSON", help='its arguments, as `{"command": "ls"}`')
    test.add_argument("--output", default="", metavar="TEXT", help="its result")
    test.add_argument("--prompt", default="Hello", metavar="TEXT", help="what the user sent")
    test.add_argument("--response", default="Done.", metavar="TEXT", help="the model's answer, or the summary")
    test.add_argument(
        "--source", default="new", choices=("new", "load", "resume", "compact"), help="how the session starts (`new`)"
    )
    test.add_argument("--used", type=float, default=0.5, metavar="SHARE", help="how full the window is, as 0.7 (0.5)")
    reasons, why = get_args(CompactionTrigger), "why it is compacted, as `manual` or `threshold`"
    test.add_argument("--reason", default="manual", choices=reasons, metavar="REASON", help=why)
    test.add_argument("--json", action="store_true", help="print it as JSON")

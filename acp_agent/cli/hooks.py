"""`acp-agent hooks`: list the hooks of this directory in their order, and test them
with a sample event.

The outcomes of a test are printed and not carried out.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import cast, get_args

from acp_agent.app import checked_settings, start_home_logging
from acp_agent.cli.terminal.process import complain
from acp_agent.cli.trust import code_of
from acp_agent.compaction.estimate import estimate_messages, estimate_text
from acp_agent.config.forms import share_of
from acp_agent.config.hook_events import (
    EVENT_NAMES,
    OBSERVED,
    OUR_TOOLS,
    event_name,
    unknown_event,
)
from acp_agent.config.trust import TrustStore
from acp_agent.conversation.messages import JsonObject, Message, Text, UserMessage
from acp_agent.conversation.swaps import CompactionTrigger
from acp_agent.errors import AgentError, HookError
from acp_agent.frozen import frozen
from acp_agent.hooks.answers import with_our_keys
from acp_agent.hooks.contract import (
    ORIGINS,
    FoundHooks,
    Hook,
    Origin,
    Services,
    Summary,
)
from acp_agent.hooks.discovery import discover
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
from acp_agent.hooks.outcomes import Outcome, Replace
from acp_agent.hooks.payload import as_json
from acp_agent.session.trust import advice
from acp_agent.storage.store import SessionStore
from acp_agent.visible import on_one_line

_SESSION = "sess_test"
_WINDOW = 200_000
"""Tokens of the window of a sample."""
_SUMMARY = "# Goal\nThis is a sample summary. In a session, a model writes it."


async def run(arguments: argparse.Namespace) -> int:
    """List the hooks, or ask those that are bound to an event.

    :returns: 0; 1 where a hook cannot be used, or failed.
    :raises AgentError: what was asked for makes no sense, or the configuration is
        wrong.
    """
    start_home_logging(os.environ)
    settings = checked_settings(os.environ, Path.cwd())
    event = _event(arguments) if arguments.action == "test" else None
    # Listing a project's hooks runs them.
    project = [
        code
        for code in code_of(settings, Path.cwd())
        if code.place == settings.project and code.has_hooks
    ]
    trusted = all(map(TrustStore(settings.home).trusts, project))
    notices: list[str] = []
    origins: list[Origin] = [
        origin for origin in ORIGINS if trusted or origin != "project"
    ]
    found = await discover(settings, origins, notices, project[0] if project else None)
    for error in found.errors:
        complain(str(error))
    if not trusted:
        complain(f"The project's hooks are ignored. {advice([str(Path.cwd())])}")
    if event is not None:
        failed = await _test(event, found, settings.home)
        _tell(notices)
        return 1 if found.errors or failed else 0
    _tell(notices)
    for hook in in_order(found.hooks):
        events = ", ".join(name for name in EVENT_NAMES if name in hook.events)
        matcher = f"  {hook.matcher}" if hook.matcher else ""
        print(
            f"{hook.origin:<8} {on_one_line(hook.name)}  {events}{on_one_line(matcher)}\n"
            f"         {on_one_line(hook.source)}"
        )
    if trusted and not found.hooks:
        print("There are no hooks for this directory.")
    return 1 if found.errors else 0


def _tell(notices: Sequence[str]) -> None:
    for notice in notices:
        complain(notice)


async def _test(event: HookEvent, found: FoundHooks, home: Path) -> bool:
    """Ask all hooks as a session does, and print the answer of each and the outcome.

    :returns: whether one failed.
    """
    asked: list[Hook] = []
    failures: list[str] = []

    def printed(hook: Hook) -> Hook:
        async def run(event: HookEvent, services: Services) -> Outcome:
            asked.append(hook)
            outcome = await hook.run(event, services)
            print(
                f"{hook.origin:<8} {on_one_line(hook.name)}  ({on_one_line(hook.source)})\n"
                f"         {_shown(outcome)}"
            )
            return outcome

        return replace(hook, run=run)

    async def tell(text: str) -> None:
        failures.append(text)
        complain(text)

    async def show(notice: str) -> None:
        print(f"tells    {notice}")

    together = await Dispatcher(
        map(printed, found.hooks),
        _NoSession(home, event.at.usage.current_context_window),
        tell,
        show,
    ).dispatch(event)
    if not asked:
        print(f"No hook runs at this {event.name}.")
    elif event.name in OBSERVED:
        print(f"Answers at {event.name} have no effect.")
    else:
        print(f"together {_shown(together)}")
    return bool(failures)


def _shown(outcome: Outcome) -> str:
    """Return what an outcome wants, by its attributes, as JSON."""
    wanted = {
        name: value
        for name, value in asdict(outcome).items()
        if value not in (None, ())
    }
    if isinstance(outcome.action, Replace):
        wanted["action"] = {
            "messages": [as_json(message) for message in outcome.action.messages]
        }
    if outcome.action is not None:
        wanted["action"] = {"name": outcome.action.name, **wanted["action"]}
    return json.dumps(wanted, ensure_ascii=False) if wanted else "nothing"


@frozen
class _NoSession:
    """What hooks can use without a session: the log, and a sample compaction.

    :ivar used: the tokens of the sample event's conversation.
    """

    home: Path
    used: int
    log: logging.Logger = logging.getLogger("acp_agent.hooks")

    @property
    def store(self) -> SessionStore:
        raise HookError("A test has no session store.")

    async def compaction(
        self,
        messages: Sequence[Message] | None = None,
        *,
        prompt: str | None = None,
        model: str | None = None,
    ) -> Summary:
        """Return a sample summary without calling a model."""
        before = self.used if messages is None else estimate_messages(messages)
        print(f"         compacts {before:,} tokens, and gets a sample summary")
        return Summary(_SUMMARY, before, min(before, estimate_text(_SUMMARY)))

    async def ask_model(
        self, prompt: str, *, system: str = "", model: str | None = None
    ) -> str:
        raise HookError("A test has no session, and so no model to ask.")


async def _no_transcript() -> str:
    return os.devnull


def _event(arguments: argparse.Namespace) -> HookEvent:
    """Return a sample of the event that was named.

    :raises AgentError: there is no such event, or what was said of it does not fit.
    """
    name = event_name(arguments.event)
    if name is None:
        raise AgentError(f"EVENT: {unknown_event(arguments.event)}.")
    used = int(arguments.used * _WINDOW)
    at = Moment(
        _SESSION,
        str(Path.cwd()),
        _no_transcript,
        usage=TokenUsage(current_context_window=used, max_context_window=_WINDOW),
        messages=(UserMessage("msg_test", (Text(arguments.text),)),),
    )
    match name:
        case "session_start":
            return SessionStart(at, arguments.source)
        case "user_message_send":
            return UserMessageSend(at, arguments.text)
        case "before_tool_call":
            return BeforeToolCall(at, "call_test", *_call(at, arguments))
        case "after_tool_call":
            return AfterToolCall(
                at, "call_test", *_call(at, arguments), (Text(arguments.text),)
            )
        case "turn_end":
            return TurnEnd(at, arguments.text, is_summary=arguments.reason is not None)
        case "agent_stop":
            return AgentStop(at, arguments.text)
        case "before_compaction":
            return BeforeCompaction(
                at, arguments.reason or "manual", used, 1_000, _WINDOW
            )
        case "after_compaction":
            return AfterCompaction(
                at, arguments.reason or "manual", used, 1_000, _WINDOW, arguments.text
            )
        case "session_end":
            return SessionEnd(at, "close")


def _share(text: str) -> float:
    """Return the share that `70%` or `0.7` is."""
    return share_of(text) or float(text)


def _call(at: Moment, arguments: argparse.Namespace) -> tuple[str, JsonObject]:
    """Return the tool by our name, and its input in our keys."""
    named = str(arguments.tool)
    tool = OUR_TOOLS.get(named, named)
    try:
        value = cast("object", json.loads(arguments.input or "{}"))
    except ValueError as error:
        raise AgentError(f"--input is not JSON: {error}.") from error
    if not isinstance(value, dict):
        raise AgentError('--input should be a JSON object, such as {"command": "ls"}.')
    given = cast("JsonObject", value)
    return tool, with_our_keys(tool, given, given, at.cwd) if given else {}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the sub-command."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    actions.add_parser("list", help="list the hooks in the order in which they run")
    test = actions.add_parser(
        "test",
        help="run the hooks of an event without acting on their answers",
    )
    test.add_argument(
        "event", metavar="EVENT", help="event, such as before_tool_call or PreToolUse"
    )
    test.add_argument(
        "--tool",
        default="shell",
        metavar="NAME",
        help="tool of the call, by this agent's name or Claude Code's (default: `shell`)",
    )
    test.add_argument(
        "--input",
        metavar="JSON",
        help='arguments of the call, such as `{"command": "ls"}`',
    )
    test.add_argument(
        "--text",
        default="Hello",
        metavar="TEXT",
        help="prompt, tool result, answer or summary that the hook receives",
    )
    test.add_argument(
        "--source",
        default="new",
        choices=("new", "load", "resume", "compact"),
        help="how the session starts (default: `new`)",
    )
    test.add_argument(
        "--used",
        type=_share,
        default=0.5,
        metavar="SHARE",
        help="how full the window is, such as 70%% (default: 50%%)",
    )
    reasons = get_args(CompactionTrigger)
    why = "why it is compacted, as `threshold` (`manual`); at `turn_end`: TEXT is the summary of such a compaction"
    test.add_argument("--reason", choices=reasons, metavar="REASON", help=why)

"""The built-in handlers that a recipe can name in its `hooks`, and how one becomes a hook of the recipe's run.

Those that change the conversation are here; those that check something are in `validating`, those that write files in
`writing`, and the parameters of all in `params`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from anyio import to_thread

from acp_agent.conversation.messages import JsonObject, JsonValue
from acp_agent.frozen import frozen
from acp_agent.hooks.contract import TIME_LIMIT, OnError, Origin, Services
from acp_agent.hooks.events import ALIASES, EVENT_NAMES, EventName, HookEvent, TurnEnd
from acp_agent.hooks.handler import Handler, project_text
from acp_agent.hooks.outcomes import NOTHING, Compact, Outcome, SwapContext
from acp_agent.hooks.validating import ValidateOutputHandler, ValidateToolOutputHandler
from acp_agent.hooks.writing import ExportMarkdownHandler, LogToolUsageHandler

if TYPE_CHECKING:
    from acp_agent.hooks.params import Params


class SwapContextHandler:
    """`swap_context`: the answer that ends the turn takes the place of the conversation."""

    name = "swap_context"
    events: frozenset[EventName] = frozenset({"turn_end"})

    async def handle(self, event: HookEvent, params: JsonObject, services: Services) -> Outcome:
        """A swap, unless the answer is blank."""
        if not isinstance(event, TurnEnd) or not event.response.strip():
            return NOTHING
        return Outcome(action=swap_context(params, event.response))


def swap_context(params: JsonObject, summary: str = "") -> SwapContext:
    """The swap that a recipe wants.

    :param params: of `swap_context`.
    """
    from acp_agent.hooks.params import SwapContextParams

    said = SwapContextParams.model_validate(params)
    return SwapContext(summary, said.preserve_system_prompt, said.max_summary_tokens, said.keep_tail_tokens)


class CompactHandler:
    """`compact`: once the recipe has done its work, the conversation is compacted."""

    name = "compact"
    events: frozenset[EventName] = frozenset({"turn_end"})

    async def handle(self, event: HookEvent, params: JsonObject, services: Services) -> Outcome:
        """A compaction, whatever the answer was."""
        return Outcome(action=Compact())


class AppendContextHandler:
    """`append_context`: the model reads a text beside what is said."""

    name = "append_context"
    events: frozenset[EventName] = frozenset({"user_message_send", "turn_end"})

    async def handle(self, event: HookEvent, params: JsonObject, services: Services) -> Outcome:
        """The text, and the contents of the file under its name.

        :raises HookError: the file cannot be read.
        """
        from acp_agent.hooks.params import AppendContextParams
        from acp_agent.llm.parts import framed

        said = AppendContextParams.model_validate(params)
        texts = [] if said.text is None else [said.text]
        if said.file is not None:
            content = await to_thread.run_sync(project_text, Path(event.at.cwd), said.file)
            texts.append(framed(content.rstrip(), {"path": said.file}))
        return Outcome(context=("\n\n".join(texts),))


def builtin_handlers() -> Mapping[str, Handler]:
    """All handlers that we ship, by name."""
    handlers: tuple[Handler, ...] = (
        SwapContextHandler(),
        CompactHandler(),
        AppendContextHandler(),
        ExportMarkdownHandler(),
        ValidateOutputHandler(),
        ValidateToolOutputHandler(),
        LogToolUsageHandler(),
    )
    return {handler.name: handler for handler in handlers}


def known_handlers(handlers: Iterable[Handler]) -> dict[str, frozenset[str]]:
    """The events that a recipe may hook into, by all their names, each with the handlers that it may name there."""
    chosen = tuple(handlers)
    return {
        word: frozenset(handler.name for handler in chosen if event in handler.events)
        for word, event in {**EVENT_NAMES, **ALIASES}.items()
    }


def handler_params() -> Mapping[str, type[Params]]:
    """What the parameters of each handler have to be like; loads pydantic."""
    from acp_agent.hooks.params import HANDLER_PARAMS

    return HANDLER_PARAMS


@frozen
class BoundHandler:
    """A handler that a recipe has bound to an event, as a hook.

    :ivar source: the recipe's file, with the key in it.
    :ivar once: whether it is asked only at the first answer of the run, so that a follow-up in the same run does not
        repeat it.
    """

    handler: Handler
    event: EventName
    source: str
    once: bool = False
    params: JsonObject = field(default_factory=dict[str, JsonValue])
    on_error: OnError = "ask"
    origin: Origin = "recipe"
    file: Path | None = None
    time_limit: float = TIME_LIMIT

    @property
    def name(self) -> str:
        """The handler's."""
        return self.handler.name

    @property
    def events(self) -> frozenset[EventName]:
        """The one."""
        return frozenset({self.event})

    def wants(self, event: HookEvent) -> bool:
        """Unless it was for the first answer alone."""
        return not (self.once and event.at.turn_number > 1)

    async def run(self, event: HookEvent, services: Services) -> Outcome:
        """What the handler wants."""
        return await self.handler.handle(event, self.params, services)

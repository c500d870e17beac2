"""`Requests`: builds a session's next request to a model, and measures it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from acp_agent.accumulator import Accumulator
from acp_agent.compaction.budget import SURE_SHARE, Limits, TokenBudget
from acp_agent.compaction.estimate import (
    RunningEstimate,
    Sizes,
    estimate_text,
    estimate_tools,
    used_tokens,
)
from acp_agent.config import Settings
from acp_agent.config.settings import MergedCompaction
from acp_agent.conversation.context import Context
from acp_agent.conversation.events import (
    Event,
    InstructionsLoaded,
    SurroundingsChanged,
    ToolsDeclared,
)
from acp_agent.conversation.messages import (
    AssistantMessage,
    Entry,
    Message,
    ToolDefinition,
)
from acp_agent.conversation.surroundings import Surroundings, tools_amendment
from acp_agent.conversation.updates import UsageUpdated
from acp_agent.errors import (
    CompactionError,
    ConfigError,
    ContextOverflowError,
    ModelError,
)
from acp_agent.llm.caches import CacheLife
from acp_agent.llm.provider import ModelRequest
from acp_agent.llm.refused_tools import without_tools
from acp_agent.llm.remembered import refused_images
from acp_agent.llm.rules import ReasoningRules
from acp_agent.sandbox.reading import ReadLimits
from acp_agent.session.mcp import SessionMcp
from acp_agent.session.models.learned import RefusedCount
from acp_agent.session.models.models import ActiveModel, SessionModels
from acp_agent.session.state import SessionState
from acp_agent.session.workspace import ProjectInstructions, sections_amendment
from acp_agent.tools.tool import Tool

if TYPE_CHECKING:
    from acp_agent.recipes.model import Recipe

LEAST_SHARE = 0.6
"""The minimum share of our token estimate that any tokenizer gives."""
UNSURE_SHARE = 0.1
"""Share of the window. If our own estimate contributes no more than this, the count is
mostly the provider's and can be relied on.
"""


@dataclass(eq=False, slots=True)
class Requests:
    """Builds and measures the requests of one session."""

    _state: SessionState
    _models: SessionModels
    _mcp: SessionMcp
    _instructions: ProjectInstructions
    _defined: tuple[Mapping[str, Tool], tuple[ToolDefinition, ...], int] | None = None
    _messages: Accumulator[Entry, tuple[Message, ...]] = field(
        default_factory=lambda: Accumulator[Entry, tuple[Message, ...]](
            (), _with_messages
        )
    )
    _sizes: Accumulator[Message, Sizes] = field(
        default_factory=lambda: Accumulator[Message, Sizes](Sizes(), Sizes.plus)
    )
    _estimate: RunningEstimate = field(default_factory=RunningEstimate)
    _compared: tuple[Surroundings, tuple[ToolDefinition, ...], str] | None = None
    _refused: RefusedCount | None = None

    @property
    def context(self) -> Context:
        """Return the context from which the next request is built."""
        return self._state.context

    @property
    def settings(self) -> Settings:
        """Return the session's settings."""
        return self._state.settings

    @property
    def cwd(self) -> Path:
        """Return the session's working directory."""
        return self._state.cwd

    @property
    def read_limits(self) -> ReadLimits:
        """See `SessionState.read_limits`."""
        return self._state.read_limits

    def compaction(self, model: str) -> MergedCompaction:
        """See `SessionState.compaction`."""
        return self._state.compaction(model)

    async def instructions(self) -> InstructionsLoaded:
        """Return the system prompt, built from the current project files and MCP
        servers.
        """
        settings = self.settings
        loaded = await self._instructions.read(
            self._state.directories, settings.home, settings.root, self.read_limits
        )
        more = self._mcp.sections(self.context.announced.sections)
        if not more:
            return loaded
        text = "\n\n".join((loaded.text, *(section.text for section in more)))
        return replace(loaded, text=text, sections=(*loaded.sections, *more))

    async def active(self) -> ActiveModel:
        """Return the model in use.

        :raises AgentError: see `SessionModels.active`.
        """
        return await self._models.active(self._state.model)

    async def named(self, name: str) -> ActiveModel:
        """Return any model.

        :raises AgentError: see `SessionModels.named`.
        """
        return await self._models.named(name)

    async def summary_writer(
        self, recipe: Recipe, active: ActiveModel
    ) -> ActiveModel | None:
        """Return the model that is configured to write summaries; None if the session's
        own model writes them.

        :raises CompactionError: if that model cannot be used. The message names the key
            to correct.
        """
        name = self.settings.compaction_for(active.name).model
        where = "in config.yaml"
        if name is None:
            name = recipe.compaction.model
            where = f"of the recipe {recipe.source}"
        if name is None or name == active.name:
            return None
        try:
            return await self.named(name)
        except (ConfigError, ModelError) as error:
            raise CompactionError(
                f"The model {name}, which `compaction.model` {where} names for summaries, cannot be used: {error}",
                "Nothing was changed. Correct or remove that key. Without it, the session's own model writes them.",
            ) from error

    def request(
        self, active: ActiveModel, context: Context | None = None
    ) -> ModelRequest:
        """Return the request to this model.

        Its beginning equals the previous request. `changes` tells the model what has
        changed around the conversation since.

        :param context: the current context if not given.
        """
        context = context or self.context
        request = replace(
            request_of(context, self._messages.over(context.entries), active.name),
            max_output_tokens=active.budget.output(
                self.used(active, context), active.max_output_tokens
            ),
            conversation_id=self._state.id,
        )
        # Ignore a logged refusal of tools, since a server may have been restarted with
        # its option for tools.
        request = replace(request, refused=request.refused - {"functions"})
        if remembered := refused_images(active.learned):
            request = replace(
                request, refused_images=request.refused_images | remembered
            )
        if context.announced.tools is None:
            request = replace(
                request,
                tools=self._definitions()[0],
                thought_level=self._thought_level(context),
            )
        return request

    def rules(self, active: ActiveModel) -> ReasoningRules:
        """Return how the provider handles this model's reasoning, without the features
        that it has refused in this session.
        """
        rules = active.rules
        if (active.name, "compaction") in self.context.refused:
            rules = replace(rules, compaction="none", native_first=False)
        return rules

    def cache_life(self, active: ActiveModel) -> CacheLife | None:
        """Return how long the provider caches this model's prompts; None if this is
        unknown, or if the provider has refused the cache marks that caching requires.
        """
        return (
            None
            if (active.name, "cache_control") in self.context.refused
            else active.rules.cache
        )

    # --- what surrounds the conversation ---

    def around_prompt(
        self, now: InstructionsLoaded, prompted: Event, context: Context
    ) -> tuple[Event, ...]:
        """Return a prompt's events, including those that tell the model about changes:
        to the system prompt before the prompt, to tools and the reasoning level after
        it.

        :param now: the system prompt from the current files.
        """
        before: tuple[Event, ...] = ()
        if amendment := sections_amendment(context.announced.sections, now.sections):
            before = (SurroundingsChanged(amendment),)
        return (*before, prompted, *self.changes(context))

    def changes(self, context: Context) -> tuple[Event, ...]:
        """Return the events that tell the model the current tools and reasoning level;
        none if it knows them.
        """
        announced = context.announced
        tools = self._definitions()[0]
        level = self._thought_level(context)
        if announced.tools is None:
            return (ToolsDeclared(tools, level),)
        compared = self._compared
        if (
            compared is not None
            and compared[0] is announced
            and compared[1] is tools
            and compared[2] == level
        ):
            return ()
        if amendment := tools_amendment(announced, tools, level):
            return (SurroundingsChanged(amendment),)
        self._compared = (announced, tools, level)
        return ()

    async def tell_changes(self) -> None:
        """Log the changes of tools and reasoning level for the next request."""
        if self.changes(self.context):
            await self._state.log.append_built(self.changes)

    def _thought_level(self, context: Context) -> str:
        return context.thought_level or self.settings.thought_level or ""

    def answer_tokens(self, active: ActiveModel) -> int:
        """Return the maximum number of tokens that the next request allows for the
        answer.
        """
        return active.budget.output(self.used(active), active.max_output_tokens)

    # --- learning from a model's refusals and counts ---

    async def lost_part(self, name: str) -> ActiveModel:
        """Return a model whose server seems to have lost part of a request, with the
        context window that the server now reports.
        """
        await self._models.ask_window(name, lost=True)
        return await self.named(name)

    def learn_answer(
        self, active: ActiveModel, answer: AssistantMessage, asked: Context
    ) -> None:
        """Learn how a model that has refused a request counts tokens, from its answer
        to a later request.
        """
        before = self._models.learned(active.name)
        if answer.counted is None or before.tokens is None:
            return
        after = before.after_answer(answer.counted.prompt_tokens, self.estimate(asked))
        self._models.learn(active.name, after)
        if after.tokens is None:
            self._models.keep(active.name)

    def learn_refusal(
        self, active: ActiveModel, refusal: ContextOverflowError
    ) -> Callable[[], None]:
        """Learn from a refusal of the last request, for this session only. Return a
        function that undoes this.
        """
        before = self._models.learned(active.name)
        counted = self.context.usage is not None
        after = before.after_refusal(
            refusal, self.used(active), self.estimate(), counted=counted
        )
        self._models.learn(active.name, after)
        if refusal.prompt is not None:
            self._refused = RefusedCount(
                active.name, self.context.revision, self.context.head, refusal.prompt
            )
        return partial(self._models.learn, active.name, before)

    def keep_window(self, active: ActiveModel) -> None:
        """Store what was learned about a model's window for other sessions."""
        self._models.keep(active.name)

    def learn_overflow(
        self, writer: ActiveModel, refusal: ContextOverflowError, estimate: int
    ) -> None:
        """Learn from a refused summary request.

        :param writer: the model that was asked for the summary.
        :param estimate: estimated tokens of the request.
        """
        if refusal.limit == "tokens":
            used = round(estimate * max(1.0, writer.rate))
            self._models.learn(
                writer.name,
                self._models.learned(writer.name).after_refusal(
                    refusal, used, estimate
                ),
            )
            self._models.keep(writer.name)

    def learn_queue(self, provider: str) -> None:
        """Learn that a provider's server answers one request at a time."""
        self._models.queueing.add(provider)

    def counts_low(self, active: ActiveModel) -> bool:
        """See `LearnedWindow.counts_low`."""
        return self._models.learned(active.name).counts_low

    def learn_full(self, active: ActiveModel) -> None:
        """Learn from an answer that ended because the window was full."""
        learned = self._models.learned(active.name).after_full(
            self.used(active), self.estimate()
        )
        self._models.learn(active.name, learned)
        self._models.keep(active.name)

    def learn_cut(self, active: ActiveModel, estimate: int) -> None:
        """Learn that a server has cut a request to the model's window, for this session
        only.

        :param estimate: estimated tokens of the request.
        """
        window = active.budget.window
        if estimate < window:
            learned = self._models.learned(active.name).after_full(window, estimate)
            self._models.learn(active.name, learned)

    # --- sizes ---

    def filled(self, active: ActiveModel) -> TokenBudget:
        """Return the model's budget, filled with the next request."""
        return active.budget.filled(self.used(active), self.prefix_tokens())

    async def limits(self, active: ActiveModel, messages: Sequence[Message]) -> Limits:
        """Return the model's limits other than tokens, measured with images as they are
        sent.

        :param messages: the messages of the request.
        """
        limits = Limits(active.profile.max_images, active.profile.max_request_bytes)
        # Images are hardly ever smaller as stored than as sent.
        if not limits.exceeded(messages):
            return limits
        refused = self.context.images_refused_by(active.name) | refused_images(
            active.learned
        )
        return replace(
            limits,
            sent=await active.attachments.lengths(messages, active.profile, refused),
        )

    async def exceeds_limits(self, active: ActiveModel) -> bool:
        """Return whether the next request comes close to one of the model's limits
        other than tokens.
        """
        messages = self._messages.over(self.context.entries)
        limits = Limits(active.profile.max_images, active.profile.max_request_bytes)
        if not limits.exceeded_by(self._sizes.over(messages), messages):
            return False
        return (await self.limits(active, messages)).exceeded(messages)

    def used(self, active: ActiveModel, context: Context | None = None) -> int:
        """Return the tokens of the next request: the model's last count plus our
        estimate of what was added since.

        :param context: the current context if not given.
        """
        context = context or self.context
        used = used_tokens(context, self.prefix_tokens(), active.rate, self._estimate)
        if self._refused is None or self._refused.model != active.name:
            return used
        return max(used, self._refused.used_by(context, active.rate))

    def estimate(self, context: Context | None = None) -> int:
        """Return the tokens of the next request from our estimate alone."""
        return self.prefix_tokens() + self._estimate.tokens(
            (context or self.context).entries
        )

    def words(self, context: Context) -> int:
        """Estimate the tokens of a request's system prompt, tools and text, without
        images and reasoning, which some providers do not count.
        """
        return self.prefix_tokens() + self._estimate.words(context.entries)

    def prefix_tokens(self) -> int:
        """Estimate the tokens of the system prompt and the tools."""
        return estimate_text(self.context.instructions) + self._definitions()[1]

    def check_fits(self, active: ActiveModel, reason: str = "") -> None:
        """Raise an error if the next request is certainly too large. A local model
        would silently cut it.

        A request that may fit is sent, since our own count may be off by a third. If it
        is refused, the refusal shows how large the window is.

        :param reason: why the context could not be shortened.
        :raises ContextOverflowError: if it is too large.
        """
        used = self.used(active)
        window = active.budget.window
        context = self.context
        answers = (entry.message for entry in reversed(context.entries))
        newest = next(
            (answer for answer in answers if isinstance(answer, AssistantMessage)), None
        )
        # In older logs, answers of the default model have no model name.
        is_same = newest is not None and newest.model in (
            active.name,
            self._state.model,
        )
        counted = context.baseline if context.usage and is_same else 0
        least = used * (
            SURE_SHARE if used - counted <= window * UNSURE_SHARE else LEAST_SHARE
        )
        if not active.guessed and least > window:
            why = f" It could not be shortened either: {reason}" if reason else ""
            raise ContextOverflowError(
                f"The request (about {used:,} tokens) does not fit the model's context window "
                f"({window:,}), so it was not sent. Send less at once, choose a model with a larger "
                f"window, or start a new session.{why}"
            )

    async def usage(self) -> UsageUpdated:
        """Return how full the window is, based on the provider's last count if there is
        one.

        :raises AgentError: if there is no model.
        """
        active = await self.active()
        context = self.context
        return UsageUpdated(
            self.used(active), active.budget.window, context.cost or None
        )

    def _definitions(self) -> tuple[tuple[ToolDefinition, ...], int]:
        """Return the definitions of all tools, whether they may run or not, and an
        estimate of their tokens.
        """
        # Build them with the first request, since their schemas take longer than the
        # rest of a new session.
        known = self._mcp.tools
        if self._defined is None or self._defined[0] is not known:
            tools = tuple(
                ToolDefinition(name, tool.description, tool.input_schema)
                for name, tool in known.items()
            )
            self._defined = known, tools, estimate_tools(tools)
        return self._defined[1:]


_seq_of = attrgetter("seq")


def request_of(
    context: Context, messages: tuple[Message, ...], model: str
) -> ModelRequest:
    """Return the request for a context, with the tools and the reasoning level that
    have been announced to the model.

    :param messages: the messages of the context.
    :param model: `provider/model`.
    """
    announced = context.announced
    request = ModelRequest(
        model=model.partition("/")[2],
        system=context.instructions,
        messages=messages,
        tools=announced.tools or (),
        thought_level=announced.thought_level,
        declared=context.declared,
        unbound=bisect_right(context.entries, context.unbound_until, key=_seq_of),
        refused=frozenset(
            feature for name, feature in context.refused if name == model
        ),
        takes=context.values_accepted_by(model),
        refused_images=context.images_refused_by(model),
    )
    return without_tools(request, context.tools_refused_by(model))


def _with_messages(
    messages: tuple[Message, ...], entries: tuple[Entry, ...]
) -> tuple[Message, ...]:
    return messages + tuple(entry.message for entry in entries)

"""The built-in handlers that a recipe can name in `hooks`. Each is a pydantic model of
its parameters, with a method `handle`.

This module is imported when the first recipe is loaded.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from anyio import to_thread
from pydantic import Field, model_validator

from acp_agent.config.document import DocumentError, read_text
from acp_agent.config.hook_events import ALIASES, EVENT_NAMES, EventName, OnError
from acp_agent.conversation.markdown import log_markdown
from acp_agent.conversation.messages import JsonObject
from acp_agent.errors import HookError
from acp_agent.hooks.contract import Hook, Services
from acp_agent.hooks.events import AfterToolCall, BeforeToolCall, HookEvent, TurnEnd
from acp_agent.hooks.outcomes import NOTHING, Compact, Outcome, SwapContext
from acp_agent.hooks.parameters import (
    MAX_TOKENS,
    Handler,
    InnerPath,
    JsonSchema,
    LinesPath,
    MarkdownPath,
    Pattern,
    Tokens,
    form_fault,
    schema_fault,
)
from acp_agent.llm.parts import framed
from acp_agent.patterns import compile_pattern
from acp_agent.secrets.known import secrets_of
from acp_agent.secrets.messages import masked

EXPORTS = ".acp-agent/exports"
"""Default folder for exports, relative to the project."""
MARK = "<!-- An export of the session {} by acp-agent, written anew with each one -->\n"
"""First line of an export. Only files that begin with this line are replaced, so do not
change its text.
"""
_MOST_LOGGED = 2_000
"""Maximum number of characters that are logged of each string in a call's arguments, so
that the log does not contain whole files.
"""


def known_handlers() -> dict[str, dict[str, type[Handler]]]:
    """Return the handlers that a recipe may name for each event. The keys are our names
    and Claude Code's names of the events.
    """
    return {
        word: {
            handler.name: handler for handler in _HANDLERS if event in handler.events
        }
        for word, event in {**EVENT_NAMES, **ALIASES}.items()
    }


def bound_handler(
    name: str,
    event: EventName,
    source: str,
    *,
    params: JsonObject,
    once: bool = False,
    on_error: OnError = "ask",
) -> Hook:
    """Return the hook for a handler that a recipe has bound to an event.

    :param source: the recipe's file and the key in it.
    :param once: whether to run the handler only at the first answer to the prompt, and
        not again if a hook lets the agent continue.
    """
    handler = known_handlers()[event][name].model_validate(params)

    async def run(event: HookEvent, services: Services) -> Outcome:
        return (
            NOTHING
            if once and event.at.answer_number > 1
            else await handler.handle(event, services)
        )

    return Hook(name, "recipe", source, frozenset({event}), run, on_error=on_error)


# --- handlers that change the conversation ---


class SwapContextHandler(Handler):
    """Replaces the conversation with the answer that ends the turn."""

    name = "swap_context"
    events = frozenset({"turn_end"})

    preserve_system_prompt: Annotated[
        bool,
        Field(
            description="whether to keep the system prompt. By default it is created again from the "
            "[instruction files](configuration.md), unless kept reasoning depends on it"
        ),
    ] = False
    max_summary_tokens: Annotated[
        int | None,
        Field(
            gt=0,
            le=MAX_TOKENS,
            description="maximum length of the summary in tokens. If the model still writes a longer summary, it is "
            "not used, and the history does not change",
        ),
    ] = None
    keep_tail_tokens: Annotated[
        Tokens | None,
        Field(
            description="how many tokens of the newest messages to keep word for word, within the `size` of the "
            "[compaction](#compaction); `0` keeps none. Default: at most a fifth of `size`"
        ),
    ] = None

    def swap(self, summary: str = "") -> SwapContext:
        """Return the action that replaces the conversation, with the recipe's options."""
        return SwapContext(
            summary,
            self.preserve_system_prompt,
            self.max_summary_tokens,
            self.keep_tail_tokens,
        )

    async def handle(self, event: HookEvent, services: Services) -> Outcome:
        """Return a swap, unless the answer is blank."""
        if not isinstance(event, TurnEnd) or not event.response.strip():
            return NOTHING
        return Outcome(action=self.swap(event.response))


class _CompactHandler(Handler):
    """Compacts the conversation after the recipe's turn."""

    name = "compact"
    events = frozenset({"turn_end"})

    async def handle(self, event: HookEvent, services: Services) -> Outcome:
        """Request a compaction, regardless of the answer."""
        return Outcome(action=Compact())


class _AppendContextHandler(Handler):
    """Adds a text, or a file with its path and content, to the context."""

    name = "append_context"
    events = frozenset({"user_message_send", "turn_end"})

    text: Annotated[
        str | None, Field(min_length=1, description="a text for the model")
    ] = None
    file: Annotated[
        InnerPath | None,
        Field(description="path of a text file of the project for the model"),
    ] = None

    @model_validator(mode="after")
    def _is_not_empty(self) -> _AppendContextHandler:
        if self.text is None and self.file is None:
            raise ValueError("should have a `text` or a `file`")
        return self

    async def handle(self, event: HookEvent, services: Services) -> Outcome:
        """Return the texts to add."""
        texts = [] if self.text is None else [self.text]
        if self.file is not None:
            content = await to_thread.run_sync(
                _project_text, Path(event.at.cwd), self.file
            )
            texts.append(framed(content.rstrip(), {"path": self.file}))
        return Outcome(context=("\n\n".join(texts),))


# --- handlers that check a format ---

_WRONG_FORMAT = "It does not have the required format: {}."
_ANSWER_AGAIN = "Your answer does not have the required format: {}. Answer again, only with JSON in this format."


class _FormHandler(Handler):
    json_schema: Annotated[
        JsonSchema | None, Field(alias="schema", description="a JSON Schema")
    ] = None
    file: Annotated[
        InnerPath | None,
        Field(description="path of a file of the project with a JSON Schema"),
    ] = None

    @model_validator(mode="after")
    def _one_schema(self) -> _FormHandler:
        if self.json_schema is not None and self.file is not None:
            raise ValueError("should have either `schema` or `file`, not both")
        if (
            self.json_schema is None
            and self.file is None
            and getattr(self, "pattern", None) is None
        ):
            raise ValueError(
                "should have a `schema` or a `file`, or a `pattern` for a tool's result"
            )
        return self

    def fault(self, text: str, folder: Path) -> str | None:
        """Check a text that should be JSON and match the schema. Return a description
        of the errors, or None if the text is valid. Reads from disk.

        :param folder: the folder that contains the schema's file.
        :raises HookError: if the schema's file cannot be used.
        """
        schema = self.json_schema
        if self.file is not None:
            try:
                schema = json.loads(_project_text(folder, self.file))
            except (ValueError, RecursionError) as error:
                raise HookError(
                    f"{folder / self.file} is not valid JSON: {error}."
                ) from error
            if fault := schema_fault(schema):
                raise HookError(
                    f"{folder / self.file} cannot be used as a JSON Schema: {fault}."
                )
        return None if schema is None else form_fault(text, schema)


class _ValidateOutputHandler(_FormHandler):
    """Requires the answer to be JSON that matches a schema. Otherwise the model gets
    the errors and answers again.
    """

    name = "validate_output"
    events = frozenset({"turn_end"})

    async def handle(self, event: HookEvent, services: Services) -> Outcome:
        """Block an answer that does not match the schema."""
        if not isinstance(event, TurnEnd):
            return NOTHING
        fault = await to_thread.run_sync(
            self.fault, event.response, Path(event.at.cwd), abandon_on_cancel=True
        )
        # For a summary, the reason is shown to the user, and the model does not answer
        # again.
        reason = _WRONG_FORMAT if event.is_summary else _ANSWER_AGAIN
        return NOTHING if fault is None else Outcome.block(reason.format(fault))


class _ValidateToolOutputHandler(_FormHandler):
    """Requires a tool's result to match a schema or a pattern. Otherwise the errors are
    appended to the result.
    """

    name = "validate_tool_output"
    events = frozenset({"after_tool_call"})

    tool: Annotated[
        str | None,
        Field(
            min_length=1,
            description="the tool whose results are checked. Default: every tool",
        ),
    ] = None
    pattern: Annotated[
        Pattern | None,
        Field(
            description="an RE2 regular expression that must match somewhere in the result"
        ),
    ] = None

    async def handle(self, event: HookEvent, services: Services) -> Outcome:
        """Block a result that does not match. Failed calls are not checked."""
        if (
            not isinstance(event, AfterToolCall)
            or event.is_error
            or self.tool not in (None, event.tool)
        ):
            return NOTHING
        faults = await to_thread.run_sync(self._faults, event, abandon_on_cancel=True)
        if not faults:
            return NOTHING
        return Outcome.block(_WRONG_FORMAT.format("; ".join(faults)))

    def _faults(self, event: AfterToolCall) -> list[str]:
        faults = [self.fault(event.text, Path(event.at.cwd))]
        if (
            self.pattern is not None
            and compile_pattern(self.pattern, multiline=True).search(event.text) is None
        ):
            faults.insert(0, f"nothing in it matches the pattern {self.pattern}")
        return [fault for fault in faults if fault is not None]


# --- handlers that write files ---


class _ExportMarkdownHandler(Handler):
    """Writes the session to a Markdown file in the project."""

    name = "export_markdown"
    events = frozenset({"turn_end", "agent_stop"})

    path: Annotated[
        MarkdownPath | None,
        Field(description="path of the file, relative to the project"),
    ] = None
    overwrite: Annotated[
        bool,
        Field(
            description="whether to replace a file that is not an export of this session"
        ),
    ] = False

    async def handle(self, event: HookEvent, services: Services) -> Outcome:
        """Write the file.

        :raises HookError: if another file has this name, or the file cannot be written.
        """
        session = event.at.session_id
        name = (
            self.path
            or f"{EXPORTS}/{session}-{datetime.now(UTC).astimezone().date().isoformat()}.md"
        )
        events = [logged async for logged in services.store.events(session)]

        mark = MARK.format(session)

        def write() -> None:
            text = mark + log_markdown(events)
            replaces = "" if self.overwrite else mark
            _write(Path(event.at.cwd), name, text, mode="w", replaces=replaces)

        await to_thread.run_sync(write)
        return NOTHING


class _LogToolUsageHandler(Handler):
    """Appends a line of JSON for each call to a file in the agent's home."""

    name = "log_tool_usage"
    events = frozenset({"before_tool_call", "after_tool_call"})

    path: Annotated[
        LinesPath, Field(description="path of the file, relative to the agent's home")
    ] = "logs/tool-usage.jsonl"

    async def handle(self, event: HookEvent, services: Services) -> Outcome:
        """Write the line.

        :raises HookError: if the file cannot be written.
        """
        if not isinstance(event, BeforeToolCall | AfterToolCall):
            return NOTHING
        line: JsonObject = {
            "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "event": event.name,
            "session_id": event.at.session_id,
            "cwd": event.at.cwd,
            "recipe": event.at.invoked_by,
            "call_id": event.call_id,
            "tool": event.tool,
            "input": masked(event.input, secrets_of(os.environ), _short),
        }
        if isinstance(event, AfterToolCall):
            line |= {"is_error": event.is_error, "output_characters": len(event.text)}
        text = json.dumps(line, ensure_ascii=False) + "\n"
        await to_thread.run_sync(
            partial(_write, services.home, self.path, text, mode="a")
        )
        return NOTHING


def _project_text(folder: Path, name: str) -> str:
    """Return the text of a file in the session's directory. Reads from disk.

    :param name: path of the file, relative to the directory.
    :raises HookError: if the file does not exist, cannot be read, or is a link to a
        file outside the directory.
    """
    path = folder / name
    try:
        text = read_text(path, within=folder)
    except DocumentError as error:
        raise HookError(f"{path}: {error.message}.") from error
    if text is None:
        raise HookError(f"The file {path} does not exist.")
    return text


def _write(
    folder: Path, name: str, text: str, *, mode: Literal["w", "a"], replaces: str = ""
) -> None:
    """Write a file that only the user can access. Writes to disk.

    :param name: path of the file, relative to `folder`.
    :param replaces: with the mode `w`, an existing file is replaced only if it begins
        with this text.
    :raises HookError: if the file would be outside the folder, must not be replaced, or
        cannot be written.
    """
    path = folder / name
    try:
        if not path.parent.resolve().is_relative_to(folder.resolve()):
            raise HookError(
                f"{path} is outside {folder}; use the path of a file in this folder."
            )
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        is_ours = path.is_file() and path.read_bytes().startswith(replaces.encode())
        if mode == "w" and os.path.lexists(path) and not is_ours:
            raise HookError(
                f"{path} already exists and is not an export of this session. It was not changed. Choose another "
                "`path`, or set `overwrite: true`."
            )
        with open(path, f"{mode}b", opener=_private) as file:
            file.write(text.encode(errors="replace"))
    except (
        OSError,
        RuntimeError,
    ) as error:  # Python 3.11 raises RuntimeError for a loop of links
        raise HookError(
            f"{path} cannot be written ({getattr(error, 'strerror', None) or error})."
        ) from error


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)


def _short(text: str) -> str:
    return (
        text
        if len(text) <= _MOST_LOGGED
        else f"{text[:_MOST_LOGGED]}… ({len(text):,} characters)"
    )


_HANDLERS: tuple[type[Handler], ...] = (
    *(SwapContextHandler, _CompactHandler, _AppendContextHandler),
    *(
        _ExportMarkdownHandler,
        _ValidateOutputHandler,
        _ValidateToolOutputHandler,
        _LogToolUsageHandler,
    ),
)

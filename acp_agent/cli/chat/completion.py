"""`PromptCompleter`: completes slash commands, mentions and paths while a person types."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from prompt_toolkit.completion import (
    CompleteEvent,
    Completer,
    Completion,
    PathCompleter,
)
from prompt_toolkit.document import Document

from acp_agent.conversation.updates import Command

_MENTION = re.compile(
    r'(?:(?<=\s)|^)@(?P<quote>")?(?P<path>(?(quote)[^"\n]*|[^\s"]*))\Z'
)
_WORD = re.compile(r"(?<![^\s\"'`(])(?P<path>[^\s\"'`(]++)\Z")


class PromptCompleter(Completer):
    """Completes slash commands and mentioned paths, and other paths where the person
    asks for it; in a thread.

    :ivar cwd: absolute path that others are relative to.
    :ivar commands: the slash commands on offer.
    """

    def __init__(self) -> None:
        self.cwd = Path.cwd()
        self.commands: Sequence[Command] = ()

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """Yield what may be meant by the text before the cursor: of commands, those
        that begin so come first.
        """
        before = document.text_before_cursor
        if before.startswith("/") and not any(map(str.isspace, before)):
            fitting = [
                command for command in self.commands if before[1:] in command.name
            ]
            for command in sorted(
                fitting, key=lambda command: not command.name.startswith(before[1:])
            ):
                name = f"/{command.name}"
                hint = f" {command.hint}" if command.hint else ""
                yield Completion(
                    name,
                    -len(before),
                    display=name + hint,
                    display_meta=command.description,
                )
        elif begun := _MENTION.search(before) or (
            _WORD.search(before) if complete_event.completion_requested else None
        ):
            quoted = begun[0].startswith('@"')
            paths = PathCompleter(
                get_paths=lambda: [str(self.cwd)],
                file_filter=str.isprintable,
                expanduser=True,
            )
            for found in paths.get_completions(Document(begun["path"]), complete_event):
                # A folder goes on; a name with a space has to be quoted.
                if quoted or " " not in found.text:
                    end = (
                        "/"
                        if found.display_text.endswith("/")
                        else '"'
                        if quoted
                        else ""
                    )
                    yield Completion(found.text + end, display=found.display)

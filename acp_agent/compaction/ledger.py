"""The fact ledger: what was read, changed, run and tested, kept by code so that no summary can bend it.

Cumulative: each compaction adds what is new to the ledger of the one before, and adding in pieces gives what adding at
once gives. Bounded in number, of which changed files and test runs are kept longest. `ledger_calls` says what one call
came to; `ledger_render` shows a ledger to the model. Knows no clock, disk or repository: who has them says what is
there now (`refresh_ledger`).
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, Generic, TypeVar

from acp_agent.compaction.ledger_calls import Happening, read_call
from acp_agent.compaction.ledger_render import render_ledger
from acp_agent.compaction.ledger_touch import Touch
from acp_agent.conversation.context import Entry
from acp_agent.conversation.memory import CommandFact, ErrorFact, FileFact, Ledger
from acp_agent.conversation.messages import AssistantMessage, JsonValue, Text, ToolCall, ToolResult, UserMessage

__all__ = ["MAX_COMMANDS", "MAX_ERRORS", "MAX_FILES", "MAX_URLS", "refresh_ledger", "render_ledger", "update_ledger"]

MAX_FILES = 400
MAX_COMMANDS = 200
MAX_ERRORS = 50
MAX_URLS = 100
_LONGEST_URL: Final = 400
_URL: Final = re.compile(r"https?://[^\s<>\"'`\\\]}|^\x00-\x20\x7f]+")
_CREDENTIALS: Final = re.compile(r"(?<=//)[^/@?#]*@")

T = TypeVar("T")


def update_ledger(ledger: Ledger, entries: Sequence[Entry], files: Mapping[str, str | None], cwd: str) -> Ledger:
    """The ledger with what happened in these entries.

    Entries that it knows already are not read again (`Ledger.through`), and summaries never: they are no facts. A call
    counts where its result stands, so entries may be handed over in any pieces that part no call from its result.

    :param entries: in the order of the log.
    :param files: digests of the file versions that the model has seen, by absolute path.
    :param cwd: the session's working directory, absolute; empty where it is not known.
    """
    book = _Book(ledger, files, cwd)
    calls: dict[str, ToolCall] = {}
    for entry in entries:
        message = entry.message
        if entry.summary:
            continue
        new = entry.seq > ledger.through
        if isinstance(message, AssistantMessage):
            for call in message.tool_calls:
                calls[call.id] = call
            if new:
                book.assistant(message)
        elif isinstance(message, ToolResult):
            call = calls.pop(message.call_id, None)
            if new and call is not None and (done := read_call(call, message.text, message.is_error, cwd)):
                book.happened(done, entry.seq)
        elif new:
            book.user(message)
        book.through = max(book.through, entry.seq)
    return book.ledger()


def refresh_ledger(ledger: Ledger, current: Mapping[str, str | None], branch: str, head: str) -> Ledger:
    """The ledger compared with what is there now.

    :param current: digests of the files on disk by absolute path, None for one that is gone; files that are left out
        stay as they are.
    :param branch: the repository's branch; empty where there is none.
    :param head: the commit that is checked out.
    """
    files = tuple(_compared(fact, current[fact.path]) if fact.path in current else fact for fact in ledger.files)
    return replace(ledger, files=files, branch=branch, head=head)


def _compared(fact: FileFact, digest: str | None) -> FileFact:
    if fact.change == "deleted":
        return replace(fact, stale=digest is not None, gone=False)
    if digest is None:
        return replace(fact, stale=True, gone=True)
    return replace(fact, stale=fact.stale if fact.digest is None else fact.digest != digest, gone=False)


class _Recent(Generic[T]):
    """The newest facts under a key each, in the order in which they came or changed last.

    Where there are more than `limit`, the oldest that is not precious goes first.
    """

    def __init__(self, limit: int, precious: Callable[[T], bool]) -> None:
        self._limit = limit
        self._precious = precious
        self._kept: dict[str, tuple[int, T]] = {}
        self._rest: dict[str, tuple[int, T]] = {}
        self._count = 0

    def get(self, key: str) -> T | None:
        found = self._kept.get(key) or self._rest.get(key)
        return found[1] if found else None

    def drop(self, key: str) -> None:
        self._kept.pop(key, None)
        self._rest.pop(key, None)

    def put(self, key: str, value: T) -> None:
        self.drop(key)
        self._count += 1
        (self._kept if self._precious(value) else self._rest)[key] = (self._count, value)
        if len(self._kept) + len(self._rest) > self._limit:
            oldest = self._rest or self._kept
            del oldest[next(iter(oldest))]

    def keys(self) -> list[str]:
        return [*self._kept, *self._rest]

    def values(self) -> tuple[T, ...]:
        return tuple(
            value for _, value in sorted([*self._kept.values(), *self._rest.values()], key=lambda each: each[0])
        )


class _Book:
    """A ledger that is being written."""

    def __init__(self, ledger: Ledger, files: Mapping[str, str | None], cwd: str) -> None:
        self._before = ledger
        self._digests = files
        self._cwd = cwd
        self._files = _Recent[FileFact](MAX_FILES, lambda fact: fact.change != "none")
        # The number beside a run is that of the file changes before it: more of them since, and it is stale.
        self._commands = _Recent[tuple[CommandFact, int]](MAX_COMMANDS, lambda run: run[0].is_test)
        self._errors = _Recent[ErrorFact](MAX_ERRORS, lambda _: False)
        self._urls = _Recent[str](MAX_URLS, lambda _: False)
        self._changes = 0
        self.through = ledger.through
        for file in ledger.files:
            self._files.put(file.path, file)
        for command in ledger.commands:
            self._commands.put(command.command, (command, 0))
        for error in ledger.errors:
            self._errors.put(error.subject, error)
        for url in ledger.urls:
            self._urls.put(url, url)

    def ledger(self) -> Ledger:
        commands = tuple(
            replace(fact, stale=True) if changes < self._changes and not fact.stale else fact
            for fact, changes in self._commands.values()
        )
        return replace(
            self._before,
            files=self._files.values(),
            commands=commands,
            errors=self._errors.values(),
            urls=self._urls.values(),
            through=self.through,
        )

    def user(self, message: UserMessage) -> None:
        for part in message.parts:
            if isinstance(part, Text):
                self._found(part.text)

    def assistant(self, message: AssistantMessage) -> None:
        for part in message.parts:
            if isinstance(part, Text):
                self._found(part.text)
            elif isinstance(part, ToolCall):
                for text in _strings(part.arguments):
                    self._found(text)

    def _found(self, text: str) -> None:
        if "://" not in text:
            return
        for match in _URL.finditer(text):
            url = match.group()
            if len(url) <= _LONGEST_URL and len(plain := _without_end(_CREDENTIALS.sub("", url))) > len("https://"):
                self._urls.put(plain, plain)

    def happened(self, done: Happening, seq: int) -> None:
        for touch in done.touches:
            self._touch(touch, seq)
        if done.command is not None:
            self._commands.put(done.command.command, (replace(done.command, seq=seq), self._changes))
        if done.error:
            self._errors.put(done.subject, ErrorFact(done.subject, done.error, seq))
        else:
            self._errors.drop(done.subject)

    def _touch(self, touch: Touch, seq: int) -> None:
        match touch.kind:
            case "read":
                self._was_read(touch, seq)
            case "delete":
                self._was_deleted(touch, seq)
            case "restore":
                self._was_restored(touch, seq)
            case _:
                self._was_changed(touch, seq)

    def _was_read(self, touch: Touch, seq: int) -> None:
        old = self._files.get(touch.path) or FileFact(touch.path)
        if old.change == "deleted":
            old = replace(old, change="none")
        fact = replace(old, lines=touch.lines, digest=self._digest(touch, old), seq=seq, stale=False, gone=False)
        self._files.put(touch.path, fact)
        self._errors.drop(f"read {touch.path}")

    def _was_changed(self, touch: Touch, seq: int) -> None:
        self._changes += 1
        old = self._files.get(touch.path)
        change = touch.made or ("edited" if touch.kind == "alter" else "created")
        if old is not None and old.change != "deleted":
            # What the session made stays something that it made, and what it has seen was there before.
            change = "created" if old.change == "created" else "edited"
        known = old is not None and old.change != "deleted"
        blind = touch.kind in ("alter", "create") and known
        digest = None if touch.kind == "create" else self._digest(touch, old if known else None)
        fact = FileFact(touch.path, change, old.lines if old and known else None, digest, seq, stale=blind)
        self._files.put(touch.path, fact)
        self._cured(touch.path)

    def _was_deleted(self, touch: Touch, seq: int) -> None:
        self._changes += 1
        # A pattern that means no known file says nothing about files.
        alone = [] if _is_pattern(touch.path) else [touch.path]
        for path in list(self._inside(touch.path)) or alone:
            self._files.put(path, FileFact(path, "deleted", seq=seq))
            self._cured(path)

    def _was_restored(self, touch: Touch, seq: int) -> None:
        self._changes += 1
        for path in self._inside(touch.path):
            old = self._files.get(path)
            if old is not None and old.change != "none":
                self._files.put(path, replace(old, change="none", digest=None, seq=seq, stale=True, gone=False))

    def _inside(self, path: str) -> Iterator[str]:
        """The known files that a path means: itself, those in it, or those that it is a pattern of."""
        if self._files.get(path) is not None:
            yield path
            return
        prefix = path if path.endswith("/") else f"{path}/"
        matches = _pattern(path)
        for key in self._files.keys():  # noqa: SIM118
            if (key.startswith(prefix) if path else True) or matches(key):
                yield key

    def _digest(self, touch: Touch, old: FileFact | None) -> str | None:
        if touch.recorded:
            return self._digests.get(touch.path)
        return None if old is None or touch.kind == "write" else old.digest

    def _cured(self, path: str) -> None:
        self._errors.drop(f"edit {path}")
        self._errors.drop(f"read {path}")


def _pattern(path: str) -> Callable[[str], bool]:
    if not _is_pattern(path):
        return lambda _: False
    folder = path.rpartition("/")[0]
    return lambda key: key.rpartition("/")[0] == folder and fnmatch.fnmatchcase(key, path)


def _is_pattern(path: str) -> bool:
    return any(mark in path for mark in "*?[")


def _strings(value: JsonValue) -> Iterator[str]:
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, list):
            waiting += reversed(each)
        elif isinstance(each, dict):
            waiting += reversed(each.values())


def _without_end(url: str) -> str:
    """The URL without what belongs to the sentence around it."""
    while url and (url[-1] in ".,;:!?*_" or (url[-1] == ")" and url.count("(") < url.count(")"))):
        url = url[:-1]
    return url

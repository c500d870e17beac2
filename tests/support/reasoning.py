"""A session whose model thinks before each answer, at a server that checks what comes
back of it.

    async with thinking(tmp_path, "anthropic") as it:          # refuses every mismatch, whatever the request says
        await it.loop("Look", 3)                               # a turn with three calls
        assert it.kept() == 4                                  # all reasoning so far is in a next request
    # at the end: nothing was refused, nothing was dropped, and requests were append-only

The model reads `a.txt` as often as it is told to, writes summaries when it is asked for
one, and says "Fine." else.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from support.compactions import RECIPE_TEXT, shown_compactions
from support.dialect_openai import triggers
from support.editors import ZED_BETA
from support.memory import stage
from support.models import Binding, DialectName, ModelServer, Reply, Request, ToolCall
from support.stage import FILES, Connect, Stage

SUMMARY = "# Goal\nA shop."
LOOK = ToolCall("read", {"path": "a.txt"})
PROSE = "The cart adds what the lines cost. " * 60
"""About 500 tokens, so that a compaction has something to leave out."""
both_providers = pytest.mark.parametrize("dialect", ["anthropic", "openai"])


def compaction(**options: Any) -> dict[str, Any]:
    """What `config.yaml` says of compactions, which are not prepared in the background."""
    return {"compaction": {"prepare": False, "wait": True, **options}}


PLAIN = compaction()


@dataclass(slots=True)
class Thinker:
    """The model's script.

    :ivar calls: so many calls come before the next answer.
    :ivar says: the text of an answer.
    :ivar summary: the answer to a request for a summary, also by the provider's own
        compaction.
    :ivar native: the answer to a request for the provider's own compaction, if it is
        another one.
    :ivar triggered: replies to the next requests that end with a compaction trigger,
        before all else.
    :ivar first: replies to what is asked next, before all else.
    :ivar before: called before each reply to a turn's request.
    """

    calls: int = 0
    says: str = f"Fine. {PROSE}"
    summary: Reply = field(default_factory=lambda: Reply(SUMMARY))
    first: list[Reply] = field(default_factory=list[Reply])
    native: Reply | None = None
    triggered: list[Reply] = field(default_factory=list[Reply])
    before: Callable[[], None] | None = None

    def __call__(self, body: Mapping[str, Any]) -> Reply:
        if self.triggered and triggers(body):
            return self.triggered.pop(0)
        if _compacts(body):
            return (
                self.native
                if self.native is not None and not _asks_for_text(body)
                else self.summary
            )
        if self.before is not None:
            self.before()
        if self.first:
            return self.first.pop(0)
        if self.calls:
            self.calls -= 1
            return Reply("I look.", tool_calls=[LOOK])
        return Reply(self.says)


@dataclass(slots=True)
class Thinking:
    """An open session, its model and its server.

    :ivar boundaries: by number, requests that need not begin as the one before: the
        first after a compaction or undo.
    """

    stage: Stage
    model: Thinker
    boundaries: set[int] = field(default_factory=set[int])
    _swaps: int = 0

    def __post_init__(self) -> None:
        self.model.before = self._note_swaps

    @property
    def server(self) -> ModelServer:
        return self.stage.server

    @property
    def turns(self) -> list[Request]:
        """The requests of turns, without those for compactions."""
        return [call for call in self.server.calls if not _is_compaction(call)]

    @property
    def last(self) -> Request:
        return self.turns[-1]

    async def say(self, prompt: str = "Go on") -> None:
        assert await self.stage.prompt(prompt) == {"stopReason": "end_turn"}

    async def loop(self, prompt: str = "Look", calls: int = 3) -> None:
        """A turn in which the model calls a tool so many times."""
        self.model.calls = calls
        await self.say(prompt)

    async def talk(self, turns: int = 3) -> None:
        for number in range(turns):
            await self.loop(f"Question {number}?", 1)

    async def grow(self) -> None:
        """Talk so much that a compaction by hand replaces some of it, and leaves the
        last turns.
        """
        await self.talk(4)
        self.model.says = "Short."
        await self.talk(2)

    async def set(self, option: str, value: str) -> None:
        await self.stage.agent.set_config_option(self.stage.session, option, value)

    def kept(self) -> int:
        """How many pieces of reasoning the newest request of a turn has."""
        return len(thoughts(self.last.body))

    def events(self, kind: str) -> list[dict[str, Any]]:
        return logged(self.stage.home, kind)

    def receipt(self) -> str:
        """What the newest compaction said of itself."""
        return shown_compactions(self.stage.agent)[-1].receipt

    def warnings(self) -> str:
        """All that the user was told besides answers."""
        return json.dumps(
            [line.message for line in self.stage.agent.lines], ensure_ascii=False
        )

    def check(self) -> None:
        """Nothing was refused or dropped, reasoning goes on, and each request begins
        with the one before it.
        """
        assert (self.server.refusals, self.server.violations) == ([], [])
        assert self.kept() > 0
        assert self.edits() == []

    def edits(self) -> list[tuple[int, str]]:
        """The requests that do not begin with the one before them, each with what
        differs first.
        """
        found: list[tuple[int, str]] = []
        for number in range(1, len(self.turns)):
            earlier = self.turns[number - 1].body
            later = self.turns[number].body
            if number not in self.boundaries and earlier["model"] == later["model"]:
                before = compared(earlier)
                now = compared(later)
                if now[: len(before)] != before:
                    pairs = zip(
                        before, [*now, *["nothing"] * len(before)], strict=False
                    )
                    was, is_ = next((was, is_) for was, is_ in pairs if was != is_)
                    found.append((number, f"was {str(was)[:300]}, is {str(is_)[:300]}"))
        return found

    @asynccontextmanager
    async def restarted(self, **over: Any) -> AsyncGenerator[Thinking]:
        """Another agent with the same state, in which the session is loaded.

        :param over: of `session/load`.
        """
        async with self.stage.restarted() as later:
            await later.agent.load(later.session, later.folder, **over)
            yield Thinking(later, self.model, self.boundaries, self._swaps)
        self.model.before = self._note_swaps

    def _note_swaps(self) -> None:
        """Note if the request that is being answered is the first after a swap."""
        swaps = len(self.events("context_swapped") + self.events("context_restored"))
        if swaps != self._swaps:
            self._swaps = swaps
            self.boundaries.add(len(self.turns) - 1)


@asynccontextmanager
async def thinking(
    tmp_path: Path,
    dialect: DialectName,
    *,
    binding: Binding | None = None,
    config: Mapping[str, Any] = PLAIN,
    files: Mapping[str, str] = FILES,
    env: Mapping[str, str | None] | None = None,
    connect: Connect | None = None,
    sound: bool = True,
    **options: Any,
) -> AsyncGenerator[Thinking]:
    """Open a session.

    :param binding: how reasoning is checked; by default as strictly as can be.
    :param connect: starts the agent; in memory if not given.
    :param sound: whether to `check` at the end.
    """
    model = Thinker()
    how = {"connect": connect} if connect is not None else {}
    async with stage(
        tmp_path,
        script=model,
        dialect=dialect,
        binding=binding or strict(),
        config=config,
        files=files,
        env=env,
        editor=ZED_BETA,
        **how,
        **options,
    ) as opened:
        it = Thinking(opened, model)
        yield it
        if sound:
            it.check()


def strict(**settings: Any) -> Binding:
    """A server on which nothing can depend on drops."""
    return Binding(**{"account": "new", "always_error": True, **settings})


def thoughts(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The pieces of reasoning in a request."""
    if "input" in body:
        return [item for item in body["input"] if item.get("type") == "reasoning"]
    return [block for _, block in _blocks(body) if block.get("type") == "thinking"]


def compared(body: Mapping[str, Any]) -> list[Any]:
    """What of a request a provider compares with earlier ones, in order: the beginning,
    then block by block.

    Without marks of the cache, and without what is no part of what the model reads
    before its answer.
    """
    if "input" in body:
        effort = (body.get("reasoning") or {}).get("effort")
        return [body.get("instructions"), body.get("tools"), effort, *body["input"]]
    return [_plain(body.get("system")), _plain(body.get("tools")), *_blocks(body)]


def logged(home: Path, kind: str) -> list[dict[str, Any]]:
    """The events of a kind that an agent has stored, in order."""
    with closing(
        sqlite3.connect(f"file:{home / 'state' / 'sessions.db'}?mode=ro", uri=True)
    ) as database:
        rows = database.execute(
            "SELECT data FROM events WHERE kind = ? ORDER BY session, seq", (kind,)
        )
        return [json.loads(data) for (data,) in rows]


def as_an_earlier_version(home: Path) -> None:
    """Take out of the log which conversation reasoning was made in, which earlier
    versions did not note.
    """
    with closing(sqlite3.connect(home / "state" / "sessions.db")) as database:
        database.execute("DROP TRIGGER IF EXISTS events_are_final")
        rows = database.execute(
            "SELECT rowid, data FROM events WHERE data LIKE '%\"bound\"%'"
        ).fetchall()
        for row, data in rows:
            database.execute(
                "UPDATE events SET data = ? WHERE rowid = ?",
                (json.dumps(_unbound(json.loads(data))), row),
            )
        database.commit()


@contextmanager
def another_day() -> Generator[str]:
    """Be in a time zone in which it is another day than here; that day."""
    now = datetime.now(UTC)
    here = now.astimezone().date()
    zones = {"AAA-14": now + timedelta(hours=14), "BBB12": now - timedelta(hours=12)}
    zone, there = next(
        (zone, there.date()) for zone, there in zones.items() if there.date() != here
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", zone)
        time.tzset()
        yield there.isoformat()
    time.tzset()


def asks_to_compact(call: Request) -> bool:
    """Say whether a request asks the provider to compact."""
    return (
        call.path.endswith("/compact")
        or "compaction" in call.body
        or triggers(call.body)
    )


def compaction_blocks(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What a request has of the provider's own compactions."""
    if "input" in body:
        return [item for item in body["input"] if item.get("type") == "compaction"]
    return [block for _, block in _blocks(body) if block.get("type") == "compaction"]


def betas(call: Request) -> Sequence[str]:
    return [name for name in call.headers.get("anthropic-beta", "").split(",") if name]


def _blocks(body: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """All blocks of a request to Anthropic, each with its role; a system message is
    one.
    """
    found: list[tuple[str, dict[str, Any]]] = []
    for message in body["messages"]:
        content = message["content"]
        if message["role"] == "system":
            found.append(("system", _plain(message)))
        else:
            blocks = (
                [{"type": "text", "text": content}]
                if isinstance(content, str)
                else content
            )
            found += [(message["role"], _plain(block)) for block in blocks]
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _plain(item) for key, item in value.items() if key != "cache_control"
        }
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _unbound(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _unbound(item)
            for key, item in value.items()
            if key not in ("bound", "at")
        }
    return [_unbound(item) for item in value] if isinstance(value, list) else value


def _compacts(body: Mapping[str, Any]) -> bool:
    return (
        not body.get("stream")
        or bool(body.get("compaction"))
        or triggers(body)
        or _asks_for_text(body)
    )


def _asks_for_text(body: Mapping[str, Any]) -> bool:
    return RECIPE_TEXT in json.dumps(
        (body.get("input") or body["messages"])[-1], ensure_ascii=False
    )


def _is_compaction(call: Request) -> bool:
    return call.path.endswith("/compact") or _compacts(call.body)

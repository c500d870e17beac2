"""The home that version 0.1.0 has left in `tests/contract/home`: copies of it, and what
is known of its sessions.

for session in KEPT: ...                                # from `sessions.json`; `session.old` was compacted away
async with opened(tmp_path, session) as it:             # a copy of the store alone; the session is not loaded
    assert shown(await it.load()) == session.replay()
    request = await it.ask("What next?")                # what the model got
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.client import AgentProcess, connected_agent
from support.editors import ZED_BETA
from support.http_server import Request
from support.models import DialectName, ModelServer, Reply, model_server

FOLDER = Path(__file__).parents[1] / "contract" / "home"
STORE = "sessions.db"
PROJECT = "/home/user/project"
"""Where the sessions were made."""
SCHEMAS = (1, 2, 3, 4)
"""The earlier versions of the store's tables."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A session of the store.

    :ivar dialect: whose API its model has.
    :ivar words: what the model is sent, byte for byte, when the session goes on.
    :ivar pins: of that, what stays through every compaction: pinned texts and stated
        rules.
    :ivar absent: what it is not sent.
    :ivar force: how many compactions are in force, which `/compact undo` takes back one
        by one.
    :ivar old: what is sent again then, and not before; empty where that is not looked
        at.
    :ivar new: what stands in its place until then.
    :ivar listed: where it is listed: `always`, `archived`, or `never`.
    :ivar store: the file that it is in.
    """

    name: str
    id: str
    title: str | None = None
    dialect: DialectName = "openai"
    words: Sequence[str] = ()
    pins: Sequence[str] = ()
    absent: Sequence[str] = ()
    force: int = 0
    old: str = ""
    new: str = ""
    listed: str = "always"
    store: str = STORE

    def replay(self) -> list[Any]:
        """What was shown of it when version 0.1.0 loaded it, as `shown` has it."""
        return shown(
            json.loads((FOLDER / "replay" / f"{self.name}.json").read_text("utf-8"))
        )


@dataclass(slots=True)
class Opened:
    """An agent on a copy of the home, and the model that it asks.

    :ivar says: what the model answers, to whatever it is asked.
    :ivar first: what it answers before that, where it may call tools.
    """

    session: Kept
    home: Path
    folder: Path
    says: str = "An answer."
    first: list[Reply] = field(default_factory=list[Reply])
    agent: AgentProcess = field(init=False)
    server: ModelServer = field(init=False)

    def answer(self, body: Mapping[str, Any]) -> Reply:
        return (
            self.first.pop(0) if self.first and body.get("tools") else Reply(self.says)
        )

    async def load(self) -> list[Mapping[str, Any]]:
        """Load the session, and return the updates that came before the response."""
        begun = len(self.agent.lines)
        await self.agent.load(self.session.id, self.folder, timeout=30)
        lines = self.agent.lines[begun:]
        response = next(
            index
            for index, line in enumerate(lines)
            if line.label == "response session/load"
        )
        return [line.update for line in lines[:response] if line.update]

    async def ask(
        self, prompt: str, answer: str = "An answer.", sent: str = ""
    ) -> Request:
        """Prompt the session, and return the request that was made for it.

        :param sent: what the model gets in place of the prompt.
        """
        self.says = answer
        asked = len(self.server.calls)
        assert await self.agent.prompt(self.session.id, prompt, 30) == {
            "stopReason": "end_turn"
        }
        # A request for a title, which names the prompt as well, has no tools.
        calls = [
            call
            for call in self.server.calls[asked:]
            if call.body.get("tools") and call.mentions(sent or prompt)
        ]
        return calls[0]

    async def command(self, prompt: str, answer: str = "") -> list[Mapping[str, Any]]:
        self.says = answer
        begun = len(self.agent.lines)
        assert await self.agent.prompt(self.session.id, prompt, 30) == {
            "stopReason": "end_turn"
        }
        return self.agent.updates(since=begun)


def _kept() -> tuple[Kept, ...]:
    rows = json.loads((FOLDER / "sessions.json").read_text("utf-8"))
    return tuple(Kept(name, **row) for name, row in rows.items())


KEPT = _kept()


def by_name(name: str) -> Kept:
    return next(session for session in KEPT if session.name == name)


@asynccontextmanager
async def opened(
    tmp_path: Path, session: Kept, *, whole: bool = False
) -> AsyncGenerator[Opened]:
    """Run an agent on a copy.

    :param whole: with all that is in the home, and its project; else there is the store
        alone.
    """
    it = Opened(session, tmp_path / "home", tmp_path / "project")
    if whole:
        copy_home(it.home, it.folder)
    else:
        it.folder.mkdir()
        copy_store(it.home, session.store)
    async with model_server(it.answer, session.dialect) as it.server:
        every = {
            **it.server.env("openai"),
            **it.server.env("anthropic"),
            **it.server.env(),
        }
        async with connected_agent(
            home=it.home, env=every, capabilities=ZED_BETA
        ) as it.agent:
            yield it


def copy_store(home: Path, name: str = STORE) -> Path:
    """Put a store into a home, where the agent looks for it.

    :param home: what `start_agent` is given as `home`.
    :param name: a file of `FOLDER / "state"`, or one of SQL.
    """
    path = home / "state" / STORE
    path.parent.mkdir(parents=True, mode=0o700)
    if name.endswith(".sql"):
        with closing(sqlite3.connect(path)) as database:
            database.executescript((FOLDER / name).read_text("utf-8"))
    else:
        shutil.copyfile(FOLDER / "state" / name, path)
    path.chmod(0o600)
    return path


def copy_home(home: Path, project: Path) -> None:
    """Put all of the home, and its project, where a test has them; what names the
    project names that one.
    """
    shutil.copytree(FOLDER / "state", home / "state")
    shutil.copytree(FOLDER / "project", project)
    for name in ("trust.json", "permissions.json"):
        file = home / "state" / name
        file.write_text(file.read_text("utf-8").replace(PROJECT, str(project)), "utf-8")


def shown(updates: Sequence[Mapping[str, Any]]) -> list[Any]:
    """A replay without what may be shown otherwise: the receipt below a compaction's
    summary, the empty line in front of a later message of a turn, and the call beside a
    plan.
    """
    told: list[Any] = []
    for update in updates:
        match update:
            case {"sessionUpdate": "compaction_update"}:
                told.append({**update, "summary": update["summary"][:1]})
            case {
                "sessionUpdate": "agent_message_chunk" | "agent_thought_chunk",
                "content": {"text": str(text)},
            }:
                told.append(
                    {
                        **update,
                        "content": {
                            **update["content"],
                            "text": text.removeprefix("\n\n"),
                        },
                    }
                )
            case {"sessionUpdate": "tool_call", "name": "plan"}:
                pass
            case _:
                told.append(update)
    return told

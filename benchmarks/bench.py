"""What the measures share: the model server, the agents, how often to run, and fresh
homes to run in.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.agent import Agent, start_agent
from benchmarks.model_server import ModelServer
from benchmarks.peers import Program


@dataclass(frozen=True, slots=True)
class Home:
    """A user's home directory that nobody used before, and a small project in it."""

    path: Path

    @property
    def project(self) -> Path:
        """The session's working directory."""
        return self.path / "project"


@dataclass(frozen=True, slots=True)
class Bench:
    """The bench.

    :ivar runs: how often what is quick is run.
    """

    model: ModelServer
    runs: int

    @property
    def fewer(self) -> int:
        """How often what takes seconds is run."""
        return max(1, self.runs // 3)

    @asynccontextmanager
    async def home(self) -> AsyncGenerator[Home]:
        """A fresh home, removed when the block ends."""
        with TemporaryDirectory(
            prefix="acp-bench-", ignore_cleanup_errors=True
        ) as folder:
            yield _furnished(folder)

    @asynccontextmanager
    async def started(self, program: Program) -> AsyncGenerator[tuple[Home, Agent]]:
        """An agent in a fresh home."""
        async with self.home() as home:
            env = program.prepare(home.path, self.model)
            async with start_agent(home.path, env, program.command) as agent:
                yield home, agent


def _furnished(folder: str) -> Home:
    home = Home(Path(folder).resolve())
    home.project.mkdir()
    (home.project / "notes.txt").write_text("one\ntwo\nthree\n")
    return home

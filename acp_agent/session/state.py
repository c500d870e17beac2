"""`SessionState`: the current state of one session as plain data: its id, directories,
settings and log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from acp_agent.config import Settings
from acp_agent.config.sandbox import sandbox_of
from acp_agent.config.settings import McpServer, MergedCompaction
from acp_agent.conversation.context import Context
from acp_agent.llm.places import key_variables
from acp_agent.nofollow import resolved
from acp_agent.sandbox.reading import ReadLimits
from acp_agent.session.log import SessionLog, Source

if TYPE_CHECKING:
    from acp_agent.sandbox.sandbox import Sandbox


@dataclass(slots=True, eq=False)
class SessionState:
    """One open session.

    :ivar directories: absolute paths; the working directory first.
    :ivar real_directories: the directories with symbolic links resolved when the
        session was opened here. Anyone who can write to a parent folder could later
        replace a directory with a link that leads outside.
    :ivar settings: the settings of the working directory; replaced when they are read
        again.
    :ivar mcp_servers: the MCP servers that the client names.
    :ivar recipe_model: the model that the running recipe names, `provider/model`; empty
        for none.
    :ivar recipe_mode: the permission mode that the running recipe sets; empty for none.
    :ivar mode_elsewhere: the permission mode until the session is closed, if it is open
        in directories other than its own; empty to use the logged mode.
    :ivar in_turn: whether a turn runs, during which another process may append only
        settings.
    :ivar made: notices for the user about files that commands have created, or about a
        mode that does not apply here.
    :ivar trace: the W3C trace context of the running prompt.
    """

    id: str
    directories: tuple[Path, ...]
    settings: Settings
    log: SessionLog
    source: Source = "new"
    mcp_servers: Sequence[McpServer] = ()
    recipe_model: str = ""
    recipe_mode: str = ""
    mode_elsewhere: str = ""
    in_turn: bool = False
    trace: Mapping[str, str] = field(default_factory=dict[str, str])
    made: list[str] = field(default_factory=list[str])
    real_directories: tuple[Path, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.real_directories = tuple(resolved(each) for each in self.directories)

    @property
    def context(self) -> Context:
        """Return the context after everything appended so far."""
        return self.log.context

    @property
    def cwd(self) -> Path:
        """Return the working directory in which the session is open. The log may name a
        different one.
        """
        return self.directories[0]

    @property
    def model(self) -> str:
        """Return the name of the model in use, `provider/model`; empty for the default."""
        return self.recipe_model or self.context.model

    @property
    def mode(self) -> str:
        """Return the current permission mode."""
        return self.recipe_mode or self.chosen_mode

    @property
    def chosen_mode(self) -> str:
        """Return the permission mode without the running recipe's change."""
        return self.mode_elsewhere or self.context.mode

    @property
    def is_at_home(self) -> bool:
        """Return whether the session is open in the directory that it belongs to."""
        return str(self.cwd) == self.context.cwd

    @property
    def sandbox(self) -> Sandbox | None:
        """Return the sandbox for commands in the current mode; None if they run without
        one.
        """
        is_free = (
            self.mode == "full-access" and self.settings.sandbox.commands != "required"
        )
        return None if is_free else self._sandbox()

    def settle_unfinished(self) -> None:
        """Neutralize the files that commands of a killed agent have created; see
        `Sandbox`. This reads and writes the disk.
        """
        self._sandbox().settle_unfinished()

    def _sandbox(self) -> Sandbox:
        settings = self.settings
        keys = key_variables(settings)
        return sandbox_of(
            settings.sandbox, self.real_directories, settings.home, keys, self.made
        )

    @property
    def read_limits(self) -> ReadLimits:
        """Return the limits on the files that tools may read, in every mode."""
        return ReadLimits.of(self.real_directories, self.settings.sandbox.read_deny)

    def compaction(self, model: str) -> MergedCompaction:
        """Return the compaction settings for a model in this session.

        :param model: `provider/model`.
        """
        return self.settings.compaction_for(model, self.context.auto_compaction)

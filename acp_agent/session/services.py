"""`Services`: what every session of this process shares. Built once, in the composition root."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from acp_agent.config import Settings
from acp_agent.frozen import frozen
from acp_agent.llm.credentials import ModelAccess
from acp_agent.llm.registry import Registry
from acp_agent.storage.store import SessionStore

if TYPE_CHECKING:
    from acp_agent.compaction.service import CompactionService
    from acp_agent.recipes.discovery import RecipeLibrary


class ReadSettings(Protocol):
    """See `Services.settings`."""

    def __call__(self, cwd: Path | None, root: Path | None = None) -> Settings: ...


@frozen
class Services:
    """The parts that all sessions use.

    :ivar home: the folder of all state.
    :ivar compaction: returns the one service; imports it with the first call.
    :ivar settings: reads the settings for a working directory, or without one the user's own, and for the project's
        root where it is known; raises `ConfigError`.
    :ivar models: makes the registry of models for such settings.
    :ivar access: the keys and routes with which the providers are reached.
    :ivar library: finds the recipes for such settings and a working directory; touches the disk. The last argument is
        `trusted` of `RecipeLibrary.read`.
    :ivar recipe_signature: returns a value that changes when one of those recipes changes; touches the disk, but
        little.
    :ivar project_places: returns the folders from which a project's hooks and recipes come, for such settings and a
        working directory; touches the disk, but little.
    """

    home: Path
    store: SessionStore
    compaction: Callable[[], CompactionService]
    settings: ReadSettings
    models: Callable[[Settings], Registry]
    access: ModelAccess
    library: Callable[[Settings, Path, Callable[[Path], str | None]], RecipeLibrary]
    recipe_signature: Callable[[Settings, Path], Hashable]
    project_places: Callable[[Settings, Path], tuple[Path, ...]]

"""`SessionServices`: the parts that all sessions of a process share. They are built
once, in the composition root.
"""

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
    """See `SessionServices.settings`."""

    def __call__(self, cwd: Path | None, root: Path | None = None) -> Settings: ...


@frozen
class SessionServices:
    """The parts that all sessions use.

    :ivar home: the folder that holds all state.
    :ivar compaction: returns the shared compaction service, importing it on the first
        call.
    :ivar settings: reads the settings for a working directory, and for the project's
        root if it is known. Without a working directory, it reads the user's own
        settings. Raises `ConfigError`.
    :ivar models: creates the registry of models for these settings.
    :ivar access: the keys and routes for reaching the providers.
    :ivar library: finds the recipes for the settings and a working directory. It reads
        the disk. The last argument is `trusted` of `RecipeLibrary.read`.
    :ivar recipe_signature: returns a value that changes when one of these recipes
        changes. It reads little from the disk.
    :ivar project_places: returns the folders that contain a project's hooks and
        recipes, for the settings and a working directory. It reads little from the
        disk.
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

"""`Handler`: what every built-in handler is, and the reading of a project's file, which several do."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from acp_agent.config.document import DocumentError, read_text
from acp_agent.conversation.messages import JsonObject
from acp_agent.errors import HookError
from acp_agent.hooks.contract import Services
from acp_agent.hooks.events import EventName, HookEvent
from acp_agent.hooks.outcomes import Outcome


class Handler(Protocol):
    """Answers an event."""

    @property
    def name(self) -> str:
        """As a recipe names it."""
        ...

    @property
    def events(self) -> frozenset[EventName]:
        """What a recipe may bind it to."""
        ...

    async def handle(self, event: HookEvent, params: JsonObject, services: Services) -> Outcome:
        """What should happen now.

        :param params: what the recipe says of how, checked when it was read.
        :raises HookError: it cannot do what it is there for.
        """
        ...


def project_text(folder: Path, name: str) -> str:
    """The text of a file in the session's directory. Touches the disk.

    :param name: its path, relative to the directory; links that lead out of it are not followed.
    :raises HookError: there is none, or it cannot be read.
    """
    path = folder / name
    try:
        text = read_text(path, within=folder)
    except DocumentError as error:
        raise HookError(f"{path}: {error.message}.") from error
    if text is None:
        raise HookError(f"There is no file {path}.")
    return text

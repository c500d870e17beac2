"""`acp-agent trust`: allow a project's hooks and recipes to run, take that back, and show what is allowed."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from acp_agent.app import project_places
from acp_agent.config import Settings, home_dir, load_settings
from acp_agent.config.brought import Brought, read_brought
from acp_agent.config.trust import TrustStore
from acp_agent.errors import AgentError
from acp_agent.llm.registry import BUILT_IN_PROVIDERS
from acp_agent.session.trust_text import MAX_LENGTH, lines_of
from acp_agent.tools.text import one_line


async def run(arguments: argparse.Namespace) -> int:
    """Allow a folder, or do what an option says instead.

    :returns: 0.
    :raises AgentError: the folder is none or brings more than can be looked through, there was nothing to revoke, or
        what is allowed cannot be read.
    """
    store = TrustStore(home_dir(os.environ))
    if arguments.list:
        return _list(store)
    if arguments.revoke is not None:
        return _revoke(store, arguments.revoke)
    return _trust(store, arguments.path or ".")


def _trust(store: TrustStore, path: str) -> int:
    folder = Path(path).resolve()
    if not folder.is_dir():
        raise AgentError(f"{folder} is not a directory. Name the project's folder.")
    settings = load_settings(os.environ, folder, providers=BUILT_IN_PROVIDERS)
    found = brought_by(settings, folder)
    for each in found:
        if each.problem:
            raise AgentError(f"{each.place} is not trusted: {each.problem}.")
    if not found:
        print(f"{folder} brings no hooks and no recipes.")
        return 0
    before = {each.place: known.parts for each in found if (known := store.find(each.place)) is not None}
    store.trust(found)
    for each in found:
        print(f"Trusted until something in it changes: {one_line(str(each.place), MAX_LENGTH)}")
        for line in lines_of(each, before.get(each.place, {})):
            print(f"  {line}")
    return 0


def brought_by(settings: Settings, folder: Path) -> tuple[Brought, ...]:
    """What a session in this folder would have to be allowed.

    :param folder: absolute path of an existing directory.
    """
    commands = [command for command in settings.hooks if command.origin == "project"]
    places: Sequence[Path] = project_places(os.environ, settings, folder)
    found = (read_brought(place, commands if place == settings.project else ()) for place in places)
    return tuple(each for each in found if not each.is_nothing)


def _list(store: TrustStore) -> int:
    trusted = store.read()
    for folder, each in trusted.items():
        print(f"{folder}  {each.since}")
    if not trusted:
        print("No project's hooks and recipes are trusted.")
    return 0


def _revoke(store: TrustStore, path: str) -> int:
    folder = Path(path).resolve()
    try:
        settings = load_settings(os.environ, folder, providers=BUILT_IN_PROVIDERS)
        places = project_places(os.environ, settings, folder)
    except AgentError:
        places = ()  # what is wrong with a project's files is no reason to trust it
    revoked = store.revoke(folder, places)
    for each in revoked:
        print(f"Not trusted any more: {each}")
    if not revoked:
        raise AgentError(f"Nothing of {folder} was trusted. `acp-agent trust --list` shows what is.")
    return 0

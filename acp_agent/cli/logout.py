"""`acp-agent logout`: forget the keys that `acp-agent login` has stored."""

from __future__ import annotations

import argparse
import os

import anyio.to_thread

from acp_agent.config import home_dir
from acp_agent.config.keys import KeyStore
from acp_agent.errors import AgentError


async def run(arguments: argparse.Namespace) -> int:
    """Remove one provider's key, or all of them.

    :returns: 0.
    :raises AgentError: none is stored, or it cannot be removed.
    """
    store = KeyStore(home_dir(os.environ))
    wanted = None if arguments.provider is None else [arguments.provider]
    removed = await anyio.to_thread.run_sync(store.remove, wanted, abandon_on_cancel=True)
    if not removed:
        stored = ", ".join(store.read())
        what = "No key is stored" if wanted is None else f"No key for {wanted[0]} is stored"
        raise AgentError(f"{what}{f', but for {stored}' if stored else ''}.")
    for name in removed:
        print(f"The key for {name} is removed; one in the environment is still used.")
    return 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the sub-command."""
    parser.add_argument("provider", nargs="?", metavar="PROVIDER", help="whose; all where none is given")

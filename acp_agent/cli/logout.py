"""`acp-agent logout`: forget the keys that `acp-agent login` has stored."""

from __future__ import annotations

import argparse
import os
from functools import partial

from acp_agent.cli.terminal.process import aside
from acp_agent.cli.terminal.prompts import with_keyring
from acp_agent.config import home_dir, load_settings
from acp_agent.config.keys import KeyStore
from acp_agent.errors import AgentError, ConfigError
from acp_agent.llm.registry import BUILT_IN_PROVIDERS, Registry


async def run(arguments: argparse.Namespace) -> int:
    """Remove one provider's key, or all of them.

    :returns: 0.
    :raises AgentError: none is stored, or it cannot be removed.
    """
    store = KeyStore(home_dir(os.environ))
    wanted = None if arguments.provider is None else [arguments.provider]
    removed = await with_keyring(partial(store.remove, wanted))
    if not removed:
        stored = ", ".join(store.read())
        what = "No key is stored" if wanted is None else f"No key for {wanted[0]} is stored"
        raise AgentError(f"{what}{f', but for {stored}' if stored else ''}.")
    variables = _variables()
    for name in removed:
        print(f"The key for {name} is removed.")
        if variable := variables.get(name):
            aside(f"{variable} is still set in this environment, and is used wherever it is set.")
    return 0


def _variables() -> dict[str, str]:
    """Return which keys the environment has, as far as the configuration can be read."""
    try:
        settings = load_settings(os.environ, providers=BUILT_IN_PROVIDERS)
        places = Registry(settings, os.environ).places.all()
    except ConfigError:
        return {}
    return {place.name: place.variable for place in places if place.variable is not None}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the sub-command."""
    parser.add_argument("provider", nargs="?", metavar="PROVIDER", help="whose; all where none is given")

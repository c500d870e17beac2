"""`acp-agent login` and `acp-agent logout`: try a provider's key and store it, shown
nowhere; forget stored keys.
"""

from __future__ import annotations

import argparse
import os
import sys

import anyio.to_thread

from acp_agent.cli.terminal.process import aside
from acp_agent.cli.terminal.prompts import is_interactive, typed, typed_secret
from acp_agent.config import Settings, ensure_private_dir, home_dir, load_settings
from acp_agent.config.document import did_you_mean
from acp_agent.config.keys import KeyStore
from acp_agent.errors import AgentError, ConfigError, ModelError
from acp_agent.llm.places import BUILT_IN, Place, check_key
from acp_agent.llm.registry import BUILT_IN_PROVIDERS, Registry
from acp_agent.tools.text import counted

_LONGEST_KEY = 65_536


async def run(arguments: argparse.Namespace) -> int:
    """Store a key.

    :returns: 0.
    :raises AgentError: there is no such provider, no key was given, the provider
        refuses it or cannot be asked, or it cannot be stored.
    """
    settings = load_settings(os.environ, providers=BUILT_IN_PROVIDERS)
    registry = Registry(settings, os.environ)
    places = {place.name: place for place in registry.places.all()}
    name = arguments.provider or await _chosen(settings, places)
    registry.places.endpoint(name)  # says which providers there are
    if name not in places:
        raise AgentError(f"{name} plays a script and needs no key.")
    place = places[name]
    if place.base_url is None:
        raise ConfigError(
            "needs `base_url: URL`, the address that the key is for",
            key=f"providers.{name}",
        )
    if (
        name in BUILT_IN
        and not place.variables
        and registry.places.endpoint(name).is_local
    ):
        return await _without_key(registry, place)
    home = ensure_private_dir(home_dir(os.environ))
    if is_interactive():
        key = await typed_secret(f"Key for {name} (not shown as you type): ")
    else:
        line = await anyio.to_thread.run_sync(
            sys.stdin.buffer.readline, _LONGEST_KEY, abandon_on_cancel=True
        )
        key = line.decode("utf-8", "replace").strip()
    if not key:
        raise AgentError("You entered no key. Nothing was stored.")
    if arguments.no_check:
        check_key(name, key, "the key that you gave")
    else:
        try:
            if not await registry.try_key(name, key):
                aside(f"{name} has no list of models, so the key was not tested.")
        except ModelError as error:
            raise AgentError(
                f"{error} Nothing was stored; `--no-check` stores a key without testing it."
            ) from error
    # The system's keyring may wait until it is unlocked.
    where = await anyio.to_thread.run_sync(
        KeyStore(home).store, name, key, abandon_on_cancel=True
    )
    print(f"The key for {name} is stored in {where}.")
    if place.variable is not None:
        aside(
            f"{place.variable} is set in this environment, and takes precedence over the stored key."
        )
    return 0


async def _without_key(registry: Registry, place: Place) -> int:
    """Say that a local server needs no key, and whether it answers.

    :returns: 0; 1 if it does not answer.
    """
    begins = f"{place.name}/"
    models = [
        model for model in await registry.local_models() if model.startswith(begins)
    ]
    if not models:
        aside(
            f"{place.name} needs no key, but there is no answer from {place.base_url}. Start it, and pull a model."
        )
        return 1
    print(
        f"{place.name} needs no key. It has {counted(len(models), 'model')}; choose one with `--model {models[0]}`."
    )
    return 0


async def _chosen(settings: Settings, places: dict[str, Place]) -> str:
    """Return the provider to log in to: that of the configured model, else the one that
    the user names.
    """
    if (
        settings.model is not None
        and (name := settings.model.partition("/")[0]) in places
    ):
        return name
    keyed = [place.name for place in places.values() if place.variables]
    said = await typed(f"Which provider: {', '.join(keyed)}? [{keyed[0]}] ")
    if said is None:
        raise AgentError(f"Name the provider, as in `acp-agent login {keyed[0]}`.")
    return said or keyed[0]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the sub-command."""
    parser.add_argument(
        "provider",
        nargs="?",
        metavar="PROVIDER",
        help="provider, such as `anthropic` or one of your own (default: the configured model's "
        "provider, or you are asked)",
    )
    parser.add_argument(
        "--no-check", action="store_true", help="store the key without testing it"
    )


async def run_logout(arguments: argparse.Namespace) -> int:
    """Remove one provider's key, or all of them.

    :returns: 0.
    :raises AgentError: none is stored, or it cannot be removed.
    """
    settings = load_settings(os.environ, providers=BUILT_IN_PROVIDERS)
    places = {
        place.name: place for place in Registry(settings, os.environ).places.all()
    }
    store = KeyStore(home_dir(os.environ))
    wanted = None if arguments.provider is None else [arguments.provider]
    removed = await anyio.to_thread.run_sync(
        store.remove, wanted, abandon_on_cancel=True
    )
    used = [
        f"{place.variable} ({name})"
        for name, place in places.items()
        if place.variable and name in (wanted or places)
    ]
    still = (
        f" {', '.join(used)} in the environment is still used; unset it to stop that."
        if used
        else ""
    )
    if not removed and wanted is None:
        raise AgentError(f"No key is stored.{still}")
    if not removed:
        [name] = wanted or [""]
        known = (
            ""
            if name in places
            else f" There is no provider {name!r}; {did_you_mean(name, places)}"
        )
        raise AgentError(
            f"No key is stored for {name}. Keys are stored for: {', '.join(store.read()) or 'nothing'}.{known}{still}"
        )
    for name in removed:
        print(f"The key for {name} is removed.")
    if used:
        aside(still.strip())
    return 0


def add_logout_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `logout`."""
    parser.add_argument(
        "provider", nargs="?", metavar="PROVIDER", help="provider (default: all)"
    )

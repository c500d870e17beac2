"""`acp-agent models` and `acp-agent config`: what is configured, where each value is
from, and which key is missing.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import cast

from acp_agent.app import checked_settings, model_access
from acp_agent.cli.terminal.process import aside
from acp_agent.cli.terminal.safe import safe_for
from acp_agent.config import Settings
from acp_agent.config.forms import ConfigSection
from acp_agent.config.home import CONFIG_FILE
from acp_agent.errors import ConfigError
from acp_agent.llm.places import BUILT_IN, Place
from acp_agent.llm.profiles import Prices
from acp_agent.llm.registry import Registry
from acp_agent.visible import on_one_line

_HIDDEN = ("headers", "env", "args", "url", "hooks")
"""Keys below which secrets may stand, whatever they are called: only their place is
shown.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `models`: none."""


def add_config_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `config`: none."""


async def run(arguments: argparse.Namespace) -> int:
    """List the models by provider, with window and price, and how each provider gets
    its key.

    :returns: 0; 1 if no model can be used.
    :raises ConfigError: if the configuration is wrong.
    """
    del arguments
    settings = checked_settings(os.environ, Path.cwd())
    async with aclosing(
        Registry(settings, os.environ, model_access(os.environ))
    ) as registry:
        default = await registry.default_model()
        usable = await registry.available_models()
        offered = [
            f"{name}/{model}"
            for name, place in BUILT_IN.items()
            for model in place.offered
        ]
        models = sorted(
            {*usable, *offered}, key=lambda name: (name not in usable, name)
        )
        by_provider: dict[str, list[str]] = {}
        for model in models:
            by_provider.setdefault(model.partition("/")[0], []).append(model)
        headings = {
            place.name: _key_of(registry, place) for place in registry.places.all()
        }
        for name, configured in settings.providers.items():
            if configured.kind == "scripted":
                headings[name] = f"plays {configured.script}"
        width = max(map(len, models), default=0)
        for provider, heading in headings.items():
            print(f"{provider}: {heading}")
            for name in by_provider.get(provider, ()):
                mark = "▸" if name == default else " "
                print(
                    f"  {mark} {name:<{width}}  {_window(settings, registry, name)}  {_price(registry, name)}".rstrip()
                )
        if default is None:
            aside(f"\nNo model can be used. {registry.no_model()}")
            return 1
        where = (
            settings.places.get("model", "the first provider that has a key")
            if settings.model
            else "by default"
        )
        aside(
            f"\n▸ is the model of new sessions ({where}). `--model PROVIDER/MODEL` chooses another."
        )
    return 0


def _key_of(registry: Registry, place: Place) -> str:
    """Return where a provider's key is from, or what to do about one that is missing."""
    if place.variable is not None:
        return f"the key is in {place.variable}"
    if not place.variables:
        return (
            f"needs no key, at {place.base_url}" if place.base_url else "needs no key"
        )
    try:
        if registry.places.has_stored_key(place.name):
            return "the key is stored"
    except ConfigError as error:
        return str(error)
    return f"no key: run `acp-agent login {place.name}`, or set {' or '.join(place.variables)}"


def _window(settings: Settings, registry: Registry, model: str) -> str:
    profile = registry.profile(model)
    own = settings.models.get(model)
    if settings.context_window:
        source = f"configured: {settings.places.get('context_window', 'config.yaml')}"
    elif profile.listed:
        source = "known"
    else:
        source = (
            "configured"
            if own is not None and own.context_window
            else "assumed until the provider states it"
        )
    return f"{profile.context_window:>9,} tokens ({source})"


def _price(registry: Registry, model: str) -> str:
    prices: Prices | None = registry.profile(model).prices
    if prices is None:
        return "price unknown"
    return f"${prices.input:g} in, ${prices.output:g} out per million tokens"


async def run_config(arguments: argparse.Namespace) -> int:
    """Print every setting with its value and where that was set.

    :returns: 0.
    :raises ConfigError: if the configuration is wrong; names file and line.
    """
    del arguments
    settings = checked_settings(os.environ, Path.cwd())
    safe = safe_for()
    for folder in filter(None, (settings.home, settings.project)):
        file = folder / CONFIG_FILE
        aside(f"{on_one_line(file)}{'' if file.is_file() else ' (not there)'}")
    rows = [*_rows(settings, "", settings.places)]
    width = max(len(key) for key, _, _ in rows)
    for key, value, place in rows:
        print(safe(on_one_line(f"{key:<{width}}  {value}  # {place}")))
    for text in (*settings.hook_faults, *settings.notices):
        aside(safe(on_one_line(text)))
    return 0


def _rows(
    section: ConfigSection, before: str, places: Mapping[str, str]
) -> Iterator[tuple[str, str, str]]:
    """Yield the dotted key, the value and the place of each setting of a section.

    :param section: a section of the settings.
    :param before: the dotted key of the section, with a dot at its end; "" for the
        whole.
    """
    for name in type(section).file_keys():
        key = f"{before}{name}"
        value = getattr(section, name)
        if name == "compaction" and not before:
            value = value.settled()
        if name in _HIDDEN and value:
            yield key, "(not shown)", places.get(key, "default")
        elif isinstance(value, ConfigSection):
            yield from _rows(value, f"{key}.", places)
        elif is_dataclass(value) and not isinstance(value, type):
            for field in fields(value):
                inner = f"{key}.{field.name}"
                yield (
                    inner,
                    _shown(getattr(value, field.name)),
                    places.get(inner, "default"),
                )
        elif isinstance(value, Mapping):
            if not value:
                yield key, "{}", places.get(key, "default")
            for word, each in cast("Mapping[str, ConfigSection]", value).items():
                yield from (
                    row
                    for row in _rows(each, f"{key}.{word}.", places)
                    if row[2] != "default"
                )
        else:
            yield key, _shown(value), places.get(key, "default")


def _shown(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool() | int() | float():
            return json.dumps(value)
        case tuple() | list():
            return f"[{', '.join(map(_shown, cast('Sequence[object]', value)))}]"
        case _:
            return str(value)

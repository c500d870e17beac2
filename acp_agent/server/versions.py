"""Which versions of the protocol are spoken with an editor, and which of them it gets.

`protocol: {versions: [1]}` in the user's configuration turns the others off. That file is looked at only for an editor
that asks for more than version 1, and understood only where it says something of versions: the first answer does not
wait for it otherwise.

ACP v2, "Initialization", "Version Negotiation".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

SUPPORTED = (1, 2)
UNSUPPORTED_VERSION = -32022
_MAX_VERSION = 65_535


def requested_version(params: Mapping[str, object]) -> int | None:
    """The version that the params of `initialize` ask for; None where that is no version."""
    version = params.get("protocolVersion")
    if isinstance(version, bool) or not isinstance(version, int) or not 0 <= version <= _MAX_VERSION:
        return None
    return version


def agreed(requested: int, spoken: Collection[int]) -> int | None:
    """The highest version that is spoken and not above the one asked for; None where there is none."""
    return max((version for version in spoken if version <= requested), default=None)


def plainly_spoken(env: Mapping[str, str]) -> tuple[int, ...] | None:
    """What is spoken, where the configuration says nothing of it; None where it has to be understood.

    :param env: environment variables.
    """
    from acp_agent.config.home import CONFIG_FILE, home_dir
    from acp_agent.errors import ConfigError

    try:
        said = b"protocol" in (home_dir(env) / CONFIG_FILE).read_bytes()
    except (OSError, ConfigError):
        return SUPPORTED  # whoever needs the file says what is wrong with it
    return None if said else SUPPORTED


def spoken_versions(env: Mapping[str, str]) -> tuple[int, ...]:
    """What is spoken.

    :param env: environment variables.
    """
    plainly = plainly_spoken(env)
    if plainly is not None:
        return plainly
    from acp_agent.config import load_settings
    from acp_agent.errors import ConfigError

    try:
        return load_settings(env).protocol_versions
    except ConfigError:
        return SUPPORTED  # the first session says what is wrong

"""Reads the git settings that environment variables contain.

If the user's shell sets such variables, the agent inherits them, and they also apply to
git in the user's terminal.

Source: git-config(1), "ENVIRONMENT"; git(1), "Environment Variables"; git's config.c
(`git_config_from_parameters`, `parse_config_env_list`, `git_config_parse_parameter`)
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from typing import Literal

_MOST = 1_000
"""Maximum number of settings that are read from variables."""
VARIABLES: Mapping[str, Literal["path", "program", "command"]] = {
    "GIT_EDITOR": "command",
    "GIT_SEQUENCE_EDITOR": "command",
    "VISUAL": "command",
    "EDITOR": "command",
    "GIT_PAGER": "command",
    "PAGER": "command",
    "GIT_SSH_COMMAND": "command",
    "GIT_SSH": "program",
    "GIT_ASKPASS": "command",
    "SSH_ASKPASS": "command",
    "GIT_PROXY_COMMAND": "command",
    "GIT_EXTERNAL_DIFF": "command",
    "GIT_TEMPLATE_DIR": "path",
    "GIT_EXEC_PATH": "path",
}
"""Variables that name programs that git runs, or folders of programs."""


def settings_in_variables() -> Iterator[tuple[str, str]]:
    """Yield the name and value of each setting in environment variables. If it is
    unclear where a name ends, every possible pair is yielded.
    """
    yield from _numbered()
    yield from _in_parameters()


def _numbered() -> Iterator[tuple[str, str]]:
    try:
        count = int(os.environ.get("GIT_CONFIG_COUNT", "0"))
    except ValueError:  # git refuses it
        return
    for number in range(min(count, _MOST)):
        name = os.environ.get(f"GIT_CONFIG_KEY_{number}", "")
        yield name, os.environ.get(f"GIT_CONFIG_VALUE_{number}", "")


def _in_parameters() -> Iterator[tuple[str, str]]:
    """Yield the settings that `git -c` passes on to other git processes. Since a name
    may contain equals signs, each setting is split at each of its equals signs.
    """
    try:
        words = shlex.split(os.environ.get("GIT_CONFIG_PARAMETERS", ""))
    except ValueError:  # an unfinished quote, which git refuses
        return
    for word in words[:_MOST]:
        name, sign, value = word.partition("=")
        while sign:
            yield name, value
            more, sign, value = value.partition("=")
            name = f"{name}={more}"

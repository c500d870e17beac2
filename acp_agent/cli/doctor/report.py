"""`acp-agent doctor --report`: what the report of a fault needs, as Markdown and
without secrets.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import cast
from urllib.parse import unquote

from acp_agent import __version__
from acp_agent.app import LOGS
from acp_agent.cli.terminal.safe import safe_for
from acp_agent.config.document import DocumentError, parse_mapping, read_text
from acp_agent.config.home import CONFIG_FILE, home_dir, user_home
from acp_agent.config.keys import KeyStore
from acp_agent.config.project import project_dir
from acp_agent.errors import AgentError
from acp_agent.logfile import NAME
from acp_agent.programs import settle_platform
from acp_agent.secrets.addresses import without_access
from acp_agent.secrets.known import MASK, remember_secret, secrets_of
from acp_agent.secrets.messages import JsonValue, masked
from acp_agent.secrets.names import is_secret_variable
from acp_agent.secrets.text import mask
from acp_agent.visible import on_one_line

_DISTRIBUTION = "acp-agent-server"
_LOG_LINES = 40
_VARIABLES = (
    "ACP_AGENT_",
    "COLORTERM",
    "LANG",
    "LC_",
    "NO_COLOR",
    "SSL_CERT_",
    "TERM",
    "XDG_",
)
"""Beginnings of the names of environment variables whose values matter, as those of
`…_proxy` do.
"""


def fault_report(checks: str) -> str:
    """Return the report. Secrets that the configuration and the file of keys have are
    masked wherever they stand.

    :param checks: what doctor has found, as it prints it.
    """
    env = os.environ
    home = home_dir(os.environ)
    project = project_dir(Path.cwd(), home=home)
    configurations = [_configuration(home / CONFIG_FILE)]
    if project is not None:  # a link in it could lead to anything of the user's
        configurations.append(
            _configuration(project / CONFIG_FILE, within=project.parent)
        )
    _remember_stored_keys(home)
    for value in env.values():
        _remember_hidden(value, without_access(mask(value, ())))
    sections = {
        "Versions": "\n".join(_versions()),
        "Terminal and environment": "\n".join(_environment(env)),
        "Configuration": "\n\n".join(configurations),
        "Checks": checks,
        f"The last lines of {on_one_line(home / LOGS / NAME)}": _end_of_log(
            home / LOGS / NAME
        ),
    }
    blocks = (
        f"## {title}\n\n````text\n{text}\n````\n" for title, text in sections.items()
    )
    text = "\n".join(
        (
            "Read this before you send it: it names files, folders and servers.\n",
            *blocks,
        )
    )
    text = without_access(safe_for(env)(text))
    user = user_home(env)
    return text if user is None or user == Path("/") else text.replace(str(user), "~")


def _versions() -> Iterator[str]:
    yield f"acp-agent {__version__}: {on_one_line(sys.argv[0])}"
    yield f"{platform.python_implementation()} {platform.python_version()}: {sys.executable}"
    settle_platform()
    yield platform.platform()
    try:
        names = [
            each.partition("<")[0].partition(">")[0]
            for each in requires(_DISTRIBUTION) or ()
        ]
    except PackageNotFoundError:
        yield f"{_DISTRIBUTION} is not installed as a package"
        return
    for name in names:
        try:
            yield f"{name} {version(name)}"
        except PackageNotFoundError:
            yield f"{name} is not there"


def _environment(env: Mapping[str, str]) -> Iterator[str]:
    size = shutil.get_terminal_size()
    streams = ", ".join(
        name for name in ("stdin", "stdout", "stderr") if getattr(sys, name).isatty()
    )
    yield f"{size.columns} x {size.lines}; a terminal: {streams or 'none'}"
    for name in sorted(env):
        if name.startswith(_VARIABLES) or name.lower().endswith("_proxy"):
            value = env[name]
            # The address of a proxy may have no scheme.
            if "@" in value and "://" not in value:
                value = without_access(f"http://{value}").removeprefix("http://")
            yield f"{name}={MASK if is_secret_variable(name) else on_one_line(value)}"


def _configuration(path: Path, within: Path | None = None) -> str:
    """Return a file of the configuration without its comments and secrets, which are
    remembered.
    """
    try:
        text = read_text(path, within=within)
        data = cast("JsonValue", dict(parse_mapping(text).data)) if text else None
    except DocumentError as error:
        return f"{on_one_line(path)} cannot be read: {on_one_line(error)}"
    if data is None:
        return f"{on_one_line(path)} is not there, or empty."
    shown = _without_access(masked(data, secrets_of(os.environ)))
    _remember_hidden(data, shown)
    return f"{on_one_line(path)}:\n{json.dumps(_without_arguments(shown), ensure_ascii=False, indent=2)}"


def _without_access(value: JsonValue) -> JsonValue:
    """Return a value whose addresses carry nothing that may give access."""
    match value:
        case str():
            return without_access(value)
        case list():
            return [_without_access(item) for item in value]
        case dict():
            return {
                without_access(key): _without_access(item)
                for key, item in value.items()
            }
        case _:
            return value


def _without_arguments(value: JsonValue, name: str = "") -> JsonValue:
    """Return a value without the arguments of its commands, where a secret may stand in
    any form, and remember those that may be one.
    """
    match name, value:
        case "args", list() | str():
            _remember_words(str(value))
            return MASK
        case "command", str():
            program, _, arguments = value.partition(" ")
            _remember_words(arguments)
            return f"{MASK if '=' in program else program} {MASK if arguments else ''}".rstrip()
        case "headers" | "env", list() | str():  # of the wrong type
            return MASK
        case _, dict():
            return {key: _without_arguments(item, key) for key, item in value.items()}
        case _, list():
            return [_without_arguments(item, name) for item in value]
        case _:
            return value


def _remember_words(text: str) -> None:
    for word in re.findall(r"""[^\s:=,'"\[\]]+""", text):
        if any(map(str.isdigit, word)):
            remember_secret(word)


def _remember_hidden(value: JsonValue, shown: JsonValue, name: str = "") -> None:
    """Remember what is masked in a value, and what a variable holds that it names as
    one with a key.
    """
    match value, shown:
        case dict(), dict():
            for (key, item), its_shown in zip(
                value.items(), shown.values(), strict=False
            ):
                _remember_hidden(item, its_shown, key)
        case list(), list():
            for item, its_shown in zip(value, shown, strict=True):
                _remember_hidden(item, its_shown, name)
        case str(), _ if name == "api_key_env":
            remember_secret(os.environ.get(value, ""))
        case str(), str() if value != shown:
            for part in _hidden_parts(value, shown):
                for word in (part, *part.replace(":", " ").split()):
                    remember_secret(word)
                    remember_secret(unquote(word))
        case _:
            pass


def _hidden_parts(value: str, shown: str) -> Iterator[str]:
    """Yield what stands in a value where a mask is shown."""
    first, *others = shown.split(MASK)
    start = len(first)
    for other in others:
        end = value.find(other, start) if other else len(value)
        yield value[start:end]
        start = end + len(other)


def _remember_stored_keys(home: Path) -> None:
    try:
        for stored in KeyStore(home).read().values():
            remember_secret(stored.key or "")
    except AgentError:
        pass  # the checks say what is wrong with the file


def _end_of_log(path: Path) -> str:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        return f"none: {error.strerror}"
    return "\n".join(lines[-_LOG_LINES:])

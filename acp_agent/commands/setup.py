"""`acp-agent setup`: put the agent into an editor's settings, with the user's consent, and a configuration to begin
with beside its state."""

from __future__ import annotations

import argparse
import difflib
import os
import stat
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from acp_agent.commands.asking import answered
from acp_agent.commands.editors import EDITORS, NAME, Editor, entry, program, sample
from acp_agent.commands.jsonc import JsonText, JsonTextError
from acp_agent.config.home import CONFIG_FILE, ensure_private_dir, home_dir, user_home
from acp_agent.config.state_file import replacing
from acp_agent.errors import AgentError
from acp_agent.frozen import frozen
from acp_agent.regular import read_regular
from acp_agent.schemas import modeline, put_copy, schema_path
from acp_agent.secrets.known import secrets_of
from acp_agent.secrets.text import mask_broken_json

_SCHEMAS = "schemas"
"""The folder beside config.yaml where its schema is put."""
_CONFIG = """\
# Settings of acp-agent, for every project. docs/configuration.md says what each is for.

# The model that works where a session chooses no other, as provider/model.
# model: anthropic/claude-sonnet-5-5

# compaction:
#   threshold: 80%    # of the window, from which on a conversation is made short
"""


@frozen
class Change:
    """A file as it is to be.

    :ivar before: its text now; None where there is no such file.
    """

    path: Path
    before: str | None
    after: str

    def shown(self, secrets: Sequence[str]) -> str:
        """What changes, line by line, without the keys that stand there.

        :param secrets: what is masked besides all that has the form of a key, the longest first.
        """
        old, new = (self.before or "").splitlines(keepends=True), self.after.splitlines(keepends=True)
        lines = difflib.unified_diff(old, new, str(self.path), str(self.path), n=2)
        text = "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)
        return mask_broken_json(text, secrets)


async def run(arguments: argparse.Namespace) -> int:
    """Set up one editor.

    :returns: 0; 1 where it was not allowed to write into the editor's settings.
    :raises AgentError: the settings cannot be read, are read-only or are no JSON; nothing was written.
    """
    env = os.environ
    editor, home, command = EDITORS[arguments.editor], user_home(env), program(env)
    if home is None:
        raise AgentError("There is no home directory to look for settings in. Set HOME.")
    text, then = _printed(editor, arguments.plugin)
    builds = editor.found(home, env) or (editor,)
    files = [(build, file) for build in builds if (file := build.file(home, env)) is not None]
    configuration = _configuration(env)
    if not files:
        print(sample(text, command), end="")
        print(then, file=sys.stderr)
    changes = [*(_entry(build, file, command) for build, file in _once(files)), configuration]
    wanted = [change for change in changes if change is not None]
    for change in wanted:
        print(change.shown(secrets_of(env)), end="", file=sys.stdout if files else sys.stderr)
    if wanted and arguments.dry_run:
        print("Nothing was written.", file=sys.stderr)
        return 0
    for change in wanted:
        if change.before is not None and not os.access(change.path, os.W_OK):
            raise AgentError(
                f"{change.path} is read-only, and was left alone. Make it writable, or copy the entry by hand."
            )
    if wanted and not arguments.yes:
        answer = await answered("Write this? [y]es, [n]o: ")
        if answer != "y":
            hint = " Nobody is here to ask; --yes writes without asking." if answer is None else ""
            print(f"Nothing was written.{hint}", file=sys.stderr)
            # Where the text was only to be printed, the rest is an offer.
            return 1 if files else 0
    for change in wanted:
        if change is configuration:
            _prepare(change.path.parent)
        _write(change)
        print(f"Written: {change.path}", file=sys.stderr)
    for build, _ in files:
        print(f"{build.title} is set up. {build.then}", file=sys.stderr)
    return 0


def _once(files: Sequence[tuple[Editor, Path]]) -> list[tuple[Editor, Path]]:
    """Those that are not, by a link, the same file as one before."""
    return list({os.path.realpath(file): (build, file) for build, file in reversed(files)}.values())[::-1]


def _printed(editor: Editor, plugin: str | None) -> tuple[str, str]:
    """The name of the text for a file of the user's own, and what to do with it.

    :param plugin: whose; None for the first that the editor has.
    :raises AgentError: the editor has no such plugin.
    """
    if plugin is None:
        return editor.sample, editor.then
    if plugin not in editor.plugins:
        has = f"It has {', '.join(editor.plugins)}" if editor.plugins else "It needs none"
        raise AgentError(f"{editor.title} has no plugin {plugin!r} that is known here. {has}.")
    return editor.plugins[plugin]


def _entry(editor: Editor, file: Path, command: str) -> Change | None:
    """The editor's settings with the agent in them; None where it is there as it should be.

    What a user has set beside the command (an environment, a default mode) stays, comments and all. What tells how
    another program is started does not: the arguments of an `npx`, an entry that the registry made. Nor do arguments
    of the agent, which is a command for the terminal where it has any.
    """
    before = _read(file)
    try:
        settings = JsonText.read(before or "")
        new, old = entry(editor, command), settings.get(editor.at, NAME)
        if isinstance(old, dict) and isinstance(new, dict):
            kept = old.keys() - {"command", "type", "args"}
            wanted = {key: value for key, value in new.items() if key not in kept and (key, value) not in old.items()}
            if not wanted:
                return None
            for key, value in wanted.items():
                settings = settings.put((editor.at, NAME, key), value)
        else:
            settings = settings.put((editor.at, NAME), new)
        return Change(file, before, settings.text)
    except JsonTextError as error:
        raise AgentError(f"{file}: {error}. Nothing was written; mend it, or copy the entry by hand.") from error


def _configuration(env: Mapping[str, str]) -> Change | None:
    """A configuration to begin with; None where there is one."""
    path = home_dir(env) / CONFIG_FILE
    if os.path.lexists(path):
        return None
    schema = path.parent / _SCHEMAS / schema_path("config").name
    return Change(path, None, f"{modeline(schema, path)}\n{_CONFIG}")


def _prepare(home: Path) -> None:
    """Make the agent's home where there is none, and put the schema of its configuration there."""
    try:
        put_copy("config", ensure_private_dir(home) / _SCHEMAS)
    except OSError as error:
        raise AgentError(f"{home / _SCHEMAS} cannot be written ({error.strerror}).") from error


def _read(file: Path) -> str | None:
    try:
        return read_regular(file).decode()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise AgentError(f"{file} cannot be read ({reason}). Nothing was written.") from error


def _write(change: Change) -> None:
    """Put the new text in the place of the old one, all or nothing; through links, and with the file's own mode.

    :raises AgentError: it cannot be written, or has changed since it was read.
    """
    path = Path(os.path.realpath(change.path))
    if _read(path) != change.before:
        raise AgentError(f"{change.path} has changed meanwhile, and was not written. Call this again.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        mode = stat.S_IMODE(path.stat().st_mode) if change.before is not None else 0o600
        with replacing(path) as file:
            file.write(change.after.encode())
            os.fchmod(file.fileno(), mode)
    except OSError as error:
        raise AgentError(f"{change.path} cannot be written ({error.strerror}).") from error

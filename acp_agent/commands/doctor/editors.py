"""Checks of the editors that are here: whether their settings name the agent, and start it."""

from __future__ import annotations

import re
import shutil
from collections.abc import AsyncGenerator, Iterator, Mapping
from itertools import islice
from pathlib import Path

from acp_agent import __version__
from acp_agent.commands.doctor.findings import Finding
from acp_agent.commands.doctor.starting import Outcome, Started, asked_for_version
from acp_agent.commands.editors import EDITORS, NAME, Editor, below_home, program
from acp_agent.commands.jsonc import JsonText, JsonTextError, JsonValue
from acp_agent.errors import AgentError
from acp_agent.frozen import frozen
from acp_agent.regular import NotRegularError, read_regular

_OWN_FILES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "neovim": ((".config/nvim", "**/*.lua"), (".config/nvim", "**/*.vim")),
    "emacs": (
        (".", ".emacs"),
        (".", ".emacs.el"),
        (".emacs.d", "*.el"),
        (".emacs.d", "*/*.el"),
        (".config/emacs", "*.el"),
        (".config/emacs", "*/*.el"),
        (".config/doom", "*.el"),
    ),
}
"""Where people keep what an editor without settings of its own is told: a folder, and files in it."""
_KINDS: Mapping[Outcome, str] = {
    "other": f"which is not {NAME}",
    "failed": "which fails",
    "silent": f"which may not be {NAME}",
}
_QUOTED = re.compile(rf"""["']((?:~?/)[^"'\\\n]*/{NAME})["']""")
"""A path of the agent's program in such a file."""
_MOST_FILES = 400
_MOST_BYTES = 1_000_000


async def check_editors(home: Path | None, env: Mapping[str, str]) -> AsyncGenerator[Finding]:
    """Editors that are there, and whether they start the agent.

    :param home: the user's.
    """
    here = [(key, each) for key, editor in EDITORS.items() for each in (editor.found(home, env) if home else ())]
    for key, editor in here:
        assert home is not None
        file = editor.file(home, env)
        if file is None:
            yield _own_files(key, editor, home, env)
            continue
        async for finding in _settings(_Place(key, editor, file), env):
            yield finding
    if not here:
        yield Finding("warn", "editors", "None that is known was found.", "docs/editors.md says how to set up any.")


@frozen
class _Place:
    """An editor with its settings.

    :ivar key: what `acp-agent setup` calls it.
    """

    key: str
    editor: Editor
    file: Path


async def _settings(place: _Place, env: Mapping[str, str]) -> AsyncGenerator[Finding]:
    title, file = place.editor.title, place.file
    unknown = Finding(
        "warn", "editors", f"{title} does not know the agent.", f"To use it there: acp-agent setup {place.key}"
    )
    try:
        agents = JsonText.read(read_regular(file).decode()).get(place.editor.at)
    except FileNotFoundError:
        yield unknown
        return
    except OSError as error:
        text = f"{title}: {file} cannot be read ({error.strerror})."
        odd = isinstance(error, NotRegularError | IsADirectoryError)
        yield Finding("warn", "editors", text, "Move it away." if odd else _readable(file))
        return
    except (UnicodeDecodeError, JsonTextError) as error:
        yield Finding("warn", "editors", f"{title}: {file} cannot be read ({error}).", "Mend it.")
        return
    if agents is not None and not isinstance(agents, dict):
        text = f"{title}: `{place.editor.at}` in {file} holds no object."
        yield Finding("warn", "editors", text, f"Take it out, and then: acp-agent setup {place.key}")
        return
    known = False
    for name, entry in (agents or {}).items():
        if isinstance(entry, dict) and (name == NAME or _leads_to_us(entry, env)):
            finding = await _entry(place, name, entry, env)
            known = known or finding is not None
            if finding is not None:
                yield finding
    if not known:
        yield unknown


async def _entry(place: _Place, name: str, entry: Mapping[str, JsonValue], env: Mapping[str, str]) -> Finding | None:
    """What is to be said of one; None where it has our words, and is another program under another name."""
    if entry.get("type") == "registry":
        return Finding("ok", "editors", f"{place.editor.title} starts what the registry of agents names.")
    again = f"acp-agent setup {place.key}"
    mend = f"Write the entry again: {again}"
    if name != NAME:
        mend = f"Put {_program(env)} for the `command` of {name!r} in {place.file}, without `args`; or take it out."
        again = mend
    command, arguments = entry.get("command"), entry.get("args", [])
    found = _which(command, env) if isinstance(command, str) else None
    if not isinstance(command, str) or found is None:
        return Finding("fail", "editors", f"{place.editor.title} starts {command}, which is no program.", mend)
    if not isinstance(arguments, list):
        arguments = [arguments]
    argv = [command, *(each for each in arguments if isinstance(each, str))]
    line = f"{place.editor.title} starts {' '.join(argv)}"
    if len(argv) <= len(arguments):
        return Finding("fail", "editors", f"{line}, with `args` that are no list of texts.", mend)
    if len(argv) > 1 and _is_named(command, env):
        text = f"{line}: with arguments it is a command for the terminal, and speaks with no editor."
        return Finding("fail", "editors", text, mend)
    started = await asked_for_version([found, *argv[1:]], {**env, **_variables(entry)})
    if started.outcome == "ours":
        return _ours(place, line if name == NAME else f"{line} as {name!r}", command, started, again)
    if started.outcome == "other" and name != NAME:
        return None
    text = f"{line}, {_KINDS[started.outcome]}: with --version, {started.text}."
    if started.outcome == "silent":
        passes = 'If it is a script that starts the agent, let it pass its arguments on ("$@").'
        return Finding("warn", "editors", text, f"{passes} Else: {again}")
    return Finding("fail", "editors", text, mend)


def _ours(place: _Place, line: str, command: str, started: Started, again: str) -> Finding:
    if not Path(command).is_absolute():
        text = f"{line}, which it looks for itself: editors start with a shorter PATH."
        return Finding("warn", "editors", text, f"Use the absolute path, which this writes: {again}")
    if started.text != __version__:
        text = f"{line}, which is version {started.text}; this is {__version__}."
        return Finding("warn", "editors", text, f"To have this one started there: {again}")
    return Finding("ok", "editors", f"{line}.")


def _leads_to_us(entry: Mapping[str, JsonValue], env: Mapping[str, str]) -> bool:
    """Whether an entry under another name looks as if it started the agent; others are not ours to start."""
    command, arguments = entry.get("command"), entry.get("args")
    if not isinstance(command, str):
        return False
    words = (word for each in (arguments if isinstance(arguments, list) else ()) for word in str(each).split())
    return _is_named(command, env) or any(_names(word) for word in words)


def _names(word: str) -> bool:
    """Whether it is the agent's program, module or package: no other one's with a scope, as npm has them, and no
    project's folder."""
    name = word.rpartition("/")[2].replace("_", "-").partition("=")[0].partition("@")[0]
    return name == NAME and not word.startswith("@") and not Path(word).is_dir()


def _is_named(command: str, env: Mapping[str, str]) -> bool:
    found = _which(command, env)
    return Path(command).name == NAME or (found is not None and Path(found).resolve().name == NAME)


def _which(command: str, env: Mapping[str, str]) -> str | None:
    return shutil.which(command, path=env.get("PATH"))


def _program(env: Mapping[str, str]) -> str:
    try:
        return program(env)
    except AgentError:
        return "the absolute path of acp-agent"


def _variables(entry: Mapping[str, JsonValue]) -> dict[str, str]:
    variables = entry.get("env")
    named = variables.items() if isinstance(variables, dict) else ()
    return {name: value for name, value in named if isinstance(value, str)}


def _readable(file: Path) -> str:
    """What to do where somebody may not look: it is the file, or the first folder above it that lets nobody in."""
    for folder in reversed(file.parents):
        try:
            (folder / ".").stat()
        except PermissionError:
            return f"Make {folder} a folder that you can enter."
        except OSError:
            break
    return f"Make {file} readable for you."


def _own_files(key: str, editor: Editor, home: Path, env: Mapping[str, str]) -> Finding:
    files: Iterator[Path] = (
        path for folder, names in _OWN_FILES[key] for path in below_home(home, env, folder).glob(names)
    )
    telling = {path: text for path in islice(files, _MOST_FILES) if (text := _telling(path))}
    if not telling:
        return Finding("warn", "editors", f"{editor.title} does not know the agent.", f"See: acp-agent setup {key}")
    named = [(path, word) for path, text in telling.items() for word in _QUOTED.findall(text)]
    gone = [(path, word) for path, word in named if _which(_expanded(word, home), env) is None]
    # One of several may be meant for another machine, or stand in a comment.
    if named and len(gone) == len(named):
        path, word = gone[0]
        text = f"{editor.title} is told in {path} to start {word}, which is no program."
        return Finding("warn", "editors", text, f"Put {_program(env)} in its place.")
    return Finding("ok", "editors", f"{editor.title} is told of the agent.")


def _telling(path: Path) -> str:
    """What stands in a file that names the agent; nothing where it does not."""
    try:
        text = read_regular(path).decode(errors="replace") if path.stat().st_size <= _MOST_BYTES else ""
    except OSError:
        return ""
    return text if NAME in text else ""


def _expanded(word: str, home: Path) -> str:
    return f"{home}{word.removeprefix('~')}" if word.startswith("~/") else word

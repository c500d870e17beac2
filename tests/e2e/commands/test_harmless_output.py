"""What a repository, a file or a server names reaches no terminal as a sequence that it
obeys: every command.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from support.called import call_command
from support.doctor import PATH
from support.terminal import run_command

EVIL = "\x1b[2J\x1b]52;c;aGk=\x07\x9b8m\x9d0;t\x9c\r\u202e"
OBEYED = {"\x1b", "\x07", "\x9b", "\x9d", "\x9c", "\r", "\u202e"}
COMMANDS: Sequence[Sequence[str]] = (
    ("hooks", "list"),
    ("hooks", "test", "turn_end"),
    ("hooks", "test", "before_tool_call", "--input", "{"),
    ("hooks", "test", EVIL),
    ("recipe", "list"),
    ("recipe", "show", f"a{EVIL}"),
    ("recipe", "check", f".acp-agent/recipes/a{EVIL}.md"),
    ("trust", "."),
    ("trust", f"no{EVIL}"),
    ("trust", "--list"),
    ("permissions",),
    ("sessions", "list"),
    ("sessions", "rm", EVIL),
    ("inspect", EVIL),
    ("wire", f"no{EVIL}"),
    ("doctor", "--offline"),
    ("doctor", "--offline", "--report"),
    ("help", EVIL),
    ("run", "-c", EVIL, "Hi."),
    ("logout", EVIL),
)


def hostile(folder: Path) -> None:
    """Write hooks, recipes and configurations whose names and values are sequences."""
    for place in (folder / ".acp-agent", folder / "state"):
        for kind in ("hooks", "recipes"):
            (place / kind).mkdir(parents=True)
        config = {
            "mcp_servers": {f"s{EVIL}": {"command": f"c{EVIL}"}},
            "hooks": {
                "turn_end": [
                    {"command": f"printf '%s' '{EVIL}'; exit 1", "matcher": EVIL}
                ],
                EVIL: [],
            },
        }
        (place / "config.yaml").write_text(json.dumps(config))
        (place / "hooks" / f"h{EVIL}.py").write_text(f"raise ValueError({EVIL!r})\n")
        (place / "hooks" / f"x{EVIL}").write_text(
            "#!/bin/sh\nprintf '\\033[2J' >&2\nexit 1\n"
        )
        (place / "hooks" / f"x{EVIL}").chmod(0o755)
        (place / "recipes" / f"a{EVIL}.md").write_text(
            f"---\ndescription: {json.dumps(EVIL)}\nwhat{EVIL}: 1\n---\n{EVIL}"
        )


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: ascii(" ".join(words)))
@pytest.mark.parametrize("within", ["a hostile folder", "a folder with a hostile name"])
async def test_no_command_prints_what_a_terminal_obeys(
    tmp_path: Path, words: Sequence[str], within: str
) -> None:
    folder = tmp_path / f"p{EVIL}" if "name" in within else tmp_path
    folder.mkdir(exist_ok=True)
    hostile(folder)
    ran = await call_command(folder, *words, env={"PATH": PATH})
    assert ran.out or ran.err or ran.code == 0
    assert not OBEYED & {*ran.out, *ran.err}, (ran.out, ran.err)


@pytest.mark.process
async def test_nor_does_the_process(tmp_path: Path) -> None:
    hostile(tmp_path)
    for words in (
        ("hooks", "list"),
        ("trust", f"no{EVIL}"),
        ("hooks", EVIL),
        ("hooks", "list", f"--{EVIL}", EVIL),
    ):
        ran = await run_command(tmp_path, *words)
        assert ran.out or ran.err
        assert not OBEYED & {*ran.out, *ran.err}, (ran.out, ran.err)

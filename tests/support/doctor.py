"""`acp-agent doctor`, as a person or a script calls it, and its advice followed.

    ran, found = await doctor(home, "--offline", env=env)
    assert of(found, "editors") == [("ok", "Zed starts …")]
    await follow(home, found[-1]["advice"], env)        # runs what is in "To use it there: acp-agent setup zed"

Owns what is asked of the command. Knows nothing of what it finds.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from support.checkout import REPOSITORY
from support.terminal import AGENT, Ran, in_a_shell, run_command, without_powers

PATH = "/bin"
"""Without the editors of this machine."""


async def doctor(home: Path, *words: str, env: Mapping[str, str] | None = None) -> tuple[Ran, list[dict[str, Any]]]:
    """What it printed, and its findings; without the editors of this machine."""
    ran = await run_command(home, "doctor", "--json", *words, env={"PATH": PATH, **(env or {})})
    return ran, json.loads(ran.out)


async def doctor_without_powers(home: Path, env: Mapping[str, str]) -> list[dict[str, Any]]:
    """Its findings, for somebody who may not look everywhere."""
    return json.loads((await without_powers(home, "doctor", "--json", "--offline", env=env)).out)


async def follow(home: Path, advice: str, env: Mapping[str, str], more: str = "") -> Ran:
    """Do what the end of an advice says: a line of shell behind its last colon.

    :param more: behind that.
    :raises AssertionError: it failed.
    """
    line = advice.rpartition(": ")[2]
    assert line.startswith(("acp-agent ", "chmod ")), advice
    done = await in_a_shell(home, f"{line.replace('acp-agent', AGENT, 1)}{more}", {"PATH": PATH, **env})
    assert done.code == 0, (line, done)
    return done


def of(findings: list[dict[str, Any]], area: str) -> list[tuple[str, str]]:
    """Level and text of an area's findings."""
    return [(finding["level"], finding["text"]) for finding in findings if finding["area"] == area]


def advice_of(findings: list[dict[str, Any]], area: str, beginning: str = "") -> str:
    """The advice of an area's one finding that is not well, and whose text begins so."""
    bad = [each for each in findings if each["area"] == area and each["level"] != "ok"]
    [one] = [each for each in bad if each["text"].startswith(beginning)]
    assert one["advice"], one
    return str(one["advice"])


def write(path: Path, text: str, mode: int = 0o600) -> Path:
    """A file with the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.write_text(text)
    path.chmod(mode)
    return path


def on_another_machine(folder: Path, code: str) -> dict[str, str]:
    """The environment of a process in which this was run before anything else: another disk, less patience."""
    write(folder / "sitecustomize.py", code)
    return {"PYTHONPATH": f"{folder}{os.pathsep}{REPOSITORY}"}

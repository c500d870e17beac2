"""`acp-agent doctor`, as a person or a script calls it.

ran, found = await doctor(home, "--offline", env=env)
assert of(found, "editors") == [("ok", "Zed starts …")]
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from support.terminal import Ran, run_command

PATH = "/bin"
"""Without the editors of this machine."""


async def doctor(
    home: Path,
    *words: str,
    env: Mapping[str, str] | None = None,
    run: Callable[..., Awaitable[Ran]] = run_command,
) -> tuple[Ran, list[dict[str, Any]]]:
    """What it printed, and its findings; without the editors of this machine.

    :param run: runs the command.
    """
    ran = await run(home, "doctor", "--json", *words, env={"PATH": PATH, **(env or {})})
    return ran, json.loads(ran.out)


def of(findings: list[dict[str, Any]], area: str) -> list[tuple[str, str]]:
    return [
        (finding["level"], finding["text"])
        for finding in findings
        if finding["area"] == area
    ]


def advice_of(findings: list[dict[str, Any]], area: str, beginning: str = "") -> str:
    """The advice of an area's one finding that is not well, and whose text begins so."""
    bad = [each for each in findings if each["area"] == area and each["level"] != "ok"]
    [one] = [each for each in bad if each["text"].startswith(beginning)]
    assert one["advice"], one
    return str(one["advice"])


def write(path: Path, text: str, mode: int = 0o600) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.write_text(text)
    path.chmod(mode)
    return path

"""What a command turns out to be that an editor starts: it is asked for its version, as whom the agent answers.

Starts it for a moment, with `--version` behind its arguments, so that a script or a launcher that leads to the agent is
told from another program, and from one whose Python environment is gone. Knows no editors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias

from acp_agent.commands.editors import NAME
from acp_agent.frozen import frozen
from acp_agent.processes import Stream, run_group

SECONDS = 10.0
"""How long it may take; a launcher may have to look around first."""
_MOST_BYTES = 4000
_MOST_CHARACTERS = 100
_OURS = re.compile(rf"{NAME} (\S+)")

Outcome: TypeAlias = Literal["ours", "other", "failed", "silent"]


@frozen
class Started:
    """What came of it.

    :ivar outcome: `failed` where it ended with another status than 0, or could not be started.
    :ivar text: of `ours` the version; of `other` what it said; of `failed` why.
    """

    outcome: Outcome
    text: str = ""


async def asked_for_version(argv: Sequence[str], env: Mapping[str, str]) -> Started:
    """Start it, and look at what it says.

    :param argv: the program's absolute path, and the arguments that the editor starts it with.
    :param env: all of its environment variables.
    """
    said: dict[Stream, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
    try:
        code = await run_group(
            [*argv, "--version"],
            Path("/"),
            timeout=SECONDS,
            on_data=partial(_keep, said),
            env=env,
        )
    except (OSError, ValueError) as error:
        return Started("failed", f"it cannot be started: {getattr(error, 'strerror', None) or error}")
    if code is None:
        return Started("silent", f"it did not end within {SECONDS:g} seconds")
    out, err = (_lines(said[stream]) for stream in ("stdout", "stderr"))
    if code:
        # What a program has to say of its end is the last thing that it says.
        why = f": {err[-1] if err else out[-1]}" if err or out else ""
        return Started("failed", f"it ended with status {code}{why}")
    if not out:
        return Started("silent", "it said nothing")
    ours = _OURS.fullmatch(out[0])
    return Started("ours", ours[1]) if ours is not None else Started("other", f"it said {out[0]!r}")


def _keep(said: Mapping[Stream, bytearray], stream: Stream, data: bytes) -> None:
    kept = said[stream]
    kept += data
    if stream == "stdout":
        del kept[_MOST_BYTES:]
    else:
        del kept[:-_MOST_BYTES]


def _lines(data: bytearray) -> list[str]:
    lines = (line.strip() for line in data.decode(errors="replace").splitlines())
    return [line if len(line) <= _MOST_CHARACTERS else f"{line[:_MOST_CHARACTERS]}…" for line in lines if line]

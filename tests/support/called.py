"""The agent's command line in the process of the tests, for what does not ask about a process.

ran = await call_command(home, "sessions", "rm", session)
assert (ran.code, ran.out, ran.err) == (0, "Removed …\n", "")
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile

from acp_agent.cli import main as cli
from acp_agent.cli.terminal import process as running
from support.checkout import environment
from support.terminal import Ran


async def call_command(
    home: Path, *words: str, env: Mapping[str, str] | None = None, stdin: str = "", cwd: Path | None = None
) -> Ran:
    """Do as `run_command` does in the process of the tests, for what does not ask about a process."""
    before, here, streams = dict(os.environ), Path.cwd(), (sys.stdin, sys.stdout, sys.stderr)
    handlers = [*logging.getLogger().handlers]
    with TemporaryFile("w+") as out, TemporaryFile("w+") as err, TemporaryFile("w+") as given:
        given.write(stdin)
        given.seek(0)
        try:
            os.environ.clear()
            os.environ.update({**environment(home), **(env or {})})
            os.chdir(cwd or home)
            sys.stdin, sys.stdout, sys.stderr = given, out, err
            code = await _called(words)
        finally:
            sys.stdin, sys.stdout, sys.stderr = streams
            os.chdir(here)
            os.environ.clear()
            os.environ.update(before)
            for handler in [each for each in logging.getLogger().handlers if each not in handlers]:
                logging.getLogger().removeHandler(handler)
                handler.close()
        texts = [(stream.seek(0), stream.read())[1] for stream in (out, err)]
    return Ran(code, *texts)


async def _called(words: Sequence[str]) -> int:
    """Return the exit status of a command; what it raises is printed as a process prints it."""
    try:
        arguments = cli.parse(words)
        return await arguments.run(arguments)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except Exception as error:
        said = running._sentence(error)  # pyright: ignore[reportPrivateUsage]
        print(f"acp-agent: {said}", file=sys.stderr)
        return 1

"""The agent's command line in the process of the tests, for what does not ask about a
process.

ran = await call_command(home, "sessions", "rm", session)
assert (ran.code, ran.out, ran.err) == (0, "Removed …\n", "")
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import chdir, contextmanager
from pathlib import Path
from tempfile import TemporaryFile

from acp_agent.cli import main as cli
from acp_agent.cli.terminal import process as running
from acp_agent.secrets.known import _remembered as remembered  # pyright: ignore[reportPrivateUsage]
from support.checkout import environment
from support.terminal import Ran


async def call_command(
    home: Path,
    *words: str,
    env: Mapping[str, str] | None = None,
    stdin: str = "",
    cwd: Path | None = None,
) -> Ran:
    """Do as `run_command` does in the process of the tests, for what does not ask about
    a process.
    """
    streams = sys.stdin, sys.stdout, sys.stderr
    with (
        TemporaryFile("w+") as out,
        TemporaryFile("w+") as err,
        TemporaryFile("w+") as given,
    ):
        given.write(stdin)
        given.seek(0)
        try:
            with process_state({**environment(home), **(env or {})}, cwd or home):
                sys.stdin = given
                sys.stdout = out
                sys.stderr = err
                code = await _called(words)
        finally:
            sys.stdin, sys.stdout, sys.stderr = streams
        texts = [(stream.seek(0), stream.read())[1] for stream in (out, err)]
    return Ran(code, *texts)


@contextmanager
def process_state(env: Mapping[str, str], cwd: Path) -> Generator[None]:
    """Be as a process with this environment in this directory, and take away at the end
    what it has left behind: log files, secrets that it has met, modules of Python
    hooks.
    """
    environ = dict(os.environ)
    secrets = {*remembered}
    modules = {*sys.modules}
    path = [*sys.path]
    root = logging.getLogger()
    handlers = [*root.handlers]
    level = root.level
    raising = logging.raiseExceptions
    os.environ.clear()
    os.environ.update(env)
    remembered.clear()
    try:
        with chdir(cwd):
            yield
    finally:
        os.environ.clear()
        os.environ.update(environ)
        remembered.clear()
        remembered.update(secrets)
        sys.path[:] = path
        for name in {*sys.modules} - modules:
            if name.startswith("acp_agent_hooks:"):
                del sys.modules[name]
        for handler in [each for each in root.handlers if each not in handlers]:
            root.removeHandler(handler)
            handler.close()
        root.setLevel(level)
        logging.raiseExceptions = raising


async def _called(words: Sequence[str]) -> int:
    """Return the exit status of a command; what it raises is printed as a process
    prints it.
    """
    try:
        arguments = cli.parse(words)
        return await arguments.run(arguments)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except Exception as error:
        said = running.failure_sentence(error)
        print(f"acp-agent: {said}", file=sys.stderr)
        return 1

"""`acp-agent` and `python -m acp_agent`: serves ACP on stdio if there are no arguments,
and otherwise runs the command line.

The server claims stdin and stdout and answers `initialize` before anything else is
imported.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, NoReturn

from acp_agent.module_path import hidden_reason, restrict

if TYPE_CHECKING:
    from acp_agent.server.handshake import Handshake


SWITCH_SECONDS = 0.0005
"""How many seconds a computing thread may keep the interpreter lock. Python's default
is 5 ms. Streamed text crosses threads several times on its way through the log to the
editor. With the default, it could wait 5 ms each time while a summary is being
prepared.
"""


def main() -> None:
    """Run the program and exit the process."""
    restrict()
    sys.setswitchinterval(SWITCH_SECONDS)
    if sys.platform == "win32":
        sys.exit(
            "acp-agent runs on Linux and macOS. On Windows, run it and the editor's agent connection inside WSL."
        )
    try:
        if len(sys.argv) > 1:
            _run_command()
        _serve()
    except ModuleNotFoundError as error:
        if reason := hidden_reason(error):
            sys.exit(f"acp-agent: {reason}")
        raise


def _run_command() -> NoReturn:
    import signal

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # Until the command handles ctrl-c, and during its last steps, ctrl-c simply
        # ends the process. Python's own handler would raise in the middle of an import
        # and print a traceback.
        signal.signal(signal.SIGINT, lambda number, _: os._exit(128 + number))
    from acp_agent.cli.main import main as command_line

    command_line(sys.argv[1:])


def _serve() -> None:
    from acp_agent.jsonrpc.descriptors import claim_descriptors
    from acp_agent.server.handshake import answer_first_line

    if sys.stdin is not None and sys.stdin.isatty():
        print(
            "Without a command, acp-agent waits for an editor that speaks the Agent Client Protocol on stdin.\n"
            "To talk to the agent here, press ctrl-c and run `acp-agent chat`. `acp-agent help` lists all commands.",
            file=sys.stderr,
        )
    try:
        read_fd, write_fd = claim_descriptors()
        handshake = answer_first_line(read_fd, write_fd)
    except (KeyboardInterrupt, ConnectionError):
        os._exit(0)
    except OSError as error:
        sys.exit(f"acp-agent: cannot use stdin and stdout: {error.strerror}.")
    try:
        _speak(read_fd, write_fd, handshake)
    except (
        KeyboardInterrupt
    ):  # the agent is still loading and does not handle signals yet
        os._exit(0)


def _speak(read_fd: int, write_fd: int, handshake: Handshake) -> None:
    """Load the agent, serve until the connection ends, and exit the process."""
    import gc

    # Objects that are created by imports never become garbage. So the collector should
    # not scan them, either during the imports or later.
    gc.disable()

    import logging

    import anyio

    from acp_agent.app import serve

    gc.freeze()
    # Reading a log or building a request creates ten thousand objects at once, and none
    # of them are garbage.
    gc.set_threshold(10_000)
    gc.enable()

    async def serve_and_end() -> NoReturn:
        await serve(read_fd, write_fd, handshake)
        logging.shutdown()
        # Everything is closed. Tearing down an SDK's modules, or waiting for a thread
        # that is still loading one or resolving a host name, would only keep the editor
        # waiting.
        os._exit(0)

    anyio.run(serve_and_end)


if __name__ == "__main__":
    main()

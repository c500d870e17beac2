"""Accesses files through the editor, including unsaved buffers, or on the disk if the
editor cannot help, and runs commands in the editor's terminals.

Some editors read every file as UTF-8, normalise its line ends or split it into lines,
and later write the result. So a file that is not UTF-8, or has line ends other than LF,
is read from and written to the disk. A file whose byte order mark the editor drops is
written to the disk as well.

An editor may still show a file as it was before a command changed it. So we remember
the last text that the editor and the disk had in common. If the editor still has that
text, the text on the disk is used. If the buffer had unsaved changes when the file was
first read, we remember the text on the disk instead, so that we notice later if the
disk has changed as well.

ACP, "File System", "Terminals".
"""

from __future__ import annotations

import errno
import json
import logging
import os
import shlex
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.to_thread

from acp_agent.errors import ToolError
from acp_agent.jsonrpc.messages import METHOD_NOT_FOUND, PeerClosedError, RpcError
from acp_agent.nofollow import make_folder, resolved, temporary_folder
from acp_agent.processes import git_variables
from acp_agent.protocol import JsonObject, methods, v1
from acp_agent.regular import read_resolved
from acp_agent.sandbox.exclusion import editor_access
from acp_agent.server.channel import Channel, Result
from acp_agent.server.handshake import Capabilities
from acp_agent.shielding import finish_shielded
from acp_agent.tools.environment import CommandResult, Report, TerminalStarted
from acp_agent.tools.files.local import MAX_BYTES, LocalFiles
from acp_agent.tools.path_errors import moved, printable
from acp_agent.tools.shell.no_terminal import command_line
from acp_agent.tools.shell.run import LocalCommands
from acp_agent.tools.text import digest, one_line

READ_SECONDS = 10.0
WRITE_SECONDS = 30.0
"""Time limit for a write. It is longer than for a read, since the editor may run its
formatter.
"""
MAX_WRITTEN = 9 << 20
"""Maximum bytes of JSON in a write. Some editors fail on a line of 10 MiB."""
_RESOURCE_NOT_FOUND = -32002
_BOM = "\ufeff"

_log = logging.getLogger(__name__)


class EditorFiles:
    """`FileAccess` through `fs/read_text_file` and `fs/write_text_file`, if the editor
    offers them.

    :param in_step: by path, the digest of the last text that the editor and the disk
        had in common. If they have had no text in common since the first read, it is
        the digest of the text on the disk at that time, or None if there was no file.
        All sessions of a connection share this mapping, as they share the editor's
        buffers.
    """

    def __init__(
        self,
        channel: Channel,
        capabilities: Capabilities,
        in_step: dict[Path, str | None] | None = None,
    ) -> None:
        self._channel = channel
        self._reads = capabilities.read_text_file
        self._writes = capabilities.write_text_file
        self._local = LocalFiles()
        # Files that the editor failed to read, or would write without their BOM.
        self._to_disk: set[Path] = set()
        self._in_step = {} if in_step is None else in_step

    async def read_text(self, path: Path, real: Path | None = None) -> str:
        """Return the text that the editor shows, or the text on the disk if only the
        disk has changed.

        Read it from the disk if the editor does not know it, usually because it is
        outside the editor's project. Also do so if the editor fails to read it or does
        not answer; the text is then a `DiskText`. If both have changed since they were
        last the same, return the editor's text as a `DivergedText`.

        :raises ToolError: see `FileAccess`. Also raised if a command of another session
            is running in the folder, and the text in the editor differs from the one on
            the disk.
        """
        self._to_disk.discard(path)
        place = real or resolved(path)
        if not self._reads or await anyio.to_thread.run_sync(_needs_disk, place):
            return await self._local.read_text(path, place)
        with editor_access(place) as is_alone:
            await anyio.to_thread.run_sync(_check, path, place)
            try:
                answer = await self._channel.request(
                    methods.FS_READ_TEXT_FILE,
                    {"path": str(path)},
                    v1.ReadTextFileResponse,
                    timeout=READ_SECONDS,
                )
            except (RpcError, TimeoutError, ToolError) as error:
                return await self._from_disk(path, place, error)
        on_disk = await anyio.to_thread.run_sync(_text, place)
        text = self._newer(path, answer.content, on_disk)
        if not is_alone and text != on_disk:
            raise ToolError(
                f"{path} differs between the editor and the disk, and a command of another session is running "
                "in this folder. Until it has ended, only the disk is reliable. Ask the user to save the file, or "
                "try again later."
            )
        return text

    def _newer(self, path: Path, shown: str, on_disk: str | None) -> str:
        """Return the editor's text, or the text on the disk if only the disk has
        changed since both were the same.

        :param on_disk: None if there is no file.
        :raises FileNotFoundError: if there is no file, and the editor has no changed
            text for it.
        """
        from acp_agent.tools.files.changes import DivergedText

        # Several editors return an empty text for a file that does not exist.
        if on_disk is None and not shown:
            self._in_step[path] = None
            raise FileNotFoundError(str(path))
        forms = _forms(shown, on_disk)
        if on_disk is not None and on_disk in forms:
            self._in_step[path] = digest(on_disk)
            if on_disk.startswith(_BOM) and not shown.startswith(_BOM):
                self._to_disk.add(path)
            return on_disk
        now = None if on_disk is None else digest(on_disk)
        # At the first read, assume that the unsaved changes are based on the text on
        # the disk.
        before = self._in_step.setdefault(path, now)
        unchanged = (
            not shown if before is None else before in [digest(form) for form in forms]
        )
        if unchanged:
            if on_disk is None:
                raise FileNotFoundError(str(path))
            return on_disk
        text = forms[-1] if on_disk is not None and on_disk.startswith(_BOM) else shown
        if text is not shown:
            self._to_disk.add(path)
        return text if before == now else DivergedText(text)

    async def _from_disk(
        self, path: Path, real: Path, error: RpcError | TimeoutError | ToolError
    ) -> str:
        """Read a file from the disk after the editor has answered with an error or not
        at all.
        """
        from acp_agent.tools.files.changes import DiskText

        _log.info(
            "the editor did not read a file, so it is read from the disk: %r", error
        )
        on_disk = await self._local.read_text(path, real)
        if isinstance(error, RpcError) and error.code in (
            _RESOURCE_NOT_FOUND,
            METHOD_NOT_FOUND,
        ):
            return on_disk
        reason = (
            one_line(str(error)).rstrip(".")
            or f"it did not answer within {READ_SECONDS:.0f} s"
        )
        if isinstance(error, RpcError):
            reason = f"it answered: {reason}"
        self._to_disk.add(path)
        text = DiskText(on_disk)
        text.reason = reason
        return text

    async def write_text(
        self, path: Path, text: str, *, outside: bool = False, real: Path | None = None
    ) -> None:
        """Write through the editor, so that an open buffer and its undo history stay
        correct.

        If the editor refuses to write a file inside the session's directories, raise an
        error, since its user may have declined. Outside them we have already asked the
        user, so write to the disk instead. Also write to the disk if the editor could
        not read the file, whose buffer then keeps unsaved changes, or while a command
        of another session could lead the path elsewhere.
        """
        place = real or resolved(path)
        if (
            not self._writes
            or path in self._to_disk
            or await anyio.to_thread.run_sync(_needs_disk, place)
        ):
            await self._local.write_text(path, text, real=place)
            return
        with editor_access(place) as is_alone:
            if not is_alone:
                # The editor has the disk's text (see `read_text`) and will reload it.
                await self._local.write_text(path, text, real=place)
                return
            await anyio.to_thread.run_sync(_check, path, place)
            await self._write_through(path, place, text, outside=outside)
        # The editor's formatter may have changed the text.
        on_disk = await anyio.to_thread.run_sync(_text, place)
        self._in_step[path] = None if on_disk is None else digest(on_disk)

    async def _write_through(
        self, path: Path, real: Path, text: str, *, outside: bool
    ) -> None:
        """Write through the editor; see `write_text`."""
        if (
            len(json.dumps(text, ensure_ascii=False).encode(errors="surrogatepass"))
            > MAX_WRITTEN
        ):
            raise ToolError(
                f"The text for {path} is too large to be written through the editor (more than "
                f"{MAX_WRITTEN >> 20} MiB as JSON). Change the file with a command."
            )
        try:
            # Some editors do not create the folder.
            await anyio.to_thread.run_sync(make_folder, real.parent)
            await self._channel.request_raw(
                methods.FS_WRITE_TEXT_FILE,
                {"path": str(path), "content": text},
                timeout=WRITE_SECONDS,
            )
        except TimeoutError as error:
            raise ToolError(
                f"The editor did not answer within {WRITE_SECONDS:.0f} s, so it is unknown whether it wrote {path}. "
                "Read the file before anything else."
            ) from error
        except RpcError as error:
            if error.code != METHOD_NOT_FOUND and not outside:
                raise ToolError(
                    f"The editor did not write {path}: {error.message.rstrip('.')}. Ask the user before you write it "
                    "in another way."
                ) from error
            _log.info(
                "the editor did not write a file, so it is written to the disk: %s",
                error,
            )
            await self._local.write_text(path, text, real=real)
        except OSError as error:
            raise ToolError(
                f"The folder of {path} cannot be created: {error.strerror or error}."
            ) from error


def _forms(shown: str, on_disk: str | None) -> list[str]:
    """Return the texts that a file may have if the editor shows this one.

    Some editors split a file into lines and join them again, which loses the last line
    end. Some drop the byte order mark. If the file on the disk has one, so does the
    last returned text.
    """
    forms = [shown, f"{shown}\n"] if shown else [shown]
    if on_disk is not None and on_disk.startswith(_BOM) and not shown.startswith(_BOM):
        forms += [f"{_BOM}{shown}\n", f"{_BOM}{shown}"]
    return forms


def _check(path: Path, real: Path) -> None:
    """Refuse a path that no longer leads to the file that was decided on, since the
    editor follows links.

    :raises ToolError: if the path leads to another file.
    """
    if resolved(path) != real:
        raise moved(printable(str(path)))


def _needs_disk(real: Path) -> bool:
    """Return whether an editor might corrupt the file, or whether the path cannot be
    read as text at all.

    :param real: absolute and resolved.
    """
    try:
        data = read_resolved(real, MAX_BYTES)
        data.decode()
    except OSError as error:
        return error.errno in (errno.EISDIR, errno.ELOOP, errno.EFBIG)
    except UnicodeDecodeError:
        return True
    return b"\0" in data or b"\r" in data


def _text(real: Path) -> str | None:
    """Return the text of a file on the disk, or None if there is no file or it cannot
    be read as text.

    :param real: absolute and resolved.
    """
    try:
        return read_resolved(real, MAX_BYTES).decode()
    except (OSError, UnicodeDecodeError):
        return None


ANSWER_SECONDS = 10.0
"""Time limit for an answer about a terminal, after which the editor has probably lost
it.
"""
CLEAN_UP_SECONDS = 2.0
OUTPUT_BYTES = 1_000_000


class EditorTerminals:
    """`CommandRunner` through `terminal/*`. Results contain both output streams
    combined, as a terminal shows them.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._local = LocalCommands()
        # Whether sandboxed commands can run in the editor's terminals; None before the
        # first command.
        self._is_local: bool | None = None

    async def run(
        self,
        argv: Sequence[str],
        cwd: Path,
        timeout: float,
        report: Report,
        *,
        shown: str,
        exclude: Collection[str] = (),
        try_out: Sequence[str] = (),
    ) -> CommandResult:
        """Run one command in a new terminal, or without one if terminals are on another
        machine or have no sandbox.
        """
        in_terminal = command_line(argv)
        if not try_out or self._is_local:
            return await self._run(in_terminal, cwd, timeout, report, exclude)
        if self._is_local is None:
            with temporary_folder() as folder:
                proof = anyio.Path(folder, "proof")
                failure = None
                result = None
                try:
                    result = await self._run(
                        _proving(str(proof), try_out, in_terminal),
                        cwd,
                        timeout,
                        report,
                        exclude,
                    )
                except ToolError as error:
                    failure = error
                self._is_local = await proof.exists()
            if self._is_local and failure is not None:
                raise failure
            if self._is_local and result is not None:
                return result
            _log.info(
                "the editor's terminals cannot run sandboxed commands: %s",
                failure or "they are on another machine",
            )
        return await self._local.run(
            argv, cwd, timeout, report, shown=shown, exclude=exclude
        )

    async def _run(
        self,
        argv: Sequence[str],
        cwd: Path,
        timeout: float,
        report: Report,
        exclude: Collection[str],
    ) -> CommandResult:
        """Run one command in a new terminal, and release the terminal afterwards, which
        kills the command.
        """
        created: list[JsonObject] = []
        try:
            await self._create(created, argv, cwd, exclude)
            [terminal] = created
            await report(TerminalStarted(str(terminal["terminalId"])))
            return await self._wait(terminal, timeout)
        except TimeoutError as error:
            raise ToolError(
                f"The editor did not answer about a terminal within {ANSWER_SECONDS:.0f} s."
            ) from error
        finally:
            for terminal in created:
                with anyio.move_on_after(CLEAN_UP_SECONDS, shield=True):
                    await self._end(methods.TERMINAL_RELEASE, terminal)

    async def _create(
        self,
        created: list[JsonObject],
        argv: Sequence[str],
        cwd: Path,
        exclude: Collection[str],
    ) -> None:
        """Start the command. A cancel waits briefly for the answer, since the command
        could not be killed without the id.

        :param created: receives the params that name the terminal, even if this call is
            cancelled.
        """
        # A request cannot remove variables from the editor's environment, so it sets
        # them to the empty string.
        variables = {
            name: "" for name in sorted(exclude) if name in os.environ
        } | git_variables()
        params: JsonObject = {
            "command": argv[0],
            "args": [*argv[1:]],
            "cwd": str(cwd),
            "outputByteLimit": OUTPUT_BYTES,
            "env": [
                {"name": name, "value": value} for name, value in variables.items()
            ],
        }

        async def ask() -> None:
            answer = await self._request(
                methods.TERMINAL_CREATE, params, v1.CreateTerminalResponse
            )
            created.append({"terminalId": answer.terminal_id})

        await finish_shielded(ask, CLEAN_UP_SECONDS)

    async def _wait(self, terminal: JsonObject, timeout: float) -> CommandResult:
        ended: v1.WaitForTerminalExitResponse | None = None
        try:
            method = methods.TERMINAL_WAIT_FOR_EXIT
            ended = await self._request(
                method, terminal, v1.WaitForTerminalExitResponse, timeout
            )
        except TimeoutError:
            await self._end(methods.TERMINAL_KILL, terminal)
        output = await self._request(
            methods.TERMINAL_OUTPUT, terminal, v1.TerminalOutputResponse
        )
        exit_code, signal = (
            (ended.exit_code, ended.signal) if ended is not None else (None, None)
        )
        return CommandResult(
            output.output, "", exit_code, signal, timed_out=ended is None, merged=True
        )

    async def _end(self, method: str, terminal: JsonObject) -> None:
        """Kill the command or release the terminal. Ignore errors, since some editors
        cannot kill commands or have already forgotten the terminal.
        """
        with suppress(RpcError, TimeoutError, PeerClosedError):
            await self._channel.request_raw(method, terminal, timeout=ANSWER_SECONDS)

    async def _request(
        self,
        method: str,
        params: JsonObject,
        result: type[Result],
        limit: float = ANSWER_SECONDS,
    ) -> Result:
        try:
            return await self._channel.request(method, params, result, timeout=limit)
        except RpcError as error:
            raise ToolError(
                f"The editor's terminal failed ({method}): {error.message}"
            ) from error


def _proving(proof: str, try_out: Sequence[str], argv: Sequence[str]) -> Sequence[str]:
    """Return a command line that runs a command only if the terminal is on this machine
    and the sandbox works. It creates a file as proof. Otherwise it does nothing.
    """
    tried = (
        f"{{ {shlex.join(try_out)} && echo > {shlex.quote(proof)}; }} > /dev/null 2>&1"
    )
    return ("/bin/sh", "-c", f"{tried} && exec {shlex.join(argv)}")

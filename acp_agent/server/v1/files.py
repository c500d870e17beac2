"""Files through the editor, unsaved buffers included; the disk where the editor cannot help."""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import anyio
import anyio.to_thread

from acp_agent.errors import AgentError, ToolError
from acp_agent.jsonrpc.messages import METHOD_NOT_FOUND, RpcError
from acp_agent.protocol import JsonObject, JsonValue
from acp_agent.protocol.v1 import methods, requests
from acp_agent.server.v1 import losses
from acp_agent.server.v1.capabilities import Capabilities
from acp_agent.tools.local_files import LocalFiles
from acp_agent.tools.text import one_line

READ_SECONDS = 10.0
WRITE_SECONDS = 30.0
"""Writing may run the editor's formatter."""
MAX_WRITTEN = 9 << 20
"""Bytes of JSON; some editors give up on a line of 10 MiB."""
_SNIFFED_BYTES = 8_192
_RESOURCE_NOT_FOUND = -32002

_log = logging.getLogger(__name__)


class Asking(Protocol):
    """The part of a peer that asks."""

    async def request(self, method: str, params: JsonObject, *, timeout: float | None = None) -> JsonValue:
        """See `Peer.request`."""
        ...


class EditorFiles:
    """`FileAccess` through `fs/read_text_file` and `fs/write_text_file`, as far as the editor offers them."""

    def __init__(self, peer: Asking, session_id: str, capabilities: Capabilities) -> None:
        self._peer = peer
        self._session_id = session_id
        self._capabilities = capabilities
        self._local = LocalFiles()
        self._unheard: set[Path] = set()

    async def read_text(self, path: Path) -> str:
        """The file as the editor shows it. One that it does not know (outside its project, as a rule) is read from the
        disk, and so is one about which it says nothing, or that it fails to read: that is an `UnheardText`."""
        self._unheard.discard(path)
        if not self._capabilities.read_text_file or await anyio.to_thread.run_sync(_needs_disk, path):
            return await self._local.read_text(path)
        from acp_agent.protocol.v1 import ReadTextFileResponse
        from acp_agent.protocol.wire import parse_result

        try:
            answer = await self._peer.request(
                methods.FS_READ_TEXT_FILE, requests.read_text_file(self._session_id, str(path)), timeout=READ_SECONDS
            )
            text = parse_result(ReadTextFileResponse, answer, methods.FS_READ_TEXT_FILE).content
        except TimeoutError:
            from acp_agent.tools.changes import UnheardText

            _log.warning("the editor did not answer within %.0f s, so a file is read from the disk", READ_SECONDS)
            self._unheard.add(path)
            silence = f"it did not answer within {READ_SECONDS:.0f} s"
            return UnheardText.of(await self._local.read_text(path), silence)
        except (RpcError, AgentError) as error:
            from acp_agent.tools.changes import UnheardText

            _log.info("the editor did not read a file, so it is read from the disk: %s", error)
            on_disk = await self._local.read_text(path)
            unknown = isinstance(error, RpcError) and error.code in (_RESOURCE_NOT_FOUND, METHOD_NOT_FOUND)
            if unknown:
                return on_disk
            self._unheard.add(path)
            answered = "it answered: " if isinstance(error, RpcError) else ""
            return UnheardText.of(on_disk, f"{answered}{one_line(str(error)).rstrip('.')}")
        if not text and not await anyio.Path(path).exists():
            # Several editors answer with an empty text for a file that does not exist.
            raise FileNotFoundError(str(path))
        if await anyio.to_thread.run_sync(losses.lost_bytes, path, text):
            return await self._local.read_text(path)  # which says what is wrong with it
        return await anyio.to_thread.run_sync(losses.with_last_newline, path, text)

    async def write_text(self, path: Path, text: str, *, outside: bool = False) -> None:
        """Write through the editor, so that an open buffer and its undo history stay right.

        Where the editor refuses, its user may have said no there, so that the file is left alone. Outside the session's
        directories the user was asked by us, and editors refuse those for not being in their project: then the disk.
        So is what the editor did not read: whatever is not saved there stays in its buffer. The CRLF of a file are put
        back on the disk where the editor was shown to lose them.
        """
        if not self._capabilities.write_text_file or path in self._unheard:
            await self._local.write_text(path, text, outside=outside)
            return
        if _json_bytes(text) > MAX_WRITTEN:
            raise ToolError(
                f"The text for {path} is too large to be written through the editor (in JSON more than "
                f"{MAX_WRITTEN >> 20} MiB). Change the file with a command."
            )
        made: list[Path] = []
        try:
            made = await anyio.to_thread.run_sync(_make_folder, path.parent)
            crlf = await anyio.to_thread.run_sync(losses.has_crlf, path)
            await self._peer.request(
                methods.FS_WRITE_TEXT_FILE,
                requests.write_text_file(self._session_id, str(path), text),
                timeout=WRITE_SECONDS,
            )
            if crlf and await anyio.to_thread.run_sync(losses.lost_crlf, path, text):
                await self._local.write_text(path, losses.with_crlf(text), outside=outside)
        except TimeoutError as error:
            raise ToolError(
                f"The editor did not answer within {WRITE_SECONDS:.0f} s whether it wrote {path}. Read the file before "
                "anything else, to see whether it did."
            ) from error
        except RpcError as error:
            if error.code != METHOD_NOT_FOUND and not outside:
                await anyio.to_thread.run_sync(_remove_folders, made)
                raise ToolError(
                    f"The editor did not write {path}: {error.message.rstrip('.')}. Ask the user before you write it "
                    "in another way."
                ) from error
            _log.info("the editor did not write a file, so it is written to the disk: %s", error)
            await self._local.write_text(path, text, outside=outside)
        except OSError as error:
            raise ToolError(f"The folder of {path} cannot be made: {error.strerror or error}.") from error


def _make_folder(path: Path) -> list[Path]:
    """Make a folder for a file, since some editors do not.

    :returns: those that were missing, the innermost first.
    """
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    return missing


def _remove_folders(made: list[Path]) -> None:
    with suppress(OSError):  # somebody has put something into one
        for folder in made:
            folder.rmdir()


def _json_bytes(text: str) -> int:
    """What a text takes on the wire, at least; exactly where it is long."""
    return (
        len(text)
        if len(text) < MAX_WRITTEN // 6
        else len(json.dumps(text, ensure_ascii=False).encode(errors="surrogatepass"))
    )


def _needs_disk(path: Path) -> bool:
    """Whether only the local reader can say what is wrong with it: a folder, or a file that is no text."""
    try:
        if path.is_dir():
            return True
        with path.open("rb") as file:
            return b"\0" in file.read(_SNIFFED_BYTES)
    except OSError:
        return False

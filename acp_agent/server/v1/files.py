"""Files through the editor, unsaved buffers included; the disk where the editor cannot help.

Some editors read a file as UTF-8 and nothing else, with plain line ends, or give it as lines; and write what they then
have. What such an editor loses of a file is found by comparing its text with the disk.

ACP, "File System".
"""

from __future__ import annotations

import json
import logging
from pathlib import Path

import anyio
import anyio.to_thread

from acp_agent.errors import ToolError
from acp_agent.jsonrpc.messages import METHOD_NOT_FOUND, RpcError
from acp_agent.protocol import methods, v1
from acp_agent.regular import read_regular
from acp_agent.server.channel import Channel
from acp_agent.server.handshake import Capabilities
from acp_agent.tools.files.local import LocalFiles
from acp_agent.tools.text import one_line

READ_SECONDS = 10.0
WRITE_SECONDS = 30.0
"""Writing may run the editor's formatter."""
MAX_WRITTEN = 9 << 20
"""Bytes of JSON; some editors give up on a line of 10 MiB."""
_SNIFFED_BYTES = 8_192
_REPLACED = "\ufffd"
_RESOURCE_NOT_FOUND = -32002

_log = logging.getLogger(__name__)


class EditorFiles:
    """`FileAccess` through `fs/read_text_file` and `fs/write_text_file`, as far as the editor offers them."""

    def __init__(self, channel: Channel, capabilities: Capabilities) -> None:
        self._channel = channel
        self._capabilities = capabilities
        self._local = LocalFiles()
        self._not_given: set[Path] = set()

    async def read_text(self, path: Path) -> str:
        """Return the file as the editor shows it. One that it does not know (outside its project, as a rule) is read
        from the disk, and so is one that it fails to read, or gives no answer for: that is an `DiskText`."""
        self._not_given.discard(path)
        if not self._capabilities.read_text_file or await anyio.to_thread.run_sync(_needs_disk, path):
            return await self._local.read_text(path)
        try:
            answer = await self._channel.request(
                methods.FS_READ_TEXT_FILE, {"path": str(path)}, v1.ReadTextFileResponse, timeout=READ_SECONDS
            )
        except (RpcError, TimeoutError, ToolError) as error:
            return await self._from_disk(path, error)
        text = answer.content
        if not text and not await anyio.Path(path).exists():
            # Several editors answer with an empty text for a file that does not exist.
            raise FileNotFoundError(str(path))
        whole = await anyio.to_thread.run_sync(_mended, path, text)
        return await self._local.read_text(path) if whole is None else whole  # which says what is wrong with it

    async def _from_disk(self, path: Path, error: RpcError | TimeoutError | ToolError) -> str:
        """Return a file that the editor did not give."""
        from acp_agent.tools.files.changes import DiskText

        _log.info("the editor did not read a file, so it is read from the disk: %r", error)
        on_disk = await self._local.read_text(path)
        if isinstance(error, RpcError) and error.code in (_RESOURCE_NOT_FOUND, METHOD_NOT_FOUND):
            return on_disk
        reason = one_line(str(error)).rstrip(".") or f"it did not answer within {READ_SECONDS:.0f} s"
        if isinstance(error, RpcError):
            reason = f"it answered: {reason}"
        self._not_given.add(path)
        text = DiskText(on_disk)
        text.reason = reason
        return text

    async def write_text(self, path: Path, text: str, *, outside: bool = False) -> None:
        """Write through the editor, so that an open buffer and its undo history stay right.

        Where the editor refuses, its user may have said no there, so that the file is left alone. Outside the session's
        directories the user was asked by us, and editors refuse those for not being in their project: then the disk.
        So is what the editor did not read: whatever is not saved there stays in its buffer. The CRLF of a file are put
        back on the disk where the editor was shown to lose them.
        """
        if not self._capabilities.write_text_file or path in self._not_given:
            await self._local.write_text(path, text, outside=outside)
            return
        if len(json.dumps(text, ensure_ascii=False).encode(errors="surrogatepass")) > MAX_WRITTEN:
            raise ToolError(
                f"The text for {path} is too large to be written through the editor (in JSON more than "
                f"{MAX_WRITTEN >> 20} MiB). Change the file with a command."
            )
        try:
            await anyio.Path(path.parent).mkdir(parents=True, exist_ok=True)  # which some editors do not
            crlf = await anyio.to_thread.run_sync(_has_crlf, path)
            await self._channel.ask(
                methods.FS_WRITE_TEXT_FILE, {"path": str(path), "content": text}, timeout=WRITE_SECONDS
            )
            if crlf and await anyio.to_thread.run_sync(_lost_crlf, path, text):
                await self._local.write_text(path, text.replace("\n", "\r\n"), outside=outside)
        except TimeoutError as error:
            raise ToolError(
                f"The editor did not answer within {WRITE_SECONDS:.0f} s whether it wrote {path}. Read the file before "
                "anything else, to see whether it did."
            ) from error
        except RpcError as error:
            if error.code != METHOD_NOT_FOUND and not outside:
                raise ToolError(
                    f"The editor did not write {path}: {error.message.rstrip('.')}. Ask the user before you write it "
                    "in another way."
                ) from error
            _log.info("the editor did not write a file, so it is written to the disk: %s", error)
            await self._local.write_text(path, text, outside=outside)
        except OSError as error:
            raise ToolError(f"The folder of {path} cannot be made: {error.strerror or error}.") from error


def _needs_disk(path: Path) -> bool:
    """Return whether only the local reader can say what is wrong with it: a folder, or a file that is no text."""
    try:
        if path.is_dir():
            return True
        with path.open("rb") as file:
            return b"\0" in file.read(_SNIFFED_BYTES)
    except OSError:
        return False


# --- what an editor loses ---


def _mended(path: Path, text: str) -> str | None:
    """Return an editor's text of a file with the newline at its end that the file has, where it differs from the file
    in that alone; None where it is the file without its bytes that are no UTF-8. An editor that knows the file's
    encoding has read something in their places."""
    data = _data(path)
    try:
        on_disk = data.decode()
    except UnicodeDecodeError:
        lost = _REPLACED in text or _plain(text) == _plain(data.decode(errors="ignore"))
        return None if lost else text
    if text and _plain(on_disk) == _plain(text) + "\n":
        return text + ("\r\n" if "\r\n" in text else "\n")
    return text


def _has_crlf(path: Path) -> bool:
    """Return whether every line of the file ends with CRLF, of one at least."""
    ends = (data := _data(path)).count(b"\r\n")
    return ends > 0 and ends == data.count(b"\n")


def _lost_crlf(path: Path, text: str) -> bool:
    """Return whether a text is on the disk exactly as an editor was given it, in a file that had CRLF before. An editor
    that remembers line ends has put them back.

    :param text: what the editor was to write.
    """
    return "\r" not in text and "\n" in text and _data(path) == text.encode(errors="surrogatepass")


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _data(path: Path) -> bytes:
    try:
        return read_regular(path)
    except OSError:
        return b""

"""Files through the editor, unsaved buffers included; the disk where the editor cannot help.

Some editors read a file as UTF-8 and nothing else, with plain line ends, or give it as lines; and write what they then
have. So a file that is not UTF-8, or has other line ends than LF, is read from and written to the disk.

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
_RESOURCE_NOT_FOUND = -32002

_log = logging.getLogger(__name__)


class EditorFiles:
    """`FileAccess` through `fs/read_text_file` and `fs/write_text_file`, as far as the editor offers them."""

    def __init__(self, channel: Channel, capabilities: Capabilities) -> None:
        self._channel = channel
        self._reads, self._writes = capabilities.read_text_file, capabilities.write_text_file
        self._local = LocalFiles()
        self._not_given: set[Path] = set()

    async def read_text(self, path: Path) -> str:
        """Return the file as the editor shows it. One that it does not know (outside its project, as a rule) is read
        from the disk, and so is one that it fails to read, or gives no answer for: that is an `DiskText`."""
        self._not_given.discard(path)
        if not self._reads or await anyio.to_thread.run_sync(_needs_disk, path):
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
        if text and await anyio.to_thread.run_sync(_data, path) == f"{text}\n".encode(errors="surrogatepass"):
            return f"{text}\n"  # from an editor that has lines, and joins them
        return text

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
        So is what the editor did not read: whatever is not saved there stays in its buffer.
        """
        on_disk = not self._writes or path in self._not_given
        if on_disk or await anyio.to_thread.run_sync(_needs_disk, path):
            await self._local.write_text(path, text, outside=outside)
            return
        if len(json.dumps(text, ensure_ascii=False).encode(errors="surrogatepass")) > MAX_WRITTEN:
            raise ToolError(
                f"The text for {path} is too large to be written through the editor (in JSON more than "
                f"{MAX_WRITTEN >> 20} MiB). Change the file with a command."
            )
        try:
            await anyio.Path(path.parent).mkdir(parents=True, exist_ok=True)  # some editors do not create it
            await self._channel.ask(
                methods.FS_WRITE_TEXT_FILE, {"path": str(path), "content": text}, timeout=WRITE_SECONDS
            )
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
    """Return whether an editor may lose something of a file, or only the local reader can say what is wrong with it."""
    try:
        data = _data(path)
        data.decode()
    except UnicodeDecodeError:
        return True
    return b"\0" in data or b"\r" in data or path.is_dir()


def _data(path: Path) -> bytes:
    try:
        return read_regular(path)
    except OSError:
        return b""

"""Deflated WebSocket messages, with a limit to how much larger than what was sent a
message may be.

48 KB of deflate can hold the 48 MiB that a message may have, so that a small client
could make the agent read as much as a thousand large ones. What people and editors
send, even JSON and code with many repeats, grows ten- or twentyfold.

RFC 7692, "Compression Extensions for WebSocket", section 7: the limits are the
receiver's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.extensions.base import Extension
from websockets.extensions.permessage_deflate import (
    PerMessageDeflate,
    ServerPerMessageDeflateFactory,
)
from websockets.frames import Frame, Opcode
from websockets.typing import ExtensionParameter

FREE_BYTES = 1024 * 1024
"""To which any message may grow."""
MAX_GROWTH = 25
"""How many times as large as what was received a message may be beyond that."""


class BoundedWebSocket(WebSocketsSansIOProtocol):
    """A WebSocket of uvicorn's that closes with 1009 where a deflated message grows too
    large.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.conn.available_extensions = [_Factory(12, 12)]


class _Factory(ServerPerMessageDeflateFactory):
    """Negotiates deflate as uvicorn does.

    :param server_bits: the size of the window of what is sent, as a power of two.
    :param client_bits: the same of what is received.
    """

    def __init__(self, server_bits: int, client_bits: int) -> None:
        super().__init__(
            server_max_window_bits=server_bits,
            client_max_window_bits=client_bits,
            compress_settings={"memLevel": 5},
        )

    def process_request_params(
        self,
        params: Sequence[ExtensionParameter],
        accepted_extensions: Sequence[Extension],
    ) -> tuple[list[ExtensionParameter], PerMessageDeflate]:
        answer, plain = super().process_request_params(params, accepted_extensions)
        bounded = BoundedDeflate(
            plain.remote_no_context_takeover,
            plain.local_no_context_takeover,
            plain.remote_max_window_bits,
            plain.local_max_window_bits,
            plain.compress_settings,
        )
        return answer, bounded


class BoundedDeflate(PerMessageDeflate):
    """Inflates a message, in however many frames it comes, as long as it is not much
    larger than they are.
    """

    _received = 0
    _inflated = 0

    def decode(self, frame: Frame, *, max_size: int | None = None) -> Frame:
        is_first = frame.opcode in (Opcode.TEXT, Opcode.BINARY)
        is_deflated = (
            frame.rsv1
            if is_first
            else frame.opcode is Opcode.CONT and self.decode_cont_data
        )
        if not is_deflated:
            return super().decode(frame, max_size=max_size)
        if is_first:
            self._received = self._inflated = 0
        self._received += len(frame.data)
        # 0 would be no limit.
        allowed = max(1, FREE_BYTES + MAX_GROWTH * self._received - self._inflated)
        decoded = super().decode(
            frame, max_size=allowed if max_size is None else min(max_size, allowed)
        )
        self._inflated += len(decoded.data)
        return decoded

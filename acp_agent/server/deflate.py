"""Deflated WebSocket messages, with a limit on how much larger than the received data a
message may be.

48 KB of deflated data can expand to the 48 MiB that a message may have. So a small
client could make the agent process as much data as a thousand large clients. The data
of people and editors grows only ten- or twentyfold, even JSON and code with many
repetitions.

Source: RFC 7692, "Compression Extensions for WebSocket", section 7, which leaves the
limits to the receiver.
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
"""Size to which any message may grow."""
MAX_GROWTH = 25
"""A message may exceed `FREE_BYTES` by this many times the size of the received data.
"""


class BoundedWebSocket(WebSocketsSansIOProtocol):
    """A uvicorn WebSocket that closes with code 1009 if a deflated message grows too
    large.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.conn.available_extensions = [_Factory(12, 12)]


class _Factory(ServerPerMessageDeflateFactory):
    """Negotiates deflate in the same way as uvicorn.

    :param server_bits: the size of the window for sent data, as a power of two.
    :param client_bits: the size of the window for received data, as a power of two.
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
    """Inflates a message of one or more frames, as long as it is not much larger than
    the frames together.
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
        # 0 would mean no limit.
        allowed = max(1, FREE_BYTES + MAX_GROWTH * self._received - self._inflated)
        decoded = super().decode(
            frame, max_size=allowed if max_size is None else min(max_size, allowed)
        )
        self._inflated += len(decoded.data)
        return decoded

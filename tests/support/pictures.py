"""Images for tests, made without any library: whole ones, and the same with something
wrong.
"""

from __future__ import annotations

import base64
import random
import struct
import zlib


def png(width: int = 1, height: int = 1, seed: int | None = None) -> bytes:
    """A PNG of one grey, or of noise, which cannot be compressed: three bytes for each
    pixel.

    :param seed: of the noise.
    """
    noise = None if seed is None else random.Random(seed)
    rows = [
        b"\0"
        + (bytes([128]) * 3 * width if noise is None else noise.randbytes(3 * width))
        for _ in range(height)
    ]
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = (
        _chunk(b"IHDR", header),
        _chunk(b"IDAT", zlib.compress(b"".join(rows))),
        _chunk(b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


def _chunk(name: bytes, content: bytes) -> bytes:
    return (
        struct.pack(">I", len(content))
        + name
        + content
        + struct.pack(">I", zlib.crc32(name + content))
    )


BROKEN: dict[str, tuple[str, str]] = {
    "no base64": ("!!!", "image/png"),
    "too short": ("AAAA", "image/png"),
    "cut off": (encoded(png(40, 40, seed=1)[:2000]), "image/png"),
    "with a changed byte": (
        encoded(png(40, 40, seed=1).replace(b"IDAT", b"IDAT\1", 1)),
        "image/png",
    ),
    "a page": (encoded(b"<html><body>Not found</body></html>"), "image/jpeg"),
    "empty": ("", "image/png"),
}
"""What servers and editors have been seen to send as images: base64, and what it is
said to be.
"""

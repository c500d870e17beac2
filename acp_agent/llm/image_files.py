"""What an image's bytes say of themselves: which type they are, and whether the file is whole.

Decodes no picture and needs no library, so that it serves where there is no Pillow, and where there is no time for it.

PNG (ISO/IEC 15948, 5), JPEG (ITU-T T.81, B.1), GIF89a (17-27), WebP (RFC 9649, 2).
"""

from __future__ import annotations

import zlib

_BEGINNINGS = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
    b"BM": "image/bmp",
    b"II*\0": "image/tiff",
    b"MM\0*": "image/tiff",
}
_JPEG_START_OF_SCAN, _JPEG_ALONE = 0xDA, frozenset({0x01, *range(0xD0, 0xD9)})
_JPEG_NO_FRAME = frozenset({0xC4, 0xC8, 0xCC})
"""Markers among those of frames that are none."""


def type_of(content: bytes) -> str | None:
    """The media type that a file has by its first bytes; None where it is none that is known here."""
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for beginning, kind in _BEGINNINGS.items() if content.startswith(beginning)), None)


def is_whole(content: bytes, kind: str) -> bool:
    """Whether nothing of a file is missing, as far as its structure tells; of BMP and TIFF nothing is known.

    :param kind: what `type_of` says of it.
    """
    match kind:
        case "image/png":
            return _is_whole_png(content)
        case "image/jpeg":
            return _is_whole_jpeg(content)
        case "image/gif":
            return len(content) > 14 and content[6:8] != b"\0\0" != content[8:10] and content.rstrip(b"\0")[-1:] == b";"
        case "image/webp":
            claimed = int.from_bytes(content[4:8], "little") + 8
            return 20 < claimed <= len(content) + 1 and content[12:16] in (b"VP8 ", b"VP8L", b"VP8X")
        case _:
            return True


def _is_whole_png(content: bytes) -> bool:
    at, has_data = 8, False
    if content[12:16] != b"IHDR" or b"\0\0\0\0" in (content[16:20], content[20:24]):
        return False
    while at + 12 <= len(content):
        length, name = int.from_bytes(content[at : at + 4], "big"), content[at + 4 : at + 8]
        end = at + 8 + length
        if end + 4 > len(content):
            return False
        is_critical = not name[0] & 0x20
        if is_critical and zlib.crc32(memoryview(content)[at + 4 : end]) != int.from_bytes(
            content[end : end + 4], "big"
        ):
            return False
        if name == b"IEND":
            return has_data
        has_data = has_data or name == b"IDAT"
        at = end + 4
    return False


def _is_whole_jpeg(content: bytes) -> bool:
    at, has_frame = 2, False
    while at + 4 <= len(content) and content[at] == 0xFF:
        marker = content[at + 1]
        if marker == 0xFF:
            at += 1
        elif marker in _JPEG_ALONE:
            at += 2
        elif marker == _JPEG_START_OF_SCAN:
            return has_frame and content.find(b"\xff\xd9", at) > 0
        else:
            if 0xC0 <= marker <= 0xCF and marker not in _JPEG_NO_FRAME:
                has_frame = content[at + 7 : at + 9] != b"\0\0"
            at += 2 + int.from_bytes(content[at + 2 : at + 4], "big")
    return False

"""Prepares images as providers accept them: within their size limits, upright, not
animated, and of a supported type.

An acceptable image is passed through unchanged. Others are converted with Pillow, which
comes with the extra `images` and is loaded with the first image. Without Pillow, an
image that is too large is refused. The same image always produces the same bytes, since
the providers' caches compare them.

A small file may decode to any number of pixels. So the number of pixels is limited, and
images are decoded one at a time. A large image is reduced in strips, since a full copy
at each step would take a gigabyte.
"""

from __future__ import annotations

import base64
import io
import math
from functools import cache
from importlib.util import find_spec
from threading import Lock
from typing import TYPE_CHECKING

from acp_agent.conversation.encoding import decoded, plain
from acp_agent.installing import install_command
from acp_agent.llm.profiles import IMAGE_TYPES, ModelProfile

if TYPE_CHECKING:
    from PIL import Image as Pillow

MAX_PIXELS = 50_000_000
"""Maximum pixels of one image. Each takes four bytes when decoded, and a small file may
claim any number.
"""
_MAX_PASSES = 1_000_000_000
"""Maximum product of pixels and scans in a progressive JPEG. Each scan covers all
pixels, but may take only 100 bytes.
"""
_SCAN = b"\xff\xda"
_TILE_SIDES = (322, 323)
"""TIFF tags for the width and height of a tile. A whole tile is decoded, even if the
image is smaller.
"""
_WORKED_PIXELS = 12_000_000
"""Maximum pixels that are processed at once."""
_STRIP_PIXELS = 1_000_000
_PHOTOS = ("JPEG", "MPO")
_FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF")
_QUALITY = 80
_ORIENTATION = 0x0112
_SMALLEST = 16
_TURNS = {
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_270",
    7: "TRANSVERSE",
    8: "ROTATE_90",
}
"""The operation that makes an image upright, by its EXIF orientation."""
_BEGINNINGS = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
    b"BM": "image/bmp",
    b"II*\0": "image/tiff",
    b"MM\0*": "image/tiff",
}


_decoding = Lock()


class Unusable(Exception):  # noqa: N818 - not for users: its text becomes part of a sentence
    """An image cannot be sent. The text says why, as the end of a sentence."""


@cache
def _can_scale() -> bool:
    """Return whether Pillow is installed."""
    return find_spec("PIL") is not None


def type_of(content: bytes) -> str | None:
    """Return a file's media type, determined from its first bytes, or None if it is
    unknown.
    """
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return next(
        (
            kind
            for beginning, kind in _BEGINNINGS.items()
            if content.startswith(beginning)
        ),
        None,
    )


def received(data: str, mime_type: str) -> tuple[str, str]:
    """Return a received image in plain base64, and its actual media type. Does not
    decode the image.

    :param data: base64 in any variant.
    :param mime_type: the claimed media type.
    :raises Unusable: if the data is not an image, or no model reads its type.
    """
    data = plain(data)
    content = decoded(data)
    if content is None:
        raise Unusable("its data is not base64")
    if not content:
        raise Unusable("it is empty")
    kind = type_of(content)
    if kind is None:
        raise Unusable(
            f"it is declared as {mime_type[:80] or 'having no type'} and is not an image that models read"
        )
    if kind not in IMAGE_TYPES and not _can_scale():
        raise _other_type(kind)
    return data, kind


def prepared(data: str, mime_type: str, profile: ModelProfile) -> tuple[str, str]:
    """Return an image in the form in which it is sent to a model. Decodes the image, so
    call this in a thread.

    :param data: base64 in any variant.
    :param mime_type: the claimed media type.
    :returns: base64, and the actual media type.
    :raises Unusable: if it is damaged or not an image, or is too large or of an
        unsupported type and cannot be converted.
    """
    data, kind = received(data, mime_type)
    fits = kind in profile.image_types and len(data) <= profile.image_characters
    if not _can_scale():
        if fits:
            return data, kind
        if kind not in profile.image_types:
            raise _other_type(kind)
        least = f"larger than the {profile.image_characters * 3 // 4 / 1e6:.3g} MB that the model accepts"
        raise Unusable(
            f"it is {least}; the extra `images` makes images smaller: {install_command('images')}"
        )
    # Pillow raises many kinds of exceptions for damaged files.
    try:
        with _decoding, _opened(decoded(data) or b"") as image:
            if fits and _is_plain(image, profile):
                image.load()  # detects missing data
                return data, kind
            made, kind = _made(image, profile)
    except Unusable:
        raise
    except Exception as error:
        raise Unusable("it is damaged") from error
    return base64.b64encode(made).decode("ascii"), kind


def _other_type(kind: str) -> Unusable:
    return Unusable(
        f"{kind} is not a type that the model reads; the extra `images` converts it: {install_command('images')}"
    )


def _opened(content: bytes) -> Pillow.Image:
    from PIL import Image

    # Pillow's own check would print a warning; the check below runs before any pixel is
    # decoded.
    Image.MAX_IMAGE_PIXELS = None
    image = Image.open(io.BytesIO(content), formats=_FORMATS)
    pixels = image.width * image.height
    if pixels > MAX_PIXELS:
        raise Unusable(
            f"it has {image.width:,} x {image.height:,} pixels, more than can be decoded"
        )
    # In compressed data, FF is never followed by DA.
    if image.format in _PHOTOS and pixels * content.count(_SCAN) > _MAX_PASSES:
        raise Unusable(
            f"it has {content.count(_SCAN):,} scans, more than can be decoded"
        )
    if image.format == "TIFF" and _tile_pixels(image) > MAX_PIXELS:
        raise Unusable("its tiles have more pixels than can be decoded")
    return image


def _tile_pixels(image: Pillow.Image) -> int:
    tags = getattr(image, "tag_v2", {})
    return math.prod(
        side if isinstance(side := tags.get(tag), int) else 0 for tag in _TILE_SIDES
    )


def _is_plain(image: Pillow.Image, profile: ModelProfile) -> bool:
    """Return whether models see the image as a person does, so that it needs no
    conversion.
    """
    return (
        max(image.size) <= profile.image_edge
        and image.mode != "CMYK"
        and image.getexif().get(_ORIENTATION, 1) == 1
        and not getattr(image, "is_animated", False)  # `n_frames` would read all frames
    )


def _made(image: Pillow.Image, profile: ModelProfile) -> tuple[bytes, str]:
    from PIL import Image

    photo = image.format in _PHOTOS
    edge = profile.image_edge
    if photo:
        image.draft(None, (edge, edge))  # decodes a large JPEG at reduced size
    image.seek(0)
    turn = _TURNS.get(image.getexif().get(_ORIENTATION, 1))
    transparent = image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info
    plain = _reduced(image, edge, "RGBA" if transparent else "RGB")
    image.close()
    if turn is not None:
        plain = plain.transpose(Image.Transpose[turn])
    while edge >= _SMALLEST:
        plain.thumbnail((edge, edge), Image.Resampling.LANCZOS)
        for form, kind in (("PNG", "image/png"), ("JPEG", "image/jpeg")):
            each = plain
            if form == "JPEG" and transparent:
                each = Image.alpha_composite(
                    Image.new("RGBA", plain.size, "white"), plain
                ).convert("RGB")
            out = io.BytesIO()
            each.save(out, form, quality=_QUALITY)
            made = out.getvalue()
            if (len(made) + 2) // 3 * 4 <= profile.image_characters and not (
                photo and form == "PNG"
            ):
                return made, kind
        edge = max(plain.size) // 2
    raise Unusable("it cannot be made small enough")


def _reduced(image: Pillow.Image, edge: int, mode: str) -> Pillow.Image:
    """Return an image in another mode, reduced by a whole factor if it is much larger
    than necessary.

    :param edge: maximum pixels of the final image's longer side. The result keeps at
        least about twice as many.
    """
    from PIL import Image

    image.load()
    factor = max(
        max(image.size) // (2 * edge),
        math.ceil(math.sqrt(image.width * image.height / _WORKED_PIXELS)),
        1,
    )
    if factor == 1:
        return image.convert(mode)
    reduced = Image.new(mode, (-(-image.width // factor), -(-image.height // factor)))
    rows = max(1, _STRIP_PIXELS // image.width // factor) * factor
    for top in range(0, image.height, rows):
        strip = image.crop((0, top, image.width, min(top + rows, image.height)))
        reduced.paste(strip.convert(mode).reduce(factor), (0, top // factor))
    return reduced

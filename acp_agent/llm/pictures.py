"""Images as a provider accepts them: within its size limits, upright, not animated, and of a supported type.

An acceptable image is passed through unchanged. Others are converted with Pillow, an extra (`images`) that is loaded
with the first image; without it, an image that is too large is refused. The same image always results in the same
bytes, since the providers' caches compare them.
"""

from __future__ import annotations

import base64
import io
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

from acp_agent.conversation.encoding import decoded, plain
from acp_agent.errors import install_command
from acp_agent.frozen import frozen
from acp_agent.llm.profiles import IMAGE_TYPES, ModelProfile

if TYPE_CHECKING:
    from PIL import Image as Pillow

MAX_PIXELS = 64_000_000
"""Of one image: decoded, it takes four bytes each. A small file may claim any number of them."""
_FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF")
_QUALITIES = (85, 70, 50)
_ORIENTATION = 0x0112
_SMALLEST = 16
_BEGINNINGS = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
    b"BM": "image/bmp",
    b"II*\0": "image/tiff",
    b"MM\0*": "image/tiff",
}


@frozen
class Limits:
    """What a model's provider accepts; see `ModelProfile`."""

    edge: int
    characters: int
    types: frozenset[str]

    @classmethod
    def of(cls, profile: ModelProfile) -> Limits:
        """Return those of a model."""
        return cls(profile.image_edge, profile.image_characters, profile.image_types)


class Unusable(Exception):  # noqa: N818 - not for users: its text goes into a sentence for one of two readers
    """An image that cannot be sent; the text says why, as the end of a sentence."""


@cache
def can_scale() -> bool:
    """Return whether Pillow is installed."""
    return find_spec("PIL") is not None


def type_of(content: bytes) -> str | None:
    """Return the media type that a file has by its first bytes; None where it is none that is known here."""
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for beginning, kind in _BEGINNINGS.items() if content.startswith(beginning)), None)


def received(data: str, mime_type: str) -> tuple[str, str]:
    """Return an image that has come from outside, in plain base64 and called what it is. Decodes no picture.

    :param data: base64 of any form.
    :param mime_type: what it is said to be.
    :raises Unusable: it is no image, or no model reads its type.
    """
    data = plain(data)
    content = decoded(data)
    if content is None:
        raise Unusable("its data is no base64")
    if not content:
        raise Unusable("it is empty")
    kind = type_of(content)
    if kind is None:
        raise Unusable(f"it is said to be {mime_type[:80] or 'of no type'}, and is no image that models read")
    if kind not in IMAGE_TYPES and not can_scale():
        raise _other_type(kind)
    return data, kind


def prepared(data: str, mime_type: str, limits: Limits) -> tuple[str, str]:
    """Return an image as it is sent; decodes it, so run this in a thread.

    :param data: base64 of any form.
    :param mime_type: what it is said to be.
    :returns: base64, and what it is.
    :raises Unusable: it is damaged or no image, or it is too large or of a type that the provider does not take, and
        cannot be made another.
    """
    data, kind = received(data, mime_type)
    fits = kind in limits.types and len(data) <= limits.characters
    if not can_scale():
        if fits:
            return data, kind
        if kind not in limits.types:
            raise _other_type(kind)
        least = f"larger than the {limits.characters * 3 // 4 / 1e6:.3g} MB that the model takes"
        raise Unusable(f"it is {least}; the extra `images` makes images smaller: {install_command('images')}")
    # Whatever is wrong with a file, Pillow has an exception of its own kind for it.
    try:
        with _opened(decoded(data) or b"") as image:
            if fits and _is_plain(image, limits):
                image.load()  # only now it shows where a part is missing
                return data, kind
            made, kind = _made(image, limits)
    except Exception as error:
        raise error if isinstance(error, Unusable) else Unusable("it is damaged") from error
    return base64.b64encode(made).decode("ascii"), kind


def _other_type(kind: str) -> Unusable:
    return Unusable(
        f"{kind} is not a type that the model reads; the extra `images` converts it: {install_command('images')}"
    )


def _opened(content: bytes) -> Pillow.Image:
    from PIL import Image

    # Its own check prints a warning first; ours is below, before any pixel is decoded.
    Image.MAX_IMAGE_PIXELS = None
    image = Image.open(io.BytesIO(content), formats=_FORMATS)
    if image.width * image.height > MAX_PIXELS:
        raise Unusable(f"it has {image.width:,} x {image.height:,} pixels, more than can be decoded")
    return image


def _is_plain(image: Pillow.Image, limits: Limits) -> bool:
    """Return whether every model sees this image as a person does."""
    return (
        max(image.size) <= limits.edge
        and image.mode != "CMYK"
        and image.getexif().get(_ORIENTATION, 1) == 1
        and getattr(image, "n_frames", 1) == 1
    )


def _made(image: Pillow.Image, limits: Limits) -> tuple[bytes, str]:
    from PIL import Image, ImageOps

    photo = image.format in ("JPEG", "MPO")
    edge = limits.edge
    if photo:
        image.draft(None, (edge, edge))  # decodes a fraction of a large JPEG
    image.seek(0)
    upright = ImageOps.exif_transpose(image)
    transparent = upright.mode in ("RGBA", "LA", "PA") or "transparency" in upright.info
    plain = upright.convert("RGBA" if transparent else "RGB")
    while True:
        if max(plain.size) > edge:
            plain.thumbnail((edge, edge), Image.Resampling.LANCZOS)
        if not photo and (made := _written(plain, limits, "PNG")):
            return made, "image/png"
        opaque = plain
        if plain.mode == "RGBA":
            opaque = Image.alpha_composite(Image.new("RGBA", plain.size, "white"), plain).convert("RGB")
        for quality in _QUALITIES:
            if made := _written(opaque, limits, "JPEG", quality=quality):
                return made, "image/jpeg"
        edge = max(plain.size) // 2
        if edge < _SMALLEST:
            raise Unusable("it cannot be made small enough")


def _written(image: Pillow.Image, limits: Limits, form: str, **options: int) -> bytes:
    """Return an image's file; nothing where that is too large."""
    out = io.BytesIO()
    image.save(out, form, **options)
    content = out.getvalue()
    return content if (len(content) + 2) // 3 * 4 <= limits.characters else b""

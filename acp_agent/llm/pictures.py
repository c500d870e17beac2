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
from acp_agent.llm.profiles import IMAGE_TYPES, ModelProfile

if TYPE_CHECKING:
    from PIL import Image as Pillow

MAX_PIXELS = 64_000_000
"""Of one image: decoded, it takes four bytes each. A small file may claim any number of them."""
_FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF")
_QUALITY = 80
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


class Unusable(Exception):  # noqa: N818 - not for users: its text goes into a sentence for one of two readers
    """An image that cannot be sent; the text says why, as the end of a sentence."""


@cache
def _can_scale() -> bool:
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
    if kind not in IMAGE_TYPES and not _can_scale():
        raise _other_type(kind)
    return data, kind


def prepared(data: str, mime_type: str, profile: ModelProfile) -> tuple[str, str]:
    """Return an image as it is sent to a model; decodes it, so run this in a thread.

    :param data: base64 of any form.
    :param mime_type: what it is said to be.
    :returns: base64, and what it is.
    :raises Unusable: it is damaged or no image, or it is too large or of a type that the provider does not take, and
        cannot be made another.
    """
    data, kind = received(data, mime_type)
    fits = kind in profile.image_types and len(data) <= profile.image_characters
    if not _can_scale():
        if fits:
            return data, kind
        if kind not in profile.image_types:
            raise _other_type(kind)
        least = f"larger than the {profile.image_characters * 3 // 4 / 1e6:.3g} MB that the model takes"
        raise Unusable(f"it is {least}; the extra `images` makes images smaller: {install_command('images')}")
    # Whatever is wrong with a file, Pillow has an exception of its own kind for it.
    try:
        with _opened(decoded(data) or b"") as image:
            if fits and _is_plain(image, profile):
                image.load()  # only now it shows where a part is missing
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

    # Its own check prints a warning first; ours is below, before any pixel is decoded.
    Image.MAX_IMAGE_PIXELS = None
    image = Image.open(io.BytesIO(content), formats=_FORMATS)
    if image.width * image.height > MAX_PIXELS:
        raise Unusable(f"it has {image.width:,} x {image.height:,} pixels, more than can be decoded")
    return image


def _is_plain(image: Pillow.Image, profile: ModelProfile) -> bool:
    """Return whether every model sees this image as a person does."""
    return (
        max(image.size) <= profile.image_edge
        and image.mode != "CMYK"
        and image.getexif().get(_ORIENTATION, 1) == 1
        and getattr(image, "n_frames", 1) == 1
    )


def _made(image: Pillow.Image, profile: ModelProfile) -> tuple[bytes, str]:
    from PIL import Image, ImageOps

    photo, edge = image.format in ("JPEG", "MPO"), profile.image_edge
    if photo:
        image.draft(None, (edge, edge))  # decodes a fraction of a large JPEG
    image.seek(0)
    upright = ImageOps.exif_transpose(image)
    transparent = upright.mode in ("RGBA", "LA", "PA") or "transparency" in upright.info
    plain = upright.convert("RGBA" if transparent else "RGB")
    while edge >= _SMALLEST:
        plain.thumbnail((edge, edge), Image.Resampling.LANCZOS)
        opaque = plain
        if transparent:
            opaque = Image.alpha_composite(Image.new("RGBA", plain.size, "white"), plain).convert("RGB")
        for form, kind, each in (("PNG", "image/png", plain), ("JPEG", "image/jpeg", opaque)):
            out = io.BytesIO()
            each.save(out, form, quality=_QUALITY)
            made = out.getvalue()
            if (len(made) + 2) // 3 * 4 <= profile.image_characters and not (photo and form == "PNG"):
                return made, kind
        edge = max(plain.size) // 2
    raise Unusable("it cannot be made small enough")

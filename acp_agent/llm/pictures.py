"""Images as a provider accepts them: no larger than it reads, upright, still, and of a type that it knows.

What is fine already goes through byte by byte. What is not is made anew with Pillow, which is an extra (`images`) and
loaded with the first image; without it, an image that is too large has to be refused. The same image always becomes the
same bytes, as the providers' caches compare them. Knows no provider's wire form.
"""

from __future__ import annotations

import base64
import io
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

from acp_agent.frozen import frozen
from acp_agent.llm.profiles import ModelProfile

if TYPE_CHECKING:
    from PIL import Image as Pillow

MAX_PIXELS = 64_000_000
"""Of one image: decoded, it takes four bytes each. A small file may claim any number of them."""
EXTRA = "acp-agent[images]"
_FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF")
_READ_AS_THEY_ARE = {"PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "WEBP": "image/webp"}
_QUALITIES = (85, 70, 50)
_ORIENTATION = 0x0112
_SMALLEST = 16


@frozen
class Limits:
    """What a model's provider accepts; see `ModelProfile`."""

    edge: int
    characters: int
    types: frozenset[str]

    @classmethod
    def of(cls, profile: ModelProfile) -> Limits:
        """Those of a model."""
        return cls(profile.image_edge, profile.image_characters, profile.image_types)


class Unusable(Exception):  # noqa: N818 - not for users: its text goes into a sentence for one of two readers
    """An image that cannot be sent; the text says why, as the end of a sentence."""


@cache
def can_scale() -> bool:
    """Whether Pillow is there."""
    return find_spec("PIL") is not None


def prepared(data: str, mime_type: str, limits: Limits) -> tuple[str, str]:
    """An image as it is sent; decodes it, so run this in a thread.

    :param data: base64.
    :param mime_type: what it is said to be.
    :returns: base64, and what it is.
    :raises Unusable: it is too large or of a type that the provider does not take, and cannot be made another.
    """
    if not can_scale():
        return _as_it_is(data, mime_type, limits)
    try:
        content = base64.b64decode(data, validate=True)
        image = _opened(content)
    except Unusable:
        raise
    except Exception:  # whatever is wrong with a file, Pillow has an exception of its own kind for it
        return _as_it_is(data, mime_type, limits)
    with image:
        found = _READ_AS_THEY_ARE.get(image.format or "", "")
        if found in limits.types and len(data) <= limits.characters and _is_plain(image, limits):
            return data, found
        try:
            made, kind = _made(image, limits)
        except Unusable:
            raise
        except Exception as error:
            raise Unusable("it is damaged") from error
    return base64.b64encode(made).decode("ascii"), kind


def _as_it_is(data: str, mime_type: str, limits: Limits) -> tuple[str, str]:
    if len(data) > limits.characters:
        least = f"larger than the {limits.characters * 3 // 4 / 1e6:.3g} MB that the model takes"
        if can_scale():
            raise Unusable(f"it is {least}, and no image that can be made smaller")
        raise Unusable(f"it is {least}; `pip install '{EXTRA}'` lets the agent make images smaller")
    if mime_type not in limits.types:
        more = "" if can_scale() else f"; `pip install '{EXTRA}'` lets the agent convert it"
        raise Unusable(f"{mime_type or 'its type'} is not a type that the model reads{more}")
    return data, mime_type


def _opened(content: bytes) -> Pillow.Image:
    from PIL import Image

    # Its own check prints a warning first; ours is below, before any pixel is decoded.
    Image.MAX_IMAGE_PIXELS = None
    image = Image.open(io.BytesIO(content), formats=_FORMATS)
    if image.width * image.height > MAX_PIXELS:
        raise Unusable(f"it has {image.width:,} x {image.height:,} pixels, more than can be decoded")
    return image


def _is_plain(image: Pillow.Image, limits: Limits) -> bool:
    """Whether every model sees this image as a person does."""
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
        if not photo and _fits(made := _written(plain, "PNG"), limits):
            return made, "image/png"
        if plain.mode == "RGBA":
            white = Image.new("RGBA", plain.size, "white")
            opaque = Image.alpha_composite(white, plain).convert("RGB")
        else:
            opaque = plain
        for quality in _QUALITIES:
            if _fits(made := _written(opaque, "JPEG", quality), limits):
                return made, "image/jpeg"
        edge = max(plain.size) // 2
        if edge < _SMALLEST:
            raise Unusable("it cannot be made small enough")


def _written(image: Pillow.Image, form: str, quality: int = 0) -> bytes:
    out = io.BytesIO()
    image.save(out, form, **({"quality": quality} if form == "JPEG" else {"optimize": False}))
    return out.getvalue()


def _fits(content: bytes, limits: Limits) -> bool:
    return (len(content) + 2) // 3 * 4 <= limits.characters

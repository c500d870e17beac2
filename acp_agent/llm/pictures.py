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
from typing import TYPE_CHECKING, cast

from acp_agent.conversation.encoding import decoded, plain
from acp_agent.extras import installing
from acp_agent.frozen import frozen
from acp_agent.llm.image_files import is_whole, type_of
from acp_agent.llm.profiles import IMAGE_TYPES, ModelProfile

if TYPE_CHECKING:
    from PIL import Image as Pillow

MAX_PIXELS = 64_000_000
"""Of one image: decoded, it takes four bytes each. A small file may claim any number of them."""
_FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF")
_READ_AS_THEY_ARE = {"PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "WEBP": "image/webp"}
_QUALITIES = (85, 70, 50)
_ORIENTATION = 0x0112
_SMALLEST = 16
_DAMAGED = "it is damaged"


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


def received(data: str, mime_type: str) -> tuple[str, str]:
    """An image that has come from outside, in plain base64 and called what it is. Decodes no picture.

    :param data: base64 of any form.
    :param mime_type: what it is said to be.
    :raises Unusable: it is no image, part of it is missing, or no model reads its type.
    """
    plain, content = _decoded(data)
    kind = type_of(content)
    if kind is None or not is_whole(content, kind):
        raise _not_opened(kind, mime_type, IMAGE_TYPES)
    if kind not in IMAGE_TYPES and not can_scale():
        raise _other_type(kind)
    return plain, kind


def prepared(data: str, mime_type: str, limits: Limits) -> tuple[str, str]:
    """An image as it is sent; decodes it, so run this in a thread.

    :param data: base64 of any form.
    :param mime_type: what it is said to be.
    :returns: base64, and what it is.
    :raises Unusable: it is damaged or no image, or it is too large or of a type that the provider does not take, and
        cannot be made another.
    """
    plain, content = _decoded(data)
    if not can_scale():
        return _as_it_is(plain, content, mime_type, limits)
    try:
        image = _opened(content)
    except Unusable:
        raise
    except Exception as error:  # whatever is wrong with a file, Pillow has an exception of its own kind for it
        raise _not_opened(type_of(content), mime_type, limits.types) from error
    with image:
        try:
            found = _READ_AS_THEY_ARE.get(image.format or "", "")
            fits = found in limits.types and len(plain) <= limits.characters
            if fits and is_whole(content, found) and _is_plain(image, limits):
                image.load()  # only now it shows where a part is missing
                return plain, found
            made, kind = _made(image, limits)
        except Unusable:
            raise
        except Exception as error:
            raise Unusable(_DAMAGED) from error
    return base64.b64encode(made).decode("ascii"), kind


def _decoded(data: str) -> tuple[str, bytes]:
    """An image's data in plain base64, and its bytes."""
    data = plain(data)
    content = decoded(data)
    if content is None:
        raise Unusable("its data is no base64")
    if not content:
        raise Unusable("it is empty")
    return data, content


def _as_it_is(plain: str, content: bytes, mime_type: str, limits: Limits) -> tuple[str, str]:
    """What can be said and done without Pillow."""
    if len(plain) > limits.characters:
        least = f"larger than the {limits.characters * 3 // 4 / 1e6:.3g} MB that the model takes"
        raise Unusable(f"it is {least}; the extra `images` makes images smaller: {installing('images')}")
    kind = type_of(content)
    if kind is None or not is_whole(content, kind):
        raise _not_opened(kind, mime_type, limits.types)
    if kind not in limits.types:
        raise _other_type(kind)
    return plain, kind


def _not_opened(kind: str | None, mime_type: str, types: frozenset[str]) -> Unusable:
    if kind is not None:
        return Unusable(_DAMAGED)
    if mime_type in types:
        return Unusable(f"it is said to be {mime_type}, and is no image")
    return Unusable(f"{mime_type[:80] or 'its type'} is not a type that the model reads")


def _other_type(kind: str) -> Unusable:
    return Unusable(
        f"{kind} is not a type that the model reads; the extra `images` converts it: {installing('images')}"
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
    if upright.mode.startswith("I") or upright.mode == "F":
        upright = _in_8_bits(upright)
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


def _in_8_bits(image: Pillow.Image) -> Pillow.Image:
    """A grey image of more than 8 bits for each pixel, which Pillow would not scale: all above 255 would be white."""
    largest = max(cast("tuple[float, float]", image.getextrema()))
    if image.mode.startswith("I;16"):
        white = 65_535.0
    else:  # nothing says what is white
        white = next(
            each for each in (1.0 if image.mode == "F" else 255.0, 255.0, 65_535.0, largest) if largest <= each
        )
    scaled = image.convert("F").point(lambda value: value * (255 / white) + 0)  # pyright: ignore[reportUnknownMemberType]
    grey = scaled.convert("L")
    grey.info.pop("transparency", None)  # one of the 65,536
    return grey


def _written(image: Pillow.Image, form: str, quality: int = 0) -> bytes:
    out = io.BytesIO()
    image.save(out, form, **({"quality": quality} if form == "JPEG" else {"optimize": False}))
    return out.getvalue()


def _fits(content: bytes, limits: Limits) -> bool:
    return (len(content) + 2) // 3 * 4 <= limits.characters

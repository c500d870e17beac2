"""Images as they are sent: as they came where that is fine, and else made so that a model sees what a person sees."""

from __future__ import annotations

import base64
import json
import random
import subprocess
import sys
from io import BytesIO
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_agent.llm.pictures import Limits, Unusable, prepared
from acp_agent.llm.profiles import IMAGE_TYPES

if TYPE_CHECKING:
    from PIL import Image as Pillow
else:
    Pillow = pytest.importorskip("PIL.Image")

LIMITS = Limits(200, 400_000, IMAGE_TYPES)
RED, BLUE = (255, 0, 0), (0, 0, 255)


def encoded(image: Pillow.Image, form: str, **options: Any) -> str:
    out = BytesIO()
    image.save(out, form, **options)
    return base64.b64encode(out.getvalue()).decode()


def opened(data: str) -> Pillow.Image:
    return Pillow.open(BytesIO(base64.b64decode(data)))


def noise(width: int, height: int) -> Pillow.Image:
    return Pillow.frombytes("RGB", (width, height), random.Random(3).randbytes(width * height * 3))


def near(color: Any, other: tuple[int, int, int]) -> bool:
    return all(abs(one - two) < 60 for one, two in zip(color[:3], other, strict=True))


@given(
    st.sampled_from(["PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF"]),
    st.sampled_from(["RGB", "L", "P", "1"]),
    st.integers(1, 420),
    st.integers(1, 420),
)
@settings(max_examples=40, deadline=None)
def test_whatever_comes_in_what_goes_out_is_within_the_limits_and_the_same_each_time(
    form: str, mode: str, width: int, height: int
) -> None:
    mode = "RGB" if form in ("JPEG", "WEBP") and mode in ("P", "1") else mode
    data = encoded(Pillow.new(mode, (width, height)), form)
    sent = prepared(data, f"image/{form.lower()}", LIMITS)
    assert sent == prepared(data, "image/wrong", LIMITS)
    with opened(sent[0]) as image:
        assert max(image.size) <= LIMITS.edge
        assert len(sent[0]) <= LIMITS.characters
        assert sent[1] == f"image/{(image.format or '').lower()}"
        assert sent[1] in IMAGE_TYPES
        if max(width, height) <= LIMITS.edge:
            assert image.size == (width, height)
            assert (sent[0] == data) == (form not in ("BMP", "TIFF"))
        else:
            assert abs(image.width / image.height - width / height) < max(0.02 * width / height, 2 / image.height * 2)


def test_a_photo_that_lies_on_its_side_stands_up() -> None:
    image = Pillow.new("RGB", (100, 40), RED)
    image.paste(BLUE, (0, 0, 50, 40))
    exif = Pillow.Exif()
    exif[0x0112] = 6  # the camera was turned: the left is the top
    data, _ = prepared(encoded(image, "JPEG", exif=exif), "image/jpeg", LIMITS)
    with opened(data) as sent:
        assert sent.size == (40, 100)
        assert near(sent.getpixel((20, 10)), BLUE)
        assert near(sent.getpixel((20, 90)), RED)
        assert sent.getexif().get(0x0112, 1) == 1


def test_of_a_moving_image_the_first_picture_is_sent() -> None:
    frames = [Pillow.new("RGB", (30, 30), color) for color in (RED, BLUE)]
    for form in ("GIF", "WEBP", "PNG"):
        data = encoded(frames[0], form, save_all=True, append_images=frames[1:])
        sent, kind = prepared(data, f"image/{form.lower()}", LIMITS)
        assert kind == "image/png"
        with opened(sent) as image:
            assert getattr(image, "n_frames", 1) == 1
            assert near(image.convert("RGB").getpixel((5, 5)), RED)


def test_print_colours_become_screen_colours_and_what_shines_through_stays_or_turns_white() -> None:
    sent, kind = prepared(encoded(Pillow.new("CMYK", (30, 30), (0, 255, 255, 0)), "JPEG"), "image/jpeg", LIMITS)
    with opened(sent) as image:
        assert (image.mode, kind) == ("RGB", "image/jpeg")
        assert near(image.getpixel((5, 5)), RED)
    glass = Pillow.new("RGBA", (400, 300), (0, 0, 255, 0))
    with opened(prepared(encoded(glass, "PNG"), "image/png", LIMITS)[0]) as image:
        assert image.mode == "RGBA"
    glass = noise(190, 190).convert("RGBA")
    glass.paste((0, 0, 0, 0), (0, 0, 95, 190))
    sent, kind = prepared(encoded(glass, "PNG"), "image/png", Limits(200, 30_000, IMAGE_TYPES))
    with opened(sent) as image:
        assert (image.mode, kind) == ("RGB", "image/jpeg")
        assert near(image.getpixel((20, 20)), (255, 255, 255))


def test_an_image_of_too_many_bytes_loses_detail_and_then_size_until_it_fits() -> None:
    data = encoded(noise(200, 200), "PNG")
    sizes = []
    for characters in (200_000, 20_000, 8_000, 3_000):
        sent, kind = prepared(data, "image/png", Limits(200, characters, IMAGE_TYPES))
        assert len(sent) <= characters
        assert (kind == "image/png") == (characters > len(data))
        with opened(sent) as image:
            sizes.append(image.width)
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < 200
    with pytest.raises(Unusable, match="cannot be made small enough"):
        prepared(data, "image/png", Limits(200, 300, IMAGE_TYPES))


def test_a_small_file_that_claims_to_be_huge_is_not_decoded(capfd: pytest.CaptureFixture[str]) -> None:
    data = encoded(Pillow.new("1", (30_000, 30_000)), "PNG")
    assert len(data) < 1_000_000
    with pytest.raises(Unusable, match="30,000 x 30,000 pixels"):
        prepared(data, "image/png", LIMITS)
    assert capfd.readouterr() == ("", "")


def test_what_pillow_cannot_read_goes_on_as_it_is_where_it_may() -> None:
    junk = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(90)).decode()
    assert prepared(junk, "image/png", LIMITS) == (junk, "image/png")
    with pytest.raises(Unusable, match="image/heic is not a type"):
        prepared(junk, "image/heic", LIMITS)
    with pytest.raises(Unusable, match="no image that can be made smaller"):
        prepared(junk * 4000, "image/png", LIMITS)
    cut = base64.b64encode(base64.b64decode(encoded(noise(300, 300), "PNG"))[:9000]).decode()
    with pytest.raises(Unusable, match="damaged"):
        prepared(cut, "image/png", LIMITS)


def test_a_type_that_one_provider_does_not_take_is_made_another() -> None:
    data = encoded(Pillow.new("RGB", (30, 30), RED), "GIF")
    assert prepared(data, "image/gif", LIMITS) == (data, "image/gif")
    assert prepared(data, "image/gif", Limits(200, 9_000, IMAGE_TYPES - {"image/gif"}))[1] == "image/png"


def test_without_pillow_what_is_small_goes_on_and_what_is_not_is_refused_with_what_to_install() -> None:
    code = """
import json, sys
sys.modules["PIL"] = None
from acp_agent.llm.pictures import Limits, Unusable, prepared
limits, said = Limits(200, 400, frozenset({"image/png"})), []
for data, kind in (("AAAA", "image/png"), ("A" * 404, "image/png"), ("AAAA", "image/tiff")):
    try:
        said.append(prepared(data, kind, limits))
    except Unusable as error:
        said.append(str(error))
print(json.dumps(said))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    as_it_is, too_large, odd = json.loads(run.stdout)
    assert as_it_is == ["AAAA", "image/png"]
    assert "larger than" in too_large
    assert "pip install 'acp-agent[images]'" in too_large
    assert "image/tiff is not a type" in odd
    assert "convert it" in odd

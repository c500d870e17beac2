"""Images as they are sent: as they came where that is fine, and else made so that a
model sees what a person sees.
"""

from __future__ import annotations

import base64
import random
import struct
import subprocess
import sys
import zlib
from io import BytesIO
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.llm import pictures
from acp_agent.llm.pictures import Unusable, prepared, received
from acp_agent.llm.profiles import IMAGE_TYPES, ModelProfile
from support.pictures import BROKEN, png

if TYPE_CHECKING:
    from PIL import Image as Pillow
else:
    Pillow = pytest.importorskip("PIL.Image")


def limits(characters: int, types: frozenset[str] = IMAGE_TYPES) -> ModelProfile:
    return ModelProfile(image_edge=200, image_characters=characters, image_types=types)


LIMITS = limits(400_000)
RED = (255, 0, 0)
BLUE = (0, 0, 255)


def encoded(image: Pillow.Image, form: str, **options: Any) -> str:
    out = BytesIO()
    image.save(out, form, **options)
    return base64.b64encode(out.getvalue()).decode()


def opened(data: str) -> Pillow.Image:
    return Pillow.open(BytesIO(base64.b64decode(data)))


def noise(width: int, height: int) -> Pillow.Image:
    return Pillow.frombytes(
        "RGB", (width, height), random.Random(3).randbytes(width * height * 3)
    )


def near(color: Any, other: tuple[int, int, int]) -> bool:
    return all(abs(one - two) < 60 for one, two in zip(color[:3], other, strict=True))


@given(
    st.sampled_from(["PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF"]),
    st.sampled_from(["RGB", "L", "P", "1"]),
    st.integers(1, 420),
    st.integers(1, 420),
)
def test_whatever_comes_in_what_goes_out_is_within_the_limits_and_the_same_each_time(
    form: str, mode: str, width: int, height: int
) -> None:
    mode = "RGB" if form in ("JPEG", "WEBP") and mode in ("P", "1") else mode
    data = encoded(Pillow.new(mode, (width, height)), form)
    sent = prepared(data, f"image/{form.lower()}", LIMITS)
    assert sent == prepared(data, "image/wrong", LIMITS)
    with opened(sent[0]) as image:
        assert max(image.size) <= LIMITS.image_edge
        assert len(sent[0]) <= LIMITS.image_characters
        assert sent[1] == f"image/{(image.format or '').lower()}"
        assert sent[1] in IMAGE_TYPES
        if max(width, height) <= LIMITS.image_edge:
            assert image.size == (width, height)
            assert (sent[0] == data) == (form not in ("BMP", "TIFF"))
        else:
            factor = LIMITS.image_edge / max(width, height)
            assert all(
                abs(new - old * factor) <= 1
                for new, old in zip(image.size, (width, height), strict=True)
            )


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


def test_an_image_of_too_many_bytes_loses_detail_and_then_size_until_it_fits() -> None:
    data = encoded(noise(200, 200), "PNG")
    sizes = []
    for characters in (200_000, 20_000, 8_000, 3_000):
        sent, kind = prepared(data, "image/png", limits(characters))
        assert len(sent) <= characters
        assert (kind == "image/png") == (characters > len(data))
        with opened(sent) as image:
            sizes.append(image.width)
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < 200
    with pytest.raises(Unusable, match="cannot be made small enough"):
        prepared(data, "image/png", limits(300))


def test_a_small_file_that_claims_to_be_huge_is_not_decoded(
    capfd: pytest.CaptureFixture[str],
) -> None:
    data = encoded(Pillow.new("1", (30_000, 30_000)), "PNG")
    assert len(data) < 1_000_000
    with pytest.raises(Unusable, match="30,000 x 30,000 pixels"):
        prepared(data, "image/png", LIMITS)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("kind", BROKEN)
def test_what_is_broken_or_no_image_is_not_sent(kind: str) -> None:
    with pytest.raises(
        Unusable, match=r"not base64|damaged|declared as .* not an image|empty"
    ):
        prepared(*BROKEN[kind], LIMITS)


@pytest.mark.parametrize("form", ["PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF"])
def test_an_image_of_which_a_part_is_missing_is_not_sent_whatever_its_size(
    form: str,
) -> None:
    # The one would go through as it is, the other has to be scaled.
    for size in (
        150,
        300,
    ):
        whole = base64.b64decode(encoded(noise(size, size), form))
        for kept in (len(whole) // 2, len(whole) * 9 // 10):
            with pytest.raises(Unusable, match="damaged"):
                prepared(
                    base64.b64encode(whole[:kept]).decode(),
                    f"image/{form.lower()}",
                    LIMITS,
                )


def test_without_pillow_what_is_small_goes_on_and_what_is_not_is_refused_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pictures, "_can_scale", lambda: False)
    known = limits(4_000, frozenset({"image/png", "image/jpeg"}))
    small, large = (
        base64.b64encode(content).decode() for content in (png(), png(40, 40, seed=2))
    )
    assert (
        prepared(small, "image/jpeg", known)
        == received(small, "")
        == (small, "image/png")
    )
    with pytest.raises(Unusable, match=r"larger than .*install"):
        prepared(large, "image/png", known)
    for make in (
        lambda data: prepared(data, "", known),
        lambda data: received(data, ""),
    ):
        with pytest.raises(Unusable, match=r"image/tiff is not a type .* converts it"):
            make(encoded(Pillow.new("1", (9, 9)), "TIFF"))


_PEAK = """
import sys
from acp_agent.llm.pictures import prepared
from acp_agent.llm.profiles import ModelProfile
made, _ = prepared(sys.stdin.read(), "image/png", ModelProfile())
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_small_file_with_many_pixels_takes_little_more_memory_than_they_do() -> None:
    row = b"\0" + bytes(4 * 7_000)
    packed = zlib.compressobj(9)
    rows = b"".join(packed.compress(row) for _ in range(7_000)) + packed.flush()
    header = struct.pack(">IIBBBBB", 7_000, 7_000, 8, 6, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", rows), (b"IEND", b""))
    image = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data))
        + name
        + data
        + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )
    assert len(image) < 250_000
    ran = subprocess.run(
        [sys.executable, "-c", _PEAK],
        input=base64.b64encode(image),
        capture_output=True,
        check=True,
    )
    assert int(ran.stdout) < 400_000  # kilobytes; its pixels take 196,000

"""Files, sounds and links of a prompt that come in odd forms: what the model reads, and
what is refused.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from support.client import AgentError
from support.memory import stage
from support.models import Reply
from support.stage import Stage

SVG = "<svg xmlns='http://www.w3.org/2000/svg'><title>A lamp</title></svg>"


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def file(uri: str, content: bytes | str, kind: str | None = None) -> dict[str, Any]:
    """A file that comes along: bytes, or base64 as it stands."""
    blob = content if isinstance(content, str) else base64.b64encode(content).decode()
    return {
        "type": "resource",
        "resource": {"uri": uri, "blob": blob, **({"mimeType": kind} if kind else {})},
    }


def asked(it: Stage) -> list[dict[str, Any]]:
    """The newest message that the model was sent."""
    return it.server.calls[-1].body["messages"][-1]["content"]


async def refusal(it: Stage, block: dict[str, Any]) -> str:
    calls = len(it.server.calls)
    with pytest.raises(AgentError) as error:
        await it.prompt([text("Look: "), block])
    assert error.value.code == -32602
    assert len(it.server.calls) == calls
    return str(error.value)


@pytest.mark.parametrize("size", [1, 200], ids=["small", "stored"])
async def test_a_drawing_that_is_text_goes_to_the_model_as_text(
    tmp_path: Path, size: int
) -> None:
    svg = SVG * size
    data = base64.b64encode(svg.encode()).decode()
    image = {"type": "image", "data": data, "mimeType": "image/svg+xml"}
    uri = "file:///lamp.svg"
    blocks = [
        file(uri, data, "image/svg+xml"),
        {**image, "uri": uri},
        image,
        file("file:///x.xbm", data, "Image/X-XBM"),
    ]
    async with stage(
        tmp_path, Reply("A lamp."), Reply("It is."), dialect="anthropic"
    ) as it:
        await it.prompt([*blocks, text("What is it?")])
        words = [block["text"] for block in asked(it)]
        assert (
            words[0]
            == words[1]
            == f'<file uri="{uri}" type="image/svg+xml">\n{svg}\n</file>'
        )
        assert (
            words[2]
            == f'<file uri="attachment:image.svg" type="image/svg+xml">\n{svg}\n</file>'
        )
        assert svg in words[3]
        compressed = file(uri, b"\x1f\x8b\x08\0", "image/svg+xml")
        told = await refusal(it, compressed)
        assert "file:///lamp.svg cannot be sent to" in told
        assert "it is declared as image/svg+xml" in told
        assert "its data is not base64" in await refusal(it, {**image, "data": svg})
        await it.prompt("Sure?")
        # The answer, too.
        assert str(it.server.calls[-1].body).count("A lamp") == 4 * size + 1

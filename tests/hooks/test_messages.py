"""Messages as hooks get them, and as they give them back."""

from __future__ import annotations

import pytest

from acp_agent.conversation.messages import (
    AssistantMessage,
    Audio,
    Image,
    Message,
    Stored,
    Text,
    ToolCall,
    ToolResult,
    UserMessage,
)
from acp_agent.hooks.messages import MessageForm, as_json, conversation

KEPT = Stored("0f" * 32, 5000)
MESSAGES: list[Message] = [
    UserMessage("msg_1", (Text("Look"), Image("AAAA", "image/png"), Image(KEPT, "image/jpeg"))),
    AssistantMessage("msg_2", (ToolCall("call_1", "read", {"path": "a.png"}),)),
    ToolResult("call_1", (Text("a.png:"), Image(KEPT, "image/png"))),
]


def test_an_image_that_is_stored_elsewhere_is_handed_over_by_name_and_taken_back() -> None:
    forms = [as_json(message) for message in MESSAGES]
    assert "sha256:0f0f" in str(forms)
    back = conversation([MessageForm.model_validate(form) for form in forms], "messages")
    assert [message.parts for message in back] == [message.parts for message in MESSAGES]


@pytest.mark.parametrize("name", ["0f" * 32, "sha256:../../x", f"sha256:{'0F' * 32}"])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    source = {"type": "file", "file_id": name, "media_type": "image/png", "size": 3}
    with pytest.raises(ValueError, match="file_id"):
        MessageForm.model_validate({"role": "user", "content": [{"type": "image", "source": source}]})


def test_a_sound_is_named_and_not_handed_over() -> None:
    assert "sound (audio/wav) left out" in str(as_json(UserMessage("msg_1", (Audio("AAAA", "audio/wav"),))))

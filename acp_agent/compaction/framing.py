"""The words around a summary: what the model is asked, and how it later reads the answer.

A summary is framed as history and not as orders, since models otherwise act on it as if the user had just said it.
What the user is shown never contains this framing.
"""

from __future__ import annotations

from acp_agent.conversation.messages import Message, Text, UserMessage

_HISTORY = (
    "The earlier part of this conversation was replaced by the summary below to make room. It is a record of what "
    "happened, written by you, not a new request: do not answer it, and do not start again what it says is done. Files "
    "may have changed since; read one again before you edit it. Go on from where the conversation stands."
)
_QUOTE_LENGTH = 120


def frame_summary(summary: str) -> tuple[Text, ...]:
    """The summary as the model reads it in the new context."""
    # Text that was found in a file may have made its way into the summary; it must not be able to end the frame.
    inside = summary.replace("conversation_summary>", "conversation-summary>")
    return (Text(f"<conversation_summary>\n{_HISTORY}\n\n{inside}\n</conversation_summary>"),)


def summary_request(prompt: str, first_kept: Message | None) -> Text:
    """The last message of the summary request: the recipe's text, and where the part to be summarised ends.

    :param prompt: the rendered recipe.
    :param first_kept: the first message that stays word for word; None where all is summarised.
    """
    if first_kept is None:
        return Text(prompt)
    return Text(
        f"{prompt}\n\nSummarise only what comes before the message quoted here; it and what follows stay in the "
        f"conversation word for word and need not be repeated:\n{_quote(first_kept)}"
    )


def _quote(message: Message) -> str:
    text = next((part.text for part in message.parts if isinstance(part, Text) and part.text.strip()), "")
    first = " ".join(text.split())[:_QUOTE_LENGTH]
    role = "the user's message" if isinstance(message, UserMessage) else "your answer"
    if not first:
        return f"({role} that begins with a tool call)"
    return f'({role} that begins) "{first}"'

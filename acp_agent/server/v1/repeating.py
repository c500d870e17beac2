"""Prompts in which an editor says again what was said before.

avante sends the last five prompts each time, the newest first, each in a tag of its own, behind them a note with their
number. A session has its own memory of them; and in the tag a command would be none, and a title no title.
"""

from __future__ import annotations

import re

from acp_agent.conversation.messages import Text, UserPart

_FRAMED = re.compile(r"<previous_user_message>(.*)</previous_user_message>", re.DOTALL)
_NOTE = re.compile(
    r"<system_context>Continuing from previous session with (\d{1,3}) recent user messages</system_context>"
)


def said_now(parts: tuple[UserPart, ...], *, begun: bool) -> tuple[UserPart, ...]:
    """A prompt without what only repeats earlier ones; any other prompt as it is.

    :param begun: the session has had a prompt. Where it has not, an earlier one was said to another session, and stays.
    """
    note = _NOTE.fullmatch(parts[-1].text) if parts and isinstance(parts[-1], Text) else None
    if note is None:
        return parts
    framed = {
        at: said[1]
        for at, part in enumerate(parts)
        if isinstance(part, Text) and (said := _FRAMED.fullmatch(part.text))
    }
    if not framed or len(framed) != int(note[1]):
        return parts
    newest, *earlier = framed
    repeated = {*earlier, len(parts) - 1} if begun or not earlier else set[int]()
    return tuple(Text(framed[at]) if at == newest else part for at, part in enumerate(parts) if at not in repeated)

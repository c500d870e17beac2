"""Judge a provider's count of a request: whether it says how large the context is.

Servers count wrongly at times: gateways leave cached tokens out or add requests up, and local servers cut a request
that exceeds their window without a word, and count the rest. A false count of twice the tokens would compact a
conversation for nothing, and one that is too low would let it outgrow the window.

Source: Ollama's API reference for `/api/ps`, and its maintainers on what it cuts: of a prompt that is longer than the
window it keeps half of the window (github.com/ollama/ollama/issues/17427).
"""

from __future__ import annotations

from acp_agent.compaction.estimate import estimate_words
from acp_agent.conversation.context import Context
from acp_agent.conversation.messages import AssistantMessage, Usage
from acp_agent.frozen import frozen
from acp_agent.session.project.models import ActiveModel
from acp_agent.session.project.requests import Requests

HIGH = 1.75
"""A count of more than so many times what was expected waits for a second one like it."""
HIGH_AT_FIRST = 8
"""The same for the first count of a conversation, for which there are only our estimates: well above the ratio of any
script."""
LOW = 2
"""A count that is so many times below our estimate is not of the whole request, if that does not fit the window."""
SHORT = 1.2
"""A count that is so many times below what was expected may be of half a window."""
HALF_MARGIN = 4
"""Tokens by which what Ollama keeps may differ from half of the window."""
IMPOSSIBLE = 4
"""No tokenizer needs so many times fewer tokens than we estimate, whatever the window."""


@frozen
class Reading:
    """What to make of a count.

    :ivar doubtful: whether it contradicts what was counted before.
    :ivar notice: what to tell the user of a server that seems to cut requests.
    """

    doubtful: bool = False
    notice: str = ""


async def judge(requests: Requests, model: ActiveModel, usage: Usage, asked: Context) -> Reading:
    """Judge the usage of an answer.

    :param model: that was asked.
    :param asked: the context of the request.
    """
    counted, expected = usage.prompt_tokens, requests.used(model, asked)
    if counted * SHORT < expected:
        # Of images and reasoning, providers count as little as nothing.
        least = requests.prefix_tokens() + estimate_words(asked.messages)
        if counted * SHORT < least:
            reading = await _judge_low(requests, model, counted, least)
            if reading.doubtful:
                return reading
    most = round(expected * (HIGH if asked.baseline else HIGH_AT_FIRST))
    is_high = counted > min(most, model.budget.window)
    return Reading(is_high and not _is_confirmed(asked, counted))


async def _judge_low(requests: Requests, model: ActiveModel, counted: int, least: int) -> Reading:
    """Judge a count that is lower than it should be.

    :param least: tokens of the request, without what a provider may not count.
    """
    is_low = counted * LOW < least
    # The server has loaded the model by now.
    now = await (requests.lost_part(model.name) if is_low else requests.named(model.name))
    window = now.budget.window
    is_impossible = counted * IMPOSSIBLE < least
    is_half = not now.guessed and abs(counted - window // 2) <= HALF_MARGIN
    if is_half or (is_low and least > window) or (is_impossible and now.guessed):
        # At a provider in the cloud it is the count that is wrong.
        told = not now.guessed or model.parallel != "many"
        return Reading(True, _cut_notice(model.name, counted, least, None if now.guessed else window) if told else "")
    return Reading(is_impossible)


def _is_confirmed(asked: Context, counted: int) -> bool:
    """Return whether a count is like the doubtful one before it, so that both are believed."""
    answers = (entry.message for entry in reversed(asked.entries) if entry.seq > asked.revision)
    newest = next((answer for answer in answers if isinstance(answer, AssistantMessage)), None)
    if newest is None or newest.usage is None or not newest.doubtful:
        return False
    before = newest.usage.prompt_tokens
    return before <= counted * LOW and counted <= before * LOW


def _cut_notice(model: str, counted: int, least: int, window: int | None) -> str:
    """Return what the user is told of a server that counts far fewer tokens than a request has.

    :param window: tokens; None if it is not known.
    """
    said = f"{model} has counted {counted:,} tokens of a request of about {least:,}"
    if window is None:
        return (
            f"{said}: either the server has cut the request without saying so, or its counts are wrong. They are not "
            "used. Set `context_window` for the model in config.yaml to what the server really takes."
        )
    return (
        f"{said}: the server has cut it to the model's context window ({window:,}) without saying so, and the model "
        "has not seen the rest. From now on the conversation is compacted to fit. To keep more of it, load the model "
        "with a larger window (Ollama: `OLLAMA_CONTEXT_LENGTH`)."
    )

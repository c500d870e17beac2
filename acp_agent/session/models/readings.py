"""Decides whether a provider's token count of a request shows how large the context is.

Servers sometimes count wrongly. Gateways leave out cached tokens or add up several
requests. Local servers silently truncate a request that exceeds their window, and count
the rest. A count of twice the real tokens would compact a conversation for no reason. A
count that is too low would let the conversation outgrow the window. Until a second
count confirms such a count, it is ignored, and the last good count is used instead,
plus our estimate of what was added since. Once two refusals have contradicted the
counts of a server's answers, its low counts are ignored from then on.

Source: Ollama's API reference for `/api/ps`, and its maintainers on truncation: if a
prompt is longer than the window, Ollama keeps half a window of it
(github.com/ollama/ollama/issues/17427).
"""

from __future__ import annotations

from acp_agent.compaction.estimate import estimate_part
from acp_agent.conversation.context import Context
from acp_agent.conversation.messages import AssistantMessage, Text, ToolCall
from acp_agent.frozen import frozen
from acp_agent.llm.provider import Answered
from acp_agent.session.models.models import ActiveModel
from acp_agent.session.models.requests import Requests

HIGH = 1.75
"""A count of more than this many times the expected one is ignored until a second count
confirms it.
"""
HIGH_AT_FIRST = 8
"""Like `HIGH`, but for the first count of a conversation, when only our estimate is
known. For text in any script, the estimate is wrong by a much smaller factor.
"""
LOW = 2
"""A count this many times below our estimate misses part of the request, if the request
does not fit the window.
"""
SHORT = 1.2
"""A count this many times below the expected one may be a count of half a window."""
HALF_MARGIN = 4
"""Tokens by which a prompt truncated by Ollama may differ from half of the window."""
IMPOSSIBLE = 4
"""A count this many times below our estimate is impossible for any tokenizer, whatever
the window.
"""


@frozen
class Reading:
    """The verdict on a count.

    :ivar doubtful: whether the count contradicts what was counted before.
    :ivar notice: notice to the user if the server seems to truncate requests; else
        empty.
    """

    doubtful: bool = False
    notice: str = ""


async def judge(
    requests: Requests, model: ActiveModel, answered: Answered, asked: Context
) -> Reading:
    """Judge the usage of an answer.

    :param model: the model that answered.
    :param asked: the context of the request.
    """
    last = _last_counted(asked)
    if answered.estimated:
        # Until the provider has counted once, an estimate is better than nothing.
        return Reading(doubtful=last is not None)
    usage = answered.usage
    counted = usage.prompt_tokens
    expected = requests.used(model, asked)
    if counted * SHORT < expected:
        if requests.counts_low(model):
            return Reading(doubtful=True)
        least = requests.words(asked)
        if counted * SHORT < least:
            reading = await _judge_low(requests, model, counted, least, asked)
            if reading.doubtful:
                return reading
    most = round(expected * (HIGH if asked.baseline else HIGH_AT_FIRST))
    is_high = (
        counted > min(most, model.budget.window)
        or usage.output_tokens > model.max_output_tokens
    )
    is_low = (
        last is not None
        and last.model == model.name
        and counted < _resent_tokens(last)
        and not _repeats(last, counted)
    )
    return Reading((is_high or is_low) and not _is_confirmed(asked, counted))


def _last_counted(asked: Context) -> AssistantMessage | None:
    """Return the answer with the last good count by a provider; None if there is none
    since the last revision.
    """
    if asked.usage is None:
        return None
    for entry in reversed(asked.entries):
        message = entry.message
        if entry.seq == asked.baseline_seq and isinstance(message, AssistantMessage):
            return None if message.estimated else message
    return None


async def _judge_low(
    requests: Requests,
    model: ActiveModel,
    counted: int,
    least: int,
    asked: Context,
) -> Reading:
    """Judge a count that is lower than it should be.

    :param least: tokens of the request, without the parts that a provider may not
        count.
    :param asked: the context of the request.
    """
    is_low = counted * LOW < least
    # The server has loaded the model by now.
    now = await (
        requests.lost_part(model.name) if is_low else requests.named(model.name)
    )
    window = now.budget.window
    is_impossible = counted * IMPOSSIBLE < least
    is_half = not now.guessed and abs(counted - window // 2) <= HALF_MARGIN
    if is_half or (is_low and least > window) or (is_impossible and now.guessed):
        if is_half:
            requests.learn_cut(now, requests.estimate(asked))
        # A cloud provider does not truncate requests, so its count is wrong.
        may_cut = not now.guessed or model.parallel != "many"
        return Reading(
            True,
            _cut_notice(model.name, counted, least, None if now.guessed else window)
            if may_cut
            else "",
        )
    return Reading(is_impossible)


def _resent_tokens(answer: AssistantMessage) -> int:
    """Return the minimum number of tokens of every later request: the tokens of the
    answered request, plus those of the answer without its reasoning, which providers
    may drop.
    """
    if answer.usage is None:
        return 0
    said = sum(
        estimate_part(part)
        for part in answer.parts
        if isinstance(part, Text | ToolCall)
    )
    # Our estimate may be too high, and part of the count may be reasoning.
    kept = min(said, answer.usage.output_tokens) // 2
    return answer.usage.prompt_tokens + kept


def _repeats(answer: AssistantMessage, counted: int) -> bool:
    """Return whether a count equals an earlier one. Such a count is not below the last
    good one, so there is no reason to doubt it.
    """
    return answer.usage is not None and counted == answer.usage.prompt_tokens


def _is_confirmed(asked: Context, counted: int) -> bool:
    """Return whether a count is close to the doubtful one before it, so that both are
    accepted.
    """
    answers = (
        entry.message for entry in reversed(asked.entries) if entry.seq > asked.revision
    )
    newest = next(
        (answer for answer in answers if isinstance(answer, AssistantMessage)), None
    )
    if newest is None or newest.usage is None:
        return False
    if newest.estimated or not newest.doubtful:
        return False
    before = newest.usage.prompt_tokens
    return before <= counted * LOW and counted <= before * LOW


def _cut_notice(model: str, counted: int, least: int, window: int | None) -> str:
    """Return the notice about a server that counts far fewer tokens than a request has.

    :param window: the window in tokens; None if it is unknown.
    """
    said = f"{model} counted {counted:,} tokens for a request of about {least:,}"
    if window is None:
        return (
            f"{said}. Either the server has silently cut the request, or its counts are wrong. They are "
            "ignored. Set `context_window` for the model in config.yaml to the server's real window."
        )
    return (
        f"{said}. The server has silently cut it to the model's context window ({window:,}), so the model "
        "has not seen the rest. From now on the conversation is compacted to fit. To keep more of it, load the model "
        "with a larger window (Ollama: `OLLAMA_CONTEXT_LENGTH`)."
    )

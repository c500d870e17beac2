"""The one place where a model call is tried again.

The SDKs' own retries are off: they cannot know what has already been shown, nor say that they wait. A call is repeated
as long as none of its answer was yielded; after that a failure ends it, since a second answer would not continue the
first. Each failure leaves a line in the log. Knows no provider; `failures` knows what a failure means.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from email.utils import parsedate_to_datetime

import anyio

from acp_agent.errors import ModelError
from acp_agent.frozen import frozen
from acp_agent.llm.failures import CallFailed, Endpoint, error_of, logged, reason, unexplained, verdict
from acp_agent.llm.provider import Answered, ModelEvent, Resent, Retrying

_log = logging.getLogger(__name__)

READ_TIMEOUT = 600.0
"""Seconds that a provider may be silent, also before its answer begins.

Models that think send nothing for minutes, local servers send no header before they have read the prompt, and hosted
ones may take as long for a large prompt that is in no cache: no shorter limit tells them from a server that hangs. A
host that takes connections but does not speak TLS is found out by `RetryPolicy.connection`, and so is a proxy that
takes them and says nothing.
"""


@frozen
class RetryPolicy:
    """How often and how long; times in seconds.

    :ivar attempts: tries of one call in all.
    :ivar unexplained: tries that may end with an error event which does not tell whether it passes.
    :ivar base: the first wait; each one after it is twice as long.
    :ivar longest: the longest wait of our own choice.
    :ivar longest_asked: the longest wait that a provider may ask for; a longer one ends the call.
    :ivar connection: the longest time until a connection stands, the proxy's answer and TLS included; half of it for
        the TCP connection alone, and for TLS alone.
    :ivar connect_attempts: tries while no connection is made at all.
    :ivar connect_limit: after so long without a connection, or with connections that are closed at once without a byte
        of an answer, it is given up.
    """

    attempts: int = 7
    unexplained: int = 3
    base: float = 0.5
    longest: float = 20.0
    longest_asked: float = 90.0
    connection: float = 8.0
    connect_attempts: int = 3
    connect_limit: float = 11.0

    def delay(self, failed: int) -> float:
        """Seconds to wait after so many failures; up to a quarter shorter by chance, so that clients spread out."""
        return min(self.longest, self.base * 2 ** (failed - 1)) * random.uniform(0.75, 1.0)


DEFAULT_POLICY = RetryPolicy()


async def with_retries(
    attempt: Callable[[], AsyncGenerator[ModelEvent, None]], endpoint: Endpoint, policy: RetryPolicy
) -> AsyncGenerator[ModelEvent, None]:
    """Run attempts until one succeeds; yields `Retrying` before each wait.

    :param attempt: makes the generator of one call, which raises `CallFailed` and closes its connection when closed.
    :raises ModelError: which one, see `Provider.stream`.
    """
    failed = puzzling = 0
    began = time.monotonic()
    while True:
        shown = False
        tried = time.monotonic()
        try:
            async with aclosing(attempt()) as events:
                async for event in events:
                    shown = shown or not isinstance(event, Answered | Resent)
                    yield event
                if failed:
                    _log.info("%s (%s) answered attempt %d", endpoint.name, endpoint.host, failed + 1)
                return
        except CallFailed as failure:
            failed += 1
            puzzling += unexplained(failure)
            now = time.monotonic()
            who = (endpoint.name, endpoint.host, failed, now - tried, logged(failure, endpoint.secrets))
            try:
                delay = _delay(
                    failure,
                    endpoint,
                    policy,
                    failed=failed,
                    last=failed >= policy.attempts or puzzling >= policy.unexplained,
                    shown=shown,
                    took=now - tried,
                    elapsed=now - began,
                )
            except ModelError as error:
                how = "in mid-answer" if shown else "given up"
                _log.warning("%s (%s): attempt %d failed after %.1f s: %s; %s: %s", *who, how, type(error).__name__)
                raise
            _log.info("%s (%s): attempt %d failed after %.1f s: %s; trying again in %.1f s", *who, delay)
            again = Retrying(f"{endpoint.name}: {reason(failure)}", delay, failed, failure.status is not None)
        yield again
        await anyio.sleep(delay)


def _delay(
    failure: CallFailed,
    endpoint: Endpoint,
    policy: RetryPolicy,
    *,
    failed: int,
    last: bool,
    shown: bool,
    took: float,
    elapsed: float,
) -> float:
    """Seconds until the next try; raises where there is none.

    :param last: whether there were as many tries as there may be.
    :param took: seconds of the failed try.
    :param elapsed: seconds since the first try began.
    """
    kind = verdict(failure)
    if shown or kind not in ("again", "unreachable"):
        raise error_of(failure, endpoint, shown=shown) from failure
    delay = policy.delay(failed)
    if kind == "unreachable":
        if failed >= policy.connect_attempts or elapsed + delay + policy.connection > policy.connect_limit:
            raise error_of(failure, endpoint, shown=False) from failure
        return delay
    # A server that held the request for longer than that before it hung up is there, and had something to do.
    hung_up = failure.kind == "unanswered" and took < policy.connect_limit and elapsed + delay > policy.connect_limit
    if hung_up or last:
        raise error_of(failure, endpoint, shown=False) from failure
    asked = wait_asked_for(failure.headers, time.time())
    if asked is not None and asked > policy.longest_asked:
        raise error_of(failure, endpoint, shown=False, waited=asked) from failure
    return delay if asked is None else asked + delay * 0.1


def wait_asked_for(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds that the provider asks us to wait, from `retry-after-ms` or `retry-after` (seconds or a date).

    :param now: seconds since the epoch.
    """
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("retry-after", "")
    seconds = _number(text)
    if seconds is not None or not text:
        return seconds
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - now)
    except (ValueError, TypeError, OverflowError):
        return None


def _number(text: str) -> float | None:
    """A finite number of at least 0."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None

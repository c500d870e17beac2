"""Retries of failed model calls.

The SDKs' own retries are off: they cannot know what has already been shown, nor say that they wait. A call is repeated
as long as none of its answer was yielded; after that a failure ends it, since a second answer would not continue the
first. Each failure leaves a line in the log.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Mapping
from contextlib import suppress

from acp_agent.frozen import frozen
from acp_agent.llm.errors import CallFailed, error_of, logged, reason, verdict
from acp_agent.llm.places import Endpoint
from acp_agent.llm.provider import Retrying

_LONGEST_WAIT = 20.0
"""Seconds, of our own choice."""
_LONGEST_ASKED = 90.0
"""Seconds that a provider may ask to wait; a longer wait ends the call."""

_log = logging.getLogger(__name__)


@frozen
class RetryPolicy:
    """How often and how soon.

    :ivar attempts: tries of one call in all.
    :ivar connect_attempts: tries while no connection is made at all.
    :ivar base: seconds of the first wait; each one after it is twice as long.
    """

    attempts: int = 7
    connect_attempts: int = 3
    base: float = 0.5

    def delay(self, failed: int) -> float:
        """Return the seconds to wait after so many failures; up to a quarter shorter by chance, so that clients spread
        out."""
        return min(_LONGEST_WAIT, self.base * 2 ** (failed - 1)) * random.uniform(0.75, 1.0)


DEFAULT_POLICY = RetryPolicy()


class Retries:
    """The tries of one call."""

    def __init__(self, endpoint: Endpoint, policy: RetryPolicy) -> None:
        self._endpoint = endpoint
        self._policy = policy
        self._failed = 0
        self._tried = time.monotonic()

    def answered(self) -> None:
        """Note that a try brought the whole answer."""
        if self._failed:
            _log.info("%s (%s) answered attempt %d", self._endpoint.name, self._endpoint.host, self._failed + 1)

    def after(self, failure: CallFailed, *, shown: bool) -> Retrying:
        """Return when to try again after a failure.

        :param shown: whether part of the answer was yielded.
        :raises ModelError: nothing is tried any more.
        """
        self._failed += 1
        name, policy = self._endpoint.name, self._policy
        said = logged(failure, self._endpoint.secrets)
        who = (name, self._endpoint.host, self._failed, time.monotonic() - self._tried, said)
        asked = wait_asked_for(failure.headers)
        waited = asked if asked is not None and asked > _LONGEST_ASKED else None
        most = {"again": policy.attempts, "unreachable": policy.connect_attempts}.get(verdict(failure), 0)
        if shown or self._failed >= most or waited is not None:
            error = error_of(failure, self._endpoint, shown=shown, waited=waited)
            how = "in mid-answer" if shown else "given up"
            _log.warning("%s (%s): attempt %d failed after %.1f s: %s; %s: %s", *who, how, type(error).__name__)
            raise error from failure
        delay = policy.delay(self._failed)
        delay = delay if asked is None else asked + delay * 0.1
        _log.info("%s (%s): attempt %d failed after %.1f s: %s; trying again in %.1f s", *who, delay)
        self._tried = time.monotonic() + delay
        return Retrying(f"{name}: {reason(failure)}", delay, self._failed, failure.status is not None)


def wait_asked_for(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that the provider asks us to wait, from `retry-after-ms` or `retry-after`, as a number."""
    for name, unit in (("retry-after-ms", 1_000), ("retry-after", 1)):
        with suppress(ValueError):
            if 0 <= (seconds := float(headers.get(name, "")) / unit) < float("inf"):
                return seconds
    return None

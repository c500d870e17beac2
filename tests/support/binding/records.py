"""What the checks found in the calls, for the assertions of a test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Api = Literal["messages", "responses", "chat"]
Outcome = Literal["refused", "dropped", "allowed"]


@dataclass(frozen=True, slots=True)
class Violation:
    """One piece of reasoning that was sent back in a request it does not fit.

    :ivar call: number of the call in `server.calls`, from 1; 0 for a count of tokens.
    :ivar first: what differed first, in words.
    :ivar path: of the block in the request; for OpenAI the id of the item.
    :ivar reason: the provider's word for it, such as `prefix_binding_mismatch`;
        "invalid" if the server did not make the block.
    :ivar outcome: what became of it. An `allowed` block reached the model.
    """

    call: int
    api: Api
    model: str
    first: str
    path: str
    reason: str
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Refused:
    """One call that was answered with an error.

    :ivar code: `error.details.error_code` of Anthropic, `error.code` of OpenAI.
    """

    call: int
    api: Api
    status: int
    message: str
    code: str | None = None


@dataclass(frozen=True, slots=True)
class Cached:
    """What a prompt cache would have read of one call, in tokens.

    :ivar read: those of the longest beginning that an earlier call of the same model
        had too.
    :ivar fresh: the others.
    """

    call: int
    read: int
    fresh: int

    @property
    def share(self) -> float:
        return self.read / max(1, self.read + self.fresh)


class RejectedError(Exception):
    """A request is refused.

    :ivar violation: the block it is refused for, if it is for one.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        violation: Violation | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.param = param
        self.violation = violation

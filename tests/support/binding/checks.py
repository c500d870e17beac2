"""Puts the checks between the model server and the dialects that it speaks."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any, Protocol

from support.binding.chat import ChatChecks
from support.binding.messages import MessagesChecks
from support.binding.pieces import PromptCache
from support.binding.records import Api, Cached, Refused, RejectedError, Violation
from support.binding.responses import ResponsesChecks
from support.binding.settings import Binding
from support.dialects import Dialect, Refusal
from support.replies import Event, Reply

APIS: dict[str, Api] = {
    "/v1/messages": "messages",
    "/v1/responses": "responses",
    "/v1/responses/compact": "responses",
}


class Examined(Protocol):
    """A request that passed, and what its answer needs."""

    def sealed(self, reply: Reply, number: int) -> Reply: ...
    def reported_in(self, data: dict[str, Any]) -> dict[str, Any]: ...


class Checks:
    """The checks of all three APIs, with what they found."""

    def __init__(self, binding: Binding) -> None:
        self.binding = binding
        self.violations: list[Violation] = []
        self.refusals: list[Refused] = []
        self._cache = PromptCache()
        self._messages = MessagesChecks(binding, self._cache, self.violations)
        self._responses = ResponsesChecks(binding, self._cache, self.violations)
        self._chat = ChatChecks(binding, self._cache, self.violations)

    @property
    def cached(self) -> list[Cached]:
        return self._cache.calls

    def dialect(self, plain: Dialect, path: str, number: int) -> Dialect:
        """Return the dialect for one call, with the checks in it.

        :param plain: what the path speaks.
        """
        call = _Call(self, plain, path, number)
        return replace(
            plain, problem=call.problem, events=call.events, whole=call.whole
        )

    def examine(
        self, path: str, body: Mapping[str, Any], betas: str, number: int
    ) -> Examined:
        match path:
            case "/v1/messages":
                return self._messages.examine(body, _names(betas), number)
            case "/v1/responses":
                return self._responses.examine(body, number, compacts=False)
            case "/v1/responses/compact":
                return self._responses.examine(body, number, compacts=True)
            case _:
                return self._chat.examine(body, number)

    def count_problem(
        self, plain: Dialect, body: Mapping[str, Any], betas: str
    ) -> Refusal | None:
        """Return the refusal of a count of tokens by Anthropic."""
        try:
            self._messages.count(body, _names(betas))
        except RejectedError as error:
            return self.refusal(plain, "messages", error, 0)
        return None

    def refusal(
        self, plain: Dialect, api: Api, error: RejectedError, number: int
    ) -> Refusal:
        """Note a refusal, and return it in the dialect's words."""
        if error.violation is not None:
            self.violations.append(error.violation)
        self.refusals.append(Refused(number, api, 400, error.message, error.code))
        body = plain.error(400, error.message)
        if api == "messages":
            body["error"] |= (
                {"details": {"error_code": error.code}} if error.code else {}
            )
        elif isinstance(body, dict):
            body["error"] |= {"param": error.param, "code": error.code}
        return 400, body


class _Call:
    """One call: examined once, then answered."""

    def __init__(self, checks: Checks, plain: Dialect, path: str, number: int) -> None:
        self._checks = checks
        self._plain = plain
        self._path = path
        self._number = number
        self._examined: Examined | None = None

    def problem(self, body: Any, betas: str) -> Refusal | None:
        if self._path == "/v1/responses/compact" and (
            refusal := self._plain.problem({**body, "input": []}, betas)
        ):
            return refusal  # for a parameter that it does not have
        try:
            self._examined = self._checks.examine(self._path, body, betas, self._number)
        except RejectedError as error:
            return self._checks.refusal(
                self._plain, APIS.get(self._path, "chat"), error, self._number
            )
        return None

    def events(self, reply: Reply, body: Any, number: int) -> Iterator[Event]:
        examined = self._passed()
        for event in self._plain.events(examined.sealed(reply, number), body, number):
            yield (
                event
                if isinstance(event.data, str)
                else replace(event, data=examined.reported_in(dict(event.data)))
            )

    def whole(self, reply: Reply, body: Any, number: int) -> dict[str, Any]:
        examined = self._passed()
        return examined.reported_in(
            self._plain.whole(examined.sealed(reply, number), body, number)
        )

    def _passed(self) -> Examined:
        assert self._examined is not None, "a call is examined before it is answered"
        return self._examined


def _names(betas: str) -> Collection[str]:
    return {name.strip() for name in betas.split(",")}

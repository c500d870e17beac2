"""A model server on the loopback interface that plays a script to the real SDKs.

    async with model_server([Reply(tool_calls=[ToolCall("read", {"path": "a.py"})]), Reply("Done.")]) as server:
        async with connected_agent(home=tmp_path, env=server.env()) as agent:
            await agent.prompt(await agent.new_session(repo.path), "Read a.py")
        assert [call.body["model"] for call in server.calls] == ["claude-test", "claude-test"]

    def answer(request: dict) -> Reply: ...                        # instead of a list: sees each call's JSON
    model_server(answer, dialect="openai", context_window=50_000)

Speaks Anthropic Messages, OpenAI Responses and Chat Completions, all at once by path,
with token counts, models and Ollama's list of tags; `dialect` only says what `env()`
and `model` stand for. A call with no reply left gets status 400 and fails the test at
the end. When a client hangs up in mid-answer, `server.wait_aborted()` returns.

    model_server([...], dialect="google")                          # Chat Completions at Gemini's path, with its errors
    model_server([...], max_prompt_tokens=2_000)                   # longer requests are refused in the dialect's words

A request for a compaction (`compaction` in a body for `/v1/messages`;
`/v1/responses/compact`) is a call like others: the text of its reply is the summary,
and a reply without text makes none (nor one with another stop, with Anthropic). What is
sent back of a compaction is checked as the APIs check it: header, place and signature
with Anthropic, the seal with OpenAI. Refused calls take no reply from the script.

    model_server(script, binding=Binding(account="new"))           # reasoning is bound
    to the conversation

With a `Binding` (see `support.binding`) the server signs reasoning, and checks what
comes back of it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import anyio

from support import dialect_anthropic, dialect_openai
from support.binding import Binding, Cached, Refused, Violation
from support.binding.checks import Checks
from support.binding.settings import MODELS as BOUND_MODELS
from support.binding.settings import OFFERED
from support.dialects import ANTHROPIC, CALLS, GOOGLE_PATH, RESPONSES, Dialect, Refusal
from support.http_server import Exchange, Request, http_server
from support.replies import BEFORE_HEADERS, Reply, ToolCall, Usage
from support.waiting import Changes

__all__ = [
    "BEFORE_HEADERS",
    "Binding",
    "ModelServer",
    "Reply",
    "Request",
    "ToolCall",
    "Usage",
    "model_server",
]

KEY = "test-key"
DialectName = Literal["anthropic", "openai", "chat", "google", "ollama"]
Script = Iterable[Reply] | Callable[[dict[str, Any]], Reply]
MODELS: dict[DialectName, str] = {
    "anthropic": "claude-test",
    "openai": "gpt-test",
    "chat": "chat-test",
    "google": "gemini-test",
    "ollama": "llama-test",
}
PROVIDERS: dict[DialectName, str] = {
    "anthropic": "anthropic",
    "openai": "openai",
    "chat": "local",
    "google": "google",
    "ollama": "ollama",
}


class ModelServer:
    """The script and what was asked; made by `model_server`.

    :ivar requests: every HTTP request, also for models and token counts, in order of
        arrival.
    :ivar calls: those which asked a model to answer, in order of arrival.
    :ivar windows: context window in tokens by model; a model that is not here is
        unknown to `GET /v1/models/{id}`.
    :ivar max_prompt_tokens: longer calls are refused without taking a reply from the
        script; None lets all pass.
    :ivar key: every other key is refused by Anthropic's and OpenAI's paths; None lets
        all pass.
    :ivar binding: the settings of the checks of reasoning; None checks nothing.
    """

    def __init__(
        self,
        script: Script,
        dialect: DialectName,
        context_window: int | None,
        max_prompt_tokens: int | None = None,
        binding: Binding | None = None,
    ) -> None:
        self.dialect: DialectName = dialect
        self.base_url = ""
        self.key: str | None = KEY
        self.requests: list[Request] = []
        self.calls: list[Request] = []
        self.max_prompt_tokens = max_prompt_tokens
        names = [
            name
            for kind, name in MODELS.items()
            if kind != "google" or dialect == "google"
        ]
        self.windows: dict[str, int | None] = dict.fromkeys(names, context_window)
        self.binding = binding
        self._checks: Checks | None = None
        if binding is not None:
            self._checks = Checks(binding)
            self.windows |= dict.fromkeys(OFFERED, context_window)
        self.problems: list[str] = []
        self._answer = script if callable(script) else None
        self._replies: list[Reply] = [] if callable(script) else list(script)
        self._changes = Changes()
        self._held = 0

    @property
    def model(self) -> str:
        """`provider/model`, for `ACP_AGENT_MODEL`."""
        return self._model_of(self.dialect)

    @property
    def violations(self) -> list[Violation]:
        """The pieces of reasoning that came back where they do not belong."""
        return self._found.violations

    @property
    def refusals(self) -> list[Refused]:
        """The calls that the checks refused, for reasoning or for anything else."""
        return self._found.refusals

    @property
    def cached(self) -> list[Cached]:
        """What a prompt cache would have read of each call that was not refused."""
        return self._found.cached

    @property
    def _found(self) -> Checks:
        assert self._checks is not None, "the server was started without a binding"
        return self._checks

    def _model_of(self, dialect: DialectName) -> str:
        name = MODELS[dialect]
        if self.binding is not None:
            name = self.binding.model or BOUND_MODELS.get(dialect, name)
        return f"{PROVIDERS[dialect]}/{name}"

    def env(self, dialect: DialectName | None = None) -> dict[str, str]:
        """The environment that sends an agent here; `chat`, `google` and `ollama` need
        `write_config` as well.
        """
        dialect = dialect or self.dialect
        env = {"ACP_AGENT_MODEL": self._model_of(dialect)}
        if dialect == "anthropic":
            return env | {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": self.base_url}
        if dialect == "openai":
            return env | {
                "OPENAI_API_KEY": KEY,
                "OPENAI_BASE_URL": f"{self.base_url}/v1",
            }
        return env | {"GEMINI_API_KEY" if dialect == "google" else "LOCAL_API_KEY": KEY}

    def write_config(self, home: Path, more: Mapping[str, Any] | None = None) -> Path:
        """Write the agent's `config.yaml` with this server as the provider `local`, and
        as `ollama`.

        :param home: what `start_agent` is given as `home`.
        :param more: further top-level keys.
        """
        url = f"{self.base_url}/v1"
        local = {"kind": "openai-chat", "base_url": url, "api_key_env": "LOCAL_API_KEY"}
        path = home / "state" / "config.yaml"
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        providers: dict[str, Any] = {"local": local, "ollama": {"base_url": url}}
        if self.dialect == "google":
            providers["google"] = {"base_url": f"{self.base_url}{GOOGLE_PATH}/"}
        config = {"providers": providers, **(more or {})}
        path.write_text(json.dumps(config, indent=2))  # JSON is YAML
        return path

    def add(self, *replies: Reply) -> None:
        self._replies += replies

    @property
    def remaining(self) -> int:
        return len(self._replies)

    async def wait_calls(self, count: int, timeout: float = 5) -> Request:
        """Wait until so many model calls have arrived, and return the last of these."""
        await self._until(
            lambda: len(self.calls) >= count, timeout, f"{count} model calls"
        )
        return self.calls[count - 1]

    async def wait_held(self, count: int = 1, timeout: float = 5) -> None:
        """Wait until so many replies have reached their `hold` or `hang`, counted from
        the server's start.
        """
        await self._until(lambda: self._held >= count, timeout, f"{count} held replies")

    async def wait_aborted(self, count: int = 1) -> None:
        await self._until(
            lambda: sum(call.aborted for call in self.calls) >= count,
            5,
            f"{count} aborted calls",
        )

    async def wait_finished(self, count: int = 1, timeout: float = 5) -> None:
        await self._until(
            lambda: sum(call.finished for call in self.calls) >= count,
            timeout,
            f"{count} whole answers",
        )

    async def _until(self, look: Callable[[], bool], timeout: float, what: str) -> None:
        def describe() -> str:
            seen = [
                f"{r.method} {r.path} finished={r.finished} aborted={r.aborted}"
                for r in self.requests
            ]
            return "\n".join([what, *seen[-20:]])

        await self._changes.until(look, timeout, describe)

    async def serve(self, exchange: Exchange) -> None:
        request = exchange.request
        request.on_end = self._changes.notify
        self.requests.append(request)
        dialect = CALLS.get(request.path) if request.method == "POST" else None
        if not self._admitted(request):
            await exchange.respond(401, self._error(request)(401, "invalid x-api-key"))
        elif dialect is not None:
            self.calls.append(request)
            self._changes.notify()
            if self._checks is not None:
                dialect = self._checks.dialect(dialect, request.path, len(self.calls))
            if refusal := self._refusal(request, dialect):
                await exchange.respond(*refusal)
            else:
                await self._play(exchange, dialect)
        else:
            self._changes.notify()
            await self._inform(exchange)

    def _refusal(self, request: Request, dialect: Dialect) -> Refusal | None:
        tokens = sum(len(text) for text in request.strings()) // 4
        if self.max_prompt_tokens is not None and tokens > self.max_prompt_tokens:
            return dialect.overflow(tokens, self.max_prompt_tokens)
        return dialect.problem(request.body, request.headers.get("anthropic-beta", ""))

    def _admitted(self, request: Request) -> bool:
        if (
            self.key is None
            or request.path == "/v1/chat/completions"
            or not request.path.startswith("/v1/")
        ):
            return True
        offered = request.headers.get("x-api-key") or request.headers.get(
            "authorization", ""
        ).removeprefix("Bearer ")
        return offered == self.key or (
            request.path == "/v1/models" and self.dialect in ("chat", "ollama")
        )

    def _error(self, request: Request) -> Callable[[int, str], Any]:
        return (
            CALLS[request.path].error
            if request.path in CALLS
            else self._dialect_of(request).error
        )

    def _dialect_of(self, request: Request) -> Dialect:
        return ANTHROPIC if "anthropic-version" in request.headers else RESPONSES

    def _next_reply(self, request: Request) -> Reply:
        if self._answer is not None:
            try:
                return self._answer(request.body)
            except Exception as error:  # the client would only see a cut connection
                return self._fail(f"the script raised {error!r}")
        if self._replies:
            return self._replies.pop(0)
        return self._fail(
            f"no reply is left for model call {len(self.calls)}: {json.dumps(request.body)[-1500:]}"
        )

    def _fail(self, problem: str) -> Reply:
        self.problems.append(problem)
        return Reply(
            http_status=400,
            body={"error": {"type": "invalid_request_error", "message": problem[:200]}},
        )

    async def _play(self, exchange: Exchange, dialect: Dialect) -> None:
        request = exchange.request
        number = len(self.calls)
        reply = self._next_reply(request)
        if reply.hold_after == BEFORE_HEADERS:
            await self._hold(reply)
        if reply.drop_after == BEFORE_HEADERS:
            exchange.hang_up()
        elif reply.http_status != 200:
            body = (
                dialect.error(reply.http_status, "as scripted")
                if reply.body is None
                else reply.body
            )
            await exchange.respond(reply.http_status, body, reply.headers)
        elif reply.body is not None:
            await exchange.respond(200, reply.body, reply.headers)
        elif not request.body.get("stream"):
            await exchange.respond(
                200, dialect.whole(reply, request.body, number), reply.headers
            )
        else:
            await self._stream(exchange, dialect, reply, number)

    async def _stream(
        self, exchange: Exchange, dialect: Dialect, reply: Reply, number: int
    ) -> None:
        await exchange.start(headers=reply.headers)
        deltas = 0
        # What happens after N deltas happens before the next one, or before the
        # stream's end where none follows.
        for event in [*dialect.events(reply, exchange.request.body, number), None]:
            if event is None or event.delta:
                if deltas == reply.hold_after:
                    await self._hold(reply)
                if reply.hang:
                    self._held += 1
                    self._changes.notify()
                    await anyio.sleep_forever()
                if deltas == reply.drop_after:
                    exchange.hang_up()
                    return
                if reply.sse_error is not None and deltas == reply.fail_after:
                    await exchange.send(
                        dialect.error_event(reply.sse_error, number).encode()
                    )
                    await exchange.end()
                    return
            if event is not None:
                if event.delta:
                    deltas += 1
                    await anyio.sleep(reply.delay)
                await exchange.send(event.encode())
        await exchange.end()

    async def _hold(self, reply: Reply) -> None:
        if reply.hold is not None:
            self._held += 1
            self._changes.notify()
            await reply.hold.wait()

    async def _inform(self, exchange: Exchange) -> None:
        request = exchange.request
        what = (request.method, request.path)
        anthropic = "anthropic-version" in request.headers
        if what == ("POST", "/v1/messages/count_tokens"):
            betas = request.headers.get("anthropic-beta", "")
            if self._checks and (
                refusal := self._checks.count_problem(ANTHROPIC, request.body, betas)
            ):
                await exchange.respond(*refusal)
                return
            await exchange.respond(
                200, {"input_tokens": len(json.dumps(request.body)) // 4}
            )
        elif what == ("POST", "/v1/responses/input_tokens"):
            tokens = len(json.dumps(request.body)) // 4
            await exchange.respond(
                200, {"object": "response.input_tokens", "input_tokens": tokens}
            )
        elif what in {("GET", "/v1/models"), ("GET", f"{GOOGLE_PATH}/models")}:
            models = [self._model(name, anthropic) for name in self.windows]
            page = (
                {"has_more": False, "first_id": None, "last_id": None}
                if anthropic
                else {"object": "list"}
            )
            await exchange.respond(200, {"data": models, **page})
        elif (
            what[0] == "GET"
            and (name := request.path.removeprefix("/v1/models/")) in self.windows
        ):
            await exchange.respond(200, self._model(name, anthropic))
        elif what == ("GET", "/api/version"):
            await exchange.respond(200, {"version": "0.14.0"})
        elif what == ("GET", "/api/tags"):
            await exchange.respond(
                200,
                {"models": [{"name": name, "model": name} for name in self.windows]},
            )
        elif what == ("POST", "/api/show"):
            window = self.windows.get(str((request.body or {}).get("model")))
            info = {"general.architecture": "llama", "llama.context_length": window}
            await exchange.respond(200, {"model_info": info})
        else:
            await exchange.respond(
                404, self._dialect_of(request).error(404, f"no {request.path} here")
            )

    def _model(self, name: str, anthropic: bool) -> dict[str, Any]:
        return (
            dialect_anthropic.model(name, self.windows[name])
            if anthropic
            else dialect_openai.model(name)
        )


@asynccontextmanager
async def model_server(
    script: Script = (),
    dialect: DialectName = "anthropic",
    *,
    context_window: int | None = 200_000,
    max_prompt_tokens: int | None = None,
    binding: Binding | None = None,
) -> AsyncGenerator[ModelServer, None]:
    """Serve a script until the block ends.

    :param script: replies in the order of the model calls, or a function from a call's
        JSON to its reply.
    :param context_window: tokens that the models say they take; None says nothing.
    :param max_prompt_tokens: tokens that they really take, a quarter of the characters
        of all strings in the body.
    :param binding: how reasoning is checked that comes back; None checks nothing.
    :raises AssertionError: at the end, when a call found no reply, unless the body of
        the `async with` raised already.
    """
    server = ModelServer(script, dialect, context_window, max_prompt_tokens, binding)
    async with http_server(server.serve) as server.base_url:
        try:
            yield server
        except BaseException as error:
            for problem in server.problems:
                error.add_note(f"model server: {problem}")
            raise
    assert not server.problems, "\n".join(server.problems)


def base_urls(env: Mapping[str, str]) -> dict[str, str]:
    """What of an environment leads to the server, without the key."""
    return {name: value for name, value in env.items() if not name.endswith("_API_KEY")}

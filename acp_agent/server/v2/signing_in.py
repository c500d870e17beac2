"""Signing in by a page on this machine, where a provider's key is entered, so that neither the client nor the wire ever
has it: the client sends the user there.

The question belongs to the request that signs in, and to no session. ACP v2, "Authentication"; "Elicitation".
"""

from __future__ import annotations

from html import escape
from urllib.parse import parse_qs

import anyio
from anyio.abc import SocketStream

from acp_agent.conversation.messages import new_id
from acp_agent.errors import AgentError, ModelAuthError, sentence
from acp_agent.jsonrpc.messages import RequestId, RpcError
from acp_agent.jsonrpc.peer import Peer
from acp_agent.protocol.v1 import requests as first_requests
from acp_agent.protocol.v2 import methods, requests
from acp_agent.server.loopback import Asked, respond, serve
from acp_agent.session.accounts import Accounts

PAGE_SECONDS = 900.0
"""How long the page is there for who was sent to it."""
_ELSEWHERE = "Nothing was stored. Try again, or run `acp-agent login` in a terminal."
_POLICY = "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'"
_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>acp-agent: a provider's key</title><style>
body {{ font: 1rem/1.5 system-ui, sans-serif; margin: 3rem auto; max-width: 32rem; padding: 0 1rem; }}
label, select, input, button {{ display: block; font: inherit; margin-top: .5rem; }}
input, select {{ box-sizing: border-box; padding: .3rem; width: 100%; }}
:root {{ color-scheme: light dark; }}
</style></head><body><h1>A provider's key</h1>{body}</body></html>
"""
_FORM = """{told}<form method="post" autocomplete="off">
<label for="provider">Provider</label><select id="provider" name="provider">{options}</select>
<label for="key">Key</label><input id="key" name="key" type="password" required autofocus>
<button>Try it and store it</button></form>
<p>The agent keeps it on this machine. The editor does not get it.</p>"""


async def sign_in(peer: Peer, request_id: RequestId, accounts: Accounts) -> None:
    """Have a key entered, tried and stored.

    :param request_id: of the request that wants it, which is not answered yet.
    :raises AgentError: none was; or there is nothing that wants one.
    :raises RpcError: the client could not ask.
    """
    providers = await accounts.to_sign_in()
    if not providers:
        raise ModelAuthError("No provider that is configured wants a key.")
    page, link_id = _KeyPage(accounts, providers), new_id("elicit")
    ended = anyio.Event()
    failure: AgentError | RpcError | None = None

    async def ask(url: str) -> None:
        nonlocal failure
        from acp_agent.protocol.v1 import CreateElicitationResponse
        from acp_agent.protocol.wire import parse_result

        message = "Enter a provider's key for acp-agent on this page. It is kept on this machine."
        try:
            wire = await peer.request(
                methods.ELICITATION_CREATE, requests.url_elicitation(request_id, message, url, link_id)
            )
            answer = parse_result(CreateElicitationResponse, wire, methods.ELICITATION_CREATE)
        except RpcError as error:
            failure = ModelAuthError(f"The page for the key could not be opened. {sentence(error)} {_ELSEWHERE}")
        else:
            if answer.action == "accept":
                return  # which says that the page was opened, and nothing else
            failure = ModelAuthError(f"No key was entered. {_ELSEWHERE}")
        ended.set()

    async with anyio.create_task_group() as tasks:
        url = await tasks.start(serve, "127.0.0.1", 0, page.answer)
        tasks.start_soon(ask, url)
        tasks.start_soon(_then, page.stored, ended)
        with anyio.move_on_after(PAGE_SECONDS):
            await ended.wait()
        tasks.cancel_scope.cancel()
    if not page.stored.is_set():
        raise failure or ModelAuthError(f"No key was entered in {PAGE_SECONDS / 60:g} minutes. {_ELSEWHERE}")
    await peer.notify(methods.ELICITATION_COMPLETE, first_requests.complete_elicitation(link_id))


async def _then(event: anyio.Event, other: anyio.Event) -> None:
    await event.wait()
    other.set()


class _KeyPage:
    """A form until a key is stored.

    :ivar stored: one is, and the page says so.
    """

    def __init__(self, accounts: Accounts, providers: tuple[str, ...]) -> None:
        self._accounts = accounts
        self._providers = providers
        self._trying = anyio.Lock()
        self.stored = anyio.Event()

    async def answer(self, stream: SocketStream, asked: Asked) -> None:
        """Answer one request."""
        if asked.name:
            await respond(stream, "404 Not Found", "text/plain", "There is no such page.\n")
        elif asked.method == "GET":
            await self._show(stream, "200 OK", self._form())
        elif asked.method == "POST":
            await self._take(stream, asked.body)
        else:
            await respond(stream, "405 Method Not Allowed", "text/plain", "Open it in a browser.\n")

    async def _take(self, stream: SocketStream, body: bytes) -> None:
        said = parse_qs(body.decode("utf-8", "replace"))
        provider, key = (said.get(name, [""])[0].strip() for name in ("provider", "key"))
        async with self._trying:
            try:
                if provider not in self._providers or not key:
                    raise AgentError("Choose a provider, and enter its key.")
                where = await self._accounts.sign_in(provider, key)
            except AgentError as error:
                await self._show(stream, "422 Unprocessable Content", self._form(provider, f"{error}"))
                return
            told = f"<p>The key for {escape(provider)} is stored in {escape(where)}. You may close this page.</p>"
            try:
                await self._show(stream, "200 OK", told)
            finally:
                self.stored.set()

    def _form(self, chosen: str = "", problem: str = "") -> str:
        options = "".join(
            f"<option{' selected' if name == chosen else ''}>{escape(name)}</option>" for name in self._providers
        )
        told = f'<p role="alert"><strong>{escape(problem)}</strong></p>' if problem else ""
        return _FORM.format(told=told, options=options)

    async def _show(self, stream: SocketStream, status: str, body: str) -> None:
        await respond(stream, status, "text/html", _PAGE.format(body=body), _POLICY)

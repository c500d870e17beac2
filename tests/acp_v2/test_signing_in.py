"""Signing in by a page: a key is entered there, and reaches neither the client nor the wire."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx2
import pytest

from support.client import AgentError
from support.http_server import Exchange, http_server
from support.models import KEY, Reply, base_urls, model_server
from support.remote import serving
from support.second import SecondEditor, second_agent

URLS = {"elicitation": {"url": {}}}
LOGIN = {"methodId": "key-page"}


def sent_to(it: SecondEditor, action: str = "accept") -> list[dict[str, Any]]:
    """Have the client answer so when it is asked to open an address; what it was asked is put into the list."""
    asked: list[dict[str, Any]] = []

    async def answer(params: Any) -> Any:
        asked.append(params)
        return {"action": action}

    it.agent.handlers["elicitation/create"] = answer
    return asked


async def opened(it: SecondEditor, asked: list[dict[str, Any]]) -> str:
    """The address that the client was asked to open."""
    await it.agent.until(lambda: bool(asked))
    return asked[0]["url"]


async def browse(method: str, url: str, **more: Any) -> httpx2.Response:
    async with httpx2.AsyncClient(trust_env=False) as browser:
        return await browser.request(method, url, **more)


async def test_a_key_is_entered_on_a_page_tried_and_stored_and_the_next_prompt_uses_it(tmp_path: Path) -> None:
    async with model_server([Reply("Hi.")], "openai") as server:
        env = {**base_urls(server.env()), "ACP_AGENT_WIRE": "1"}
        async with second_agent(home=tmp_path, env=env, capabilities=URLS) as it:
            assert [method["methodId"] for method in it.initialized["authMethods"]] == ["api-key", "key-page"]
            assert (await it.agent.request("auth/status", {}))["state"] == "unauthenticated"
            asked, done, url = sent_to(it), list[Any](), ""
            async with anyio.create_task_group() as tasks:

                async def sign_in() -> None:
                    done.append(await it.agent.request("auth/login", LOGIN))

                tasks.start_soon(sign_in)
                url = await opened(it, asked)
                request = next(line for line in it.agent.sent if line.method == "auth/login")
                # The question is one of the request, and of no session.
                assert (asked[0]["requestId"], asked[0]["mode"]) == (request.message["id"], "url")
                assert "sessionId" not in asked[0]

                form = await browse("GET", url)
                assert form.status_code == 200
                # what a session would use stands first
                assert re.findall(r"<option[^>]*>([^<]+)", form.text)[0] == "openai"
                assert 'type="password"' in form.text
                wrong = await browse("POST", url, data={"provider": "openai", "key": "<b>not-the-key"})
                assert (wrong.status_code, "not-the-key" in wrong.text) == (422, False)
                assert 'role="alert"' in wrong.text
                for data in ({"provider": "ollama", "key": KEY}, {"provider": "anthropic", "key": " "}, {}):
                    refused = await browse("POST", url, data=data)
                    assert (refused.status_code, "Choose a provider" in refused.text) == (422, True)
                    # what was chosen stays so
                    assert ("selected>anthropic<" in refused.text) is (data.get("provider") == "anthropic")
                assert not done
                right = await browse("POST", url, data={"provider": "openai", "key": f" {KEY}\n"})
                assert (right.status_code, "is stored in" in right.text) == (200, True)
            assert done == [{}]
            [completed] = [line for line in it.agent.lines if line.method == "elicitation/complete"]
            assert completed.params == {"elicitationId": asked[0]["elicitationId"]}
            told = await it.agent.wait_for(lambda line: line.method == "auth/status_update", 10)
            assert told.params["state"] == "authenticated"
            with pytest.raises(httpx2.ConnectError):  # the page is gone
                await browse("GET", url)
            session = await it.open(tmp_path)
            assert (await it.answer(session, "Hello"))["stopReason"] == "end_turn"
            assert KEY not in b"".join(line.raw for line in it.agent.lines).decode() + it.agent.stderr
        keys = tmp_path / "state" / "keys.json"
        assert keys.stat().st_mode & 0o777 == 0o600
        for path in (tmp_path / "state").rglob("*"):
            assert path == keys or not path.is_file() or KEY.encode() not in path.read_bytes(), path


@pytest.mark.parametrize("action", ["decline", "cancel", "later"])
async def test_who_does_not_want_to_enter_a_key_is_not_signed_in(tmp_path: Path, action: str) -> None:
    async with second_agent(home=tmp_path, capabilities=URLS) as it:
        asked = sent_to(it, action)
        with pytest.raises(AgentError, match="No key was entered") as error:
            await it.agent.request("auth/login", LOGIN)
        assert error.value.code == -32000
        with pytest.raises(httpx2.ConnectError):
            await browse("GET", asked[0]["url"])
        # and may think again
        asked.clear()
        with pytest.raises(AgentError, match="acp-agent login"):
            await it.agent.request("auth/login", LOGIN)
        assert len(asked) == 1


async def test_an_editor_that_cannot_open_the_page_is_told_what_else_there_is(tmp_path: Path) -> None:
    async def fail(params: Any) -> Any:
        raise AgentError(-32603, "No browser is installed")

    async with second_agent(home=tmp_path, capabilities=URLS) as it:
        it.agent.handlers["elicitation/create"] = fail
        with pytest.raises(AgentError, match=r"No browser is installed\. .*acp-agent login") as error:
            await it.agent.request("auth/login", LOGIN)
        assert error.value.code == -32000


async def test_signing_in_that_is_taken_back_takes_the_question_and_the_page_back(tmp_path: Path) -> None:
    async with second_agent(home=tmp_path, capabilities=URLS) as it:
        asked: list[dict[str, Any]] = []

        async def never(params: Any) -> Any:
            asked.append(params)
            await anyio.sleep_forever()

        it.agent.handlers["elicitation/create"] = never
        failed: list[int] = []
        url = ""

        async def sign_in() -> None:
            try:
                await it.agent.request("auth/login", LOGIN)
            except AgentError as error:
                failed.append(error.code)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(sign_in)
            url = await opened(it, asked)
            assert (await browse("GET", url)).status_code == 200
            login = next(line for line in it.agent.sent if line.method == "auth/login")
            await it.agent.notify("$/cancel_request", {"requestId": login.message["id"]})
        question = next(line for line in it.agent.lines if line.method == "elicitation/create")
        taken_back = await it.agent.wait_for(lambda line: line.method == "$/cancel_request", 10)
        assert taken_back.params == {"requestId": question.message["id"]}
        assert failed == [-32800]
        with pytest.raises(httpx2.ConnectError):
            await browse("GET", url)


async def test_the_page_is_for_nobody_who_does_not_know_its_address(tmp_path: Path) -> None:
    async with second_agent(home=tmp_path, capabilities=URLS) as it:
        asked = sent_to(it)
        async with anyio.create_task_group() as tasks:

            async def sign_in() -> None:
                with pytest.raises(AgentError):
                    await it.agent.request("auth/login", LOGIN)

            tasks.start_soon(sign_in)
            url = await opened(it, asked)
            parts = urlsplit(url)
            assert parts.hostname == "127.0.0.1"
            form = {"provider": "openai", "key": KEY}
            for path in ("/", "/guessed/"):
                assert (await browse("POST", f"http://{parts.netloc}{path}", data=form)).status_code == 404
            assert (await browse("GET", f"{url}more")).status_code == 404
            assert (await browse("PUT", url)).status_code == 405
            # a name of some web site that points here
            there = await browse("POST", url, data=form, headers={"host": f"evil.example:{parts.port}"})
            assert there.status_code == 421
            page = await browse("GET", url)
            assert "default-src 'none'" in page.headers["content-security-policy"]
            assert (page.headers["cache-control"], page.headers["referrer-policy"]) == ("no-store", "no-referrer")
            login = next(line for line in it.agent.sent if line.method == "auth/login")
            await it.agent.notify("$/cancel_request", {"requestId": login.message["id"]})


async def test_the_page_is_offered_to_editors_that_open_addresses_alone(tmp_path: Path) -> None:
    async with second_agent(home=tmp_path, capabilities={"elicitation": {"form": {}}}) as it:
        assert [method["methodId"] for method in it.initialized["authMethods"]] == ["api-key"]
        with pytest.raises(AgentError, match="no method 'key-page'") as error:
            await it.agent.request("auth/login", LOGIN)
        assert error.value.code == -32602


async def test_the_page_is_not_offered_to_clients_that_come_over_the_network(tmp_path: Path) -> None:
    async with (
        serving(tmp_path / "home") as served,
        second_agent(home=tmp_path / "editor", argv=served.argv("ws"), capabilities=URLS) as it,
    ):
        # their browser may be on another machine
        assert [method["methodId"] for method in it.initialized["authMethods"]] == ["api-key"]
        with pytest.raises(AgentError, match="no method 'key-page'") as error:
            await it.agent.request("auth/login", LOGIN)
        assert error.value.code == -32602


async def test_what_a_provider_says_of_a_key_is_text_on_the_page(tmp_path: Path) -> None:
    async def refuse(exchange: Exchange) -> None:
        await exchange.respond(401, {"error": {"message": "<script>alert(1)</script> & gone"}})

    async with http_server(refuse) as there:
        env = {"OPENAI_BASE_URL": f"{there}/v1", "ACP_AGENT_MODEL": "openai/gpt-test"}
        async with second_agent(home=tmp_path, env=env, capabilities=URLS) as it:
            asked = sent_to(it)
            async with anyio.create_task_group() as tasks:

                async def sign_in() -> None:
                    with pytest.raises(AgentError):
                        await it.agent.request("auth/login", LOGIN)

                tasks.start_soon(sign_in)
                url = await opened(it, asked)
                refused = await browse("POST", url, data={"provider": "openai", "key": KEY})
                assert (refused.status_code, "<script>" in refused.text) == (422, False)
                assert "&lt;script&gt;" in refused.text
                login = next(line for line in it.agent.sent if line.method == "auth/login")
                await it.agent.notify("$/cancel_request", {"requestId": login.message["id"]})
        assert not (tmp_path / "state" / "keys.json").exists()

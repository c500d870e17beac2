"""Requests that cannot be read before something is loaded: nothing overtakes them, and the end waits for nothing."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Generator

import anyio
import anyio.to_thread
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.jsonrpc.loading import Held, LoadingLine
from acp_agent.jsonrpc.messages import INTERNAL_ERROR, INVALID_PARAMS, REQUEST_CANCELLED, JsonObject, JsonValue, Request
from acp_agent.jsonrpc.router import Call, Router
from jsonrpc.ends import echo, error, forever, notification, request, router, serving


class Module:
    """Something to be loaded, which takes until it is told to be done."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.begun = threading.Event()
        self.threads: list[threading.Thread] = []
        self.fails = False

    def load(self) -> None:
        self.threads.append(threading.current_thread())
        self.begun.set()
        self.done.wait()
        if self.fails:
            raise ImportError("there is no such module")

    def needed(self, params: JsonObject) -> Callable[[], None] | None:
        """It is, unless the params say that they are plain."""
        return None if params.get("plain") or (self.done.is_set() and not self.fails) else self.load


@pytest.fixture
def module() -> Generator[Module]:
    made = Module()
    yield made
    made.done.set()  # its thread is to end


class Noted:
    """Methods that note in which order they are bound."""

    def __init__(self, module: Module, validator: Callable[[JsonObject], JsonObject] = dict) -> None:
        self.names: list[JsonValue] = []
        self.router = router(echo=echo)
        self.router.register("light", dict, self._note)
        self.router.register("heavy", validator, self._note, module.needed)

    def _note(self, call: Call, params: JsonObject) -> Awaitable[JsonValue]:
        self.names.append(params["name"])
        return echo(call, params)


async def begun(module: Module) -> None:
    await anyio.to_thread.run_sync(module.begun.wait)


async def test_what_is_behind_a_request_that_waits_waits_as_well_and_in_the_order_of_the_wire(module: Module) -> None:
    noted = Noted(module)
    async with serving(noted.router) as client:
        await client.send(request(1, "light", name="a"), request(2, "heavy", name="b"))
        await begun(module)
        await client.send(
            request(3, "light", name="c"),
            [notification("light", name="d"), request(4, "heavy", name="e")],
            request(5, "heavy", name="f", plain=True),
        )
        assert (await client.receive())["id"] == 1
        # This side still listens: what belongs to no request is answered.
        assert (await client.ask([]))["id"] is None
        assert noted.names == ["a"]
        module.done.set()
        assert {str(await client.receive())[:30] for _ in range(4)}
        assert noted.names == ["a", "b", "c", "d", "e", "f"]
    assert threading.main_thread() not in module.threads


async def test_what_needs_nothing_waits_for_nothing(module: Module) -> None:
    async with serving(Noted(module).router) as client:
        assert (await client.ask(request(1, "heavy", name="a", plain=True)))["id"] == 1


async def test_a_request_that_waits_can_be_taken_back(module: Module) -> None:
    endless = Router()
    endless.register("endless", dict, forever, module.needed)
    async with serving(endless) as client:
        await client.send(request(1, "endless"), notification("$/cancel_request", requestId=1))
        await begun(module)
        module.done.set()
        assert (await client.receive())["error"]["code"] == REQUEST_CANCELLED


async def test_the_end_does_not_wait_for_what_is_being_loaded(module: Module) -> None:
    noted = Noted(module)
    async with serving(noted.router) as client:
        await client.send(request(1, "heavy", name="a"), notification("light", name="b"), request(2, "light", name="c"))
        await begun(module)
        await client.end_input()
        cancelled = error(None, REQUEST_CANCELLED, "The request was cancelled.")
        assert await client.rest() == [{**cancelled, "id": 1}, {**cancelled, "id": 2}]
        await client.finished.wait()
    assert noted.names == []


async def test_where_something_cannot_be_loaded_the_request_is_answered_and_the_next_goes_on(module: Module) -> None:
    def fails(params: JsonObject) -> JsonObject:
        raise ImportError("there is no such module")

    module.fails = True
    noted = Noted(module, fails)
    async with serving(noted.router) as client:
        await client.send(request(1, "heavy", name="a"), request(2, "heavy", name="b"), request(3, "light", name="c"))
        module.done.set()
        found = {line["id"]: line.get("error") for line in [await client.receive() for _ in range(3)]}
    assert (found[1]["code"], found[2]["code"], found[3]) == (INTERNAL_ERROR, INTERNAL_ERROR, None)
    assert noted.names == ["c"]


async def test_wrong_params_are_refused_with_the_same_words(module: Module) -> None:
    def refuses(params: JsonObject) -> JsonObject:
        raise ValueError("name is wrong.")

    module.done.set()
    waited, at_once = Router(), Router()
    waited.register("method", refuses, echo, lambda _: module.load)
    at_once.register("method", refuses, echo)
    async with serving(waited) as client, serving(at_once) as other:
        refused = await client.ask(request(1, "method"))
        assert refused == await other.ask(request(1, "method"))
        assert refused["error"]["code"] == INVALID_PARAMS


@given(st.lists(st.sampled_from(["light", "heavy"]), max_size=6), st.integers(1, 6))
async def test_any_line_keeps_its_order_and_none_is_lost(methods: list[str], limit: int) -> None:
    taken: list[int] = []
    loads: list[str] = []

    def to_load(one: Request) -> Callable[[], None] | None:
        return (lambda: loads.append(one.method)) if one.method == "heavy" else None

    line = LoadingLine(to_load, lambda held: taken.append(held.index), limit)
    runs = [line.admit(Held(Request(n, name, {}, is_notification=False), None, n)) for n, name in enumerate(methods)]
    assert sum(runs) == ("heavy" in methods)
    if any(runs):
        await line.run(anyio.CancelScope())
    numbers = list(range(len(methods)))
    first = methods.index("heavy") if any(runs) else len(methods)
    waiting, beyond = numbers[first : first + limit], numbers[first + limit :]
    assert taken == [*numbers[:first], *beyond, *waiting]
    assert loads == [methods[n] for n in waiting if methods[n] == "heavy"]
    assert len(line) == 0

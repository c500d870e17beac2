"""The facts about models that all sessions share: how they are stored, for how long,
and what is not one of them.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.llm.client import make_client
from acp_agent.llm.errors import CallFailed, takes_no_images
from acp_agent.llm.learned import (
    KEPT,
    KEPT_LOCAL_WINDOW,
    KEPT_LOSS,
    LEARNED_FILE,
    LearnedFacts,
)
from acp_agent.llm.places import Endpoint
from acp_agent.llm.provider import Refused
from support.adapters import (
    BEGINNING,
    ENDING,
    PROFILE,
    encoded,
    endpoint,
    outcome,
    request,
)
from support.http_server import Exchange, http_server

LOCAL = Endpoint("local", "openai-chat", "http://127.0.0.1:8080/v1", key="secret")
CLOUD = Endpoint(
    "cloud", "openai-chat", "https://user:password@api.example.com/v1", key="secret"
)
NAMES = st.sampled_from(
    [
        "refused max_tokens",
        "takes reasoning_effort",
        "refused functions",
        "window",
        "image a1",
    ]
)
VALUES = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


class Clock:
    def __init__(self) -> None:
        self.time = datetime(2030, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.time


@given(
    st.lists(
        st.tuples(st.sampled_from(["local/a", "local/b"]), NAMES, st.none() | VALUES),
        max_size=8,
    )
)
def test_what_is_kept_is_known_to_every_process_of_the_home(
    changes: list[tuple[str, str, str | None]],
) -> None:
    with TemporaryDirectory() as folder:
        clock = Clock()
        expected = dict[str, dict[str, str]]()
        stores = [
            LearnedFacts(Path(folder), clock),
            LearnedFacts(Path(folder), clock),
            LearnedFacts(None, clock),
        ]
        for number, (model, name, value) in enumerate(changes):
            facts = expected.setdefault(model, {})
            facts.pop(name, None)
            if value is not None:
                facts[name] = value
            stores[number % 2].keep(model, LOCAL, {name: value})
            stores[2].keep(model, LOCAL, {name: value})
        for store in (*stores, LearnedFacts(Path(folder), clock)):
            for model, facts in expected.items():
                assert store.of(model, LOCAL) == facts
                assert store.of(model, CLOUD) == {}


@pytest.mark.parametrize(
    ("name", "endpoint", "kept"),
    [
        ("refused max_tokens", LOCAL, KEPT),
        ("refused functions", CLOUD, KEPT_LOSS),
        ("refused images", CLOUD, KEPT_LOSS),
        ("image a1", CLOUD, KEPT_LOSS),
        ("window", LOCAL, KEPT_LOCAL_WINDOW),
        ("window", CLOUD, KEPT),
    ],
)
def test_a_fact_is_forgotten_after_its_time(
    tmp_path: Path, name: str, endpoint: Endpoint, kept: timedelta
) -> None:
    clock = Clock()
    store = LearnedFacts(tmp_path, clock)
    store.keep("local/m", endpoint, {name: "1"})
    clock.time += kept * 0.99
    assert store.of("local/m", endpoint) == {name: "1"}
    clock.time += kept * 0.02
    assert store.of("local/m", endpoint) == {}
    clock.time -= timedelta(days=400)  # a clock that was wrong
    assert store.of("local/m", endpoint) == {}


def test_the_oldest_facts_give_way_to_newer_ones(tmp_path: Path) -> None:
    clock = Clock()
    store = LearnedFacts(tmp_path, clock)
    for number in range(250):
        clock.time += timedelta(seconds=1)
        store.keep("local/m", LOCAL, {f"image {number}": ""})
    assert len(store.of("local/m", LOCAL)) == 200
    assert "image 249" in store.of("local/m", LOCAL)


def test_the_file_holds_no_key_and_no_address(tmp_path: Path) -> None:
    LearnedFacts(tmp_path).keep("cloud/m", CLOUD, {"window": "1000"})
    text = (tmp_path / LEARNED_FILE).read_text()
    assert not [word for word in ("secret", "password", "example.com") if word in text]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
)


@given(JSON, st.dictionaries(NAMES, st.text(max_size=30)))
def test_a_file_of_any_content_is_read_without_an_error(
    models: Any, facts: dict[str, str]
) -> None:
    with TemporaryDirectory() as folder:
        file = Path(folder, LEARNED_FILE)
        file.write_text(json.dumps({"version": 1, "models": models}))
        store = LearnedFacts(Path(folder))
        assert isinstance(store.of("local/m", LOCAL), dict)
        store.keep("local/m", LOCAL, {"window": "1000"})
        assert store.of("local/m", LOCAL)["window"] == "1000"
        file.write_text(
            json.dumps({"version": 1, "models": {"local/m": {"server": "x", **facts}}})
        )
        assert isinstance(LearnedFacts(Path(folder)).of("local/m", LOCAL), dict)


def test_facts_are_known_to_the_process_if_the_file_cannot_be_written(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").write_text("")
    store = LearnedFacts(tmp_path / "file" / "home")
    store.keep("local/m", LOCAL, {"window": "1000"})
    assert store.of("local/m", LOCAL) == {"window": "1000"}


SAYS_NONE = [
    "x-ai/grok does not support vision input",
    "This model does not support image input.",
    "image input is not supported - hint: provide the mmproj",
    "No endpoints found that support image input",
    "This model is text-only",
    "Only 'text' content type is supported.",
    "multimodal not implemented",
    "Images are not supported by this model",
]
SAYS_OF_ONE = [
    "Invalid content type: webp",
    "Failed to load picture",
    "The image format is not supported",
    "Unsupported image type: image/webp",
    "does not support image format webp",
    "image exceeds 5 MB maximum",
    "Could not process image",
    "invalid input",
]


@pytest.mark.parametrize("said", SAYS_NONE + SAYS_OF_ONE)
def test_an_error_about_one_image_does_not_say_that_the_model_takes_none(
    said: str,
) -> None:
    assert takes_no_images(CallFailed("status", said, status=400)) == (
        said in SAYS_NONE
    )


@pytest.mark.parametrize(
    ("said", "lasting"),
    [
        ("max_tokens is too large: this model takes at most 1024.", True),
        ("max_tokens is too large: with this prompt at most 1024 are left.", False),
    ],
)
async def test_a_limit_that_depends_on_the_conversation_is_learned_for_that_conversation_alone(
    said: str, lasting: bool
) -> None:
    async def app(exchange: Exchange) -> None:
        if exchange.request.body["max_tokens"] > 1_024:
            await exchange.respond(400, {"error": {"message": said}})
        else:
            await exchange.start()
            await exchange.send(encoded([*BEGINNING["chat"], *ENDING["chat"]]))
            await exchange.end()

    facts = LearnedFacts()
    async with http_server(app) as url:
        place = endpoint("chat", url)
        seen, _ = await outcome(
            make_client(place, lambda _: PROFILE, 0.001, facts), request()
        )
    assert seen[0] == Refused("max_tokens", "1024", lasting)
    assert facts.of("local/claude-test", place) == (
        {"takes max_tokens": "1024"} if lasting else {}
    )

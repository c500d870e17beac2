"""What providers' documentation leaves open about kept reasoning, asked of the
providers: `make live`.

Each test asks one question with a few small requests over the provider's SDK. The
answers are printed at the end of the run. A test fails only if its first requests, in
which nothing is unusual, are refused.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable, Generator
from contextlib import ExitStack
from typing import Any

import anthropic
import openai
import pytest

from live.conftest import SECRETS, Asked
from support.binding.claude import (
    BINDING_BETA,
    COMPACTION_BETA,
    INLINE_TOOLS_BETA,
    OUTPUT_CONFIG_BETA,
    TOOL_CHANGES_BETA,
)

XAI_URL = "https://api.x.ai/v1"
SCHEMA = {
    "type": "object",
    "properties": {"box": {"type": "integer"}},
    "required": ["box"],
}
LOOK = {"name": "look", "description": "Says what is in a box.", "input_schema": SCHEMA}
ZAP = {"name": "zap", "description": "Empties a box.", "input_schema": SCHEMA}
GO = "Look into box 1 with the tool `look`. Answer then what its number asks, in one line."
FOUND = "The number 8633. Say which two primes have it as their product, after thinking it through."
PUZZLES = ("Which two primes multiply to 8633?", "And to 7387?")
NO_THINKING = "not answered: the model did not think where it had to"

Outcome = str
"""`accepted`, or why the request was refused, in the provider's words."""


def attempt(ask: Callable[[], Any]) -> tuple[Any, Outcome]:
    """Ask, and return the answer and what came of it; the answer is None after a
    refusal.
    """
    try:
        return ask(), "accepted"
    except (anthropic.APIStatusError, openai.APIStatusError) as error:
        body: Any = error.body
        inner = body.get("error", body) if isinstance(body, dict) else None
        said = inner.get("message") if isinstance(inner, dict) else None
        return (
            None,
            f"refused with {error.status_code}: {str(said or error.message)[:300]}",
        )


class Claude:
    """A conversation over Anthropic's Messages API."""

    def __init__(self, asked: Asked) -> None:
        self.model = asked.model
        client = anthropic.Anthropic(
            base_url=asked.base_url,
            api_key=None if asked.token else asked.key or "none",
            auth_token=asked.token,
            default_headers=dict(asked.headers),
            max_retries=2,
        )
        self.client = asked.clients.enter_context(client)

    def send(
        self, messages: list[Any], *, betas: list[str] | None = None, **extra: Any
    ) -> dict[str, Any]:
        body: dict[str, Any] = {
            "thinking": {"type": "adaptive"},
            "system": "Be brief.",
            "tools": [LOOK],
        }
        body |= {"output_config": {"effort": "medium"}} | extra
        answer = self.client.beta.messages.create(
            model=self.model,
            max_tokens=2_000,
            messages=messages,
            betas=betas or [],
            extra_body=body,
        )
        return answer.to_dict()

    def strictly(self, messages: list[Any]) -> tuple[dict[str, Any] | None, Outcome]:
        """Send messages, and have reasoning refused that is not valid."""
        thinking = {
            "type": "adaptive",
            "block_binding": {"prefix_mismatch_behavior": "error"},
        }
        return attempt(
            lambda: self.send(messages, betas=[BINDING_BETA], thinking=thinking)
        )


class Gpt:
    """A conversation over OpenAI's Responses API."""

    def __init__(self, asked: Asked) -> None:
        self.model = asked.model
        client = openai.OpenAI(
            base_url=asked.base_url,
            api_key=asked.key or "none",
            default_headers=dict(asked.headers),
            max_retries=2,
        )
        self.client = asked.clients.enter_context(client)

    def send(self, items: list[Any], effort: str = "low") -> dict[str, Any]:
        params: dict[str, Any] = {
            "model": self.model,
            "input": items,
            "store": False,
            "max_output_tokens": 2_000,
        }
        params |= {
            "include": ["reasoning.encrypted_content"],
            "reasoning": {"effort": effort},
        }
        answer = self.client.responses.create(**params)
        return answer.to_dict()

    def compact(self, items: list[Any]) -> dict[str, Any]:
        raw = self.client.responses.with_raw_response.compact(
            model=self.model, input=items
        )
        return json.loads(raw.text)

    def converse(self, puzzles: tuple[str, ...]) -> list[Any]:
        """Ask one after the other, and return the items of the conversation."""
        items: list[Any] = [{"role": "developer", "content": "Be brief."}]
        for puzzle in puzzles:
            items.append({"role": "user", "content": puzzle})
            items += self.send(items)["output"]
        return items


@pytest.fixture
def claude(asked: Asked) -> Claude:
    if asked.kind != "anthropic":
        pytest.skip("it does not speak Anthropic's Messages API")
    return Claude(asked)


@pytest.fixture
def gpt(asked: Asked) -> Gpt:
    if asked.kind != "openai-responses":
        pytest.skip("it does not speak OpenAI's Responses API")
    return Gpt(asked)


def kinds(blocks: list[Any]) -> list[str]:
    return [block.get("type", "message") for block in blocks]


def cached(answer: dict[str, Any] | None) -> str:
    """Return how many of a prompt's tokens were read from the cache, and how many
    tokens the prompt has.
    """
    usage = (answer or {}).get("usage") or {}
    details = usage.get("input_tokens_details") or {}
    return f"{details.get('cached_tokens', 0):,} of {usage.get('input_tokens', 0):,} tokens"


def dropped(answer: dict[str, Any] | None) -> str:
    """Return what an answer says was left out of its request."""
    if answer is None:
        return "nothing"
    if "input_transformations" not in answer:
        return "no list"
    entries = answer["input_transformations"] or []
    return (
        ", ".join(sorted({str(entry.get("reason")) for entry in entries})) or "nothing"
    )


def test_whether_a_changed_id_of_a_call_makes_later_thinking_invalid(
    claude: Claude, asked: Asked
) -> None:
    messages: list[Any] = [{"role": "user", "content": GO}]
    called = claude.send(messages)["content"]
    ids = [block["id"] for block in called if block["type"] == "tool_use"]
    if not ids:
        return asked.note(
            "ids of calls", "not answered: the model did not call the tool"
        )
    results = [
        {"type": "tool_result", "tool_use_id": each, "content": FOUND} for each in ids
    ]
    messages += [
        {"role": "assistant", "content": called},
        {"role": "user", "content": results},
    ]
    said = claude.send(messages)["content"]
    if "thinking" not in kinds(said):
        return asked.note("ids of calls", NO_THINKING)
    messages += [
        {"role": "assistant", "content": said},
        {"role": "user", "content": "Thanks. Say: done."},
    ]
    _, unchanged = claude.strictly(messages)
    text = json.dumps(messages)
    for number, each in enumerate(ids):
        text = text.replace(json.dumps(each), json.dumps(f"toolu_changed{number}"))
    _, changed = claude.strictly(json.loads(text))
    if unchanged != "accepted":
        return asked.note(
            "ids of calls", f"not answered: without a change it is {unchanged}"
        )
    return asked.note(
        "ids of calls",
        "not compared" if changed == "accepted" else f"compared: {changed}",
    )


def test_whether_the_model_compacts(claude: Claude, asked: Asked) -> None:
    found, outcome = attempt(
        lambda: claude.client.beta.models.retrieve(claude.model).to_dict()
    )
    capability = ((found or {}).get("capabilities") or {}).get("compaction", "no word")
    asked.note(
        "compaction, by the Models API", json.dumps(capability) if found else outcome
    )
    messages = [{"role": "user", "content": "The word is pear. Say: noted."}]
    wanted = {"type": "summarize", "instructions": "Write the word down, nothing else."}
    answer, outcome = attempt(
        lambda: claude.send(messages, betas=[COMPACTION_BETA], compaction=wanted)
    )
    made = answer is not None and "compaction" in kinds(answer["content"])
    asked.note("compaction, by a request", "makes a summary" if made else outcome)


def told(**system: Any) -> list[Any]:
    return [
        {"role": "user", "content": "Say: pear."},
        {"role": "system", "content": [], **system},
    ]


BETAS: dict[str, dict[str, Any]] = {
    BINDING_BETA: {
        "thinking": {
            "type": "adaptive",
            "block_binding": {"prefix_mismatch_behavior": "drop_block"},
        }
    },
    OUTPUT_CONFIG_BETA: {"messages": told(output_config={"effort": "low"})},
    INLINE_TOOLS_BETA: {
        "messages": told(
            content=[
                {
                    "type": "tool_addition",
                    "tool": {"type": "tool_definition", "definition": ZAP},
                }
            ]
        )
    },
    TOOL_CHANGES_BETA: {
        "tools": [LOOK, {**ZAP, "defer_loading": True}],
        "messages": told(
            content=[
                {
                    "type": "tool_addition",
                    "tool": {"type": "tool_reference", "name": "zap"},
                }
            ]
        ),
    },
}


@pytest.mark.parametrize("beta", BETAS)
def test_whether_the_server_takes_a_beta_and_what_belongs_to_it(
    claude: Claude, asked: Asked, beta: str
) -> None:
    body = {"messages": told()[:1]} | copy.deepcopy(BETAS[beta])
    messages = body.pop("messages")
    _, header = attempt(lambda: claude.send(told()[:1], betas=[beta]))
    answer, whole = attempt(lambda: claude.send(messages, betas=[beta], **body))
    listed = (
        f"; it lists as left out: {dropped(answer)}" if beta == BINDING_BETA else ""
    )
    asked.note(beta, f"header {header}; with its members {whole}{listed}")


def test_whether_another_effort_makes_reasoning_invalid(gpt: Gpt, asked: Asked) -> None:
    items = gpt.converse(PUZZLES[:1])
    if "reasoning" not in kinds(items):
        return asked.note("effort of the request", NO_THINKING)
    items.append({"role": "user", "content": "Say: done."})
    same, _ = attempt(lambda: gpt.send(items))
    other, outcome = attempt(lambda: gpt.send(items, "medium"))
    moved = [
        *items,
        {"type": "configuration_update", "reasoning": {"effort": "medium"}},
    ]
    by_item, by_item_outcome = attempt(lambda: gpt.send(moved))
    lost = f"left out with the same: {dropped(same)}; with another: {dropped(other)} ({outcome})"
    item = f"with another by an item: {dropped(by_item)} ({by_item_outcome})"
    return asked.note("effort of the request", f"{lost}; {item}")


def test_whether_what_is_put_behind_a_compaction_makes_kept_reasoning_invalid(
    gpt: Gpt, asked: Asked
) -> None:
    question = "a message behind a compaction"
    items = gpt.converse(PUZZLES[:2])
    starts = [index for index, item in enumerate(items) if item.get("role") == "user"]
    kept = items[starts[1] :]
    if "reasoning" not in kinds(kept):
        return asked.note(question, NO_THINKING)
    answer, outcome = attempt(lambda: gpt.compact(items[: starts[1]]))
    if answer is None:
        return asked.note(question, outcome)
    window = answer["output"]
    more = {"role": "user", "content": "Say: done."}
    between = {"role": "developer", "content": "The user likes short answers."}
    plain, _ = attempt(lambda: gpt.send([*window, *kept, more]))
    inserted, outcome = attempt(lambda: gpt.send([*window, between, *kept, more]))
    appended, _ = attempt(lambda: gpt.send([*window, *kept, between, more]))
    between_them = f"between it and what was kept: {dropped(inserted)} ({outcome})"
    after = f"after what was kept: {dropped(appended)}"
    return asked.note(
        question, f"left out without: {dropped(plain)}; {between_them}; {after}"
    )


def test_how_much_of_its_prompt_a_compaction_reads_from_the_cache(
    gpt: Gpt, asked: Asked
) -> None:
    long = {
        "role": "user",
        "content": f"{'The shop sells bread and tea. ' * 400}Say: done.",
    }
    items: list[Any] = [{"role": "developer", "content": "Be brief."}, long]
    items += gpt.send(items)["output"]
    again, _ = attempt(
        lambda: gpt.send([*items, {"role": "user", "content": "Again."}])
    )
    apart, apart_outcome = attempt(lambda: gpt.compact(items))
    within, within_outcome = attempt(
        lambda: gpt.send([*items, {"type": "compaction_trigger"}])
    )
    made = ", ".join(kinds(within["output"])) if within is not None else "nothing"
    requests = f"an ordinary request: {cached(again)}; /responses/compact: {cached(apart)} ({apart_outcome})"
    trigger = (
        f"compaction_trigger: {cached(within)} ({within_outcome}), which makes: {made}"
    )
    return asked.note("cache of a compaction", f"{requests}; {trigger}")


def test_whether_xai_gives_reasoning_and_takes_it_back(xai: Asked) -> None:
    gpt = Gpt(xai)
    items, outcome = attempt(lambda: gpt.converse(PUZZLES[:1]))
    if items is None:
        return xai.note("reasoning over Responses", outcome)
    if not any(item.get("encrypted_content") for item in items):
        return xai.note(
            "reasoning over Responses", "the answer has none that is encrypted"
        )
    items.append({"role": "user", "content": "Say: done."})
    _, back = attempt(lambda: gpt.send(items))
    edited = copy.deepcopy(items)
    edited[0]["content"] = "Be very brief."
    answer, outcome = attempt(lambda: gpt.send(edited))
    return xai.note(
        "reasoning over Responses",
        f"sent back: {back}; behind another beginning: {outcome}, left out: {dropped(answer)}",
    )


@pytest.fixture
def xai(
    note: Callable[[str, str, str], None], request: pytest.FixtureRequest
) -> Generator[Asked]:
    if request.config.getoption("--model"):
        pytest.skip("another model was chosen")
    key = os.environ.get("XAI_API_KEY", "")
    if not key:
        pytest.skip("xai wants a key in XAI_API_KEY")
    SECRETS.add(key)
    url = os.environ.get("XAI_BASE_URL") or XAI_URL
    model = os.environ.get("XAI_MODEL", "")
    if not model:
        with openai.OpenAI(base_url=url, api_key=key) as client:
            listed = client.models.list()
        names = sorted(
            each.id
            for each in listed
            if each.id.startswith("grok-4") and "non-reasoning" not in each.id
        )
        assert names, "set XAI_MODEL to a model that reasons"
        model = names[-1]
    with ExitStack() as clients:
        yield Asked("xai", model, "openai-responses", url, key, None, {}, note, clients)

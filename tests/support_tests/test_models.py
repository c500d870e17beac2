"""The model server, read by the real SDKs: answers, compactions, and where it says that it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from anthropic import APIStatusError as AnthropicStatusError
from openai import APIError, AsyncOpenAI

from support.models import Reply, ToolCall, Usage, model_server
from support.sdks import ASK, CHAT, RESPONSES, anthropic, claude, openai

READ = ToolCall("read", {"path": "ä.py"}, id="call_x")
FULL = Reply(["Hel", "lo"], thinking=["hm", "m"], tool_calls=[READ], usage=Usage(10, 5, cache_read=80, cache_write=7))
TOOLS = [{"name": "read", "input_schema": {"type": "object"}}]


async def test_anthropics_sdk_reads_thinking_text_tool_calls_and_usage() -> None:
    async with model_server([FULL]) as server, anthropic(server) as client:
        message = await claude(client, tools=TOOLS)
    thinking, text, tool = message.content
    assert (thinking.thinking, text.text) == ("hmm", "Hello")
    assert thinking.signature
    assert (tool.id, tool.name, tool.input) == ("call_x", "read", {"path": "ä.py"})
    assert message.stop_reason == "tool_use"
    usage = message.usage
    assert (usage.input_tokens, usage.output_tokens) == (10, 5)
    assert (usage.cache_read_input_tokens, usage.cache_creation_input_tokens) == (80, 7)
    assert server.calls[0].headers["authorization"] == "Bearer test-key"
    assert server.calls[0].mentions("Hi")
    assert server.calls[0].body["stream"] is True


async def test_anthropics_sdk_reads_an_answer_that_is_not_streamed() -> None:
    async with model_server([FULL]) as server, anthropic(server) as client:
        message = await client.messages.create(**ASK)
        assert [block.type for block in message.content] == ["thinking", "text", "tool_use"]
        assert message.stop_reason == "tool_use"


async def test_anthropics_sdk_reads_windows_and_token_counts() -> None:
    async with model_server(context_window=12_345) as server, anthropic(server) as client:
        assert (await client.models.retrieve("claude-test")).max_input_tokens == 12_345
        assert "claude-test" in [model.id async for model in client.models.list()]
        with pytest.raises(AnthropicStatusError) as caught:
            await client.models.retrieve("nobody")
        assert caught.value.status_code == 404
        count = await client.messages.count_tokens(model="claude-test", messages=ASK["messages"])
        assert count.input_tokens > 0
        assert server.calls == []
        assert len(server.requests) == 4


async def test_openais_sdk_reads_responses() -> None:
    async with (
        model_server([FULL]) as server,
        openai(server) as client,
        client.responses.stream(**RESPONSES) as stream,
    ):
        kinds = [event.type async for event in stream]
        response = await stream.get_final_response()
    reasoning, message, call = response.output
    assert reasoning.type == "reasoning"
    assert reasoning.summary[0].text == "hmm"
    assert message.type == "message"
    assert response.output_text == "Hello"
    assert call.type == "function_call"
    assert (call.call_id, call.name, json.loads(call.arguments)) == ("call_x", "read", {"path": "ä.py"})
    assert response.status == "completed"
    assert response.usage is not None
    assert (response.usage.input_tokens, response.usage.output_tokens) == (97, 5)
    assert response.usage.input_tokens_details.cached_tokens == 80
    assert kinds.count("response.output_text.delta") == 2
    assert kinds.count("response.reasoning_summary_text.delta") == 2


async def test_openais_sdk_reads_chat_completions_with_usage() -> None:
    async with model_server([FULL, Reply("x")], dialect="chat") as server, openai(server, key="any") as client:
        chunks = [
            chunk
            async for chunk in await client.chat.completions.create(
                **CHAT, stream=True, stream_options={"include_usage": True}
            )
        ]
        plain = [c async for c in await client.chat.completions.create(**CHAT, stream=True)]
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    assert "".join(delta.content or "" for delta in deltas) == "Hello"
    assert "".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas) == "hmm"
    calls = [call for delta in deltas for call in delta.tool_calls or []]
    assert (calls[0].id, {call.index for call in calls}) == ("call_x", {0})
    assert json.loads("".join(call.function.arguments or "" for call in calls if call.function)) == {"path": "ä.py"}
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "tool_calls"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.prompt_tokens == 97
    assert all(chunk.usage is None for chunk in plain)


async def test_openais_sdk_reads_answers_that_are_not_streamed_and_models() -> None:
    async with model_server([FULL, FULL]) as server, openai(server) as client:
        assert (await client.responses.create(**RESPONSES)).output_text == "Hello"
        message = (await client.chat.completions.create(**CHAT)).choices[0].message
        assert message.content == "Hello"
        assert message.tool_calls
        assert "gpt-test" in [model.id async for model in client.models.list()]


@pytest.mark.parametrize(
    ("stop", "status", "finish"),
    [
        ("max_tokens", "incomplete", "length"),
        ("model_context_window_exceeded", "incomplete", "length"),
        ("refusal", "completed", "stop"),
    ],
)
async def test_other_stop_reasons_reach_each_sdk_in_its_own_words(stop: str, status: str, finish: str) -> None:
    reply = Reply("No", stop=stop)
    async with model_server(lambda request: reply) as server:
        async with anthropic(server) as client:
            assert (await claude(client)).stop_reason == stop
        async with openai(server) as client:
            response = await client.responses.create(**RESPONSES)
            assert response.status == status
            async with client.responses.stream(**RESPONSES) as stream:
                assert [event async for event in stream][-1].type == f"response.{status}"
            assert (await client.chat.completions.create(**CHAT)).choices[0].finish_reason == finish


async def test_broken_arguments_reach_the_client_as_they_stand() -> None:
    async with model_server([Reply(tool_calls=[ToolCall("read", '{"path": ')])]) as server, openai(server) as client:
        async with client.responses.stream(**RESPONSES) as stream:
            response = await stream.get_final_response()
        assert response.output[0].type == "function_call"
        assert response.output[0].arguments == '{"path": '


async def test_a_function_sees_each_call_and_a_call_without_a_reply_fails_the_test() -> None:
    async with model_server(lambda request: Reply(request["model"])) as server, anthropic(server) as client:
        assert (await claude(client)).content[0].text == "claude-test"

    async def ask_in_vain() -> None:
        async with model_server([]) as server, anthropic(server) as client:
            with pytest.raises(AnthropicStatusError):
                await claude(client)

    with pytest.raises(AssertionError, match="no reply is left for model call 1"):
        await ask_in_vain()


async def test_unless_told_usage_grows_with_the_request() -> None:
    async with model_server(lambda request: Reply("x")) as server, anthropic(server) as client:
        small = (await claude(client)).usage.input_tokens
        large = (await claude(client, system="s" * 4000)).usage.input_tokens
    assert large - small >= 1000


async def test_ollamas_paths_answer_without_a_key() -> None:
    async with model_server(dialect="ollama", context_window=8_000) as server, anthropic(server) as client:
        tags = await client.get("/api/tags", cast_to=dict[str, Any])
        assert "llama-test" in [model["name"] for model in tags["models"]]
        shown = await client.post("/api/show", cast_to=dict[str, Any], body={"model": "llama-test"})
        assert shown["model_info"]["llama.context_length"] == 8_000


async def test_the_environment_and_the_config_point_here(tmp_path: Path) -> None:
    async with model_server(dialect="chat") as server:
        assert server.env("anthropic") == {
            "ACP_AGENT_MODEL": "anthropic/claude-test",
            "ANTHROPIC_API_KEY": "test-key",
            "ANTHROPIC_BASE_URL": server.base_url,
        }
        assert server.env("openai")["OPENAI_BASE_URL"] == f"{server.base_url}/v1"
        assert server.env() == {"ACP_AGENT_MODEL": "local/chat-test", "LOCAL_API_KEY": "test-key"}
        config = yaml.safe_load(server.write_config(tmp_path, {"max_turn_requests": 3}).read_text())
    assert config["max_turn_requests"] == 3
    assert config["providers"]["local"]["base_url"] == f"{server.base_url}/v1"


BLOCK = {"compaction": {"type": "summarize"}}
BETAS = ["compact-2026-09-04"]


async def test_anthropics_sdk_reads_a_compaction_and_sends_it_back() -> None:
    replies = [Reply("So far.", usage=Usage(10, 5, cache_read=80)), Reply("One."), Reply("Hi")]
    async with model_server(replies) as server, anthropic(server) as client:
        async with client.beta.messages.stream(**{**ASK, **BLOCK}, betas=BETAS) as stream:
            streamed = await stream.get_final_message()
        whole = await client.beta.messages.create(**{**ASK, **BLOCK}, betas=BETAS)
        (block,) = whole.content
        history = [{"role": "assistant", "content": [block.to_dict()]}, *ASK["messages"]]
        answer = await client.beta.messages.create(**{**ASK, "messages": history}, betas=BETAS)
    assert [(found.type, found.content) for found in streamed.content] == [("compaction", "So far.")]  # pyright: ignore[reportAttributeAccessIssue]
    assert streamed.stop_reason == whole.stop_reason == "compaction"
    assert (streamed.usage.input_tokens, streamed.usage.output_tokens) == (0, 0)
    (iteration,) = streamed.usage.iterations or []
    assert (iteration.type, iteration.input_tokens, iteration.cache_read_input_tokens) == ("compaction", 10, 80)
    assert answer.stop_reason == "end_turn"
    assert len(server.calls) == 3


async def test_a_compaction_that_is_sent_back_wrongly_is_refused_as_the_api_does() -> None:
    async with model_server([Reply("So far.")]) as server, anthropic(server) as client:
        made = await client.beta.messages.create(**{**ASK, **BLOCK}, betas=BETAS)
        block = made.content[0].to_dict()
        wrong: list[tuple[list[dict[str, Any]], list[str], str]] = [
            ([block], [], "not one of the expected"),
            ([{"type": "text", "text": "x"}, block], BETAS, "first"),
            ([block, block], BETAS, "more than one"),
            ([{**block, "content": "Other."}], BETAS, "signature"),
        ]
        for content, betas, problem in wrong:
            messages: Any = [{"role": "user", "content": content}]
            with pytest.raises(AnthropicStatusError, match=problem):
                await client.beta.messages.create(**{**ASK, "messages": messages}, betas=betas)
        with pytest.raises(AnthropicStatusError, match="requires anthropic-beta"):
            await client.beta.messages.create(**{**ASK, **BLOCK})


async def test_openais_sdk_reads_a_compaction_and_sends_it_back() -> None:
    replies = [Reply("So far.", usage=Usage(10, 5, cache_read=80)), Reply("Hi")]
    async with model_server(replies) as server, openai(server) as client:
        made = await client.responses.compact(model="gpt-test", input=[{"role": "user", "content": "Hello"}])
        items: Any = [item.to_dict(warnings=False) for item in made.output]  # the SDK types them as the model's
        answer = await client.responses.create(model="gpt-test", input=[*items, {"role": "user", "content": "Go on"}])
        items[-1]["encrypted_content"] = "other"
        with pytest.raises(APIError, match="could not be verified"):
            await client.responses.create(model="gpt-test", input=items)
    assert made.object == "response.compaction"
    assert [item.type for item in made.output] == ["message", "compaction"]
    assert (made.usage.input_tokens, made.usage.input_tokens_details.cached_tokens) == (90, 80)
    assert answer.output_text == "Hi"


@pytest.mark.parametrize("base", ["v1", "v1beta/openai"])
async def test_longer_prompts_than_the_server_takes_are_refused_and_cost_no_reply(base: str) -> None:
    long: Any = [{"role": "user", "content": "word " * 200}]
    async with (
        model_server([Reply("Hi")] * 3, max_prompt_tokens=100) as server,
        anthropic(server) as claude_client,
        AsyncOpenAI(api_key="test-key", base_url=f"{server.base_url}/{base}/", max_retries=0) as client,
    ):
        with pytest.raises(AnthropicStatusError, match=r"prompt is too long: \d+ tokens > 100 maximum"):
            await claude_client.messages.create(**{**ASK, "messages": long})
        with pytest.raises(APIError) as refused:
            await client.chat.completions.create(**{**CHAT, "messages": long})
        said = "maximum context length is 100" if base == "v1" else "The input token count"
        assert said in json.dumps(refused.value.body)
        if base == "v1":
            with pytest.raises(APIError, match="exceeds the context window") as caught:
                await client.responses.create(**{**RESPONSES, "input": long})
            assert caught.value.code == "context_length_exceeded"
        assert server.remaining == 3
        await client.chat.completions.create(**CHAT)
        await claude_client.messages.create(**ASK)


async def test_the_google_preset_points_here(tmp_path: Path) -> None:
    async with model_server([Reply("Hi")], dialect="google") as server:
        assert server.model == "google/gemini-test"
        assert server.env()["GEMINI_API_KEY"] == "test-key"
        config = yaml.safe_load(server.write_config(tmp_path).read_text())
        base_url = config["providers"]["google"]["base_url"]
        async with AsyncOpenAI(api_key="test-key", base_url=base_url, max_retries=0) as client:
            assert "gemini-test" in [model.id async for model in client.models.list()]
            assert (await client.chat.completions.create(**CHAT)).choices[0].message.content == "Hi"

"""The scripted provider, from a file."""

from __future__ import annotations

from contextlib import aclosing
from pathlib import Path

import pytest

from acp_agent.conversation import messages as m
from acp_agent.errors import ConfigError
from acp_agent.llm.provider import Answered, ModelRequest, TextDelta, ThinkingDelta
from acp_agent.llm.scripted import ScriptedProvider

SCRIPT = """
name: A repair
context_window: 20000
scenes:
  - when: fix the
    answers:
      - thinking: Read first.
        text: I will look at it.
        tool_calls:
          - name: read
            arguments: {path: a.py}
      - text: Done, all   is well.
        usage: {input: 900, output: 5, cache_read: 100}
  - when: /^summari[sz]e/
    answers: [{text: A summary.}]
  - when: hello
    after: 1
    answers: [{text: Hello again.}]
  - when: hello
    answers: [{text: Hello., stop: max_tokens}]
"""


def provider(folder: Path, text: str = SCRIPT) -> ScriptedProvider:
    (folder / "demo.yaml").write_text(text)
    return ScriptedProvider("scripted", folder / "demo.yaml")


async def play(played: ScriptedProvider, *messages: m.Message) -> tuple[str, Answered]:
    async with aclosing(played.stream(ModelRequest("demo", "Be brief.", messages))) as stream:
        events = [event async for event in stream]
    answer = events[-1]
    assert isinstance(answer, Answered)
    return "".join(event.text for event in events if isinstance(event, TextDelta | ThinkingDelta)), answer


def user(text: str, id: str = "u") -> m.UserMessage:
    return m.UserMessage(id, (m.Text(text),))


async def test_the_prompt_chooses_the_scene_and_the_answers_follow_each_other(tmp_path: Path) -> None:
    played = provider(tmp_path)
    prompt = user("Please FIX the test")
    text, first = await play(played, prompt)
    assert text == "Read first.I will look at it."
    assert first.stop_reason == "tool_use"
    call = m.ToolCall("call_0", "read", {"path": "a.py"})
    assert first.parts == (m.Thinking("Read first.", "scripted"), m.Text("I will look at it."), call)
    answer, result = m.AssistantMessage("a", first.parts), m.ToolResult("call_0", (m.Text("x"),))
    text, second = await play(played, prompt, answer, result)
    assert text == "Done, all   is well."
    assert (second.stop_reason, second.usage) == ("end_turn", m.Usage(900, 5, 100))


async def test_it_goes_on_where_it_was_in_a_new_process(tmp_path: Path) -> None:
    history = user("fix the test"), m.AssistantMessage("a", (m.Text("I will look at it."),))
    assert (await play(provider(tmp_path), *history))[0] == "Done, all   is well."


async def test_a_scene_may_wait_for_earlier_prompts(tmp_path: Path) -> None:
    played = provider(tmp_path)
    assert (await play(played, user("hello")))[1].stop_reason == "max_tokens"
    assert (await play(played, user("one"), user("hello")))[0] == "Hello again."


async def test_a_regular_expression_chooses_too(tmp_path: Path) -> None:
    played = provider(tmp_path)
    assert (await play(played, user("Summarise it")))[0] == "A summary."
    assert "no answer" in (await play(played, user("Do not summarise it")))[0]


async def test_the_end_of_the_script_says_so(tmp_path: Path) -> None:
    said = m.AssistantMessage("a", (m.Text("x"),))
    text, answer = await play(provider(tmp_path), user("fix the test"), said, said)
    assert "A repair" in text
    assert "end" in text
    assert answer.stop_reason == "end_turn"


async def test_usage_follows_the_length_of_the_request(tmp_path: Path) -> None:
    played = provider(tmp_path)
    short = (await play(played, user("hello")))[1].usage
    long = (await play(played, user("hello" + " world" * 1_000)))[1].usage
    assert long.input_tokens - short.input_tokens == 1_500
    assert played.context_window("demo") == 20_000


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("scenes:\n  - when: x\n    answers:\n      - txt: y\n", "demo.yaml:4: scenes.0.answers.0.txt: unknown key"),
        ("scenes:\n  - answers: [{text: x}]\n", "demo.yaml:2"),
        ("scenes:\n  - when: /(/\n    answers: [{text: x}]\n", "demo.yaml:2: scenes.0.when: "),
        ("scenes: []\n", "demo.yaml:1: scenes: "),
        ("scenes: [\n", "demo.yaml:"),
    ],
)
async def test_a_mistake_in_the_script_names_its_line(tmp_path: Path, text: str, place: str) -> None:
    with pytest.raises(ConfigError) as caught:
        await play(provider(tmp_path, text), user("x"))
    assert place in str(caught.value)


async def test_a_missing_script_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml: there is no such script"):
        ScriptedProvider("scripted", tmp_path / "none.yaml").context_window("x")

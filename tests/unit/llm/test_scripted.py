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
    async with aclosing(
        played.stream(ModelRequest("demo", "Be brief.", messages))
    ) as stream:
        events = [event async for event in stream]
    answer = events[-1]
    assert isinstance(answer, Answered)
    return "".join(
        event.text for event in events if isinstance(event, TextDelta | ThinkingDelta)
    ), answer


def user(text: str, id: str = "u") -> m.UserMessage:
    return m.UserMessage(id, (m.Text(text),))


async def test_the_prompt_chooses_the_scene_and_the_answers_follow_each_other(
    tmp_path: Path,
) -> None:
    played = provider(tmp_path)
    prompt = user("Please FIX the test")
    text, first = await play(played, prompt)
    assert text == "Read first.I will look at it."
    assert first.stop_reason == "tool_use"
    call = m.ToolCall("call_0", "read", {"path": "a.py"})
    assert first.parts == (
        m.Thinking("Read first.", "scripted"),
        m.Text("I will look at it."),
        call,
    )
    answer = m.AssistantMessage("a", first.parts)
    result = m.ToolResult("call_0", (m.Text("x"),))
    text, second = await play(played, prompt, answer, result)
    assert text == "Done, all   is well."
    assert (second.stop_reason, second.usage) == ("end_turn", m.Usage(900, 5, 100))


@pytest.mark.parametrize(
    ("history", "said"),
    [
        (
            (user("fix the test"), m.AssistantMessage("a", (m.Text("I will look."),))),
            "Done, all   is well.",
        ),
        ((user("hello"),), "Hello."),
        ((user("one"), user("hello")), "Hello again."),
        ((user("Summarise it"),), "A summary."),
        (
            (user("Do not summarise it"),),
            "(The script “A repair” has no answer to “Do not summarise it”.)",
        ),
        (
            (user("fix the test"), *[m.AssistantMessage("a", (m.Text("x"),))] * 2),
            "(The script “A repair” has no more answers.)",
        ),
    ],
)
async def test_the_request_alone_decides_what_is_said(
    tmp_path: Path, history: tuple[m.Message, ...], said: str
) -> None:
    text, answer = await play(provider(tmp_path), *history)
    assert text == said
    assert answer.stop_reason == ("max_tokens" if said == "Hello." else "end_turn")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (
            "scenes:\n  - when: x\n    answers:\n      - txt: y\n",
            "demo.yaml:4: scenes.0.answers.0.txt: unknown key",
        ),
        ("scenes:\n  - answers: [{text: x}]\n", "demo.yaml:2"),
        (
            "scenes:\n  - when: /(/\n    answers: [{text: x}]\n",
            "demo.yaml:2: scenes.0: ",
        ),
        ("scenes: []\n", "demo.yaml:1: scenes: "),
        ("scenes: [\n", "demo.yaml:"),
    ],
)
async def test_a_mistake_in_the_script_names_its_line(
    tmp_path: Path, text: str, place: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        await play(provider(tmp_path, text), user("x"))
    assert place in str(caught.value)

"""A conversation as a Markdown document: it contains everything that was said, and no
text swallows the text below it.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from acp_agent.conversation.context import Context
from acp_agent.conversation.events import (
    AssistantAnswered,
    CallView,
    ContextAdded,
    ContextSwapped,
    Event,
    LoggedEvent,
    NoteAdded,
    ToolReturned,
    UserPrompted,
)
from acp_agent.conversation.markdown import fenced, log_markdown
from acp_agent.conversation.messages import (
    AssistantMessage,
    Image,
    Message,
    Resource,
    ResourceLink,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UserMessage,
)

COMMON_MARK = MarkdownIt("commonmark")
FENCES = (
    "```",
    "~~~",
    "````",
    "```py",
    " ```",
    "   ~~~",
    "    ```",
    "- ```",
    "> ```",
    "  ```",
    "> > ```",
    "\t```",
)
OTHERS = (
    "1. a",
    "> a",
    "text",
    "",
    "``` `x`",
    "<!--",
    "-->",
    "<pre>",
    "</pre>",
    "# a",
    "- a",
    "```\ncode\n```",
)
SNIPPETS = st.sampled_from((*FENCES, *OTHERS))
TEXTS = st.lists(
    SNIPPETS | st.text(st.characters(exclude_categories=["Cs"]), max_size=8), max_size=8
).map("\n".join)


def headings(document: str) -> list[str]:
    """Return the texts of all second-level headings at the top level of the document,
    as a Markdown parser sees them.
    """
    tokens = COMMON_MARK.parse(document)
    return [
        following.content
        for token, following in pairwise(tokens)
        if token.type == "heading_open"
        and token.tag == "h2"
        and token.level == 0
        and token.markup == "##"
    ]


def document_of(messages: Iterable[Message], title: str = "Conversation") -> str:
    """Return the document for a log with these messages."""
    events: list[Event] = []
    for message in messages:
        match message:
            case UserMessage():
                events.append(UserPrompted(message.id, message.parts))
            case AssistantMessage():
                events.append(AssistantAnswered(message))
            case ToolResult():
                events.append(ToolReturned(message, CallView("Read", "read")))
    return log_markdown(
        [LoggedEvent(seq, 0, event) for seq, event in enumerate(events, 1)], title=title
    )


def of(text: str, role: str) -> Message:
    match role:
        case "user":
            return UserMessage("m", (Text(text),))
        case "assistant":
            return AssistantMessage("m", (Text(text), Thinking("hm")))
        case _:
            return ToolResult("call", (Text(text),))


@given(
    st.lists(
        st.tuples(TEXTS, st.sampled_from(["user", "assistant", "tool"])), max_size=4
    )
)
def test_the_document_contains_every_text_and_every_heading_stays_a_heading(
    said: list[tuple[str, str]],
) -> None:
    messages = [of(text, role) for text, role in said]
    document = document_of([*messages, UserMessage("last", (Text("The end."),))])
    at = 0
    for text, _ in said:
        at = document.index(text, at) + len(text)
    assert headings(document)[-1:] == ["User"]
    assert document.endswith("\n\n## User\n\nThe end.\n")


@settings(deadline=None)
@given(TEXTS)
def test_a_fence_is_longer_than_any_fence_inside_it(text: str) -> None:
    tokens = COMMON_MARK.parse(f"{fenced(text, 'json')}\n\n## After\n")
    assert [(token.type, token.info) for token in tokens[:2]] == [
        ("fence", "json"),
        ("heading_open", ""),
    ]


def test_ordinary_markdown_stays_unchanged() -> None:
    answer = "Do:\n\n1. This:\n   ```sh\n   make\n   ```\n2. That.\n\n```py\nx = 1\n```\n\n> ```\n> quoted\n> ```\n"
    assert f"\n{answer}\n" in document_of([AssistantMessage("m", (Text(answer),))])
    cut = "Do:\n\n```py\nx ="
    assert f"```markdown\n{cut}\n" in document_of(
        [AssistantMessage("m", (Text(cut),))]
    ).replace("`" * 4, "```")


def test_calls_results_and_attachments_are_part_of_the_document() -> None:
    call = ToolCall("call_1", "read", {"path": "a`b.txt"})
    document = document_of(
        [
            UserMessage(
                "m1",
                (
                    Text("Read it."),
                    ResourceLink("file:///a.txt", "a"),
                    Resource("file:///b.txt", "inside"),
                    Image("aGk=", "image/png", "file:///c.png"),
                ),
            ),
            AssistantMessage("m2", (Thinking("hm"), Text("I read."), call)),
            ToolResult("call_1", (Text("one\ntwo"),)),
            AssistantMessage("m3", (ToolCall("call_2", "edit", invalid="{"),)),
            ToolResult("call_2", (Text("no JSON"),), is_error=True),
            AssistantMessage("m4", (Text("Done."),)),
        ],
        title="The cart",
    )
    assert document == (
        "# The cart\n\n## User\n\nRead it.\n\nAttached: `file:///a.txt`\n\nAttached: `file:///b.txt`\n\n"
        "```\ninside\n```\n\nAn image (`image/png`): `file:///c.png`.\n\n"
        "## Agent\n\nI read.\n\n`read` was called:\n\n"
        '````json\n{\n  "path": "a`b.txt"\n}\n````\n\n'.replace("````", "```")
        + "`read` returned:\n\n```\none\ntwo\n```\n\n`edit` was called:\n\n```json\n{\n```\n\n"
        "`edit` failed:\n\n```\nno JSON\n```\n\nDone.\n"
    )


def test_a_log_becomes_the_document_that_the_user_saw_with_compactions() -> None:
    swap = ContextSwapped(
        compaction_id="c",
        message_id="m",
        trigger="manual",
        summary="A cart.",
        sent=(Text("framed"),),
        keep_from=0,
        carried=Context(cwd="/").carried(),
        tokens_before=9_000,
        tokens_after=400,
        usage=None,
        recipe="compact",
        digest="",
        strategy="summary",
    )
    events: list[Event] = [
        UserPrompted(
            "u1", (Text("/explain it"),), sent=(Text("Explain how it works."),)
        ),
        AssistantAnswered(AssistantMessage("a1", (Text("It adds."),))),
        ContextAdded("x", "A hook added this:\n\nMind the tests."),
        NoteAdded("n", "Nothing to compact."),
        swap,
        UserPrompted("u2", (Text("And now?"),)),
    ]
    document = log_markdown(
        [LoggedEvent(seq, 0, event) for seq, event in enumerate(events, 1)]
    )
    assert headings(document) == [
        "User",
        "Agent",
        "Note to the agent",
        "Agent",
        "Compacted",
        "User",
    ]
    assert "/explain it" in document
    assert "Explain how it works." not in document
    assert "From about 9,000 to 400 tokens." in document
    assert "A cart." in document
    assert "framed" not in document

"""A permission request shows what is decided about, whatever a model writes into the
arguments of a call: where it is done, how a command ends, which tool of which server it
is, and what *Always allow* covers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt

from acp_agent.visible import hidden_in
from support.called import call_command
from support.mcp import McpProgram, mcp_program, ready, tool
from support.memory import second_agent, stage
from support.models import model_server
from support.replies import Reply, ToolCall

WITHOUT_SANDBOX = {"sandbox": {"commands": "off"}}
HIDES: Mapping[str, str] = {
    "many words": " -v" * 400,
    "many spaces": " " * 2_000,
    "many tabs": "\t" * 300,
    "many lines": "\n" * 200,
    "line ends of Unicode": "\u2028\u2029\x85" * 40,
    "carriage returns": " ok\r" * 3,
    "braille blanks": "\u2800" * 400,
    "Hangul fillers": "\u3164\u115f\u1160\uffa0" * 100,
    "no-break spaces": "\xa0\u2003\u3000" * 100,
    "letters of no width": "\u200b\u200c\u200d\u2060\ufeff" * 30,
    "tags": "".join(chr(0xE0000 + ord(each)) for each in "harmless") * 20,
    "variation selectors": "\ufe0f\U000e0100" * 50,
    "another order": "\u202e\u2066\u202d\u2067",
    "accents that pile up": "e" + "\u0301\u0488" * 200,
    "escape sequences": "\x1b[2K\x1b[8m\x1b]52;c;aGk=\x07\x1b]8;;http://bad\x1b\\",
    "C1 controls": "\x9b2K\x9d0;t\x9c\x90q\x9c",
    "fences": "\n```\n````\n# Heading\n<!-- ",
    "markup": " ` `` **b** [l](http://bad) ![i](http://bad) <img src=x> <!-- ",
}
END = "; rm -rf --no-preserve-root /the/end"


@dataclass(frozen=True, slots=True)
class Case:
    """A call, and what has to be seen of it."""

    call: ToolCall
    decisive: Sequence[str]


def vault(folder: Path) -> McpProgram:
    """A server whose tools have titles that hide what they do."""
    tools = [
        tool(f"open_{number}", title=f"Read the notes{hide}")
        for number, hide in enumerate(HIDES.values())
    ]
    return mcp_program(folder, "vault", tools=tools)


def cases(outside: Path, *, mcp: bool) -> list[Case]:
    """Calls of all tools that are asked for, each with something that hides the rest."""
    found: list[Case] = []
    for number, hide in enumerate(HIDES.values()):
        found += calls_with(hide, outside)
        if mcp:
            arguments = {"note": hide * 20, hide: "k", "door": "the back door"}
            call = ToolCall(f"mcp__vault__open_{number}", arguments)
            found.append(Case(call, ("vault", f"open_{number}", "the back door")))
    return found


def calls_with(hide: str, outside: Path) -> list[Case]:
    name = hide.replace("/", "_")[:40]
    # A valid one.
    pattern = "".join(each for each in name if each not in "\n\\[](){}!^+|")
    line = pattern.replace("*", "")
    read = {"path": str(outside / f"a{name}b.txt")}
    return [
        Case(
            ToolCall("shell", {"command": f"git status{hide}{END}"}),
            (END.strip(), "git status"),
        ),
        Case(
            ToolCall("shell", {"command": f"make{hide}{END}", "cwd": str(outside)}),
            (END, str(outside)),
        ),
        Case(
            ToolCall("shell", {"command": f"make{hide}{END}", "cwd": "below"}),
            (END, "below"),
        ),
        Case(ToolCall("read", read), (str(outside), "b.txt")),
        Case(ToolCall("list", {"path": str(outside)}), (str(outside),)),
        Case(
            ToolCall("glob", {"pattern": f"*.py{pattern}*.end", "path": str(outside)}),
            (str(outside), "*.end"),
        ),
        Case(
            ToolCall("grep", {"pattern": f"x{line * 8}", "path": str(outside)}),
            (str(outside),),
        ),
        Case(
            ToolCall("write", {"path": str(outside / f"n{name}.new"), "content": hide}),
            (str(outside), ".new"),
        ),
        Case(
            ToolCall("write", {"path": f".vscode/{name}x.json", "content": hide}),
            (".vscode", "x.json"),
        ),
    ]


def seen(params: Mapping[str, Any]) -> tuple[str, str]:
    """The title and the content of a permission request, of either version."""
    call = params.get("toolCall") or params["subject"].get("toolCall") or {}
    title = str(params.get("title") or call["title"])
    texts = [
        item["content"]["text"]
        for item in call.get("content") or ()
        if item["type"] == "content"
    ]
    subject = params.get("subject") or {}
    return title, "\n\n".join(
        (*texts, str(params.get("description", "")), str(subject.get("command", "")))
    )


def check(params: Mapping[str, Any], case: Case) -> None:
    title, content = seen(params)
    for each in case.decisive:
        assert each in title[:120] or each in content, (case, title, content)
    names = [option["name"] for option in params["options"]]
    for text in (title, content, *names):
        assert not [*hidden_in(text)], (case, text)
    assert "\n" not in title
    assert len(title) < 500
    assert max(map(len, names)) < 60
    assert_all_is_code(str(params["description"] if "subject" in params else content))


def assert_all_is_code(markdown: str) -> None:
    """What others wrote stands in code alone: beside it there are labels, and no
    markup.
    """
    for token in MarkdownIt("commonmark").parse(markdown):
        assert token.type in ("paragraph_open", "paragraph_close", "inline", "fence"), (
            token.type,
            markdown,
        )
        inner = [each.type for each in token.children or ()]
        assert {*inner} <= {"text", "code_inline"}, (inner, markdown)
        words = "".join(
            each.content for each in token.children or () if each.type == "text"
        )
        assert not {*words} & {*"`<>[]*"}, words


async def test_a_question_shows_the_place_the_end_and_the_arguments_whatever_hides_them(
    tmp_path: Path,
) -> None:
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    server = vault(tmp_path)
    asked = cases(outside, mcp=True)
    replies = [Reply(tool_calls=[each.call for each in asked]), Reply("Done.")]
    files = {"below/a.txt": "a"}
    async with stage(
        tmp_path, *replies, config=WITHOUT_SANDBOX, mcp=[server.entry], files=files
    ) as it:
        await ready(it, "vault")
        it.agent.permission_answer = "reject_once"
        await it.prompt(timeout=60)
        assert len(it.agent.desk.permissions) == len(asked)
        for params, case in zip(it.agent.desk.permissions, asked, strict=True):
            check(params, case)


async def test_so_it_does_in_version_2(tmp_path: Path) -> None:
    home, outside, folder = (
        tmp_path / name for name in ("home", "elsewhere", "project")
    )
    for each in (home, outside, folder, folder / "below"):
        each.mkdir()
    asked = cases(outside, mcp=False)
    replies = [Reply(tool_calls=[each.call for each in asked]), Reply("Done.")]
    async with model_server(replies, "openai") as model:
        model.write_config(home, WITHOUT_SANDBOX)
        async with second_agent(home=home, env=model.env("openai")) as it:
            it.agent.permission_answer = "reject_once"
            session = await it.open(folder)
            await it.answer(session, "Go on.")
            assert len(it.agent.desk.permissions) == len(asked)
            for params, case in zip(it.agent.desk.permissions, asked, strict=True):
                check(params, case)


async def test_so_it_does_at_the_terminal(tmp_path: Path) -> None:
    home = tmp_path / "home"
    outside = tmp_path / "elsewhere"
    for each in (home, outside, home / "below"):
        each.mkdir()
    asked = cases(outside, mcp=True)
    script = [Reply(tool_calls=[each.call for each in asked]), Reply("Done.")]
    async with model_server(script, "openai") as model:
        model.write_config(
            home,
            {**WITHOUT_SANDBOX, "mcp_servers": {"vault": vault(tmp_path).configured}},
        )
        ran = await call_command(home, "run", "Go on.", env=model.env())
    questions = [
        shown.partition("[y] Allow")[0] for shown in ran.err.split("Not allowed:")[:-1]
    ]
    assert len(questions) == len(asked), ran.err
    for shown, case in zip(questions, asked, strict=True):
        for each in case.decisive:
            assert each in shown, (case, shown)
        assert not [*hidden_in(shown)], (case, shown)


async def test_a_question_names_the_place_that_a_link_within_the_project_leads_to(
    tmp_path: Path,
) -> None:
    calls = [
        ToolCall("write", {"path": "docs/ideas.txt", "content": "echo an idea\n"}),
        ToolCall("write", {"path": "notes/new.txt", "content": "echo an idea\n"}),
        ToolCall("shell", {"command": "make", "cwd": "notes"}),
        ToolCall("write", {"path": "docs/plain.txt", "content": "text\n"}),
    ]
    replies = [Reply(tool_calls=calls), Reply("Done.")]
    files = {"scripts/release.sh": "", "docs/a.txt": ""}
    async with stage(tmp_path, *replies, config=WITHOUT_SANDBOX, files=files) as it:
        (it.folder / "docs/ideas.txt").symlink_to("../scripts/postinstall.sh")
        (it.folder / "notes").symlink_to("scripts")
        it.agent.permission_answer = "reject_once"
        await it.prompt()
        asked = [seen(params) for params in it.agent.desk.permissions]
    scripts = (it.folder / "scripts").resolve()
    places = [scripts / "postinstall.sh", scripts / "new.txt", scripts]
    for (title, content), place in zip(asked[:3], places, strict=True):
        assert str(place)[-20:] in title
        assert f"Leads to: `{place}`" in content
    assert "eads to" not in "".join(asked[3])


async def test_a_session_in_a_folder_that_is_a_link_is_asked_no_more_than_in_the_folder_itself(
    tmp_path: Path,
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "home").mkdir()
    replies = [
        Reply(tool_calls=[ToolCall("write", {"path": "a.txt", "content": "text\n"})]),
        Reply("Done."),
    ]
    async with model_server(replies, "openai") as model:
        model.write_config(tmp_path / "home")
        async with second_agent(home=tmp_path / "home", env=model.env("openai")) as it:
            it.agent.permission_answer = "reject_once"
            await it.answer(await it.open(tmp_path / "link"), "Go on.")
            [params] = it.agent.desk.permissions
    assert "eads to" not in "".join(seen(params))

"""`acp-agent hooks list` and `acp-agent hooks test`."""

from __future__ import annotations

from pathlib import Path

from support.called import call_command

GUARD = """\
#!/bin/sh
[ "$1" = hook ] && { echo "PreToolUse, SessionEnd"; exit; }
grep -q '"command": "rm' && { echo "Never delete." >&2; exit 2; }
echo '{"context": "Mind the links."}'
"""
CONFIG = """\
hooks:
  PreToolUse:
    - {command: 'sed "s/.*/{\\"tool_input\\": {\\"command\\": \\"ls -l\\"}}/"', name: longer, matcher: Bash}
  Stop:
    - {command: exit 3, name: broken}
"""


async def prepare(home: Path) -> Path:
    """Hooks of each origin, with the folder where the user's are."""
    hooks = home / "state" / "hooks"
    project = home / ".acp-agent"
    for folder in (hooks, project):
        folder.mkdir(parents=True)
    (home / "state" / "config.yaml").write_text(CONFIG)
    (project / "config.yaml").write_text(
        "hooks: {Stop: [{command: [echo, done], name: lint}]}\n"
    )
    (hooks / "guard").write_text(GUARD)
    (hooks / "guard").chmod(0o755)
    assert (await call_command(home, "trust", "--yes")).code == 0
    return hooks


async def test_hooks_are_listed_in_the_order_in_which_they_are_asked(
    tmp_path: Path,
) -> None:
    ran = await call_command(tmp_path, "hooks", "list")
    assert (ran.code, ran.out, ran.err) == (
        0,
        "There are no hooks for this directory.\n",
        "",
    )
    hooks = await prepare(tmp_path)
    ran = await call_command(tmp_path, "hooks", "list")
    user = tmp_path / "state" / "config.yaml"
    project = tmp_path / ".acp-agent" / "config.yaml"
    assert (ran.code, ran.err) == (0, "")
    assert (
        ran.out
        == f"""\
config   longer  before_tool_call  Bash
         {user}: hooks.PreToolUse.0
config   broken  agent_stop
         {user}: hooks.Stop.0
user     guard  before_tool_call, session_end
         {hooks / "guard"}
project  lint  agent_stop
         {project}: hooks.Stop.0
"""
    )
    for name, text in (
        ("lost", "#!/usr/bin/env ruby\n"),
        ("bare.sh", "exit 2\n"),
        ("notes.txt", "No hook.\n"),
    ):
        (hooks / name).write_text(text)
    user.write_text(f"{CONFIG}  Notification: [{{command: notify-send}}]\n")
    ran = await call_command(tmp_path, "hooks", "list")
    told = [
        f"acp-agent: {hooks / name}: not executable: chmod +x {hooks / name}"
        for name in ("bare.sh", "lost")
    ]
    assert (
        ": hooks.Notification: there is no event 'Notification'"
        in ran.err.splitlines()[0]
    )
    assert (ran.code, ran.err.splitlines()[1:]) == (1, told)
    user.write_text(CONFIG)
    for name in ("lost", "bare.sh"):
        (hooks / f"{name}.disable").touch()
    (hooks / "odd").write_text("#!/bin/sh\necho Stopp\n")
    (hooks / "odd").chmod(0o755)
    ran = await call_command(tmp_path, "hooks", "list")
    assert ran.code == 1
    assert (
        ran.err
        == f"acp-agent: {hooks / 'odd'}: there is no event 'Stopp'; did you mean `Stop`?\n"
    )
    assert [line.split()[1] for line in ran.out.splitlines()[::2]] == [
        "longer",
        "broken",
        "guard",
        "lint",
    ]
    (tmp_path / ".acp-agent" / "config.yaml").write_text(
        "hooks: {Stop: [{command: [touch, ran], name: lint}]}\n"
    )
    for words in (("list",), ("test", "Stop")):
        ran = await call_command(tmp_path, "hooks", *words)
        assert (
            f"The project's hooks are ignored. To allow them, run `acp-agent trust {tmp_path}`"
            in ran.err
        )
        assert "lint" not in ran.out
    assert not (tmp_path / "ran").exists()


async def test_a_hook_is_tried_with_a_sample_and_its_answer_shown_beside_what_comes_of_all(
    tmp_path: Path,
) -> None:
    hooks = await prepare(tmp_path)
    ran = await call_command(
        tmp_path,
        "hooks",
        "test",
        "PreToolUse",
        "--tool",
        "Bash",
        "--input",
        '{"command": "ls"}',
    )
    user = tmp_path / "state" / "config.yaml"
    assert (ran.code, ran.err) == (0, "")
    assert (
        ran.out
        == f"""\
config   longer  ({user}: hooks.PreToolUse.0)
         {{"tool_input": {{"command": "ls -l"}}}}
user     guard  ({hooks / "guard"})
         {{"context": ["Mind the links."]}}
together {{"tool_input": {{"command": "ls -l"}}, "context": ["Mind the links."]}}
"""
    )
    ran = await call_command(
        tmp_path, "hooks", "test", "before_tool_call", "--tool", "read"
    )
    assert [line.split()[1] for line in ran.out.splitlines() if line.endswith(")")] == [
        "guard"
    ]
    ran = await call_command(tmp_path, "hooks", "test", "Stop")
    assert (ran.code, ran.out.splitlines()[-1]) == (1, "together nothing")
    assert "It ended with status 3." in ran.err
    assert not (tmp_path / "state" / "sessions.db").exists()


COMPACTS = """\
from acp_agent.conversation.messages import Text, UserMessage
from acp_agent.hooks import *

@hook("agent_stop")
async def auto_compact(event, services):
    if event.at.usage.share < 0.8:
        return None
    made = await services.compaction(event.at.messages if "all" in event.response else None)
    assert made.tokens_after < made.tokens_before
    return Outcome(action=Replace((UserMessage("m", (Text(made.summary),)),)))

@hook("turn_end")
async def reword(event, services):
    if event.is_summary:
        return Outcome(action=SwapContext(event.response.upper()))
"""


async def test_a_hook_that_compacts_can_be_tried(tmp_path: Path) -> None:
    hooks = tmp_path / "state" / "hooks"
    hooks.mkdir(parents=True)
    (hooks / "compacts.py").write_text(COMPACTS)
    ran = await call_command(tmp_path, "hooks", "test", "agent_stop", "--used", "90%")
    assert (ran.code, ran.err) == (0, "")
    first, _, _, together = ran.out.splitlines()
    assert first.strip() == "compacts 180,000 tokens, and gets a sample summary"
    assert together.startswith(
        'together {"action": {"name": "replace", "messages": [{"role": "user", "content"'
    )
    ran = await call_command(
        tmp_path, "hooks", "test", "agent_stop", "--used", "90%", "--text", "all " * 400
    )
    assert (ran.code, ran.err) == (0, "")
    assert "compacts 404 tokens" in ran.out
    ran = await call_command(tmp_path, "hooks", "test", "agent_stop", "--used", "50%")
    assert (ran.code, ran.out.splitlines()[-1]) == (0, "together nothing")
    words = ("hooks", "test", "turn_end", "--text", "A cart.", "--reason", "threshold")
    ran = await call_command(tmp_path, *words)
    assert (ran.code, ran.err) == (0, "")
    assert '"name": "swap_context", "summary": "A CART."' in ran.out.splitlines()[-1]


async def test_what_cannot_be_tried_is_said(tmp_path: Path) -> None:
    for words, message in (
        (("Stopp",), "EVENT: there is no event 'Stopp'; did you mean `Stop`?"),
        (("PreToolUse", "--input", "ls"), "--input is not JSON"),
    ):
        ran = await call_command(tmp_path, "hooks", "test", *words)
        assert (ran.code, ran.out) == (1, "")
        assert ran.err.startswith(f"acp-agent: {message}")
    ran = await call_command(tmp_path, "hooks", "test", "turn_end")
    assert (ran.code, ran.out) == (0, "No hook runs at this turn_end.\n")

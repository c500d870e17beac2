"""The `shell` tool: one command line, in the editor's terminal or on this machine."""

from __future__ import annotations

from anyio import to_thread
from pydantic import Field

from acp_agent.conversation.closing import ENDED_BY_USER
from acp_agent.conversation.events import CallView
from acp_agent.conversation.messages import JsonObject, Text
from acp_agent.conversation.strict_json import get_text
from acp_agent.errors import ToolError
from acp_agent.tools.arguments import Arguments, BuiltIn
from acp_agent.tools.environment import CommandResult, Environment, Report
from acp_agent.tools.paths import Target
from acp_agent.tools.shell.named_files import named_files
from acp_agent.tools.text import clean, cut_middle, one_line, without_escapes
from acp_agent.tools.tool import Access, CallResult, PreparedCall

OUTPUT_LIMIT = 32_000
"""Characters of stdout, and of stderr; local commands keep half of that of each."""
_MAX_TIMEOUT = 3600.0
_LONGEST_COMMAND = 100_000


class _Shell(Arguments):
    command: str = Field(min_length=1, max_length=_LONGEST_COMMAND)
    timeout: float = Field(0, gt=0, le=_MAX_TIMEOUT, description="Seconds after which it is stopped.")
    cwd: str = Field(
        ".", description="Directory to run it in; the working directory else. Outside the session's it asks the user."
    )


async def _prepare(asked: _Shell, environment: Environment) -> PreparedCall:
    command = asked.command
    if not command.strip():
        raise ToolError("shell: `command` is empty.")
    if "\0" in command:
        raise ToolError("shell: `command` holds a NUL character, which no command line can.")
    target = Target.of(asked.cwd, environment)
    timeout = asked.timeout or environment.shell_timeout
    # The permission question shows where it would run, whatever links lead there.
    title = _title(command) + "".join(f" (in {one_line(str(folder))})" for folder in target.outside)

    async def run(report: Report) -> CallResult:
        target.check()
        changes = await to_thread.run_sync(named_files, command, target.path, abandon_on_cancel=True)
        result = await environment.commands.run(
            command, target.path, timeout, report, exclude=environment.key_variables
        )
        text, raw = _reported(result, timeout)
        changed = await to_thread.run_sync(changes, abandon_on_cancel=True) if changes else ()
        view = CallView(title, "execute", raw_output=raw, changes=changed)
        return CallResult((Text(text),), view, is_error=result.exit_code != 0)

    # "Always allow" covers the very line; outside of the session's directories it is a rule of another kind, since
    # the directory that is added to it there looks like one more word of the command.
    subject = f"{'shell outside' if target.outside else 'shell'}: {command.strip()}"
    return PreparedCall(CallView(title, "execute"), Access("execute", target.outside, subject), run)


def _title(command: str) -> str:
    lines = command.strip().splitlines() or ["Run a command"]
    return one_line(lines[0]) + " …" * (len(lines) > 1)


def _readable(output: str) -> str:
    return cut_middle(clean(without_escapes(output.replace("\r\n", "\n"))), OUTPUT_LIMIT)


def _reported(result: CommandResult, timeout: float) -> tuple[str, JsonObject]:
    """Return what the model reads, and the raw output; streams are named apart where they came apart."""
    stdout, stderr = _readable(result.stdout), _readable(result.stderr)
    raw: JsonObject
    if result.merged:
        sections = [_section("output (stdout and stderr together)", stdout)]
        raw = {"output": stdout}
    else:
        sections = [_section("stdout", stdout), _section("stderr", stderr)]
        raw = {"stdout": stdout, "stderr": stderr}
    said = (ENDED_BY_USER,) if result.ended_by_user else ()
    return "\n".join((*said, _ending(result, timeout), *sections)), {**raw, "exitCode": result.exit_code}


def _section(name: str, text: str) -> str:
    return f"{name}:\n{text.rstrip()}" if text.strip() else f"{name}: (empty)"


def _ending(result: CommandResult, timeout: float) -> str:
    if result.timed_out:
        return f"exit status: none, stopped after the time limit of {timeout:g} seconds"
    if result.exit_code is None and result.signal is None:
        return "exit status: the editor did not say"
    return "exit status: " + (f"none, ended by {result.signal}" if result.exit_code is None else f"{result.exit_code}")


SHELL = BuiltIn(
    "shell",
    "Run a shell command (bash where there is one) and get its output and exit status. There is no terminal "
    "and no input. Every call is a fresh shell: directories and variables do not carry over. Long output "
    "is cut in the middle. Processes left in the background are stopped when the command ends; start one that must "
    "stay with `setsid` and its output redirected. Prefer read, list, glob, grep and edit for files.",
    _Shell,
    _prepare,
    title=lambda arguments: _title(get_text(arguments, "command")),
    kind="execute",
)

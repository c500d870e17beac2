"""The built-in handlers that hold the model to a form: `validate_output`, `validate_tool_output`."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

from anyio import to_thread

from acp_agent.conversation.messages import JsonObject
from acp_agent.errors import HookError
from acp_agent.hooks.contract import Services
from acp_agent.hooks.events import AfterToolCall, EventName, HookEvent, TurnEnd
from acp_agent.hooks.handler import project_text
from acp_agent.hooks.outcomes import NOTHING, Decision, Outcome
from acp_agent.patterns import compile_pattern

_NEW_ANSWER = (
    "Your answer does not have the form that is demanded here: {}. Answer again, with JSON of that form and nothing "
    "else."
)


class ValidateOutputHandler:
    """`validate_output`: the answer has to be JSON of a certain form."""

    name = "validate_output"
    events: frozenset[EventName] = frozenset({"turn_end"})

    async def handle(self, event: HookEvent, params: JsonObject, services: Services) -> Outcome:
        """Where it is not, the model is told what is wrong, and goes on.

        :raises HookError: the schema's file cannot be used.
        """
        from acp_agent.hooks.params import ValidateOutputParams

        if not isinstance(event, TurnEnd):
            return NOTHING
        said = ValidateOutputParams.model_validate(params)
        check = partial(_wrong, event.response, said.json_schema, said.file, Path(event.at.cwd))
        wrong = await to_thread.run_sync(check, abandon_on_cancel=True)
        return NOTHING if wrong is None else Outcome(Decision("block", _NEW_ANSWER.format(wrong)))


class ValidateToolOutputHandler:
    """`validate_tool_output`: a tool's result has to have a certain form."""

    name = "validate_tool_output"
    events: frozenset[EventName] = frozenset({"after_tool_call"})

    async def handle(self, event: HookEvent, params: JsonObject, services: Services) -> Outcome:
        """Where it has not, the model reads below it what is wrong. A call that failed has said so itself.

        :raises HookError: the schema's file cannot be used.
        """
        from acp_agent.hooks.params import ValidateToolOutputParams

        said = ValidateToolOutputParams.model_validate(params)
        if not isinstance(event, AfterToolCall) or event.is_error or said.tool not in (None, event.tool):
            return NOTHING
        text = event.text
        wrong: list[str] = []
        if said.pattern is not None:
            search = partial(compile_pattern(said.pattern, multiline=True).search, text)
            if await to_thread.run_sync(search, abandon_on_cancel=True) is None:
                wrong.append(f"nothing in it matches the pattern {said.pattern}")
        if said.json_schema is not None or said.file is not None:
            check = partial(_wrong, text, said.json_schema, said.file, Path(event.at.cwd))
            fault = await to_thread.run_sync(check, abandon_on_cancel=True)
            wrong.extend([] if fault is None else [fault])
        if not wrong:
            return NOTHING
        return Outcome(Decision("block", f"It does not have the form that is demanded: {'; '.join(wrong)}."))


def _wrong(text: str, schema: JsonObject | None, file: str | None, folder: Path) -> str | None:
    """What is wrong with a text that should be JSON; None where nothing is."""
    from acp_agent.hooks.json_schema import NoJsonError, faults, json_of

    if schema is None:
        schema = _schema(folder, file or "")
    try:
        value = json_of(text)
    except NoJsonError as error:
        return str(error)
    return "; ".join(faults(value, schema)) or None


def _schema(folder: Path, name: str) -> JsonObject:
    from acp_agent.hooks.json_schema import schema_fault

    try:
        schema = json.loads(project_text(folder, name))
    except (ValueError, RecursionError) as error:
        raise HookError(f"{folder / name} is no JSON: {error}.") from error
    fault = schema_fault(schema)
    if fault is not None:
        raise HookError(f"{folder / name} is no usable JSON Schema: {fault}.")
    return schema

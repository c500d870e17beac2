"""`acp-agent demo`: which model plays, the frame around the story, and the exit status.

Everything that it starts and makes is gone when it ends, however it ends.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Mapping
from functools import partial

import anyio
import anyio.abc

from acp_agent import __version__
from acp_agent.app import model_access
from acp_agent.commands.demo.agent import started
from acp_agent.commands.demo.editor import Editor
from acp_agent.commands.demo.scratch import Scratch, scratch
from acp_agent.commands.demo.screen import INDENT, Screen
from acp_agent.commands.demo.story import Story
from acp_agent.commands.demo.verdict import checks, report
from acp_agent.commands.demo.view import View
from acp_agent.commands.terminal import StopSignal
from acp_agent.config import load_settings
from acp_agent.config.load import MODEL_VARIABLE
from acp_agent.config.settings import MODEL_NAME_FORM, is_model_name
from acp_agent.errors import AgentError, ConfigError
from acp_agent.llm.registry import Registry

SCRIPTED = "No model is configured, so a script plays the model; files, tools, tests and token counts are real."


async def run(arguments: argparse.Namespace) -> int:
    """Show the agent at work.

    :param arguments: `model` is `provider/model`, or None for the configured one, or the script where there is none.
    :returns: 0; 1 where it failed or, with the script, did not happen as promised; see `StopSignal` for ctrl-c.
    :raises AgentError: it cannot begin; says why.
    """
    began = time.monotonic()
    model = await _model(arguments.model, os.environ)
    screen = Screen()
    status: int | None = None
    stop = StopSignal()
    failure: Exception | None = None
    with scratch() as made:
        made.configure(os.environ, model)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stop.cancels, tasks.cancel_scope)
            try:
                status = await _play(made, screen, tasks, model)
            except (AgentError, BrokenPipeError) as error:
                failure = error  # not through the task group, which would wrap it
            tasks.cancel_scope.cancel()
    screen.line()
    if failure is not None:
        raise failure
    if status is None:
        screen.line("Interrupted. The agent was ended and the scratch repository deleted.")
        return stop.status
    seconds = time.monotonic() - began
    screen.line(f"{INDENT}The scratch repository {made.repository} is deleted. That took {seconds:.0f} s.", "dim")
    return status


async def _model(asked: str | None, env: Mapping[str, str]) -> str | None:
    """The model to play with; None for the script.

    :raises ConfigError: the name is none, or the user's configuration cannot be read.
    """
    if asked and not is_model_name(asked):
        raise ConfigError(MODEL_NAME_FORM, source="--model")
    settings = load_settings(dict(env) | ({MODEL_VARIABLE: asked} if asked else {}))
    registry = Registry(settings, env, model_access(env))
    try:
        found = await registry.default_model()
    finally:
        await registry.aclose()
    # Nobody asked for a local model that merely happens to run, and a small one would spoil the show.
    return None if found is not None and settings.model is None and found.startswith("ollama/") else found


async def _play(made: Scratch, screen: Screen, tasks: anyio.abc.TaskGroup, model: str | None) -> int:
    before = made.run_tests()
    screen.line(f"acp-agent {__version__}, a demo: this terminal is the editor, the agent its subprocess.", "bold")
    screen.line(f"The model is {model}." if model else SCRIPTED)
    screen.line()
    screen.line(f"{INDENT}Repository  {made.repository}, a timesheet program: {before}")
    view = View(screen, made.repository)
    editor = Editor(made.repository, view)
    env = made.environment(os.environ, model)
    story = Story(made, screen, view, editor, partial(started, tasks, made, env, editor.router()))
    facts = await story.tell(before)
    return report(screen, checks(facts, editor), strict=model is None)

"""`acp-agent demo`: which model plays, the frame around the story, and the exit status."""

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
from acp_agent.commands.demo.client import DemoClient, Observed, start_agent
from acp_agent.commands.demo.scratch import Scratch, run_tests, scratch
from acp_agent.commands.demo.story import Facts, Story, checks, report
from acp_agent.commands.terminal import StopSignal
from acp_agent.commands.view import Printer, View
from acp_agent.config import load_settings
from acp_agent.config.load import MODEL_VARIABLE
from acp_agent.config.settings import MODEL_NAME_FORM, is_model_name
from acp_agent.errors import AgentError, ConfigError
from acp_agent.llm.registry import Registry

SCRIPTED = "No model is configured, so a script plays the model; files, tools, tests and token counts are real."


async def run(arguments: argparse.Namespace) -> int:
    """Show the agent at work. What it starts and makes is gone when it ends, however it ends.

    :param arguments: `model` is `provider/model`, or None for the configured one, or the script where there is none.
    :returns: 0; 1 where it failed or, with the script, did not happen as promised; see `StopSignal` for ctrl-c.
    :raises AgentError: it cannot begin; says why.
    """
    began = time.monotonic()
    model = await _model(arguments.model, os.environ)
    status: int | None = None
    stop = StopSignal()
    failure: Exception | None = None
    with scratch() as made:
        view = View(Printer(), made.project, os.environ)
        made.configure(os.environ, model)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stop.cancels, tasks.cancel_scope)
            try:
                status = await _play(made, view, tasks, model)
            except (AgentError, BrokenPipeError) as error:
                failure = error  # not through the task group, which would wrap it
            tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
    if status is None:
        view.line("", "Interrupted. The agent was ended and the scratch project deleted.")
        return stop.status
    seconds = time.monotonic() - began
    view.line("dim", f"The scratch project {made.project} is deleted. That took {seconds:.0f} s.")
    return status


async def _model(asked: str | None, env: Mapping[str, str]) -> str | None:
    """Return the model to play with; None for the script.

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


async def _play(made: Scratch, view: View, tasks: anyio.abc.TaskGroup, model: str | None) -> int:
    before = run_tests(made.project)
    view.line("heading", f"acp-agent {__version__}, a demo: this terminal is the editor, the agent its subprocess.")
    view.line("", f"The model is {model}." if model else SCRIPTED)
    view.line("", f"Project     {made.project}, a timesheet program: {before}")
    observed, facts = Observed(), Facts(before)
    client = DemoClient(view, made.project, observed)
    env = made.environment(os.environ, model)
    start = partial(start_agent, tasks, client, env, made.stderr_file)
    await Story(made.project, view, observed, start).play(facts)
    return report(view, [*checks(facts, observed)], strict=model is None)

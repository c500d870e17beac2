"""`acp-agent compact-eval`: what compactions of recorded sessions keep of what those sessions still needed.

Finds the recordings and the recipes, and prints the report. What is measured, and how, is the matter of
`compaction.evaluation`.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import anyio

from acp_agent.app import RECIPES, model_access, open_database, start_logging_at_home
from acp_agent.commands.choosing import matching, session_ids
from acp_agent.commands.progress import counting
from acp_agent.compaction.evaluation.importers import own, read_recording
from acp_agent.compaction.evaluation.measure import Measurement, measure, size
from acp_agent.compaction.evaluation.methods import Method, Model, PolicyMethod, TailMethod, strategy_methods
from acp_agent.compaction.evaluation.points import SHARES, points
from acp_agent.compaction.evaluation.recording import Recording
from acp_agent.compaction.evaluation.report import as_json, table
from acp_agent.compaction.service import CompactionService
from acp_agent.compaction.state import DEFAULT_TARGET, CompactionPolicy
from acp_agent.compaction.strategy import Writer
from acp_agent.config import Settings, load_settings
from acp_agent.config.document import DocumentError, read_text
from acp_agent.errors import AgentError, RecipeError
from acp_agent.frozen import frozen
from acp_agent.hooks.handlers import builtin_handlers, handler_params, known_handlers
from acp_agent.llm.provider import NativeCompaction
from acp_agent.llm.registry import BUILT_IN_PROVIDERS, Registry
from acp_agent.recipes.folders import SUFFIX
from acp_agent.recipes.library import RecipeLibrary, builtin_recipes_dir
from acp_agent.recipes.model import CompactionOptions, Known, Recipe, Share
from acp_agent.session.commands import REQUIRED_HOOKS, RecipeRun
from acp_agent.storage.sqlite import SqliteStore


@frozen
class _Tail:
    """What `--tail` says: nothing, tokens, or a share of the window."""

    tokens: int | None = None
    share: float | None = None

    @property
    def given(self) -> bool:
        return self.tokens is not None or self.share is not None


async def run(arguments: argparse.Namespace) -> int:
    """Measure and print the report. Times and notices go to stderr, so that stdout is the same in every run.

    :returns: 0; 1 where no method came to a result anywhere.
    :raises AgentError: a session or a recipe cannot be used, or a number makes no sense.
    """
    env = os.environ
    start_logging_at_home(env)
    shares = [_share(text) for text in arguments.shares] or SHARES
    tail = _tail(arguments.tail)
    if arguments.window is not None and arguments.window < 1:
        raise AgentError("--window is a number of tokens, 1 or more.")
    settings = load_settings(env, Path.cwd(), providers=BUILT_IN_PROVIDERS)
    service = CompactionService()
    recipes = _recipes(arguments.recipes, settings, service)
    recordings = await _recordings(arguments, env)
    for notice in (each.notice for each in recordings if each.notice):
        print(f"acp-agent: {notice}", file=sys.stderr)
    registry = Registry(settings, env, model_access(env))
    try:
        model = await _model(arguments.model, registry)
        methods: list[Method] = [
            _of_recipe(name, recipe, service, tail, model)
            for name, recipe in zip(_names(recipes), recipes, strict=True)
        ]
        if not arguments.recipes:
            methods += strategy_methods(service, tail.share, tail.tokens)
        methods.append(TailMethod())
        measured: list[Measurement] = []
        total = sum(len(points(recording, shares)) for recording in recordings) * len(methods)
        with counting("compactions", total) as advance:
            async for each in measure(recordings, methods, shares, arguments.window):
                measured.append(each)
                advance()
    finally:
        await registry.aclose()
    if not measured:
        raise AgentError(
            "There is no point to compact at: each session needs a few messages before it and behind it. Name longer "
            "sessions, or other points with --at."
        )
    if arguments.json:
        print(as_json(measured, methods), end="")
    else:
        print(_heading(recordings, measured))
        print(table(measured, methods, max(0, arguments.misses)), end="")
    _tell_times(measured, methods)
    return 0 if any(not each.failure for each in measured) else 1


def _heading(recordings: Sequence[Recording], measured: Sequence[Measurement]) -> str:
    tokens = sum(size(recording) for recording in recordings)
    forms = ", ".join(sorted({recording.form for recording in recordings}))
    cuts = len({(each.recording, each.point.cut) for each in measured})
    sessions = "1 session" if len(recordings) == 1 else f"{len(recordings)} sessions"
    return f"{sessions} ({forms}), about {tokens:,} tokens, {cuts} compactions each\n"


def _tell_times(measured: Sequence[Measurement], methods: Sequence[Method]) -> None:
    times = {method.name: sum(each.seconds for each in measured if each.method == method.name) for method in methods}
    print("seconds: " + ", ".join(f"{name} {seconds:.2f}" for name, seconds in times.items()), file=sys.stderr)


# --------------------------------------------------------------------------------------------- sessions


async def _recordings(arguments: argparse.Namespace, env: Mapping[str, str]) -> list[Recording]:
    names: list[str] = list(dict.fromkeys(arguments.sessions))
    if not names and arguments.database is None:
        raise AgentError("Name a session: its id (`acp-agent sessions` lists them), or a recorded file.")
    found = _files(names)
    if not names or len(found) < len(names):
        store = await _store(arguments.database, env)
        try:
            ids = await session_ids(store)
            for name in names or ids:
                if name not in found:
                    session_id = matching(name, ids, or_file=True)
                    events = [event async for event in store.events(session_id)]
                    recording = own.from_log(events, session_id)
                    if recording.entries:
                        found[name] = recording
                    elif names:
                        raise AgentError(f"Nothing was said in the session {session_id}.")
        finally:
            await store.aclose()
    taken = [recording.name for recording in found.values()]
    return [
        found[name] if taken.count(found[name].name) == 1 else replace(found[name], name=name)
        for name in names or found
    ]


def _files(names: Sequence[str]) -> dict[str, Recording]:
    """What is in those of the names that are files."""
    return {name: read_recording(Path(name)) for name in names if Path(name).exists()}


async def _store(database: str | None, env: Mapping[str, str]) -> SqliteStore:
    if database is None:
        return await open_database(env)
    path = await anyio.Path(database).resolve()
    if not await path.is_file():
        raise AgentError(
            f"{database}: there is no such database. The agent's own is sessions.db in its home directory."
        )
    return await SqliteStore.open(Path(path))


# ---------------------------------------------------------------------------------------------- recipes


def _recipes(names: Sequence[str], settings: Settings, service: CompactionService) -> list[Recipe]:
    """The recipes that are named, or all that compact."""
    handlers = known_handlers(builtin_handlers().values())
    providers = (*BUILT_IN_PROVIDERS, *settings.providers)
    library = RecipeLibrary.discover(
        builtin_recipes_dir(),
        settings.home / RECIPES,
        settings.project / RECIPES if settings.project else None,
        handlers,
        required_hooks=REQUIRED_HOOKS,
        strategies=service.choices,
        providers=providers,
        params=handler_params(),
    )
    if not names:
        return [recipe for recipe in library.recipes.values() if RecipeRun(recipe, "", ()).compacts]
    known = Known(handlers, None, REQUIRED_HOOKS, service.choices, providers, handler_params())
    chosen: list[Recipe] = []
    for name in dict.fromkeys(names):
        recipe = _from_file(Path(name), known) if name.endswith(SUFFIX) else library.get(name.removeprefix("/"))
        if recipe is None:
            for error in library.errors:
                if Path(error.source or "").stem == name:
                    raise error
            raise AgentError(f"There is no recipe {name!r}. The recipes are: {', '.join(library.recipes)}.")
        if not RecipeRun(recipe, "", ()).compacts:
            raise AgentError(f"The recipe {name!r} does not compact: no hook of it swaps the context.")
        chosen.append(recipe)
    return chosen


def _from_file(path: Path, known: Known) -> Recipe:
    """The recipe in a file, wherever that is.

    :raises RecipeError: it is wrong.
    """
    from acp_agent.recipes.front_matter import parse_recipe

    try:
        text = read_text(path)
        if text is None:
            raise DocumentError("there is no such file")
        return parse_recipe(text, name=path.stem, source=path, origin="user", known=known)
    except DocumentError as error:
        message = f"{error.key}: {error.message}" if error.key else error.message
        raise RecipeError(message, source=str(path), line=error.line) from error


def _names(recipes: Sequence[Recipe]) -> list[str]:
    """What the report calls them: as they are typed, and with the file where two are typed alike."""
    taken = [recipe.name for recipe in recipes]
    return [
        f"/{recipe.name}" if taken.count(recipe.name) == 1 else f"/{recipe.name} ({recipe.source})"
        for recipe in recipes
    ]


def _of_recipe(name: str, recipe: Recipe, service: CompactionService, tail: _Tail, model: Model | None) -> PolicyMethod:
    """A recipe with what it sets, and nothing of what the configuration says instead."""
    options = recipe.compaction or CompactionOptions()
    set_tail = _Tail(share=options.tail.of_window) if isinstance(options.tail, Share) else _Tail(options.tail)
    tail = tail if tail.given else set_tail
    policy = CompactionPolicy(
        prompt=RecipeRun(recipe, "", ()).render() if model else "",
        strategy=options.strategy or "summary",
        tail=tail.tokens,
        target=options.target or DEFAULT_TARGET,
        ledger=options.ledger,
        requests=options.requests,
        summary=options.summary,
        sections=options.sections or (),
        verify=options.verify or "mark",
    )
    return PolicyMethod(name, policy, service, tail.share, model)


# ------------------------------------------------------------------------------------------ the command


async def _model(name: str | None, registry: Registry) -> Model | None:
    if name is None:
        return None
    await registry.unlock(name)
    resolved = registry.resolve(name)
    await registry.learn_window(name)
    native = resolved.provider if isinstance(resolved.provider, NativeCompaction) else None
    writer = Writer(resolved.id, registry.context_window(name), resolved.profile.max_output_tokens)
    return Model(resolved.provider.stream, writer, native)


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = math.nan
    if not 0 < share < 1:
        raise AgentError(f"--at {text}: a point is a share between 0 and 1, as 0.5.")
    return share


def _tail(text: str | None) -> _Tail:
    if text is None:
        return _Tail()
    if found := re.fullmatch(r"(\d{1,2})\s?%", text):
        return _Tail(share=int(found[1]) / 100)
    if text.isdecimal() and len(text) < 9:
        return _Tail(int(text))
    raise AgentError(f"--tail {text}: a tail is a number of tokens, as 8000, or a percentage of the window, as 20%.")

"""`acp-agent compact-eval`: what compactions of recorded sessions keep of what those sessions still needed."""

import argparse
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from acp_agent.app import RESERVED, model_access, open_database, recipe_folders, recipe_known, start_logging_at_home
from acp_agent.commands.choosing import matching, session_ids
from acp_agent.commands.progress import counting
from acp_agent.compaction.estimate import estimate_messages
from acp_agent.compaction.evaluation.importers import from_log, read_recording
from acp_agent.compaction.evaluation.measure import Measurement, Model, SizeOf, measure, newest, policy_method
from acp_agent.compaction.evaluation.recording import SHARES, Recording, points
from acp_agent.compaction.evaluation.report import as_json, table
from acp_agent.compaction.service import ASKS_A_MODEL, CompactionService
from acp_agent.compaction.state import CompactionPolicy
from acp_agent.compaction.strategy import Writer
from acp_agent.config import Settings, load_settings
from acp_agent.config.settings import Share
from acp_agent.errors import AgentError
from acp_agent.llm.provider import NativeCompaction
from acp_agent.llm.registry import BUILT_IN_PROVIDERS, Registry
from acp_agent.recipes.folders import SUFFIX, RecipeFolder
from acp_agent.recipes.library import RecipeLibrary, read_recipe
from acp_agent.recipes.model import CompactionOptions
from acp_agent.session.commands import RecipeRun
from acp_agent.storage.sqlite import SqliteStore


async def run(arguments: argparse.Namespace) -> int:
    """Measure and print the report; return 1 where no method came to a result anywhere."""
    start_logging_at_home(os.environ)
    shares = [_share(text) for text in arguments.shares] or SHARES
    sizes = {text: _size(text) for text in arguments.sizes} or {"": None}
    if arguments.window is not None and arguments.window < 1:
        raise AgentError("--window is a number of tokens, 1 or more.")
    settings, service = load_settings(os.environ, Path.cwd(), providers=BUILT_IN_PROVIDERS), CompactionService()
    recipes = _recipes(arguments.recipes, settings, service)
    recordings = await _recordings(arguments.sessions, arguments.database)
    registry = Registry(settings, os.environ, model_access(os.environ))
    try:
        model = await _model(arguments.model, registry) if arguments.model else None
        policies = {name: _policy(run, model) for name, run in recipes.items()}
        for name in () if arguments.recipes else sorted(set(service.choices) - ASKS_A_MODEL):
            policies[name] = CompactionPolicy("", strategy=name), None
        methods = [
            policy_method(f"{name} {text}" if len(sizes) > 1 else name, policy, service, size or default, model)
            for name, (policy, default) in policies.items()
            for text, size in sizes.items()
        ]
        methods.append(newest())
        cuts = sum(len(points(recording, shares)) for recording in recordings)
        measured: list[Measurement] = []
        with counting("compactions", cuts * len(methods)) as advance:
            async for each in measure(recordings, methods, shares, arguments.window):
                measured.append(each)
                advance()
    finally:
        await registry.aclose()
    if not measured:
        raise AgentError("There is no point to compact at: name longer sessions, or other points with --at.")
    if arguments.json:
        print(as_json(measured), end="")
    else:
        tokens = sum(estimate_messages(recording.messages) for recording in recordings)
        forms = ", ".join(sorted({recording.form for recording in recordings}))
        sessions = f"{len(recordings)} session{'s' * (len(recordings) > 1)}"
        print(f"{sessions} ({forms}), about {tokens:,} tokens, {cuts} compactions each\n")
        print(table(measured, max(0, arguments.misses)), end="")
    return 0 if any(not each.failure for each in measured) else 1


def _files(names: Sequence[str]) -> dict[str, Recording]:
    found = {name: read_recording(Path(name)) for name in names if Path(name).exists()}
    for recording in found.values():
        if recording.notice:
            print(f"acp-agent: {recording.notice}", file=sys.stderr)
    return found


def _database(name: str) -> Path:
    if not Path(name).is_file():
        raise AgentError(f"{name}: there is no such database. The agent's own is sessions.db in its home directory.")
    return Path(name).resolve()


async def _recordings(names: Sequence[str], database: str | None) -> list[Recording]:
    """Return the recorded files and the sessions of these names, or all sessions of a database."""
    if not names and database is None:
        raise AgentError("Name a session: its id (`acp-agent sessions` lists them), or a recorded file.")
    found = _files(names)
    if not names or found.keys() < {*names}:
        store = await (open_database(os.environ) if database is None else SqliteStore.open(_database(database)))
        try:
            ids = await session_ids(store)
            for name in [name for name in names or ids if name not in found]:
                session_id = matching(name, ids, or_file=True)
                found[name] = from_log([event async for event in store.events(session_id)], session_id)
        finally:
            await store.aclose()
    return [found[name] for name in dict.fromkeys(names or found) if found[name].entries]


def _recipes(names: Sequence[str], settings: Settings, service: CompactionService) -> dict[str, RecipeRun]:
    """Return the recipes of these names, or all that compact, by what the report calls them."""
    known, found = recipe_known(settings, service.choices), dict[str, RecipeRun]()
    library = RecipeLibrary.read(recipe_folders(os.environ, settings, Path.cwd()), known, RESERVED)
    for name in names or library.recipes:
        recipe, path = library.get(name), Path(name)
        if name.endswith(SUFFIX) and path.exists():
            recipe = read_recipe(RecipeFolder("user", path.parent), path.stem, path, known)
        if recipe is None:
            raise AgentError(f"There is no recipe {name!r}. The recipes are: {', '.join(library.recipes)}.")
        run = RecipeRun(recipe, "", ())
        if run.compacts:
            found[name if name.endswith(SUFFIX) else f"/{name}"] = run
        elif names:
            raise AgentError(f"The recipe {name!r} does not compact: no hook of it swaps the context.")
    return found


def _policy(run: RecipeRun, model: Model | None) -> tuple[CompactionPolicy, SizeOf | None]:
    """Return what a recipe sets, and nothing of what the configuration says instead."""
    options = run.recipe.compaction or CompactionOptions()
    size = options.size
    policy = CompactionPolicy(
        prompt=run.render() if model else "",
        strategy=options.strategy or "summary",
        size=size if isinstance(size, int) else None,
        tail=run.swap.keep_tail_tokens,
        summary=run.swap.max_summary_tokens,
        sections=options.sections or (),
        verify=options.verify or "mark",
    )
    return policy, (lambda budget: size.tokens(budget.window)) if isinstance(size, Share) else None


async def _model(name: str, registry: Registry) -> Model:
    await registry.unlock(name)
    resolved = registry.resolve(name)
    await registry.learn_window(name)
    native = resolved.provider if isinstance(resolved.provider, NativeCompaction) else None
    writer = Writer(resolved.id, registry.context_window(name), resolved.profile.max_output_tokens)
    return Model(resolved.provider.stream, writer, native)


def _share(text: str) -> float:
    if re.fullmatch(r"0?\.\d*[1-9]\d*", text):
        return float(text)
    raise AgentError(f"--at {text}: a point is a share between 0 and 1, as 0.5.")


def _size(text: str) -> SizeOf:
    if found := re.fullmatch(r"(\d{1,2}(?:\.\d+)?)\s?%", text):
        share = float(found[1]) / 100
        return lambda budget: int(budget.messages * share)
    if text.isdecimal() and 0 < int(text) < 10**9:
        return lambda _: int(text)
    raise AgentError(f"--size {text}: a size is a percentage of the conversation, as 20%, or tokens, as 20000.")

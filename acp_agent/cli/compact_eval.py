"""`acp-agent compact-eval`: what compactions of recorded sessions keep of what those
sessions still needed.
"""

import argparse
import os
from collections.abc import AsyncGenerator, Sequence
from functools import partial
from pathlib import Path

import anyio

from acp_agent.app import (
    RESERVED,
    checked_settings,
    model_access,
    open_database,
    recipe_folders,
    recipe_known,
    start_home_logging,
)
from acp_agent.cli.terminal.process import Activity
from acp_agent.cli.terminal.sessions import matching, session_ids
from acp_agent.compaction import (
    CompactionPolicy,
    CompactionService,
    ModelCall,
    Writer,
    estimate_messages,
)
from acp_agent.compaction.evaluation.measure import (
    Measurement,
    SizeOf,
    measure,
    newest,
    policy_method,
    table,
)
from acp_agent.compaction.evaluation.recordings import (
    Recording,
    from_log,
    points,
    read_recording,
)
from acp_agent.compaction.service import ASKS_A_MODEL
from acp_agent.config import Settings
from acp_agent.config.forms import Share, share_of
from acp_agent.errors import AgentError, CompactionError
from acp_agent.llm.provider import ModelEvent, ModelRequest, NativeCompaction
from acp_agent.llm.registry import Registry
from acp_agent.recipes.discovery import SUFFIX, RecipeFolder, RecipeLibrary, read_recipe
from acp_agent.session.recipes.run import RecipeRun


async def run(arguments: argparse.Namespace) -> int:
    """Measure and print the report; return 1 where no method came to a result anywhere."""
    start_home_logging(os.environ)
    sizes = {text: _size(text) for text in arguments.sizes} or {"": None}
    settings = checked_settings(os.environ, Path.cwd())
    service = CompactionService()
    recipes = _recipes(arguments.recipes, settings)
    policies = {
        name: _policy(run, bool(arguments.model)) for name, run in recipes.items()
    }
    for name in (
        () if arguments.recipes else sorted(set(service.choices) - ASKS_A_MODEL)
    ):
        policies[name] = CompactionPolicy("", strategy=name), None
    recordings = await _recordings(arguments.sessions)
    registry = Registry(settings, os.environ, model_access(os.environ))
    activity = Activity()
    try:
        found = (
            await _model(arguments.model, registry)
            if arguments.model
            else (_no_model, None, None)
        )
        call, writer, native = found
        compact = partial(service, call=call, native=native, writer=writer)
        methods = [
            policy_method(
                title,
                policy,
                compact,
                size or own_size,
                has_model=bool(arguments.model),
            )
            for name, (policy, own_size) in policies.items()
            for text, size in sizes.items()
            for title in (f"{name} {text}" if len(sizes) > 1 else name,)
        ]
        cuts = sum(len(points(recording)) for recording in recordings)
        measured: list[Measurement] = []
        async for each in measure(
            recordings, [*methods, newest()], model=writer.model if writer else ""
        ):
            measured.append(each)
            activity.busy(f"{len(measured)} of {cuts * (len(methods) + 1)} compactions")
    finally:
        activity.idle()
        await registry.aclose()
    if not measured:
        raise AgentError("These sessions are too short to compact. Name longer ones.")
    tokens = sum(estimate_messages(recording.messages) for recording in recordings)
    forms = ", ".join(sorted({recording.form for recording in recordings}))
    sessions = f"{len(recordings)} session{'s' * (len(recordings) > 1)}"
    print(f"{sessions} ({forms}), about {tokens:,} tokens, {cuts} compactions each\n")
    print(table(measured), end="")
    return 0 if any(not each.failure for each in measured) else 1


async def _recordings(names: Sequence[str]) -> list[Recording]:
    """Return the recorded files and the sessions of these names."""
    found = {
        name: read_recording(Path(name))
        for name in names
        if await anyio.Path(name).exists()
    }
    if found.keys() < {*names}:
        store = await open_database(os.environ)
        try:
            ids = await session_ids(store)
            for name in [name for name in names if name not in found]:
                session_id = matching(name, ids)
                found[name] = from_log(
                    [event async for event in store.events(session_id)], session_id
                )
        finally:
            await store.aclose()
    return [found[name] for name in dict.fromkeys(names) if found[name].entries]


def _recipes(names: Sequence[str], settings: Settings) -> dict[str, RecipeRun]:
    """Return the recipes of these names, or all that compact, by what the report calls
    them.
    """
    known = recipe_known(settings)
    found = dict[str, RecipeRun]()
    library = RecipeLibrary.read(
        recipe_folders(os.environ, settings, Path.cwd()), known, RESERVED
    )
    for name in names or library.recipes:
        recipe = library.get(name)
        path = Path(name)
        if name.endswith(SUFFIX) and path.exists():
            recipe = read_recipe(
                RecipeFolder("user", path.parent), path.stem, path, known
            )
        if recipe is None:
            raise AgentError(
                f"There is no recipe {name!r}. The recipes are: {', '.join(library.recipes)}."
            )
        run = RecipeRun(recipe, "", ())
        if run.compacts:
            found[name if name.endswith(SUFFIX) else f"/{name}"] = run
        elif names:
            raise AgentError(
                f"The recipe {name!r} does not compact: none of its hooks swaps the context."
            )
    return found


def _policy(run: RecipeRun, has_model: bool) -> tuple[CompactionPolicy, SizeOf | None]:
    """Return what a recipe sets, and nothing of what the configuration says instead."""
    options = run.recipe.compaction
    size = options.size
    policy = CompactionPolicy(
        prompt=run.render() if has_model else "",
        strategy=options.strategy or "summary",
        size=size if isinstance(size, int) else None,
        tail=run.swap.keep_tail_tokens,
        summary=run.swap.max_summary_tokens,
        sections=options.sections or (),
        verify=options.verify or "mark",
    )
    return policy, (lambda budget: size.tokens(budget.window)) if isinstance(
        size, Share
    ) else None


async def _model(
    name: str, registry: Registry
) -> tuple[ModelCall, Writer, NativeCompaction | None]:
    await registry.unlock(name)
    await registry.learn_window(name)
    resolved = registry.resolve(name)
    writer = Writer(resolved.id, resolved.window, resolved.profile.max_output_tokens)
    native = (
        resolved.provider if isinstance(resolved.provider, NativeCompaction) else None
    )
    return resolved.provider.stream, writer, native


async def _no_model(_: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
    raise CompactionError("This strategy needs a model. Name one with --model.")
    yield  # the type of a stream


def _size(text: str) -> SizeOf:
    share = share_of(text)
    if share is not None and share < 1:
        return lambda budget: int(budget.messages * share)
    if text.isdecimal() and 0 < int(text) < 10**9:
        return lambda _: int(text)
    raise AgentError(
        f"--size {text}: give a share of the conversation, such as 20%, or tokens, such as 20000."
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the sub-command."""
    parser.add_argument(
        "sessions",
        nargs="+",
        metavar="SESSION",
        help="session id, unique prefix of one, or a recorded file",
    )
    parser.add_argument(
        "--recipe",
        action="append",
        default=[],
        dest="recipes",
        metavar="NAME|FILE",
        help="recipe to measure: a name or a Markdown file; may be repeated. By default, measure every "
        "recipe that compacts and every strategy that works without a model",
    )
    parser.add_argument(
        "--size",
        action="append",
        default=[],
        dest="sizes",
        metavar="PERCENT|TOKENS",
        help="size of the new context, overriding the recipes; a percentage refers to the conversation's "
        "tokens. If repeated, each method gets a row for each size",
    )
    parser.add_argument(
        "--model",
        metavar="PROVIDER/MODEL",
        help="model that writes the summaries. This costs money: each recipe makes at least one call at "
        "each point",
    )

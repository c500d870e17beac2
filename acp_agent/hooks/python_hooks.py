"""Hooks written in Python: the decorator `hook`, and functions that load files and
installed packages that use it.
"""

from __future__ import annotations

import inspect
import json
import sys
import traceback
from collections.abc import Awaitable, Callable, Iterable
from copy import deepcopy
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import TypeAlias, TypeVar, cast, get_args

from anyio import to_thread

from acp_agent.config.document import DocumentError, read_text
from acp_agent.config.hook_events import OnError, events_named
from acp_agent.config.trust import ProjectCode
from acp_agent.errors import HookError, located
from acp_agent.hooks.contract import (
    TIME_LIMIT,
    FoundHooks,
    Hook,
    Origin,
    Services,
    joined,
    unusable,
)
from acp_agent.hooks.events import AfterToolCall, BeforeToolCall, HookEvent
from acp_agent.hooks.outcomes import NOTHING, Outcome
from acp_agent.module_path import load_plug_in
from acp_agent.patterns import PatternError, compile_pattern

ENTRY_POINTS = "acp_agent.hooks"
"""The group of entry points. Each entry point is a function with the decorator `hook`,
or a module with such functions.
"""

Function: TypeAlias = Callable[..., "Outcome | Awaitable[Outcome | None] | None"]
F = TypeVar("F", bound=Function)

_KINDS = {
    "tool_input": dict,
    "tool_output": str,
    "message": str,
    "summary": str,
    "stop": str,
}
_MARK = "__acp_agent_hooks__"


def hook(
    *events: str,
    matcher: str = "",
    time_limit: float = TIME_LIMIT,
    on_error: OnError = "ask",
) -> Callable[[F], F]:
    """Mark a function as a hook. The function is called with the event and the
    `Services`, and returns an `Outcome` or None.

    An `async` function is cancelled at the time limit. Other functions run in a worker
    thread, which cannot be killed: at the time limit, the thread is abandoned and its
    result is ignored. The decorator does not change the function, so tests can call it
    directly.

    :param events: names of events, ours or Claude Code's.
    :param matcher: limits when the hook runs; see `acp_agent.hooks.contract.matches`.
    :param time_limit: in seconds.
    :param on_error: what happens if the hook fails. `ask`: the user is asked about the
        call; `allow`: nothing; `block`: the action is refused.
    :raises HookError: if an argument is invalid.
    """
    names, unknown = events_named(events)
    if unknown:
        raise HookError(f"In @hook, {unknown[0]}.")
    if not names:
        raise HookError(
            "@hook needs the name of an event, such as @hook('before_tool_call')."
        )
    if on_error not in get_args(OnError):
        raise HookError(
            f"`on_error` should be 'ask', 'allow' or 'block', not {on_error!r}."
        )
    try:
        compile_pattern("" if matcher == "*" else matcher)
    except PatternError as error:
        raise HookError(f"The matcher {error}.") from error

    def marked(function: F) -> F:
        name = str(getattr(function, "__name__", "hook"))
        made = Hook(
            name,
            "user",
            "",
            names,
            partial(_call, function),
            matcher,
            time_limit,
            on_error,
        )
        setattr(function, _MARK, (*_hooks_of(function), made))
        return function

    return marked


def _hooks_of(value: object) -> tuple[Hook, ...]:
    """Return the hooks that `hook` has attached to a function; empty for any other
    value.
    """
    return cast(
        "tuple[Hook, ...]",
        getattr(value, _MARK, ()) if inspect.isroutine(value) else (),
    )


async def _call(function: Function, event: HookEvent, services: Services) -> Outcome:
    """Call the function of a hook.

    :raises HookError: if the function returned anything other than a valid outcome or
        None, or tried to exit the process.
    """
    if isinstance(event, BeforeToolCall | AfterToolCall):
        # The function gets a copy, so changing the arguments in place has no effect.
        event = replace(event, input=deepcopy(event.input))
    answer: object
    try:
        if inspect.iscoroutinefunction(function):
            answer = await function(event, services)
        else:
            answer = await to_thread.run_sync(
                function, event, services, abandon_on_cancel=True
            )
            if inspect.isawaitable(answer):
                answer = await answer
    except SystemExit as error:
        raise HookError(
            "It called sys.exit(), which a hook must not do. Use `return` instead."
        ) from error
    if answer is None:
        return NOTHING
    if not isinstance(answer, Outcome):
        raise HookError(
            f"It returned a {type(answer).__name__}; a hook should return an Outcome or None."
        )
    for name, kind in _KINDS.items():
        if not isinstance(value := getattr(answer, name), kind | None):
            raise HookError(
                f"`{name}` of its Outcome is a {type(value).__name__}; it should be a {kind.__name__}."
            )
    try:
        json.dumps(answer.tool_input, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise HookError(
            f"`tool_input` of its Outcome cannot be written as JSON: {error}."
        ) from error
    return answer


# --- loading ---


def load(path: Path, origin: Origin, code: ProjectCode | None = None) -> FoundHooks:
    """Run a Python file and return the hooks that it defines, in order.

    The file is executed without writing bytecode to disk. Each call executes it again,
    so every session has its own module globals.

    :param path: absolute.
    :param code: the code of the file's project that the user trusts. The file can
        import nothing else from the project. None for a file that is not a project's.
    """
    name = f"acp_agent_hooks:{path}"  # no importable module can have such a name
    module = ModuleType(name)
    module.__file__ = str(path)
    try:
        text = read_text(path) if code is None else _trusted_text(module, path, code)
        if text is None:
            raise DocumentError("does not exist")
        compiled = compile(text, str(path), "exec", dont_inherit=True)
        # Dataclasses and annotations look up their module in sys.modules.
        sys.modules[name] = module
        exec(compiled, vars(module))
    except (Exception, SystemExit) as error:
        sys.modules.pop(name, None)
        return unusable(HookError(_reason(error, str(path))), origin, str(path), path)
    hint = (
        "contains no hook. Mark a function with @hook('before_tool_call') from acp_agent.hooks. If the file is a "
        f"program, remove `.py` from its name. If hooks import it, rename it to `_{path.name}`."
    )
    found = _marked(vars(module).values(), origin, str(path), hint, path)
    if not found.hooks:
        sys.modules.pop(name, None)
    return found


def _trusted_text(module: ModuleType, path: Path, code: ProjectCode) -> bytes:
    """Return the source of a project's hook.

    :param module: the hook's module. Its built-in names are replaced, so that it can
        import the code that the user trusts, and no other code of the project.
    :raises ImportError: if the source is not the one that the user trusts.
    """
    from acp_agent.hooks.project_modules import ProjectModules  # loads OpenSSL

    modules = ProjectModules(path, code.place.parent, code.sources)
    vars(module)["__builtins__"] = modules.builtins
    return modules.source_of(path)


@cache
def installed() -> FoundHooks:
    """Return the hooks of installed packages, and an error for each entry point without
    hooks. These hooks count as the user's. The result is cached for the process.
    """
    from importlib.metadata import entry_points

    found: list[FoundHooks] = []
    for point in sorted(entry_points(group=ENTRY_POINTS), key=lambda point: point.name):
        source = f"{point.dist.name if point.dist is not None else 'a package'} ({point.value})"
        try:
            value = load_plug_in(point)
        except (Exception, SystemExit) as error:
            found.append(
                unusable(HookError(f"{source}: {_reason(error)}"), "user", source)
            )
            continue
        values = vars(value).values() if isinstance(value, ModuleType) else (value,)
        found.append(
            _marked(
                values,
                "user",
                source,
                "is neither a function with @hook nor a module with such functions.",
            )
        )
    return joined(found)


def _marked(
    values: Iterable[object],
    origin: Origin,
    source: str,
    hint: str,
    file: Path | None = None,
) -> FoundHooks:
    """Return the hooks that are attached to functions among some values. A function
    that occurs several times is used once.

    :param hint: the error message if there are no hooks.
    """
    functions = {id(value): value for value in values if _hooks_of(value)}.values()
    made = (each for function in functions for each in _hooks_of(function))
    hooks = tuple(
        replace(each, origin=origin, source=source, file=file) for each in made
    )
    return (
        FoundHooks(hooks)
        if hooks
        else FoundHooks((), (HookError(f"{source}: {hint}"),))
    )


def _reason(error: BaseException, path: str = "") -> str:
    """Return why a file or a package could not be loaded.

    :param path: the file. The message includes the line of the innermost traceback
        entry in this file.
    """
    if isinstance(error, DocumentError):
        return located(error.message, source=path, line=error.line)
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == path
    ]
    line = lines[-1] if lines else None
    text = str(error)
    why = (
        text
        if isinstance(error, HookError)
        else f"could not be loaded: {type(error).__name__}"
    )
    if isinstance(error, SyntaxError) and error.filename == path:
        line = error.lineno
        why = f"is not valid Python: {error.msg}"
    elif text and not isinstance(error, HookError):
        why = f"{why}: {text}"
    return located(why, source=path, line=line) if path else why

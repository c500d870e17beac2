"""Loading hooks that are written in Python: files of a `hooks` folder, and installed packages.

Whatever such code does while it is loaded, what comes of it is hooks and errors. Knows no folders.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import CodeType, ModuleType
from typing import TypeAlias, cast

from acp_agent.config.document import DocumentError, read_text
from acp_agent.errors import HookError, located
from acp_agent.hooks.contract import Hook, Origin
from acp_agent.hooks.python_hooks import Function, hooks_of, marks_of
from acp_agent.hooks.unusable import unusable

ENTRY_POINTS = "acp_agent.hooks"
"""Group of entry points: each is a function that `hook` has marked, or a module with some."""

Loaded: TypeAlias = tuple[tuple[Hook, ...], tuple[HookError, ...]]


def load(path: Path, origin: Origin) -> Loaded:
    """Run a Python file, and take the hooks that are defined in it, in their order.

    The file's text is run, and no compiled form of it is kept: nothing is written beside it. Each call runs it anew, so
    that what it remembers in its module is one session's.

    :param path: absolute.
    :returns: the hooks, and an error with file and line where there are none.
    """
    name = f"acp_agent_hooks:{path}"  # nothing that can be imported has such a name
    module = ModuleType(name)
    module.__file__ = str(path)
    try:
        text = read_text(path)
        if text is None:
            raise DocumentError("does not exist")
        code = compile(text, str(path), "exec", dont_inherit=True)
        sys.modules[name] = module  # dataclasses and annotations look their module up there
        exec(code, vars(module))
    except DocumentError as error:
        return unusable(HookError(located(error.message, source=str(path), line=error.line)), origin, path)
    except (Exception, SystemExit) as error:
        sys.modules.pop(name, None)
        reason = located(_reason(error, path), source=str(path), line=_line(error, path))
        return unusable(HookError(reason), origin, path)
    hooks = _hooks(vars(module).values(), origin, str(path), path)
    if hooks:
        return hooks, ()
    sys.modules.pop(name, None)
    return (), (
        HookError(
            f"{path}: holds no hook. Mark a function with @hook('before_tool_call') from acp_agent.hooks; or take "
            f"`.py` off its name where it is a program, and call it `_{path.name}` where hooks import it."
        ),
    )


@cache
def installed() -> Loaded:
    """The hooks of installed packages, which are the user's own choice. Looked for once in a process.

    :returns: the hooks, and an error for each entry point without any, which names the package.
    """
    from importlib.metadata import entry_points

    hooks: list[Hook] = []
    errors: list[HookError] = []
    for point in sorted(entry_points(group=ENTRY_POINTS), key=lambda point: point.name):
        package = point.dist.name if point.dist is not None else "a package"
        source = f"{package} ({point.value})"
        try:
            value = cast("object", point.load())
        except (Exception, SystemExit) as error:
            broken, why = unusable(HookError(f"{source}: {_reason(error, None)}"), "user", source=source)
            hooks += broken
            errors += why
            continue
        values = vars(value).values() if isinstance(value, ModuleType) else (value,)
        found = _hooks(values, "user", source)
        hooks += found
        if not found:
            errors.append(HookError(f"{source}: is neither a function marked with @hook nor a module with any."))
    return tuple(hooks), tuple(errors)


def _hooks(values: Iterable[object], origin: Origin, source: str, file: Path | None = None) -> tuple[Hook, ...]:
    """The hooks among some values; a function with two names is one."""
    functions = {id(value): cast("Function", value) for value in values if marks_of(value)}
    return tuple(
        hook for function in functions.values() for hook in hooks_of(function, origin, _source(function, source), file)
    )


def _source(function: Function, source: str) -> str:
    """Where a function stands: with its line, where that is a file of its own."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if isinstance(code, CodeType) and code.co_filename == source:
        return f"{source}:{code.co_firstlineno}"
    return source


def _reason(error: BaseException, path: Path | None) -> str:
    if isinstance(error, HookError):
        return str(error)
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f"is no valid Python: {error.msg}"
    text = str(error)
    return f"could not be loaded: {type(error).__name__}{f': {text}' if text else ''}"


def _line(error: BaseException, path: Path) -> int | None:
    """The line of the file at which an exception arose: the innermost one, however deep in other modules it was."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return error.lineno
    line: int | None = None
    traceback = error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == str(path):
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return line

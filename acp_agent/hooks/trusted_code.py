"""Replaces `exec`, `eval` and `compile` for the Python hooks of a project, so that they
run only code that the user trusted.

A hook that runs `exec(open(path).read())` runs whatever the file contains, and a
sandboxed command may have written the file. The agent cannot see which file a text
comes from. So a text is run only if it is the whole text of a trusted file, or a string
in a trusted source. Any other text can be compiled, for example to check its syntax,
but not run.

Source: Python's documentation, `exec`, `eval` and `compile`; "Execution model",
"Builtins and restricted execution"; `__future__`
"""

from __future__ import annotations
import __future__

import ast
import builtins
import hashlib
import inspect
import sys
from codecs import BOM_UTF8
from collections.abc import Callable, Collection, Iterator, Mapping
from types import CodeType, FrameType
from typing import Any
from weakref import WeakSet

_FLAGS = sum(
    getattr(__future__, name).compiler_flag for name in __future__.all_feature_names
)
"""The compiler flags of all future statements."""


class TrustedCode:
    """Decides which code the hooks of a project may run.

    :param digests: the hex SHA-256 of each trusted file.
    :param own: the built-in names of the hook. Code that the hook runs gets the same
        names.
    """

    def __init__(self, digests: Collection[str], own: Mapping[str, object]) -> None:
        self._digests = frozenset(digests)
        self._own = own
        self._sources: list[bytes] = []
        self._strings: set[str | bytes] = set()
        self._compiled: WeakSet[CodeType] = WeakSet()

    def add(self, source: bytes) -> None:
        """Trust the strings in the source of a loaded module."""
        self._sources.append(source)

    @property
    def names(self) -> dict[str, Callable[..., object]]:
        """Return the replaced built-in functions, by name."""
        return {"exec": self._exec, "eval": self._eval, "compile": self._compile}

    def _exec(
        self,
        source: object,
        /,
        globals: dict[str, Any] | None = None,  # noqa: A002 - the interpreter's names
        locals: Mapping[str, object] | None = None,  # noqa: A002
        *,
        closure: object = None,
    ) -> None:
        frame = _caller()
        code = self._checked(source, "exec", frame)
        names, inner = self._names(frame, globals, locals)
        more: dict[str, Any] = {} if closure is None else {"closure": closure}
        exec(code, names, inner, **more)

    def _eval(
        self,
        source: object,
        /,
        globals: dict[str, Any] | None = None,  # noqa: A002 - likewise
        locals: Mapping[str, object] | None = None,  # noqa: A002
    ) -> object:
        frame = _caller()
        if isinstance(source, str):
            code = self._checked(source.lstrip(" \t"), "eval", frame, given=source)
        else:
            code = self._checked(source, "eval", frame)
        return eval(code, *self._names(frame, globals, locals))

    def _compile(
        self,
        source: Any,
        filename: Any,
        mode: str,
        flags: int = 0,
        dont_inherit: bool = False,
        optimize: int = -1,
        **more: Any,
    ) -> object:
        if not dont_inherit:
            flags |= _caller().f_code.co_flags & _FLAGS
        made = builtins.compile(
            source, filename, mode, flags, dont_inherit=True, optimize=optimize, **more
        )
        if isinstance(made, CodeType) and self._is_trusted(source):
            self._compiled.add(made)
        return made

    def _checked(
        self, source: Any, mode: str, frame: FrameType, given: object = None
    ) -> CodeType:
        """Return the code to run.

        :param given: the whole text that the hook passed, if `source` is a part of it.
        :raises ImportError: if the text or the code is not trusted.
        """
        if isinstance(source, CodeType):
            if source in self._compiled:
                return source
        elif self._is_trusted(source if given is None else given):
            flags = frame.f_code.co_flags & _FLAGS
            code = builtins.compile(source, "<string>", mode, flags, dont_inherit=True)
            self._compiled.add(code)
            return code
        raise ImportError(
            f"`{mode}` in {frame.f_code.co_filename}, line {frame.f_lineno}, got code that is not among the sources "
            "that you trusted with the project's hooks. A project's hook can only run the whole text of a file that "
            "it names in full, or a string literal in its own source. Import the code instead"
        )

    def _is_trusted(self, source: object) -> bool:
        if not isinstance(source, str | bytes):
            return False
        if any(
            hashlib.sha256(form).hexdigest() in self._digests for form in _forms(source)
        ):
            return True
        while self._sources:
            self._strings.update(_strings_in(self._sources.pop()))
        return source in self._strings

    def _names(
        self,
        frame: FrameType,
        names: dict[str, Any] | None,
        inner: Mapping[str, object] | None,
    ) -> tuple[dict[str, Any], Any]:
        """Return the global and local names with which to run code, chosen in the same
        way as by the built-in functions.

        :param names: the global names that the hook passed.
        :param inner: the local names that the hook passed.
        """
        if names is None:
            names = frame.f_globals
            inner = frame.f_locals if inner is None else inner
            is_function = frame.f_code.co_flags & inspect.CO_OPTIMIZED
            if is_function and sys.version_info >= (3, 13):  # PEP 667
                inner = dict(inner)
        names.setdefault("__builtins__", self._own)
        return names, names if inner is None else inner


def _caller() -> FrameType:
    """Return the frame of the hook: the caller of the function that calls this one."""
    frame = inspect.currentframe()
    for _ in range(2):
        frame = None if frame is None else frame.f_back
    if frame is None:
        raise RuntimeError("this Python does not support inspecting frames")
    return frame


def _forms(source: str | bytes) -> Iterator[bytes]:
    """Yield the possible contents of a file from which this text was read: with either
    kind of line end, and with or without a byte order mark.
    """
    if isinstance(source, bytes):
        yield source
        return
    try:
        content = source.encode()
    except UnicodeEncodeError:
        return
    for each in (content, content.replace(b"\n", b"\r\n")):
        yield each
        yield BOM_UTF8 + each


def _strings_in(source: bytes) -> Iterator[str | bytes]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            yield node.value

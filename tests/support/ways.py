"""The functions of the package that something passes on its way: from a line on stdin to a model's SDK, for instance.

    with traced() as trace:
        ...                                             # what makes it happen
    way = trace.way(trace.first(LINE_READ), trace.last(SDK_CALLED))
    print(*way, sep="\n")

How it is counted. A stack is taken at certain points, and each function of the package that is on one of them counts
once: generators, coroutines, lambdas and properties too, comprehensions not. The stack of a coroutine that runs is its
task's. A function that is called and returns between two points does not count.

Where a way ends in another task than the one in which it begins, the stacks are joined. The task at the end was created
after the beginning, or was waiting for something in a queue and was woken: the stack of whoever created it or woke it
first is added, and so on until the task of the beginning is reached. A way that does not lead there is an error. Tasks
that the first one has created for a request run its handler, which counts although it only waits for the answer.

Points are known by what happens at the package's border, so that no name within is needed.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, TypeAlias

import acp_agent
from acp_agent.conversation.events import ContextSwapped

PACKAGE = f"{Path(acp_agent.__file__).parent}{os.sep}"
STORAGE = f"{PACKAGE}storage{os.sep}"
SDKS = tuple(f"{os.sep}{name}{os.sep}" for name in ("anthropic", "openai"))

LINE_READ = "bytes were read from stdin"
SDK_CALLED = "the package calls an SDK"
SDK_RETURNED = "an SDK returns to the package"
WRITTEN = "bytes are written to stdout"
SWAPPED = "a compaction is handed to the store"
CREATED = "a task is created"
WOKEN = "a task is woken"

Task: TypeAlias = asyncio.Task[Any]
Stack: TypeAlias = tuple[CodeType, ...]
"""Functions of the package, the innermost first."""


@dataclass(frozen=True, slots=True)
class Point:
    """A moment.

    :ivar number: of the points of a trace, in order of time.
    :ivar stack: of the task that runs.
    :ivar subject: the task that is created or woken.
    :ivar waiting: the stacks of the tasks that were created since the trace began, by the task that created each.
    """

    kind: str
    number: int
    task: Task | None
    stack: Stack
    subject: Task | None = None
    waiting: tuple[tuple[Task | None, Stack], ...] = ()


@dataclass(slots=True)
class Trace:
    """What was seen; made by `traced`."""

    points: list[Point] = field(default_factory=list[Point])

    def first(self, kind: str) -> Point:
        return self._of(kind)[0]

    def last(self, kind: str, before: Point | None = None) -> Point:
        """The last point of a kind; with `before`, the last one of which that point can come."""
        end = None if before is None else self._joined(self._of(kind)[0], before)[0]
        return [point for point in self._of(kind) if end is None or point.number < end.number][-1]

    def way(self, begin: Point, end: Point) -> list[str]:
        """The functions on the way from a point to a later one, in order.

        :raises LookupError: nothing leads from the one to the other.
        """
        first, *rest = self._joined(begin, end)
        handlers = [stack for creator, stack in end.waiting if creator is begin.task]
        return _names([begin.stack, first.stack, *handlers, *(point.stack for point in rest)])

    def way_up(self, begin: Point, end: Point) -> list[str]:
        """The same for a value that is returned or yielded at the beginning, up to the function that passes it on. What
        has called this one is on the stack whatever comes, and does not count."""
        first, *rest = self._joined(begin, end)
        below = [code for code in begin.stack if code in first.stack][1:]
        up, on = (tuple(code for code in stack if code not in below) for stack in (begin.stack, first.stack))
        return _names([up[::-1], on, *(point.stack for point in rest)])

    def _joined(self, begin: Point, end: Point) -> list[Point]:
        """The points whose stacks are joined, from the last one in the task of the beginning."""
        points = [end]
        while points[0].task is not begin.task:
            before = self.points[begin.number : points[0].number]
            causes = [point for point in before if point.subject is points[0].task]
            if not causes:
                raise LookupError(f"nothing leads to where {points[0].kind}: {_names([points[0].stack])}")
            points.insert(0, causes[0])
        return points

    def _of(self, kind: str) -> list[Point]:
        if not (found := [point for point in self.points if point.kind == kind]):
            raise LookupError(f"it was not seen that {kind}")
        return found


@contextmanager
def traced() -> Generator[Trace]:
    """Take the stacks of the event loop that runs here."""
    loop, trace = asyncio.get_running_loop(), Trace()
    creators: dict[Task, Task | None] = {}
    between = {"call": SDK_CALLED, "return": SDK_RETURNED}

    def note(kind: str, frame: FrameType | None, subject: Task | None = None) -> None:
        if stack := _stack(frame):
            waiting = tuple((creator, _suspended(task)) for task, creator in creators.items() if not task.done())
            trace.points.append(Point(kind, len(trace.points), asyncio.current_task(), stack, subject, waiting))

    def make_task(loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> Task:
        task: Task = asyncio.Task(coro, loop=loop, **options)
        creators[task] = asyncio.current_task()
        note(CREATED, sys._getframe(), task)
        return task

    def profile(frame: FrameType, event: str, arg: Any) -> None:
        caller = frame.f_back
        if event == "c_call" and arg is os.write:
            note(WRITTEN, frame)
        elif event == "c_return" and arg is os.read:
            note(LINE_READ, frame)
        elif event == "c_call" and getattr(arg, "__name__", "") == "set_result":
            for task in asyncio.all_tasks(loop):
                if getattr(task, "_fut_waiter", None) is arg.__self__:
                    note(WOKEN, frame, task)
        elif event == "call" and frame.f_code.co_filename.startswith(STORAGE) and _holds_swap(frame):
            note(SWAPPED, frame)
        elif (
            event in between and _is_sdk(frame) and caller is not None and caller.f_code.co_filename.startswith(PACKAGE)
        ):
            note(between[event], caller)

    factory = loop.get_task_factory()
    loop.set_task_factory(make_task)
    sys.setprofile(profile)
    try:
        yield trace
    finally:
        sys.setprofile(None)
        loop.set_task_factory(factory)


def _stack(frame: FrameType | None) -> Stack:
    codes: list[CodeType] = []
    while frame is not None:
        codes.append(frame.f_code)
        frame = frame.f_back
    return _own(codes)


def _suspended(task: Task) -> Stack:
    """The stack of a task that waits: what its coroutine awaits, and so on."""
    codes: list[CodeType] = []
    waiting: Any = task.get_coro()
    while code := getattr(waiting, "cr_code", None) or getattr(waiting, "gi_code", None):
        codes.insert(0, code)
        waiting = getattr(waiting, "cr_await", None) or getattr(waiting, "gi_yieldfrom", None)
    return _own(codes)


def _own(codes: Iterable[CodeType]) -> Stack:
    own = [code for code in codes if code.co_filename.startswith(PACKAGE)]
    return tuple(code for code in own if code.co_name == "<lambda>" or not code.co_name.startswith("<"))


def _names(stacks: Iterable[Stack]) -> list[str]:
    """The distinct functions, from the outermost of the first stack to the innermost of the last."""
    codes = dict.fromkeys(code for stack in stacks for code in reversed(stack))
    return [f"{code.co_filename.removeprefix(PACKAGE)}:{code.co_firstlineno} {code.co_qualname}" for code in codes]


def _is_sdk(frame: FrameType) -> bool:
    return any(sdk in frame.f_code.co_filename for sdk in SDKS)


def _holds_swap(frame: FrameType) -> bool:
    values = frame.f_locals.values()
    several = [item for value in values if isinstance(value, list | tuple) for item in value]
    return any(isinstance(value, ContextSwapped) for value in [*values, *several])

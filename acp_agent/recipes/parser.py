"""From the text of a Markdown file to a `Recipe`: the split, and what its front matter means.

Mistakes are `DocumentError`s with the line and the key. Whether the template renders, `template.check` tells.
"""

from __future__ import annotations

import hashlib
import re
from functools import partial
from pathlib import Path
from types import UnionType
from typing import Annotated, Union, get_args, get_origin

from acp_agent.config.checks import unknown_provider
from acp_agent.config.deprecated import current
from acp_agent.config.document import Document, DocumentError, Place, did_you_mean, dotted, parse_mapping, validate
from acp_agent.config.hook_events import OF_CALLS, event_name
from acp_agent.frozen import frozen
from acp_agent.recipes.front_matter import CompactionSection, FrontMatter, HandlerSection, HookSection
from acp_agent.recipes.model import (
    EXTERNAL,
    FENCE,
    MCP_TOOL,
    SWAP_HANDLER,
    Argument,
    CompactionOptions,
    HookBinding,
    Known,
    NamedHandler,
    Origin,
    Recipe,
)

MAX_DESCRIPTION = 100

_JSON_WORD = re.compile(r"true|false|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


@frozen
class Parts:
    """A file cut at its fences.

    :ivar front_matter: the YAML between them, which begins in line 2; None where the file has none.
    :ivar body_line: the line that `body` begins at, from 1.
    """

    front_matter: str | None
    body: str
    body_line: int


def split(text: str) -> Parts:
    """Cut a file into front matter and body.

    Front matter is there if the first line is `---`, and ends at the next such line.

    :raises DocumentError: it is never closed, or there is no text below it.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    begin, front_matter = 0, None
    if lines[0].rstrip() == FENCE:
        end = next((at for at, line in enumerate(lines) if at and line.rstrip() == FENCE), None)
        if end is None:
            raise DocumentError(f"the front matter that begins here has no closing {FENCE}", 1)
        begin, front_matter = end + 1, "\n".join(lines[1:end])
    body = "\n".join(lines[begin:])
    if not body.strip():
        raise DocumentError("has no text below its front matter; that text is what the model is told", begin + 1)
    return Parts(front_matter, body, begin + 1)


def first_line(body: str) -> str:
    """Return the description of a recipe that does not describe itself."""
    line = next(line for line in body.split("\n") if line.strip()).lstrip("# ").strip()
    return line if len(line) <= MAX_DESCRIPTION else line[: MAX_DESCRIPTION - 1].rstrip() + "…"


def digest(text: str) -> str:
    """Return the SHA-256 of a file's text, in hex."""
    return hashlib.sha256(text.encode()).hexdigest()


def parse_recipe(text: str, *, name: str, source: Path, origin: Origin, known: Known) -> Recipe:
    """Make a recipe of a file's text.

    :param text: the whole file.
    :param name: the file's name without `.md`, behind the folders that it is in: `github/pr`.
    :param known: what it may name, and what a recipe of its name must have.
    :raises DocumentError: it is wrong; with line and key where known.
    """
    parts = split(text)
    document = (
        parse_mapping(parts.front_matter, 2, partial(_is_text, known)) if parts.front_matter else Document({}, {})
    )
    document, notice = current(document, source)
    matter = validate(FrontMatter, document)
    checks = _Checks(document, known)
    checks.name(matter, name)
    checks.tools(matter)
    checks.provider(matter.model, "model")
    hooks = {event: checks.hook(event, section) for event, section in matter.hooks.items()}
    checks.required_hook(name, hooks)
    if any(binding.handler(SWAP_HANDLER) for binding in hooks.values()):
        checks.runs_no_tools(matter)
    elif matter.compaction:
        raise checks.wrong(
            "is for recipes whose answer takes the place of the conversation; add the hook "
            f"`turn_end: {{handler: {SWAP_HANDLER}}}`, or leave this key out",
            "compaction",
        )
    return Recipe(
        name=name,
        description=matter.description or first_line(parts.body),
        body=parts.body,
        body_line=parts.body_line,
        source=source,
        origin=origin,
        digest=digest(text),
        allowed_tools=None if matter.allowed_tools is None else tuple(matter.allowed_tools),
        allowed_commands=None if matter.allowed_commands is None else tuple(matter.allowed_commands),
        arguments=checks.arguments(matter),
        hooks=hooks,
        model=matter.model,
        mode=matter.mode,
        version=matter.version,
        compaction=checks.compaction(matter.compaction) if matter.compaction else None,
        notice=notice,
    )


def _is_text(known: Known, place: tuple[str | int | None, ...], word: str) -> bool:
    """Return whether a word without quotes is text as it is written; see `parse_mapping`."""
    match place:
        case ("name" | "description" | "version",) | ("defaults", _) | ("arguments", _, "description" | "default"):
            return place[-1] is not None
        case ("allowed_commands", int()):
            return True
        case ("hooks", _, "params", str(param)) | ("hooks", _, "handlers", int(), "params", str(param)):
            return _is_text_param(known, param) or not _JSON_WORD.fullmatch(word)
        case ("hooks", _, "params", *_, last) | ("hooks", _, "handlers", int(), "params", *_, last):
            return last is None or not _JSON_WORD.fullmatch(word)
        case _:
            return False


def _is_text_param(known: Known, param: str) -> bool:
    """Return whether a parameter of any handler takes a text."""
    fields = [fields[param] for model in (known.params or {}).values() if param in (fields := model.model_fields)]
    return any(_takes_text(field.annotation) for field in fields)


def _takes_text(annotation: object) -> bool:
    inner = get_args(annotation) if get_origin(annotation) in (Annotated, Union, UnionType) else ()
    return annotation is str or any(map(_takes_text, inner))


def _handler_key(section: HookSection | HandlerSection) -> str:
    """Return a key that is set here and that only a handler of the recipe's takes; empty where there is none."""
    if section.params:
        return "params"
    return "on_error" if "on_error" in section.model_fields_set else ""


class _Checks:
    """Checks what no single key of a front matter shows."""

    def __init__(self, document: Document, known: Known) -> None:
        self._lines = document.lines
        self._known = known

    def wrong(self, message: str, *place: str | int) -> DocumentError:
        """Return the error for a key, with the line of the key or of the nearest one above it."""
        return DocumentError(message, self._line(place), dotted(place))

    def name(self, matter: FrontMatter, name: str) -> None:
        if matter.name not in (None, name, name.rpartition("/")[2]):
            message = f"says {matter.name!r}, but the file is {name}.md; make them equal, or leave this key out"
            raise self.wrong(message, "name")

    def tools(self, matter: FrontMatter) -> None:
        known = self._known.tools
        for index, tool in enumerate(matter.allowed_tools or ()):
            if known is not None and tool not in known and not tool.startswith(MCP_TOOL):
                message = f"there is no tool {tool!r}; {did_you_mean(tool, known)}"
                raise self.wrong(message, "allowed_tools", index)

    def provider(self, model: str | None, *place: str) -> None:
        known = self._known.providers
        if model is not None and known is not None and (wrong := unknown_provider(model, known)):
            raise self.wrong(wrong, *place)

    def arguments(self, matter: FrontMatter) -> tuple[Argument, ...]:
        arguments = {
            name: Argument(name, section.description, section.default, section.required) if section else Argument(name)
            for name, section in matter.arguments.items()
        }
        for name, default in matter.defaults.items():
            known = arguments.get(name, Argument(name))
            if known.default is not None:
                raise self.wrong("has a default under `arguments` too; keep one", "defaults", name)
            arguments[name] = Argument(name, known.description, default, known.required)
        return tuple(arguments.values())

    def hook(self, event: str, section: HookSection) -> HookBinding:
        if event not in self._known.handlers:
            raise self.wrong(f"no such event; {did_you_mean(event, self._known.handlers)}", "hooks", event)
        place = ("hooks", event)
        if section.handlers is None:
            if section.handler is None:
                raise self.wrong("says neither `handler` nor `handlers`; name what should be done", *place)
            handler = HandlerSection(handler=section.handler, params=section.params, on_error=section.on_error)
            return HookBinding((self._handler(handler, place),), section.once)
        if section.handler is not None:
            raise self.wrong("stands beside `handlers`; keep one of them", *place, "handler")
        if key := _handler_key(section):
            message = f"belongs to a handler; write `handlers: [{{handler: …, {key}: …}}]`"
            raise self.wrong(message, *place, key)
        first: list[NamedHandler] | None = None
        last: list[NamedHandler] = []
        for index, item in enumerate(section.handlers):
            at = (*place, "handlers", index)
            if item.handler != EXTERNAL:
                last.append(self._handler(item, at))
            elif first is not None:
                raise self.wrong(f"`{EXTERNAL}` stands here twice; keep one", *at)
            elif key := _handler_key(item):
                raise self.wrong(f"`{EXTERNAL}` takes no parameters", *at, key)
            else:
                first, last = last, []
        if not first and not last:
            message = f"names no handler; `{EXTERNAL}` alone is what happens without this section as well"
            raise self.wrong(message, *place, "handlers")
        return HookBinding(tuple(last), section.once, tuple(first or ()))

    def required_hook(self, name: str, hooks: dict[str, HookBinding]) -> None:
        if (required := self._known.required_hooks.get(name)) is None:
            return
        event, handler = required
        if event not in hooks or hooks[event].handler(handler) is None:
            message = f"a recipe named `{name}` must have `{event}: {{handler: {handler}}}` here; add it, or rename "
            raise DocumentError(f"{message}the file", self._lines.get(("hooks",), 1), "hooks")

    def runs_no_tools(self, matter: FrontMatter) -> None:
        if matter.model is not None:
            message = "is for recipes whose answer is shown; the model that writes a summary is `compaction.model`"
            raise self.wrong(message, "model")
        if matter.mode is not None:
            message = "is for recipes that run tools, which one that compacts does not; leave this key out"
            raise self.wrong(message, "mode")
        for event in matter.hooks:
            if event_name(event) in OF_CALLS:
                message = "is for recipes that run tools, which one that compacts does not; leave this event out"
                raise self.wrong(message, "hooks", event)

    def compaction(self, section: CompactionSection) -> CompactionOptions:
        strategies = self._known.strategies
        if section.strategy is not None and strategies is not None and section.strategy not in strategies:
            message = f"there is no strategy {section.strategy!r}; {did_you_mean(section.strategy, strategies)}"
            raise self.wrong(message, "compaction", "strategy")
        self.provider(section.model, "compaction", "model")
        headings = [heading.casefold() for heading in section.sections or ()]
        for index, heading in enumerate(headings):
            if (first := headings.index(heading)) != index:
                line = self._line(("compaction", "sections", first))
                raise self.wrong(f"is listed twice, first in line {line}; keep one", "compaction", "sections", index)
        return CompactionOptions(
            strategy=section.strategy,
            size=section.size,
            sections=None if section.sections is None else tuple(section.sections),
            verify=section.verify,
            model=section.model,
        )

    def _handler(self, section: HandlerSection, place: Place) -> NamedHandler:
        name, params = section.handler, section.params
        names = self._known.handlers[str(place[1])]
        if name not in names:
            hint = did_you_mean(name, names) if names else "there is none for it"
            if name == EXTERNAL:
                hint = "it stands for all hooks that are not the recipe's, in a list of `handlers` alone"
            at = (*place, "handler") if (*place, "handler") in self._lines else place
            raise self.wrong(f"no handler {name!r} for this event; {hint}", *at)
        if self._known.params is not None:
            at = (*place, "params")
            lines = {found[len(at) :]: line for found, line in self._lines.items() if found[: len(at)] == at}
            try:
                validate(self._known.params[name], Document(params, lines))
            except DocumentError as error:
                key = ".".join(filter(None, (dotted(at), error.key)))
                raise DocumentError(error.message, error.line or self._line(at), key) from error
        return NamedHandler(name, params, section.on_error)

    def _line(self, place: Place) -> int | None:
        while place and place not in self._lines:
            place = place[:-1]
        return self._lines.get(place)

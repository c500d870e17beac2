"""Parses a Markdown file into a `Recipe`: splits off the front matter and checks it.

Mistakes are reported as `DocumentError` with line and key. `template.check` checks the
template.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from acp_agent.config.document import (
    Document,
    DocumentError,
    Place,
    did_you_mean,
    parse_mapping,
    validate,
)
from acp_agent.config.hook_events import OF_CALLS, event_name
from acp_agent.config.load import check_names, unknown_provider, without_obsolete_names
from acp_agent.recipes.model import (
    EXTERNAL,
    FENCE,
    MCP_TOOL,
    SWAP_HANDLER,
    Argument,
    FrontMatter,
    HookSection,
    Known,
    NamedHandler,
    Origin,
    Recipe,
)

MAX_DESCRIPTION = 100


def split(text: str) -> tuple[str | None, str, int]:
    """Split a file into front matter and body.

    A file has front matter if its first line is `---`. The front matter ends at the
    next such line.

    :returns: the YAML of the front matter, which begins in line 2, or None if there is
        none; the body; and the line at which the body begins.
    :raises DocumentError: if the front matter is never closed, or there is no text
        below it.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    begin = 0
    front_matter = None
    if lines[0].rstrip() == FENCE:
        end = next(
            (at for at, line in enumerate(lines) if at and line.rstrip() == FENCE), None
        )
        if end is None:
            raise DocumentError(
                f"the front matter that begins here has no closing {FENCE}", 1
            )
        begin = end + 1
        front_matter = "\n".join(lines[1:end])
    body = "\n".join(lines[begin:])
    if not body.strip():
        raise DocumentError(
            "has no text below its front matter; that text is the prompt for the model",
            begin + 1,
        )
    return front_matter, body, begin + 1


def first_line(body: str) -> str:
    """Return the default description of a recipe: the first line of its text."""
    line = next(line for line in body.split("\n") if line.strip()).lstrip("# ").strip()
    return (
        line
        if len(line) <= MAX_DESCRIPTION
        else line[: MAX_DESCRIPTION - 1].rstrip() + "…"
    )


def digest(text: str) -> str:
    """Return the hexadecimal SHA-256 of a file's text."""
    return hashlib.sha256(text.encode()).hexdigest()


def parse_recipe(
    text: str, *, name: str, source: Path, origin: Origin, known: Known
) -> Recipe:
    """Parse a file's text into a recipe.

    :param text: the whole file.
    :param name: the file's name without `.md`, after the names of its folders:
        `github/pr`.
    :param known: the names that it may use, and the names of recipes that must compact.
    :raises DocumentError: if the file is invalid, with line and key if known.
    """
    front_matter, body, body_line = split(text)
    document = (
        parse_mapping(front_matter, 2, _is_text) if front_matter else Document({}, {})
    )
    document, notice = without_obsolete_names(document, source)
    matter = validate(FrontMatter, document)
    _check_names(document, matter, name, known)
    hooks = {
        event: _hook(document, known, event, section)
        for event, section in matter.hooks.items()
    }
    _check_swap(document, hooks, name, known)
    return Recipe(
        name=name,
        description=matter.description or first_line(body),
        body=body,
        body_line=body_line,
        source=source,
        origin=origin,
        digest=digest(text),
        allowed_tools=matter.allowed_tools,
        allowed_commands=matter.allowed_commands,
        arguments=_arguments(document, matter),
        hooks=hooks,
        model=matter.model,
        mode=matter.mode,
        version=matter.version,
        compaction=matter.compaction,
        notice=notice,
    )


def _is_text(place: Place) -> bool:
    """Return whether an unquoted word is text at this place even if it looks like a
    number.
    """
    match place:
        case (
            ("name" | "description" | "version",)
            | ("defaults", _)
            | ("arguments", _, "description" | "default")
        ):
            return True
        case _:
            return place[:1] == ("allowed_commands",)


def _check_names(
    document: Document, matter: FrontMatter, name: str, known: Known
) -> None:
    """Refuse a name other than the file's, and unknown tools, providers and strategies."""
    if matter.name not in (None, name, name.rpartition("/")[2]):
        message = f"says {matter.name!r}, but the file is {name}.md; make them equal, or leave this key out"
        raise document.error_at(message, "name")
    for key in ("allowed_tools", "allowed_commands"):
        if document.data.get(key, ()) is None:
            raise document.error_at(
                "is empty; write [] for none at all, or leave the key out for all", key
            )
    for index, tool in enumerate(matter.allowed_tools or ()):
        if (
            known.tools is not None
            and tool not in known.tools
            and not tool.startswith(MCP_TOOL)
        ):
            raise document.error_at(
                f"there is no tool {tool!r}; {did_you_mean(tool, known.tools)}",
                "allowed_tools",
                index,
            )
    check_names(document, ("compaction",), known.strategies, known.providers)
    if (
        matter.model
        and known.providers is not None
        and (wrong := unknown_provider(matter.model, known.providers))
    ):
        raise document.error_at(wrong, "model")
    headings = [heading.casefold() for heading in matter.compaction.sections or ()]
    for index, heading in enumerate(headings):
        if heading in headings[:index]:
            raise document.error_at(
                "is listed twice; keep one", "compaction", "sections", index
            )


def _arguments(document: Document, matter: FrontMatter) -> tuple[Argument, ...]:
    arguments = {
        name: replace(each or Argument(name), name=name)
        for name, each in matter.arguments.items()
    }
    for name, default in matter.defaults.items():
        known = arguments.get(name, Argument(name))
        if known.default is not None:
            raise document.error_at(
                "has a default under `arguments` too; keep one", "defaults", name
            )
        arguments[name] = replace(known, default=default)
    return tuple(arguments.values())


def _hook(
    document: Document, known: Known, event: str, section: HookSection
) -> HookSection:
    """Return the section of one event, with a single handler converted to a list."""
    if event not in known.handlers:
        raise document.error_at(
            f"no such event; {did_you_mean(event, known.handlers)}", "hooks", event
        )
    place = ("hooks", event)
    handlers = section.handlers
    at = (*place, "handlers")
    if handlers is None:
        if section.handler is None:
            raise document.error_at(
                "says neither `handler` nor `handlers`; name what should be done",
                *place,
            )
        handler = NamedHandler(section.handler, section.params, section.on_error)
        _check_handler(document, known, handler, place)
        return HookSection(handlers=(handler,), once=section.once)
    for key in ("handler", "params", "on_error"):
        if document.at((*place, key)) is not None:
            raise document.error_at(
                "belongs to one handler; write it into the list of `handlers`",
                *place,
                key,
            )
    for index, item in enumerate(handlers):
        if item.handler != EXTERNAL:
            _check_handler(document, known, item, (*at, index))
        elif item != NamedHandler(EXTERNAL) or item in handlers[:index]:
            raise document.error_at(
                f"`{EXTERNAL}` takes no parameters, and stands here once", *at, index
            )
    if {handler.handler for handler in handlers} <= {EXTERNAL}:
        message = f"names no handler; `{EXTERNAL}` alone is what happens without this section as well"
        raise document.error_at(message, *at)
    return section


def _check_handler(
    document: Document, known: Known, handler: NamedHandler, place: Place
) -> None:
    """Refuse a handler that does not exist for an event, and invalid parameters."""
    name = handler.handler
    names = known.handlers[str(place[1])]
    if name not in names:
        hint = did_you_mean(name, names) if names else "there is none for it"
        if name == EXTERNAL:
            hint = "it stands for all hooks that are not the recipe's, in a list of `handlers` alone"
        at = (*place, "handler") if (*place, "handler") in document.lines else place
        raise document.error_at(f"no handler {name!r} for this event; {hint}", *at)
    validate(names[name], document, *place, "params", data=handler.params)


def _check_swap(
    document: Document, hooks: Mapping[str, HookSection], name: str, known: Known
) -> None:
    """Refuse a recipe without the hook that its name requires, and keys that conflict
    with the hook that compacts.
    """
    if not any(section.named(SWAP_HANDLER) for section in hooks.values()):
        hook = f"`turn_end: {{handler: {SWAP_HANDLER}}}`"
        if name in known.compacting:
            message = f"a recipe named `{name}` must have {hook} here; add it, or rename the file"
            raise DocumentError(message, document.line(("hooks",)) or 1, "hooks")
        if document.data.get("compaction") is not None:
            message = f"add the hook {hook}, or leave this key out"
            raise document.error_at(
                f"is for recipes whose answer takes the place of the conversation; {message}",
                "compaction",
            )
        return
    if document.data.get("model") is not None:
        message = "is for recipes whose answer is shown; the model that writes a summary is `compaction.model`"
        raise document.error_at(message, "model")
    tools = [("hooks", event) for event in hooks if event_name(event) in OF_CALLS]
    for place in (("mode",), *tools):
        if document.at(place) is not None:
            message = "is for recipes that run tools, which one that compacts does not; leave it out"
            raise document.error_at(message, *place)

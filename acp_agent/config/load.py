"""Merges the layers of settings: defaults, the user's file, the project's file, the
environment.

The user's file may set everything. The project's file comes with a repository and is
untrusted. It may restrict the agent, but it may not send a key or the conversation to
another server, allow more calls without permission, or raise the cost limit of a turn.
So the keys in `USER_ONLY_KEYS` are ignored there, like unknown keys:

- A base URL or a header in `providers` would send the user's key to the author of the
  repository.
- An MCP server is a program or an address that gets the model's requests.
- The cost of a turn is computed from the prices in `models`.
- The other keys are personal preferences.

For the mode and the limits of a turn, the stricter of the user's and the project's
values applies. A project's `hooks` are added to the user's, and run only if the user
trusts the project.

Pydantic and yaml are imported only if there is a file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, TypeAlias, cast

from acp_agent.config.document import (
    Document,
    DocumentError,
    Place,
    did_you_mean,
    dotted,
    parse_mapping,
    read_text,
    validate,
)
from acp_agent.config.forms import (
    MODEL_NAME_FORM,
    ConfigSection,
    FieldRule,
    Matcher,
    is_model_name,
)
from acp_agent.config.home import CONFIG_FILE, PROJECT_FOLDER, home_dir
from acp_agent.config.hook_events import EventName, event_name, unknown_event
from acp_agent.config.project import Project
from acp_agent.config.sandbox import tightened
from acp_agent.config.settings import (
    MODES,
    CompactionSettings,
    HookCommand,
    Origin,
    SandboxSettings,
    Settings,
)
from acp_agent.errors import ConfigError, located, sentence
from acp_agent.frozen import frozen
from acp_agent.sandbox.ownership import ForeignError, foreign, is_foreign

MODEL_VARIABLE = "ACP_AGENT_MODEL"
WINDOW_VARIABLE = "ACP_AGENT_CONTEXT_WINDOW"
USER_ONLY_KEYS = (
    *(
        "small_model",
        "remember_permissions",
        "prompts_while_working",
        "models",
        "providers",
        "additional_directories",
    ),
    *("mcp_servers", "wire_log", "protocol", "sandbox.write"),
)
_REMOVED = frozenset({"ledger", "requests", "summary", "tail", "target"})
"""Keys of `compaction` in earlier versions. `size` has replaced them."""
_RENAMED = {"ledger": "excerpts", "truncate": "excerpts"}
"""Maps names of strategies in earlier versions to their current names."""


_Strategies: TypeAlias = Callable[[], Collection[str]] | None
"""A function that returns the names of the existing compaction strategies; None to skip
the check.
"""
_HOOKS = "hooks"
_IGNORED = ("type", "statusMessage")
"""Keys of a command in Claude Code's format that have no meaning here."""


@frozen
class _Group(ConfigSection):
    """An item of `hooks.*` in the form of Claude Code's settings: several commands with
    one matcher.
    """

    hooks: Annotated[list[object], FieldRule()]
    matcher: Matcher = ""


def load_settings(
    env: Mapping[str, str],
    cwd: Path | None = None,
    root: Path | None = None,
    *,
    strategies: _Strategies = None,
    providers: Collection[str] | None = None,
) -> Settings:
    """Read all layers. This does not create files or folders.

    :param env: environment variables: `ACP_AGENT_HOME`, `ACP_AGENT_MODEL`
        (`provider/model`), `ACP_AGENT_CONTEXT_WINDOW` (tokens). An empty variable
        counts as not set.
    :param cwd: absolute path of the session's working directory; None to skip the
        project's file.
    :param root: the project's root, if already known.
    :param strategies: returns the names of the compaction strategies; None to skip
        checking the strategy.
    :param providers: names of the providers that need no configuration; None to skip
        checking the provider of the model that writes summaries.
    :raises ConfigError: if a file or a variable is unreadable or invalid. The message
        names file, line and key, or the variable. Invalid hooks are ignored instead;
        see `Settings.hook_faults`. Keys of earlier versions, and keys that are unknown
        or not allowed in a project's file, are also ignored; see `Settings.notices`.
    """
    settings = _with_file(Settings(home=home_dir(env)), "config", strategies, providers)
    if cwd is not None:
        found = Project(cwd, settings.home, root)
        settings = replace(settings, root=found.root)
        if (
            project := found.folder()
        ) is not None and project.resolve() != settings.home.resolve():
            settings = _with_file(
                replace(settings, project=project), "project", strategies, providers
            )
    if (
        cwd is not None
        and os.path.lexists(theirs := cwd / PROJECT_FOLDER)
        and is_foreign(theirs)
    ):
        settings = replace(
            settings,
            notices=(*settings.notices, f"{theirs} was ignored: {foreign(theirs)}."),
        )
    return _with_environment(settings, env)


def without_obsolete_names(document: Document, path: Path) -> tuple[Document, str]:
    """Remove obsolete keys of `compaction` from a document, and rename strategies that
    have a new name.

    :param path: the document's file, for the notice.
    :returns: the new document, and a notice for the user about the changes; empty if
        nothing changed.
    """
    new = Document(deepcopy(dict(document.data)), document.lines)
    notices = list[str]()
    for place, line in document.lines.items():
        match place:
            case ("compaction", str(key)) | ("models", str(), "compaction", str(key)):
                inside = cast("dict[str, object]", new.at(place[:-1]))
            case _:
                continue
        if key in _REMOVED:
            del inside[key]
            notices.append(
                f"`{dotted(place)}` (line {line}) is no longer used; set `size` instead"
            )
        elif key == "strategy" and (name := str(inside[key])) in _RENAMED:
            inside[key] = _RENAMED[name]
            notices.append(
                f"`{dotted(place)}: {name}` (line {line}) is now called `{_RENAMED[name]}`"
            )
    return new, f"{path}: {'; '.join(notices)}." if notices else ""


def unknown_provider(model: str, providers: Collection[str]) -> str:
    """Return an error message if a model's provider does not exist, otherwise an empty
    string.

    :param model: `provider/model`.
    :param providers: names of the existing providers.
    """
    name = model.partition("/")[0]
    if name in providers:
        return ""
    where = "you can add one under `providers` in config.yaml"
    return f"there is no provider {name!r} ({where}); {did_you_mean(name, providers)}"


def _with_file(
    settings: Settings,
    origin: Origin,
    strategies: _Strategies,
    providers: Collection[str] | None,
) -> Settings:
    """Merge the user's or the project's file into the settings."""
    folder = (
        settings.project
        if origin == "project" and settings.project is not None
        else settings.home
    )
    path = folder / CONFIG_FILE
    is_project = origin == "project"
    try:
        # If a project's file were a link to another file of the user, error messages
        # could quote that file.
        text = read_text(
            path, within=folder.parent if is_project else None, own=is_project
        )
        if not text or text.isspace():
            return settings
        document, notice = without_obsolete_names(parse_mapping(text), path)
        ignored = (
            _remove_disallowed(document, settings.home / CONFIG_FILE)
            if is_project
            else []
        )
        settings = (
            _with_user_file(settings, document)
            if origin == "config"
            else _with_project_file(settings, document)
        )
        providers = None if providers is None else {*providers, *settings.providers}
        for own in (
            ("compaction",),
            *(("models", model, "compaction") for model in settings.models),
        ):
            check_names(document, own, strategies, providers)
    except ForeignError as error:
        return replace(
            settings, notices=(*settings.notices, f"{path} was ignored: {error}.")
        )
    except DocumentError as error:
        raise ConfigError(
            error.message, source=str(path), line=error.line, key=error.key
        ) from error
    places = {
        name: f"{path}:{line}"
        for place, line in document.lines.items()
        if (name := dotted(place))
    }
    commands, faults = _read_hooks(document, origin, path)
    texts, unused = (
        [
            located(each.message, source=str(path), line=each.line, key=each.key)
            for each in wrong
        ]
        for wrong in (faults, ignored)
    )
    notices = (notice, *(f"{sentence(text)} The key was ignored." for text in unused))
    return replace(
        settings,
        hooks=(*settings.hooks, *commands),
        hook_faults=(*settings.hook_faults, *texts),
        notices=(*settings.notices, *filter(None, notices)),
        places={**settings.places, **places},
    )


def _with_user_file(settings: Settings, document: Document) -> Settings:
    """Merge the user's file into the default settings.

    :raises DocumentError: if keys contradict each other.
    """
    keys = _validated(document)
    for name, provider in keys.get("providers", {}).items():
        if (provider.kind == "scripted") != (provider.script is not None):
            raise document.error_at(
                "`kind: scripted` requires `script: FILE`, and `script` requires `kind: scripted`",
                "providers",
                name,
            )
        script = settings.home / provider.script if provider.script else None
        keys["providers"][name] = replace(provider, name=name, script=script)
    for name, server in keys.get("mcp_servers", {}).items():
        place = ("mcp_servers", name)
        given = {
            key
            for key, value in cast("dict[str, object]", document.at(place)).items()
            if value is not None
        }
        if len(given & {"command", "url"}) != 1:
            raise document.error_at(
                "a server needs either `command: PROGRAM` or `url: ADDRESS`", *place
            )
        if server.command and given & {"transport", "headers"}:
            raise document.error_at(
                "`transport` and `headers` can only be used with `url`", *place
            )
        if server.url and given & {"args", "env"}:
            raise document.error_at(
                "`args` and `env` can only be used with `command`", *place
            )
        transport = (
            "http" if server.url and "transport" not in given else server.transport
        )
        keys["mcp_servers"][name] = replace(
            server, name=name, transport=transport, variables=True
        )
    return replace(settings, **keys)


def _remove_disallowed(document: Document, user_file: Path) -> list[DocumentError]:
    """Remove unknown and disallowed keys from a project's document, and return an error
    for each.

    :param user_file: path of the user's file, in which the disallowed keys are allowed.
    """
    faults: dict[Place, str] = {}
    if document.data.get("mode") in ("accept-edits", "full-access"):
        advice = f"choose a less strict mode in the editor or in {user_file}"
        faults[("mode",)] = f"a project may only set `plan` or `ask`; {advice}"
    user_only = f"cannot be set by a project, since others may have written its files; move it to {user_file}"
    sections = {
        (): Settings,
        ("compaction",): CompactionSettings,
        ("sandbox",): SandboxSettings,
    }
    for place, known in (
        (place, section.file_keys()) for place, section in sections.items()
    ):
        section = document.at(place)
        for key in (
            cast("Mapping[str, object]", section)
            if isinstance(section, Mapping)
            else ()
        ):
            if dotted((*place, key)) in USER_ONLY_KEYS:
                faults[(*place, key)] = user_only
            elif key not in known:
                near = did_you_mean(key.replace("-", "_"), {*known} - {*USER_ONLY_KEYS})
                faults[(*place, key)] = f"unknown key; {near}"
    for place in faults:
        del cast("dict[object, object]", document.at(place[:-1]))[place[-1]]
    return [document.error_at(text, *place) for place, text in faults.items()]


def _with_project_file(settings: Settings, document: Document) -> Settings:
    """Merge a project's file into the user's settings. The project's file can make the
    mode, the limits and the sandbox stricter, but not less strict.
    """
    keys = _validated(document)
    if "mode" in keys:
        keys["mode"] = min(keys["mode"], settings.mode, key=MODES.index)
    for key in ("max_turn_requests", "max_turn_cost"):
        if key in keys and (limit := getattr(settings, key)) is not None:
            keys[key] = min(keys[key], limit)
    if "compaction" in keys:
        keys["compaction"] = keys["compaction"].over(settings.compaction)
    if "sandbox" in keys:
        keys["sandbox"] = tightened(
            settings.sandbox,
            keys["sandbox"],
            cast("Mapping[str, object]", document.at(("sandbox",))),
        )
    return replace(settings, **keys)


def _validated(document: Document) -> dict[str, Any]:
    """Return the fields of `Settings` that a file sets, without its hooks, which
    `_read_hooks` reads.
    """
    read = validate(Settings, document)
    return {
        key: getattr(read, key)
        for key, value in document.data.items()
        if value is not None and key != "hooks"
    }


def check_names(
    document: Document,
    own: Place,
    strategies: _Strategies,
    providers: Collection[str] | None,
) -> None:
    """Check the names in a `compaction` section.

    :param own: the place of the section.
    :param strategies: returns the names of the existing strategies; None for any.
    :param providers: names of the existing providers; None for any.
    :raises DocumentError: if the strategy, or the provider of the model, does not
        exist.
    """
    strategy = document.at((*own, "strategy"))
    writer = document.at((*own, "model"))
    if (
        isinstance(strategy, str)
        and strategies is not None
        and strategy not in (names := strategies())
    ):
        raise document.error_at(
            f"there is no strategy {strategy!r}; {did_you_mean(strategy, names)}",
            *own,
            "strategy",
        )
    if (
        isinstance(writer, str)
        and providers is not None
        and (message := unknown_provider(writer, providers))
    ):
        raise document.error_at(message, *own, "model")


def _with_environment(settings: Settings, env: Mapping[str, str]) -> Settings:
    if model := env.get(MODEL_VARIABLE, "").strip():
        if not is_model_name(model):
            raise ConfigError(MODEL_NAME_FORM, source=MODEL_VARIABLE)
        settings = replace(
            settings, model=model, places={**settings.places, "model": MODEL_VARIABLE}
        )
    if window := env.get(WINDOW_VARIABLE, "").strip():
        if not (
            window.isascii() and window.isdigit() and len(window) < 10 and int(window)
        ):
            raise ConfigError(
                "should be a number of tokens above 0, such as 200000",
                source=WINDOW_VARIABLE,
            )
        places = {**settings.places, "context_window": WINDOW_VARIABLE}
        settings = replace(settings, context_window=int(window), places=places)
    return settings


# --- hooks: each is read separately, so that an invalid hook affects neither the other
# hooks nor the session ---


def _read_hooks(
    document: Document, origin: Origin, path: Path
) -> tuple[list[HookCommand], list[DocumentError]]:
    """Read the hooks section of one file.

    :param path: path of the file.
    :returns: the valid commands in the file's order, and an error for each invalid one.
    """
    commands = list[HookCommand]()
    faults = list[DocumentError]()
    for event, place, group in _hook_entries(document, faults):
        try:
            hook = _hook_command(document, event, place, group)
        except DocumentError as error:
            faults.append(error)
        else:
            commands.append(
                replace(hook, origin=origin, source=f"{path}: {dotted(place)}")
            )
    return commands, faults


def _hook_entries(
    document: Document, faults: list[DocumentError]
) -> Iterator[tuple[EventName, Place, _Group | None]]:
    """Yield the event, the place and the group of each command. Append an error to
    `faults` for each invalid entry.
    """
    section = document.at((_HOOKS,))
    if not isinstance(section, Mapping | None):
        faults.append(
            document.error_at(
                "should be a mapping: `key: value` lines, indented below the key",
                _HOOKS,
            )
        )
        return
    for word, entries in cast("Mapping[str, object]", section or {}).items():
        event = event_name(word)
        if event is None:
            faults.append(document.error_at(unknown_event(word), _HOOKS, word))
        elif not isinstance(entries, list):
            faults.append(
                document.error_at("should be a list, such as [one, two]", _HOOKS, word)
            )
        else:
            for index, entry in enumerate(cast("list[object]", entries)):
                place = (_HOOKS, word, index)
                if not (isinstance(entry, Mapping) and _HOOKS in entry):
                    yield event, place, None
                    continue
                try:
                    group = validate(_Group, document, *place)
                    for number in range(len(group.hooks)):
                        yield event, (*place, _HOOKS, number), group
                except DocumentError as error:
                    faults.append(error)


def _hook_command(
    document: Document, event: EventName, place: Place, group: _Group | None
) -> HookCommand:
    """Read one command.

    :raises DocumentError: if it is invalid.
    """
    data = document.at(place)
    if group is not None and isinstance(data, Mapping):
        entry = cast("Mapping[str, object]", data)
        if entry.get("type", "command") != "command":
            raise document.error_at(
                "hooks of this `type` are not supported; use `type: command`", *place
            )
        data = {key: value for key, value in entry.items() if key not in _IGNORED}
    hook = validate(HookCommand, document, *place, data=data)
    program = (
        hook.command.split()[0] if isinstance(hook.command, str) else hook.command[0]
    )
    name = hook.name or Path(program).name.strip("\"'") or program
    return replace(
        hook,
        event=event,
        name=name,
        matcher=hook.matcher if group is None else group.matcher,
    )

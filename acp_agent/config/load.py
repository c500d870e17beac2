"""The layers laid over each other: defaults, the user's file, the project's file, the environment.

Knows where the files are and what the environment may say; what a file may say is in `schema`, which is imported (and
with it pydantic, as is yaml) only where there is a file.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal

from acp_agent.config.checks import Known, check_compaction
from acp_agent.config.deprecated import current
from acp_agent.config.document import Document, DocumentError, parse_mapping, read_text, validate
from acp_agent.config.home import CONFIG_FILE, home_dir, project_dir
from acp_agent.config.settings import MODEL_NAME_FORM, HookFault, Settings, is_model_name
from acp_agent.errors import ConfigError, located

MODEL_VARIABLE = "ACP_AGENT_MODEL"
WINDOW_VARIABLE = "ACP_AGENT_CONTEXT_WINDOW"


def load_settings(
    env: Mapping[str, str],
    cwd: Path | None = None,
    *,
    strategies: Collection[str] | None = None,
    providers: Collection[str] | None = None,
) -> Settings:
    """Read all layers. Makes no file or folder.

    :param env: environment variables: `ACP_AGENT_HOME`, `ACP_AGENT_MODEL` (`provider/model`),
        `ACP_AGENT_CONTEXT_WINDOW` (tokens); an empty one counts as not set.
    :param cwd: absolute path of the session's working directory; None reads no project's file.
    :param strategies: names of the compaction strategies that exist; None does not check them.
    :param providers: names of the providers that need no configuration; None does not check whose model is to write
        summaries.
    :raises ConfigError: a file or a variable is unreadable or wrong; names file, line and key, or the variable. A wrong
        hook is left out instead, see `Settings.hook_faults`; a key of earlier versions is ignored, see
        `Settings.notices`.
    """
    settings = Settings(home=home_dir(env))
    known = Known(strategies, providers)
    settings = _with_user_file(settings, known)
    if cwd is not None and (project := project_dir(cwd)) is not None and project.resolve() != settings.home.resolve():
        settings = _with_project_file(replace(settings, project=project), known)
    return _with_environment(settings, env)


def _with_user_file(settings: Settings, known: Known) -> Settings:
    path = settings.home / CONFIG_FILE
    try:
        document = _read(path, None)
        if document is None:
            return settings
        from acp_agent.config.schema import UserFile

        document, notice = current(document, path)
        settings = _with_notice(validate(UserFile, document).over(settings), notice)
        check_compaction(document, settings, known, path)
        return _with_hooks(settings, document, "config", path)
    except DocumentError as error:
        raise _config_error(error, path) from error


def _with_project_file(settings: Settings, known: Known) -> Settings:
    assert settings.project is not None
    path = settings.project / CONFIG_FILE
    try:
        # A link to some other file of the user's would have its words repeated in error messages.
        document = _read(path, settings.project.parent)
        if document is None:
            return settings
        from acp_agent.config.schema import ProjectFile

        document, notice = current(document, path)
        user_file = settings.home / CONFIG_FILE
        settings = _with_notice(validate(ProjectFile, document, context=user_file).over(settings), notice)
        check_compaction(document, settings, known, user_file)
        return _with_hooks(settings, document, "project", path)
    except DocumentError as error:
        raise _config_error(error, path) from error


def _with_notice(settings: Settings, notice: str) -> Settings:
    return replace(settings, notices=(*settings.notices, notice)) if notice else settings


def _with_hooks(settings: Settings, document: Document, origin: Literal["config", "project"], path: Path) -> Settings:
    from acp_agent.config.hook_section import HooksReader

    read = HooksReader(document, origin, path)
    texts = (located(fault.message, source=str(path), line=fault.line, key=fault.key) for fault in read.faults)
    faults = (HookFault(origin, text) for text in texts)
    return replace(settings, hooks=(*settings.hooks, *read.commands), hook_faults=(*settings.hook_faults, *faults))


def _read(path: Path, within: Path | None) -> Document | None:
    text = read_text(path, within=within)
    return parse_mapping(text) if text and not text.isspace() else None


def _config_error(error: DocumentError, path: Path) -> ConfigError:
    return ConfigError(error.message, source=str(path), line=error.line, key=error.key)


def _with_environment(settings: Settings, env: Mapping[str, str]) -> Settings:
    if model := env.get(MODEL_VARIABLE, "").strip():
        if not is_model_name(model):
            raise ConfigError(MODEL_NAME_FORM, source=MODEL_VARIABLE)
        settings = replace(settings, model=model)
    if window := env.get(WINDOW_VARIABLE, "").strip():
        if not (window.isascii() and window.isdigit() and len(window) < 10 and int(window)):
            raise ConfigError("should be a number of tokens above 0, such as 200000", source=WINDOW_VARIABLE)
        settings = replace(settings, context_window=int(window))
    return settings

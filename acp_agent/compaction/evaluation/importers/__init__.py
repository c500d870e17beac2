"""Reading recorded sessions: one module for each form, told apart by what is in the file and not by its name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from acp_agent.compaction.evaluation.importers import claude_code, codex, mini_swe, swe_agent, transcript
from acp_agent.compaction.evaluation.importers.reading import FORMS, read_document, wrong
from acp_agent.compaction.evaluation.recording import Recording
from acp_agent.errors import located

_IMPORTERS = (mini_swe, swe_agent, transcript, codex, claude_code)
"""In the order in which they are asked; the more particular first."""


def read_recording(path: Path) -> Recording:
    """Read a recorded session of any agent.

    :raises AgentError: it has none of the known forms; names file and line, and says what was expected.
    :raises OSError: it cannot be read.
    """
    document = read_document(path)
    for importer in _IMPORTERS:
        if importer.matches(document):
            recording = importer.read(document, path.name)
            if not recording.entries:
                raise wrong(path, f"looks like a session of {importer.FORM}, but nothing was said in it")
            return (
                recording if document.cut_off is None else replace(recording, notice=_cut_off(path, document.cut_off))
            )
    raise wrong(path, f"is JSON of another form; {FORMS}", 1)


def _cut_off(path: Path, line: int) -> str:
    message = "is no whole JSON, as where a session was killed while it was written; the line is left out"
    return located(message, source=str(path), line=line)

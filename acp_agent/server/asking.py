"""What a user is offered when permission is asked for, what the chosen option means, and what an editor that fails to
ask is to the model."""

from __future__ import annotations

import logging
from collections.abc import Collection, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from acp_agent.errors import ToolError, sentence
from acp_agent.jsonrpc.messages import RpcError
from acp_agent.protocol import JsonObject, JsonValue
from acp_agent.protocol.v1 import PermissionOptionKind, requests
from acp_agent.session.client import TrustQuestion
from acp_agent.tools.text import one_line
from acp_agent.turn.permission import Answer

if TYPE_CHECKING:
    from acp_agent.tools.forms import Questions

MAX_SUBJECT = 40
"""Characters of a permission option's name that tell what it covers; longer ones break editors' buttons."""

TRUST_CHOICES: tuple[tuple[PermissionOptionKind, str], ...] = (
    ("allow_always", "Trust this folder until something in it changes"),
    ("allow_once", "For this session"),
    ("reject_once", "Not now"),
)


_log = logging.getLogger(__name__)


def permission_options(subject: str) -> list[JsonObject]:
    """One option of each kind: some editors keep only the last of a kind.

    :param subject: what "always" would cover.
    """
    named: tuple[tuple[PermissionOptionKind, str], ...] = (
        ("allow_once", "Allow"),
        ("allow_always", f"Always allow {one_line(' '.join(subject.split()), MAX_SUBJECT)}"),
        ("reject_once", "Reject"),
    )
    return [requests.permission_option(kind, name, kind) for kind, name in named]


def trust_options() -> list[JsonObject]:
    """The same for what a project brings."""
    return [requests.permission_option(kind, name, kind) for kind, name in TRUST_CHOICES]


async def trust_by_form(questions: Questions, question: TrustQuestion) -> Answer | None:
    """Ask by a form whether what a project brings may run.

    :returns: None where the editor has no forms.
    :raises ToolError: the editor could not ask, or its answer is none.
    """
    if questions.asks != "forms":
        return None
    from acp_agent.tools.forms import Choice, Filled, Form, FormField, FormsUnknownError

    choices = tuple(Choice(kind, name) for kind, name in TRUST_CHOICES)
    folders = "\n".join(question.projects)
    form = Form(
        f"{question.view.title}\n\n{folders}\n\n{question.text}",
        (FormField("trust", "choice", "Trust", choices=choices),),
    )
    try:
        answer = await questions.fill(form, question.call_id)
    except FormsUnknownError:
        return None
    if not isinstance(answer, Filled):
        return "reject_once"  # also where the form was closed: the turn goes on, and nothing of the project runs
    chosen: dict[object, Answer] = {"allow_always": "allow_always", "allow_once": "allow_once"}
    return chosen.get(answer.values["trust"], "reject_once")


@contextmanager
def asked_by_editor() -> Generator[None]:
    """Around a permission request.

    :raises ToolError: the editor could not ask, or its answer is none; in words for the model.
    """
    try:
        yield
    except (RpcError, ToolError) as error:
        _log.warning("the editor did not answer a permission request: %s", error)
        raise ToolError(
            f"The user could not be asked, so nothing was done. {sentence(error)} Do not try it in another way."
        ) from error


def answer_of(chosen: str, offered: Collection[JsonValue]) -> Answer:
    """What an option means.

    :param offered: the ids of those that the user could choose.
    :raises ToolError: it is none of them.
    """
    if chosen not in offered:
        raise ToolError(f"The editor chose the option {one_line(chosen)!r}, which it was not offered.")
    match chosen:
        case "allow_once":
            return "allow_once"
        case "allow_always":
            return "allow_always"
        case _:
            return "reject_once"

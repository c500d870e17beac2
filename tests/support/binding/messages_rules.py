"""What Anthropic Messages refuses before it looks at the signatures of thinking blocks.

Each function raises `RejectedError`. The pages are those of
platform.claude.com/docs/en/build-with-claude.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from support.binding.claude import (
    ALWAYS_THINKS,
    BETWEEN_TOOLS,
    BINDING_BETA,
    CLEAR_AT_BETA,
    COMPACTION_BETA,
    COMPACTS,
    INLINE_TOOLS_BETA,
    NO_BUDGET,
    OUTPUT_CONFIG_BETA,
    SYSTEM_MESSAGES,
    TOOL_CHANGES_BETA,
)
from support.binding.messages_form import (
    THINKING,
    MessagesRequest,
    blocks_of,
    named_tools,
    path_of,
)
from support.binding.records import RejectedError

INSTRUCTION_CHARACTERS = 16_384
TOOL_CHANGES = ("tool_addition", "tool_removal")
BLOCK_MEMBERS = {
    "type",
    "content",
    "signature",
    "encrypted_content",
    "tool_changes",
    "cache_control",
}
EXTRA = "Extra inputs are not permitted"


def check_thinking(request: MessagesRequest, betas: Collection[str]) -> None:
    """Check the type of thinking against the model (thinking-troubleshooting), and the
    binding controls.

    `block_binding` goes with `adaptive` and `enabled` only, and needs its beta header
    (preserved-thinking, "Set the mismatch behavior").
    """
    kind = request.thinking.get("type")
    effort = (request.body.get("output_config") or {}).get("effort")
    if kind == "disabled" and request.model in BETWEEN_TOOLS:
        wanted = '"thinking": {"type": "between_tools"} instead of {"type": "disabled"}'
        raise RejectedError(f"To turn thinking off on this model, send {wanted}.")
    refused = (
        (kind == "disabled" and request.model in ALWAYS_THINKS)
        or (kind == "enabled" and request.model in NO_BUDGET)
        or (kind == "between_tools" and request.model not in BETWEEN_TOOLS)
    )
    if refused:
        advice = 'Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.'
        raise RejectedError(
            f'"thinking.type.{kind}" is not supported for this model. {advice}'
        )
    if (
        kind in ("disabled", "between_tools")
        and request.model in NO_BUDGET
        and effort in ("xhigh", "max")
    ):
        raise RejectedError(
            f"output_config.effort: {effort!r} is not supported with thinking.type.{kind!r}"
        )
    if request.thinking.get("block_binding") is None:
        return
    if BINDING_BETA not in betas or kind not in ("adaptive", "enabled"):
        raise RejectedError(f"thinking.{kind}.block_binding: {EXTRA}")


def check_messages(request: MessagesRequest) -> None:
    """Check the order of messages, blank texts, and that each call has its result right
    after it (tool-use).
    """
    messages = request.messages
    if not messages:
        raise RejectedError("messages: at least one message is required")
    if messages[0].get("role") != "user" and request.summary is None:
        raise RejectedError("messages: first message must use the `user` role")
    last = messages[-1].get("role")
    if (
        last == "assistant"
        and request.model in NO_BUDGET
        and not request.body.get("compaction")
    ):
        raise RejectedError(
            "This model does not support assistant message prefill. End with a user message."
        )
    for index, message in enumerate(messages):
        for position, block in enumerate(blocks_of(message.get("content"))):
            if block.get("type") == "text" and not str(block.get("text", "")).strip():
                raise RejectedError(
                    f"{path_of(index, position)}: text content blocks must be non-empty"
                )
        if message.get("role") != "system" and any(
            message.get(name) for name in ("clear_at", "output_config")
        ):
            raise RejectedError(
                f"messages.{index}: `clear_at` and `output_config` are for the role `system`"
            )
    _check_calls(request)


def _check_calls(request: MessagesRequest) -> None:
    """Check that the results of a turn's calls, and no others, are in the next turn."""
    waiting: set[str] = set()
    place = 0
    role = None
    for index, message in enumerate(request.messages):
        if message.get("role") == "user" and role != "user":
            results = _ids(request, index, "tool_result", "tool_use_id")
            if unknown := sorted(results - waiting):
                said = "unexpected `tool_use_id` found in `tool_result` blocks"
                raise RejectedError(f"messages.{index}: {said}: {unknown[0]}")
            if missing := sorted(waiting - results):
                _reject_open_calls(place, missing)
            waiting = set()
        elif message.get("role") == "assistant":
            waiting |= _ids(request, index, "tool_use", "id")
            place = index
        if message.get("role") != "system":
            role = message.get("role")
    if waiting and not request.body.get("compaction"):
        _reject_open_calls(place, sorted(waiting))


def _reject_open_calls(place: int, missing: Sequence[str]) -> None:
    said = "`tool_use` ids were found without `tool_result` blocks immediately after"
    raise RejectedError(f"messages.{place}: {said}: {', '.join(missing)}")


def _ids(request: MessagesRequest, start: int, kind: str, name: str) -> set[str]:
    """Return the ids in a message and, for results, in the messages of its role that
    follow it.
    """
    found: set[str] = set()
    role = request.messages[start].get("role")
    for message in request.messages[start:]:
        if message.get("role") != role:
            break
        found |= {
            str(block.get(name))
            for block in blocks_of(message.get("content"))
            if block.get("type") == kind
        }
        if role == "assistant":
            break
    return found


def check_start_of_turn(request: MessagesRequest) -> None:
    """With a budget, the last assistant turn begins with thinking if it has calls
    (extended-thinking).
    """
    if request.thinking.get("type") != "enabled":
        return
    turns = [
        (index, each)
        for index, each in enumerate(request.messages)
        if each.get("role") == "assistant"
    ]
    if not turns:
        return
    index, message = turns[-1]
    blocks = blocks_of(message.get("content"))
    kinds = [block.get("type") for block in blocks if block.get("type") != "compaction"]
    if "tool_use" in kinds and kinds[0] not in THINKING:
        raise RejectedError(
            f"messages.{index}.content.0.type: Expected `thinking` or `redacted_thinking`, but found `{kinds[0]}`. "
            "When `thinking` is enabled, a final `assistant` message must start with a thinking block."
        )


def check_system_messages(request: MessagesRequest, betas: Collection[str]) -> None:
    """Check messages of the role `system` (mid-conversation-system-messages).

    They follow a user message, are the last or precede an assistant turn, and do not
    stand next to each other. One that only sets the effort may stand anywhere.
    """
    declared = {str(tool.get("name")) for tool in request.body.get("tools") or []}
    for index, message in enumerate(request.messages):
        blocks = blocks_of(message.get("content"))
        if message.get("role") != "system":
            declared |= {name for block in blocks for name in named_tools(block)}
            continue
        if request.model not in SYSTEM_MESSAGES:
            raise RejectedError(
                f"messages.{index}: role 'system' is not supported on this model"
            )
        if message.get("clear_at") is not None and CLEAR_AT_BETA not in betas:
            raise RejectedError(f"messages.{index}.clear_at: {EXTRA}")
        if message.get("output_config") is not None and OUTPUT_CONFIG_BETA not in betas:
            raise RejectedError(f"messages.{index}.output_config: {EXTRA}")
        if not blocks and not message.get("output_config"):
            raise RejectedError(
                f"messages.{index}: a system message needs content or an output_config"
            )
        for position, block in enumerate(blocks):
            _check_system_block(block, path_of(index, position), declared, betas)
            declared |= named_tools(block)
        if blocks:
            _check_place(request, index)


def _check_system_block(
    block: Mapping[str, Any], path: str, declared: set[str], betas: Collection[str]
) -> None:
    kind = block.get("type")
    if kind not in ("text", *TOOL_CHANGES):
        raise RejectedError(
            f"{path}: Input tag '{kind}' is not allowed in a system message"
        )
    if kind == "text":
        return
    if not {TOOL_CHANGES_BETA, INLINE_TOOLS_BETA} & set(betas):
        raise RejectedError(
            f"{path}: Input tag '{kind}' does not match any of the expected tags"
        )
    tool = block.get("tool") or {}
    if tool.get("type") == "tool_definition":
        if kind == "tool_removal" or INLINE_TOOLS_BETA not in betas:
            raise RejectedError(
                f"{path}.tool: Input tag 'tool_definition' does not match any of the expected tags"
            )
    elif tool.get("name") not in declared:
        raise RejectedError(f"{path}: there is no tool named {tool.get('name')!r}")


def _check_place(request: MessagesRequest, index: int) -> None:
    def has_content(message: Mapping[str, Any]) -> bool:
        return message.get("role") != "system" or bool(
            blocks_of(message.get("content"))
        )

    before = [message for message in request.messages[:index] if has_content(message)]
    after = [
        message for message in request.messages[index + 1 :] if has_content(message)
    ]
    if not before or not (
        before[-1].get("role") == "user" or _ends_in_server_tool(before[-1])
    ):
        raise RejectedError(
            f"messages.{index}: a system message has to follow a user message"
        )
    if after and after[0].get("role") != "assistant":
        raise RejectedError(
            f"messages.{index}: a system message has to be last or precede an assistant message"
        )


def _ends_in_server_tool(message: Mapping[str, Any]) -> bool:
    blocks = blocks_of(message.get("content"))
    return (
        message.get("role") == "assistant"
        and bool(blocks)
        and blocks[-1].get("type") == "server_tool_use"
    )


def check_compaction_request(request: MessagesRequest, betas: Collection[str]) -> None:
    """Check a request for a summary (compaction-on-demand, "Request a summary" and
    "Write your own prompt").
    """
    wanted = request.body.get("compaction")
    if wanted is None:
        return
    if COMPACTION_BETA not in betas:
        raise RejectedError(
            f"The `compaction` parameter requires anthropic-beta: {COMPACTION_BETA}"
        )
    if request.model not in COMPACTS:
        raise RejectedError("compaction: is not supported on this model")
    if wanted.get("type") != "summarize":
        raise RejectedError("compaction.type: Input should be 'summarize'")
    instructions = str(wanted.get("instructions") or "")
    if instructions.strip() and len(instructions) > INSTRUCTION_CHARACTERS:
        raise RejectedError(
            f"compaction.instructions: at most {INSTRUCTION_CHARACTERS} characters are allowed"
        )
    output = request.body.get("output_config") or {}
    unwanted = {
        "context_management": request.body.get("context_management"),
        "stop_sequences": request.body.get("stop_sequences"),
        "output_config.format": output.get("format"),
        "output_config.task_budget.remaining": (output.get("task_budget") or {}).get(
            "remaining"
        ),
        "tool_choice": (request.body.get("tool_choice") or {}).get("type")
        in ("any", "tool"),
    }
    for name, value in unwanted.items():
        if value:
            raise RejectedError(f"{name}: cannot be combined with `compaction`")
    roles = {message.get("role") for message in request.messages}
    if not roles & {"user", "assistant"}:
        raise RejectedError(
            "messages: there is nothing to summarize",
            code="compaction_nothing_to_summarize",
        )
    turns = [message for message in request.messages if message.get("role") != "system"]
    if turns[-1].get("role") == "assistant":
        kinds = {block.get("type") for block in blocks_of(turns[-1].get("content"))}
        if "tool_use" in kinds:
            raise RejectedError(
                "compaction: the last assistant turn ends in a tool call that has no result"
            )


def check_compaction_place(request: MessagesRequest, betas: Collection[str]) -> None:
    """Check the place and the members of a signed block (compaction-on-demand,
    "Continue from the summary").
    """
    if not request.summaries:
        return
    index, position, block = request.summaries[0]
    path = path_of(index, position)
    if COMPACTION_BETA not in betas:
        raise RejectedError(
            f"{path}: 'compaction' is not one of the expected content block types"
        )
    if len(request.summaries) > 1:
        raise RejectedError(
            "messages: only one `compaction` block is allowed; send the newest"
        )
    if (index, position) != (0, 0):
        raise RejectedError(
            "The `compaction` block must come first, in place of the messages it summarizes; remove those messages",
            code="compaction_block_misplaced",
        )
    if extra := sorted(set(block) - BLOCK_MEMBERS):
        raise RejectedError(f"{path}.compaction.{extra[0]}: {EXTRA}")
    if not block.get("signature"):
        raise RejectedError(
            f"{path}: a `compaction` block with `content` requires its `signature`"
        )

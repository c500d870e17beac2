"""Recorded sessions for measurements: one with a fact of every class before its middle,
in the form of each agent.

path = write(tmp_path / "cart.json", as_transcript(cart_session()))
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

Step: TypeAlias = tuple[str, Any]
"""("user", text), ("assistant", text), ("call", (id, name, arguments)) or ("result",
(id, text)).
"""

FILLER = "    return sum(item.quantity for item in items)  # as before\n" * 60
RULE = "Never touch setup.py."


def cart_session() -> list[Step]:
    """A session that goes back to what it found in its first half."""
    steps: list[Step] = [
        ("user", f"The cart adds prices wrongly, please repair it. {RULE}")
    ]

    def run(number: int, command: str, result: str, said: str) -> None:
        steps.append(("assistant", said))
        steps.append(("call", (f"c{number}", "bash", {"command": command})))
        steps.append(("result", (f"c{number}", result)))

    run(
        1,
        "cat shop/cart.py",
        f"def total(items):\n{FILLER}",
        "I look at the cart first.",
    )
    run(
        2,
        "cat shop/rounding.py",
        f"PRECISION = 28\n{FILLER}",
        "Rounding may be at fault, there is a helper for it.",
    )
    failed = "Traceback (most recent call last):\nBadPriceError: price of a lamp is negative\nlistening on port 8347\n"
    run(
        3,
        "pytest tests/test_cart.py -q",
        f"{FILLER}{failed}",
        "I run the tests of the cart.",
    )
    steps.append(
        (
            "assistant",
            "We decided to keep the discount in shop/pricing.py because vouchers are stacked there twice.",
        )
    )
    steps.append(("user", "Good, go on."))
    for number in range(4, 10):
        run(
            number,
            f"sed -n {number}p docs/guide_{number}.md",
            f"Guide.\n{FILLER}",
            f"I read guide {number}.",
        )
    run(
        10,
        "sed -i s/a/b/ shop/rounding.py",
        "",
        "The helper in shop/rounding.py gets repaired.",
    )
    run(
        11,
        "pytest tests/test_cart.py -q",
        "1 passed",
        "BadPriceError should be gone; the server is on port 8347.",
    )
    steps.append(
        ("assistant", "As vouchers are stacked twice, the discount stays where it is.")
    )
    return steps


def as_transcript(steps: Sequence[Step]) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": [{"type": "text", "text": "You are careful."}]}
    ]
    for kind, value in steps:
        match kind:
            case "user" | "assistant":
                messages.append(
                    {"role": kind, "content": [{"type": "text", "text": value}]}
                )
            case "call":
                block = {
                    "type": "tool_use",
                    "id": value[0],
                    "name": value[1],
                    "input": value[2],
                }
                messages.append({"role": "assistant", "content": [block]})
            case _:
                block = {
                    "type": "tool_result",
                    "tool_use_id": value[0],
                    "content": value[1],
                }
                messages.append({"role": "user", "content": [block]})
    return {"source": "a test", "messages": messages}


def as_chat(steps: Sequence[Step]) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [{"role": "system", "content": "You are careful."}]
    for kind, value in steps:
        match kind:
            case "user" | "assistant":
                messages.append({"role": kind, "content": value})
            case "call":
                function = {"name": value[1], "arguments": json.dumps(value[2])}
                call = {"id": value[0], "type": "function", "function": function}
                messages.append(
                    {"role": "assistant", "content": None, "tool_calls": [call]}
                )
            case _:
                messages.append(
                    {
                        "role": "tool",
                        "tool_call_id": value[0],
                        "content": value[1],
                        "extra": {},
                    }
                )
    messages.append(
        {"role": "exit", "content": "", "extra": {"exit_status": "Submitted"}}
    )
    return {
        "info": {"exit_status": "Submitted"},
        "messages": messages,
        "trajectory_format": "mini-swe-agent-1.1",
    }


def as_claude_code(steps: Sequence[Step]) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = [
        {"type": "summary", "summary": "Repairs a cart", "leafUuid": "u1"},
        {
            "type": "user",
            "isMeta": True,
            "message": {"role": "user", "content": "A caveat of the program."},
        },
        {
            "type": "assistant",
            "isSidechain": True,
            "message": {"role": "assistant", "content": "A sub-agent."},
        },
    ]
    for number, (kind, value) in enumerate(steps):
        match kind:
            case "user":
                message: dict[str, Any] = {"role": "user", "content": value}
            case "assistant":
                block = {"type": "text", "text": value}
                message = {
                    "role": "assistant",
                    "id": f"msg_{number}",
                    "content": [block],
                }
            case "call":
                block = {
                    "type": "tool_use",
                    "id": value[0],
                    "name": value[1],
                    "input": value[2],
                }
                message = {
                    "role": "assistant",
                    "id": f"msg_{number}",
                    "content": [block],
                }
            case _:
                block = {
                    "type": "tool_result",
                    "tool_use_id": value[0],
                    "content": value[1],
                    "is_error": False,
                }
                message = {"role": "user", "content": [block]}
        lines.append(
            {
                "type": message["role"],
                "message": message,
                "cwd": "/shop",
                "isSidechain": False,
            }
        )
        lines.append(
            {"type": "file-history-snapshot", "messageId": "m", "snapshot": {}}
        )
    return lines


def as_codex(steps: Sequence[Step]) -> list[dict[str, Any]]:
    note = [
        {"type": "input_text", "text": "<environment_context>\n</environment_context>"}
    ]
    items: list[dict[str, Any]] = [{"type": "message", "role": "user", "content": note}]
    for kind, value in steps:
        match kind:
            case "user" | "assistant":
                block = {
                    "type": "input_text" if kind == "user" else "output_text",
                    "text": value,
                }
                items.append({"type": "message", "role": kind, "content": [block]})
            case "call":
                call = {
                    "type": "function_call",
                    "name": value[1],
                    "arguments": json.dumps(value[2]),
                }
                items.append({**call, "call_id": value[0]})
            case _:
                items.append(
                    {
                        "type": "function_call_output",
                        "call_id": value[0],
                        "output": value[1],
                    }
                )
    lines = [
        {
            "timestamp": "t",
            "type": "session_meta",
            "payload": {"id": "s", "cwd": "/shop"},
        }
    ]
    for item in items:
        lines.append({"timestamp": "t", "type": "response_item", "payload": item})
        lines.append(
            {"timestamp": "t", "type": "event_msg", "payload": {"type": "token_count"}}
        )
    return lines


def write(path: Path, value: dict[str, Any] | list[dict[str, Any]]) -> Path:
    text = (
        json.dumps(value)
        if isinstance(value, dict)
        else "".join(f"{json.dumps(line)}\n" for line in value)
    )
    path.write_text(text)
    return path
